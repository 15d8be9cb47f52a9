// The operator's WebSocket: who may open it, what it shows, what it does, and what it costs a server
// whose operator reads slowly or sends nonsense.

import Codec
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

/// Hears the same words in everything.
private struct Scribe: SpeechRecognizer {
    func transcribe(_ utterance: Utterance, on host: any AgentHost) async throws -> Transcript {
        Transcript("go forward")
    }
}

@Suite struct OperatorTests {
    private static let path = "/admin/live"

    /// An operator on the second shard of a world whose sessions live on the first.
    private func watch(
        _ world: SidebandWorld, on server: SimulatedServer? = nil
    ) -> SimulatedClient {
        let client = (server ?? world.second).openClient(
            Self.path, subprotocols: ["parley-operator"], key: SidebandWorld.operatorKey)
        world.run()
        return client
    }

    private func last(_ client: SimulatedClient, _ type: String) throws -> JSONValue {
        try JSONParser().parse(try #require(client.events(type).last, "no \(type)"))
    }

    /// Lets seconds pass. After each, the server handles what it has posted to itself: the simulated
    /// kernel is woken by nothing.
    private func pass(_ seconds: Int, on server: SimulatedServer) {
        for _ in 0..<seconds {
            #expect(server.run(for: .seconds(1)))
            for _ in 0..<4 { #expect(server.run()) }
        }
    }

    private func ids(_ page: JSONValue) -> [String] {
        page["data"]?.elements?.compactMap { $0["id"]?.string } ?? []
    }

    // MARK: Access

    @Test func onlyAnOperatorMayWatch() throws {
        let world = try SidebandWorld()
        func answer(_ key: String?, _ fields: [(String, String)] = []) -> SimulatedClient {
            let client = world.first.openClient(
                Self.path, subprotocols: ["parley-operator"], key: key, fields: fields)
            world.run()
            return client
        }
        #expect(answer(nil).answer?.status == 401)
        #expect(answer("sk-guess-0123456789abcdef").answer?.status == 401)
        #expect(answer(SidebandWorld.key).answer?.status == 403)
        let foreign = answer(SidebandWorld.operatorKey, [("Origin", "https://evil.example")])
        #expect(foreign.answer?.status == 403)
        let watching = answer(SidebandWorld.operatorKey)
        #expect(watching.isOpen && watching.subprotocol == "parley-operator")
        #expect(watching.eventTypes == ["server.history", "server.overview", "server.failures"])
        // Without an upgrade there is nothing to see.
        let peer = world.first.connect()
        peer.send(
            "GET /admin/live HTTP/1.1\r\nHost: localhost\r\n"
                + "Authorization: Bearer \(SidebandWorld.operatorKey)\r\n\r\n")
        world.run()
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
        #expect(responses.map(\.status) == [426])
    }

    @Test func aBrowserSendsItsKeyAsASubprotocol() throws {
        let world = try SidebandWorld()
        let key = RequestCredential.subprotocolPrefix + SidebandWorld.operatorKey
        let client = world.first.openClient(
            Self.path, subprotocols: ["parley-operator", key])
        world.run()
        #expect(client.isOpen && client.subprotocol == "parley-operator")
        let secret = world.first.openClient(
            Self.path,
            subprotocols: [
                "parley-operator", RequestCredential.subprotocolPrefix + SidebandWorld.key,
            ])
        world.run()
        #expect(secret.answer?.status == 403)
    }

    @Test func withoutCredentialsOnlyThisMachineMayWatch() throws {
        let server = try SimulatedServer()
        let near = server.openClient(Self.path, subprotocols: ["parley-operator"])
        let far = server.openClient(
            Self.path, subprotocols: ["parley-operator"], from: "203.0.113.9")
        let passedOn = server.openClient(
            Self.path, subprotocols: ["parley-operator"], fields: [("Via", "1.1 proxy")])
        server.run()
        #expect(near.isOpen)
        #expect(far.refusal == "loopback_only" && passedOn.refusal == "loopback_only")
    }

    @Test func operatorsAreFew() throws {
        let server = try SimulatedServer()
        let clients = (0...OperatorTable.maxOperators).map { _ in
            server.openClient(Self.path, subprotocols: ["parley-operator"])
        }
        server.run()
        #expect(clients.count(where: \.isOpen) == OperatorTable.maxOperators)
        #expect(clients.last?.refusal == "too_many_operators")
        clients[0].close()
        server.run()
        let next = server.openClient(Self.path, subprotocols: ["parley-operator"])
        server.run()
        #expect(next.isOpen)
    }

    // MARK: The server

    @Test func theServerIsShownEverySecond() throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        let watching = watch(world)
        world.say("hello", client)
        world.run(for: .seconds(3))
        #expect(watching.events("server.overview").count == 4)
        let overview = try last(watching, "server.overview")
        #expect(overview["sessions"]?.int == 1 && overview["draining"]?.bool == false)
        #expect(overview["shards"]?.elements?.count == 2)
        #expect(overview["states"]?["idle"]?.int == 1)
        #expect(overview["turns"]?["first_token"]?["count"]?.int == 0, "none was spoken")
        #expect((overview["ledger_bytes"]?.int ?? 0) > 0)
        #expect(overview["providers"]?.elements?.count == 0)
        #expect(watching.events("sessions.page").isEmpty, "nobody has asked for sessions")
    }

    @Test func failuresAreShownWhenThereAreNewOnes() throws {
        let world = try SidebandWorld()
        let client = watch(world)
        #expect(client.events("server.failures").count == 1)
        let failures = world.second.metrics.recentFailures
        failures.note(.response, of: "sess_1", code: "upstream_error", reason: "No.")
        failures.note(.response, of: "sess_2", code: "upstream_error", reason: "No.")
        pass(3, on: world.second)
        // Once for both, and not again.
        #expect(client.events("server.failures").count == 2)
        let shown = try #require(
            try last(client, "server.failures")["data"]?.elements.map(Array.init))
        #expect(shown.map { $0["source"]?.string } == ["sess_2", "sess_1"])
        #expect(shown[0]["kind"]?.string == "response" && shown[0]["count"]?.int == 1)
        #expect(shown[0]["code"]?.string == "upstream_error" && shown[0]["reason"]?.string == "No.")
    }

