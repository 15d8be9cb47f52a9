// Quotas through a real shard: what a client is told where one is used up, and that its session lives
// on and the others' are not touched.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ShardQuotasTests {
    private static let key = "sk-key-0123456789abcdef"
    private static let other = "sk-other-0123456789abcdef"
    private static let question = """
        {"type":"conversation.item.create","event_id":"q","item":{"type":"message","role":"user",\
        "content":[{"type":"input_text","text":"Hi"}]}}
        """
    private static let respond =
        #"{"type":"response.create","response":{"output_modalities":["text"]}}"#

    private func makeServer(
        _ line: String = "", _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws -> SimulatedServer {
        var keys = APIKeys()
        let text = "\(Self.key) \(line)\n\(Self.other)\n"
        try keys.add(ConfiguredFile(option: "api-keys-file", path: "k", bytes: Array(text.utf8)))
        var configuration = ServerConfiguration()
        change(&configuration)
        #expect(configuration.objection == nil)
        return try SimulatedServer(
            configuration: configuration,
            agents: AgentSet(model: ClosureModel(words: ["one", " two", " three"])),
            credentials: CredentialRules(keys: keys))
    }

    private func open(
        _ server: SimulatedServer, _ key: String = Self.key, from: String = "127.0.0.1"
    ) -> SimulatedClient {
        let client = server.openClient(key: key, from: from)
        #expect(server.run())
        return client
    }

    private func send(_ texts: String..., to client: SimulatedClient, of server: SimulatedServer) {
        for text in texts { client.send(text) }
        #expect(server.run(for: .milliseconds(100)))
    }

    private func last(_ type: String, of client: SimulatedClient) throws -> JSONValue {
        let text = client.texts.last { $0.contains("\"type\":\"\(type)\"") }
        return try JSONParser().parse(try #require(text))
    }

    // MARK: Connections

    @Test func aKeyHasItsConnectionsOfAMinute() throws {
        let server = try makeServer("quotas=connections=2/minute")
        for _ in 0..<2 { #expect(open(server).isOpen) }
        let refused = open(server)
        #expect(refused.answer?.status == 429)
        #expect(refused.answer?.fields["Retry-After"] == "30")
        let body = try JSONParser().parse(try #require(refused.answer?.body))
        #expect(body["error"]?["code"]?.string == "rate_limit_exceeded")
        #expect(
            body["error"]?["message"]?.string
                == "Rate limit reached: 2 connections per minute for this key. Try again in 30 s.")
        #expect(open(server, Self.other).isOpen, "another key has its own")
        server.run(for: .seconds(30))
        #expect(open(server).isOpen)
        #expect(server.metrics.total(of: .quotaRefusedConnections) == 1)
    }

    @Test func anAddressHasQuotasOfItsOwn() throws {
        let server = try makeServer {
            $0.quotas.perAddress = [Quota(.connections, 1, per: .minute)]
        }
        #expect(open(server, from: "192.0.2.7").isOpen)
        #expect(open(server, Self.other, from: "192.0.2.7").answer?.status == 429)
        #expect(open(server, from: "192.0.2.8").isOpen)
        for _ in 0..<3 { #expect(open(server).isOpen, "this machine's addresses are unlimited") }
    }

    // MARK: Events and audio

    @Test func anEventBeyondTheQuotaIsAnErrorAndTheSessionLivesOn() throws {
        let server = try makeServer { $0.quotas.perSession = [Quota(.events, 3, per: .minute)] }
        let client = open(server)
        for _ in 0..<4 { send(Self.question, to: client, of: server) }
        let added = client.eventTypes.filter { $0 == "conversation.item.added" }
        #expect(added.count == 3)
        let error = try #require(try last("error", of: client)["error"])
        #expect(error["code"]?.string == "rate_limit_exceeded")
        #expect(error["event_id"]?.string == "q")
        #expect(error["message"]?.string?.contains("3 events per minute for this session") == true)
        let neighbour = open(server)
        send(Self.question, to: neighbour, of: server)
        #expect(neighbour.eventTypes.last == "conversation.item.done")
        server.run(for: .seconds(20))
        send(Self.question, to: client, of: server)
        #expect(client.eventTypes.last == "conversation.item.done")
        #expect(client.closeCode == nil)
        #expect(server.metrics.total(of: .quotaRefusedEvents) == 1)
    }

    @Test func anAppendWithoutAudioCountsAsAnEvent() throws {
        let server = try makeServer { $0.quotas.perSession = [Quota(.events, 2, per: .minute)] }
        let client = open(server)
        for _ in 0..<3 {
            send(#"{"type":"input_audio_buffer.append","audio":""}"#, to: client, of: server)
        }
        let error = try #require(try last("error", of: client)["error"])
        #expect(error["code"]?.string == "rate_limit_exceeded")
        #expect(server.metrics.total(of: .quotaRefusedEvents) == 1)
    }

    @Test func audioBeyondTheQuotaIsNotHeard() throws {
        let server = try makeServer("quotas=audio-seconds=2/day")
        let client = open(server)
        let manual = """
            {"type":"session.update","session":{"type":"realtime","audio":{"input":\
            {"turn_detection":null}}}}
            """
        send(manual, to: client, of: server)
        // 100 ms at 24 kHz in 16 bits.
        let audio = String(repeating: "AAAA", count: 1_600)
        let append = #"{"type":"input_audio_buffer.append","audio":"\#(audio)"}"#
        for _ in 0..<30 { send(append, to: client, of: server) }
        #expect(client.eventTypes.filter { $0 == "error" }.count == 1, "one error for many packets")
        let message = try last("error", of: client)["error"]?["message"]?.string
        #expect(message?.contains("2 seconds of audio per day for this key") == true)
        #expect(server.metrics.total(of: .quotaRefusedAudio) >= 9)
        #expect(server.metrics.total(of: \.samplesIn) == 20 * 1_600)
        #expect(client.closeCode == nil)
    }

    @Test func theAudioOfAnItemCounts() throws {
        let server = try makeServer("quotas=audio-seconds=3/day")
        let client = open(server)
        // 2 s at 24 kHz in 16 bits.
        let audio = String(repeating: "AAAA", count: 32_000)
        let item = """
            {"type":"conversation.item.create","event_id":"spoken","item":{"type":"message",\
            "role":"user","content":[{"type":"input_audio","audio":"\(audio)","transcript":"Hi"}]}}
            """
        for _ in 0..<3 { send(item, to: client, of: server) }
        #expect(client.eventTypes.filter { $0 == "conversation.item.added" }.count == 2)
        let error = try #require(try last("error", of: client)["error"])
        #expect(error["event_id"]?.string == "spoken")
        #expect(error["code"]?.string == "rate_limit_exceeded")
        #expect(server.metrics.total(of: \.samplesIn) == 64_000)
    }

    // MARK: Turns and tokens

    @Test func aTurnBeyondTheQuotaFailsItsResponse() throws {
        let server = try makeServer("quotas=turns=2/minute,tokens=1000/minute")
        let client = open(server)
        for _ in 0..<2 { send(Self.question, Self.respond, to: client, of: server) }
        let limits = try #require(
            try last("rate_limits.updated", of: client)["rate_limits"]?.elements)
        #expect(limits.map { $0["name"]?.string } == ["requests", "tokens"])
        #expect(limits.map { $0["limit"]?.int } == [2, 1_000])
        // Two replies of 7 + 3 tokens, and 0.1 s.
        #expect(limits.map { $0["remaining"]?.int } == [0, 981])
        send(Self.respond, to: client, of: server)
        let response = try #require(try last("response.done", of: client)["response"])
        #expect(response["status"]?.string == "failed")
        let error = response["status_details"]?["error"]
        #expect(error?["code"]?.string == "rate_limit_exceeded")
        #expect(error?["message"]?.string?.contains("2 turns per minute for this key") == true)
        server.run(for: .seconds(30))
        send(Self.respond, to: client, of: server)
        #expect(try last("response.done", of: client)["response"]?["status"]?.string == "completed")
        #expect(server.metrics.total(of: .quotaRefusedTurns) == 1)
    }

    @Test func aReplyThatIsLeftBeforeItsEndTakesTokens() throws {
        var configuration = ServerConfiguration()
        configuration.admission.unlimitedAddresses = []
        configuration.quotas.perAddress = [Quota(.tokens, 1_000, per: .day)]
        let words = ClosureModel { _, host, reply in
            try await reply(.text(String(repeating: "word", count: 500)))
            try await host.sleep(for: .seconds(60))
        }
        let server = try SimulatedServer(
            configuration: configuration, agents: AgentSet(model: words))
        for _ in 0..<2 {
            let client = server.openClient()
            #expect(server.run())
            send(Self.question, Self.respond, to: client, of: server)
            #expect(client.eventTypes.contains("response.output_text.delta"))
            client.peer.reset()
            #expect(server.run(for: .milliseconds(100)))
        }
        let third = server.openClient()
        #expect(server.run())
        send(Self.question, Self.respond, to: third, of: server)
        let response = try last("response.done", of: third)["response"]
        #expect(
            response?["status_details"]?["error"]?["code"]?.string == "rate_limit_exceeded")
    }

    @Test func aSecretCountsForItsKey() throws {
        let server = try makeServer("quotas=turns=1/minute")
        let peer = server.connect()
        peer.send(
            "POST /v1/realtime/client_secrets HTTP/1.1\r\nHost: localhost\r\n"
                + "Authorization: Bearer \(Self.key)\r\nContent-Length: 2\r\n\r\n{}")
        #expect(server.run())
        let (answers, _) = try parseResponses(peer.receive(), answering: [.post])
        let secret = try JSONParser().parse(try #require(answers.first?.body))["value"]?.string
        let client = open(server, try #require(secret))
        send(Self.question, Self.respond, to: client, of: server)
        #expect(try last("response.done", of: client)["response"]?["status"]?.string == "completed")
        let second = open(server)
        send(Self.question, Self.respond, to: second, of: server)
        #expect(try last("response.done", of: second)["response"]?["status"]?.string == "failed")
    }

    @Test func aTextRequestBeyondTheQuotaIsRefusedBeforeItsAnswer() throws {
        let server = try makeServer("quotas=turns=1/minute")
        func ask() throws -> HTTPResponse {
            let peer = server.connect()
            peer.send(
                TextWorld.post(
                    "/v1/chat/completions",
                    #"{"model":"m","messages":[{"role":"user","content":"Hi"}]}"#,
                    fields: "Authorization: Bearer \(Self.key)\r\n"))
            #expect(server.run(for: .milliseconds(100)))
            let (answers, _) = try parseResponses(peer.receive(), answering: [.post])
            return try #require(answers.first)
        }
        #expect(try ask().status == 200)
        let refused = try ask()
        #expect(refused.status == 429 && refused.fields["Retry-After"] == "60")
        server.run(for: .seconds(60))
        #expect(try ask().status == 200)
        #expect(server.authenticator.places.count == 0)
    }

    @Test func aSessionWithoutQuotasHasNoObjectForThem() throws {
        let server = try makeServer()
        let client = open(server)
        send(Self.question, Self.respond, to: client, of: server)
        let limits = try last("rate_limits.updated", of: client)["rate_limits"]?.elements
        #expect(limits?.count == 0)
    }

    // MARK: Settings

    @Test func repeatedQuotasAreRefused() {
        var configuration = ServerConfiguration()
        configuration.quotas.perKey = [Quota(.turns, 1, per: .day), Quota(.turns, 2, per: .day)]
        #expect(
            configuration.objection == "quotas-per-key has two quotas of the same unit and period")
        configuration.quotas.perKey = []
        configuration.quotas.perSession = [Quota(.connections, 1, per: .day)]
        #expect(configuration.objection?.hasPrefix("quotas-per-session cannot limit") == true)
    }
}