    @Test func whatWasBeforeIsShownAtFirst() throws {
        let history = ServerHistory()
        let server = try SimulatedServer { $0.history = history }
        server.run(for: .seconds(25))
        let client = server.openClient(Self.path, subprotocols: ["parley-operator"])
        server.run()
        let shown = try last(client, "server.history")
        #expect(shown["fields"]?.elements?.count == 5)
        #expect(shown["samples"]?.elements?.count == 3)
    }

    // MARK: Sessions

    @Test func pagesOfTheSessionsOfAllShardsAreShown() throws {
        let world = try SidebandWorld()
        var clients: [SimulatedClient] = []
        for index in 0..<7 {
            let server = index % 2 == 0 ? world.first : world.second
            clients.append(server.openClient(key: SidebandWorld.key))
            world.run(for: .seconds(1))
        }
        let byAge = try clients.map { try world.id($0) }
        let watching = watch(world)
        watching.send(#"{"type":"sessions.watch","sort":"age","limit":3}"#)
        world.run()
        var page = try last(watching, "sessions.page")
        #expect(ids(page) == Array(byAge[..<3]))
        #expect(page["matching"]?.int == 7 && page["position"]?.int == 0)
        #expect(page["shards"]?.int == 2 && page["shards_answered"]?.int == 2)
        let cursor = try #require(page["last"]?.string)
        watching.send(#"{"type":"sessions.watch","sort":"age","limit":3,"after":"\#(cursor)"}"#)
        world.run()
        page = try last(watching, "sessions.page")
        #expect(ids(page) == Array(byAge[3..<6]) && page["position"]?.int == 3)
        // The page follows its place: of the sessions before it two end.
        clients[0].close()
        clients[1].close()
        world.run(for: .seconds(1))
        page = try last(watching, "sessions.page")
        #expect(ids(page) == Array(byAge[3..<6]) && page["position"]?.int == 1)
        watching.send(#"{"type":"sessions.watch","sort":"id","limit":100}"#)
        world.run()
        #expect(ids(try last(watching, "sessions.page")) == byAge[2...].sorted())
        watching.send(#"{"type":"sessions.watch","sort":"id","order":"ascending","before":""}"#)
        world.run()
        #expect(ids(try last(watching, "sessions.page")) == byAge[2...].sorted().reversed())
        watching.send(#"{"type":"sessions.watch","search":"\#(byAge[4].suffix(6))"}"#)
        world.run()
        #expect(ids(try last(watching, "sessions.page")) == [byAge[4]])
        watching.send(#"{"type":"sessions.unwatch"}"#)
        world.run()
        let count = watching.events("sessions.page").count
        world.run(for: .seconds(3))
        #expect(watching.events("sessions.page").count == count)
    }

    @Test func aShardThatSaysNothingIsLeftOut() throws {
        let world = try SidebandWorld()
        _ = world.first.openClient(key: SidebandWorld.key)
        let watching = watch(world)
        watching.send(#"{"type":"sessions.watch"}"#)
        pass(2, on: world.second)
        let page = try last(watching, "sessions.page")
        #expect(page["shards"]?.int == 2 && page["shards_answered"]?.int == 1)
        #expect(ids(page).isEmpty)
        // Its answers come too late, and are ignored; the next ones count.
        world.run()
        world.run(for: .seconds(1))
        #expect(ids(try last(watching, "sessions.page")).count == 1)
    }

    // MARK: One session

    @Test func aSessionIsShownWithWhatIsSaid() throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        world.say("before", client)
        let id = try world.id(client)
        let watching = watch(world)
        let seen = client.texts.count
        watching.send(#"{"type":"session.watch","id":"\#(id)"}"#)
        world.run()
        #expect(watching.events("session.watched").count == 1)
        let shown = try last(watching, "session.card")
        let card = try #require(shown["session"])
        #expect(card["id"]?.string == id && card["sidebands"]?.int == 0)
        let parts = try #require(card["parts"]?.members)
        #expect(parts.reduce(0) { $0 + ($1.value.int ?? 0) } == card["bytes"]?.int)
        // What was said before, and the client notices nothing.
        let past = watching.texts.filter { $0.contains(#""conversation.item.added""#) }
        #expect(past.count == 2 && past[0].contains("before") && past[1].contains("Hello."))
        #expect(client.texts.count == seen)
        world.say("go on now", client)
        let events = watching.texts.filter { $0.contains(#""type":"session.event""#) }
        #expect(events.contains { $0.contains("go on now") })
        #expect(events.contains { $0.contains(#""response.output_text.delta""#) })
        #expect(events.contains { $0.contains(#""response.done""#) })
        #expect(!events.contains { $0.contains(#""rate_limits.updated""#) })
        client.close()
        world.run()
        #expect(try last(watching, "session.ended")["id"]?.string == id)
        #expect(watching.closeCode == nil && world.second.shard.sidebands.joined.isEmpty)
    }

    /// By default a client gets no event with the words of its user. They are known all the same.
    @Test(arguments: [false, true])
    func spokenWordsAreShown(clientGetsThem: Bool) throws {
        let server = try SimulatedServer(
            agents: AgentSet(model: SilentModel(), recognizer: Scribe()))
        let client = server.openClient()
        let watching = server.openClient(Self.path, subprotocols: ["parley-operator"])
        server.run()
        let created = try JSONParser().parse(try #require(client.texts.first))
        let id = try #require(created["session"]?["id"]?.string)
        let transcription = clientGetsThem ? #","transcription":{"model":"m"}"# : ""
        client.send(
            #"{"type":"session.update","session":{"type":"realtime","audio":{"input":{"#
                + #""format":{"type":"audio/pcm","rate":24000},"#
                + #""turn_detection":null\#(transcription)}}}}"#)
        watching.send(#"{"type":"session.watch","id":"\#(id)"}"#)
        pass(1, on: server)
        client.send(.binary, [UInt8](repeating: 1, count: 48 * 200))
        client.send(#"{"type":"input_audio_buffer.commit"}"#)
        pass(1, on: server)
        let shown = watching.texts.filter { $0.contains("go forward") }
        let type = clientGetsThem ? "transcription.completed" : "conversation.item.added"
        #expect(shown.count(where: { $0.contains(type) }) == 1)
        #expect(client.hasSeen("go forward") == clientGetsThem)
    }

    @Test func anotherSessionReplacesTheOneThatIsWatched() throws {
        let world = try SidebandWorld()
        let clients = [world.openClient(), world.openClient()]
        let ids = try clients.map { try world.id($0) }
        let watching = watch(world)
        // Before the first answer has come, also the same session twice.
        for id in [ids[0], ids[1], ids[1]] {
            watching.send(#"{"type":"session.watch","id":"\#(id)"}"#)
        }
        world.run()
        let observations = world.first.shard.sidebands.observations.values
        #expect(observations.map(\.observers.count) == [1])
        world.say("apples", clients[0])
        world.say("pears", clients[1])
        #expect(watching.hasSeen("pears") && !watching.hasSeen("apples"))
        watching.send(#"{"type":"session.unwatch"}"#)
        world.run()
        #expect(world.first.shard.sidebands.observations.isEmpty)
        watching.send(#"{"type":"session.watch","id":"\#(ids[0])"}"#)
        watching.close()
        world.run()
        #expect(world.first.shard.sidebands.observations.isEmpty)
    }

    @Test func operatorsTakeNoPlacesOfSidebands() throws {
        let world = try SidebandWorld { $0.sidebands.maxPerSession = 1 }
        let client = world.openClient()
        let id = try world.id(client)
        let watching = [watch(world), watch(world)]
        for one in watching { one.send(#"{"type":"session.watch","id":"\#(id)"}"#) }
        world.run()
        #expect(watching.map { $0.events("session.watched").count } == [1, 0])
        #expect(watching[1].hasSeen("too_many_sidebands"))
        #expect(try world.join(client).isOpen)
    }

    @Test func aSessionIsClosed() throws {
        let log = LogRecord()
        let world = try SidebandWorld(log: log)
        let client = world.openClient()
        let id = try world.id(client)
        let watching = watch(world)
        watching.send(#"{"type":"session.close","id":"\#(id)"}"#)
        world.run()
        #expect(client.closeCode == 1_000)
        #expect(try last(watching, "session.closed")["id"]?.string == id)
        #expect(log.lines.contains { $0.contains("an operator has closed a session") })
        // Again: it is not there any more.
        for command in ["close", "watch"] {
            watching.send(#"{"type":"session.\#(command)","id":"\#(id)"}"#)
            world.run()
            let answer = try last(watching, "error")
            let error = try #require(answer["error"])
            #expect(error["code"]?.string == "session_not_found")
            #expect(error["session_id"]?.string == id)
        }
    }

    @Test func aShardThatDoesNotAnswerMayHaveTheSession() throws {
        let world = try SidebandWorld()
        let id = try world.id(world.openClient())
        let watching = watch(world)
        for _ in 0..<OperatorView.maxCalls + 1 {
            watching.send(#"{"type":"session.watch","id":"\#(id)"}"#)
        }
        #expect(world.second.run())
        #expect(watching.events("error").count == 1 && watching.hasSeen("too_many_calls"))
        #expect(world.second.run(for: .seconds(3)))
        #expect(watching.hasSeen("shards_away"))
        // The session that it joins now is left again.
        world.run()
        #expect(world.second.shard.sidebands.joined.isEmpty)
        #expect(world.first.shard.sidebands.observations.isEmpty)
    }

    // MARK: Draining

    @Test func theServerIsDrained() throws {
        let drains = Mutex(0)
        let server = try SimulatedServer {
            $0.drainServer = { drains.withLock { $0 += 1 } }
        }
        let watching = server.openClient(Self.path, subprotocols: ["parley-operator"])
        watching.send(#"{"type":"server.drain"}"#)
        server.run()
        #expect(drains.withLock { $0 } == 1)
        // Again, of which the log is not to fill.
        server.metrics.isDraining.store(true, ordering: .relaxed)
        watching.send(#"{"type":"server.drain"}"#)
        server.run()
        #expect(drains.withLock { $0 } == 1 && watching.closeCode == nil)
        let other = try SimulatedServer()
        let refused = other.openClient(Self.path, subprotocols: ["parley-operator"])
        refused.send(#"{"type":"server.drain"}"#)
        other.run()
        #expect(refused.hasSeen("drain_not_supported"))
    }

    @Test func anOperatorSeesADrainToItsEnd() throws {
        let model = ClosureModel { _, host, reply in
            try await reply(.text("Hello"))
            try await host.sleep(for: .seconds(4))
        }
        let server = try SimulatedServer(agents: AgentSet(model: model))
        let client = server.openClient()
        let watching = server.openClient(Self.path, subprotocols: ["parley-operator"])
        server.run()
        client.send(
            #"{"type":"session.update","session":{"type":"realtime","#
                + #""output_modalities":["text"]}}"#)
        client.send(
            #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
                + #""content":[{"type":"input_text","text":"Hi"}]}}"#)
        client.send(#"{"type":"response.create"}"#)
        server.run()
        server.shard.drain(.zero)
        server.run(for: .seconds(3))
        #expect(watching.closeCode == nil && client.closeCode == nil)
        server.run(for: .seconds(20))
        #expect(server.hasStopped)
        #expect(client.closeCode == 1_012 && watching.closeCode == 1_012)
        #expect(watching.events("server.overview").count > 3)
    }

    // MARK: Bad peers

    @Test func nonsenseIsAnsweredAndAFloodOfItEndsTheConnection() throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        let watching = watch(world)
        watching.send("nonsense")
        watching.send(#"{"type":"server.explode"}"#)
        world.run()
        let codes = try watching.events("error").map {
            try JSONParser().parse($0)["error"]?["code"]?.string
        }
        #expect(codes == ["invalid_json", "invalid_value"])
        #expect(watching.closeCode == nil)
        for _ in 0..<2_100 { watching.send("{}") }
        world.run()
        #expect(watching.closeCode == 1_008)
        let binary = watch(world)
        binary.send(.binary, [1, 2, 3])
        world.run()
        #expect(binary.closeCode == 1_003)
        world.say("hello", client)
        #expect(client.hasSeen("Hello."))
    }

    @Test func aSlowReaderIsSkipped() throws {
        let server = try SimulatedServer()
        for _ in 0..<100 { _ = server.openClient() }
        let watching = server.openClient(Self.path, subprotocols: ["parley-operator"])
        watching.send(#"{"type":"sessions.watch","limit":100}"#)
        pass(1, on: server)
        let all = (0..<server.shard.connections.slotCount).compactMap {
            server.shard.connections[slot: $0]
        }
        let token = try #require(all.first { $0.role == .operator }).token
        watching.peer.window = 0
        pass(20, on: server)
        let waiting = try #require(server.shard.connections[token]).output.count
        let page = try #require(watching.events("sessions.page").last).utf8.count
        #expect(waiting > OperatorView.maxWaitingBytes)
        #expect(waiting < OperatorView.maxWaitingBytes + 2 * page)
        let count = watching.events("sessions.page").count
        watching.peer.window = 1 << 20
        pass(1, on: server)
        // What waited, and the page of the next second.
        #expect((2...6).contains(watching.events("sessions.page").count - count))
        #expect(watching.closeCode == nil)
    }

    @Test func whatIsAskedForWithoutReadingIsNotQueued() throws {
        let server = try SimulatedServer()
        for _ in 0..<100 { _ = server.openClient() }
        let watching = server.openClient(Self.path, subprotocols: ["parley-operator"])
        let command = #"{"type":"sessions.watch","limit":100}"#
        watching.send(command)
        pass(1, on: server)
        let slots = 0..<server.shard.connections.slotCount
        let all = slots.compactMap { server.shard.connections[slot: $0] }
        let connection = try #require(all.first { $0.role == .operator })
        let page = try #require(watching.events("sessions.page").last).utf8.count
        watching.peer.window = 0
        for _ in 0..<50 {
            watching.send(command)
            for _ in 0..<3 { #expect(server.run()) }
        }
        #expect(connection.output.count > OperatorView.maxWaitingBytes)
        #expect(connection.output.count < OperatorView.maxWaitingBytes + 2 * page)
        #expect(watching.closeCode == nil)
    }
}
