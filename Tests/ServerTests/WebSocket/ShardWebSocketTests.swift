// The upgrade and WebSocket through a real shard on a simulated kernel.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ShardWebSocketTests {
    /// A server with one open client.
    private func openServer(
        _ configuration: ServerConfiguration = ServerConfiguration(), seed: UInt64 = 1,
        faults: SimulatedFaults = SimulatedFaults(), log: LogRecord = LogRecord()
    ) throws -> (SimulatedServer, SimulatedClient) {
        let server = try SimulatedServer(
            configuration: configuration, seed: seed, faults: faults, log: log)
        let client = server.openClient()
        #expect(server.run())
        try #require(client.isOpen)
        return (server, client)
    }

    // MARK: The upgrade

    @Test func startsASession() throws {
        let (server, client) = try openServer()
        #expect(client.subprotocol == "realtime")
        #expect(server.metrics.total(of: .sessionsOpen) == 1)
        #expect(server.metrics.sessions.load(ordering: .relaxed) == 1)
    }

    @Test(
        arguments: [
            (["realtime"], "realtime"),
            (
                ["openai-insecure-api-key.sk-test", "realtime", "openai-beta.realtime-v1"],
                "realtime"
            ),
            (["chat"], nil), ([], nil),
        ] as [([String], String?)])
    func selectsOnlyTheRealtimeSubprotocol(offered: [String], selected: String?) throws {
        let server = try SimulatedServer()
        let client = server.openClient(subprotocols: offered)
        #expect(server.run())
        #expect(client.isOpen)
        #expect(client.answer?.fields["Sec-WebSocket-Protocol"] == selected)
    }

    @Test(arguments: [
        ("Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", 426),
        (
            "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", 400
        ),
        (
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\n"
                + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", 426
        ),
        ("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n", 400),
        (
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                + "Sec-WebSocket-Key: short\r\n", 400
        ),
    ])
    func refusesABadHandshake(headers: String, status: Int) throws {
        let server = try SimulatedServer()
        let peer = server.connect()
        peer.send("GET /v1/realtime HTTP/1.1\r\nHost: localhost\r\n\(headers)\r\n")
        #expect(server.run())
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
        #expect(responses.map(\.status) == [status])
        #expect(text(responses[0]).hasPrefix(#"{"error":{"message":""#))
        if status == 426 { #expect(responses[0].fields["Upgrade"] == "websocket") }
        #expect(server.metrics.total(of: .sessionsStarted) == 0)
    }

    @Test func takesMessagesThatCameWithTheRequest() throws {
        let server = try SimulatedServer()
        let client = server.openClient()
        client.send(.ping, [1, 2, 3])
        #expect(server.run())
        #expect(client.messages.contains(.pong([1, 2, 3])))
    }

    @Test func refusesSessionsBeyondTheLimit() throws {
        var configuration = ServerConfiguration()
        configuration.admission.maxSessions = 2
        let server = try SimulatedServer(configuration: configuration)
        let clients = (0..<3).map { _ in server.openClient() }
        #expect(server.run())
        #expect(clients.map { $0.answer?.status } == [101, 101, 503])
        #expect(clients[2].answer?.fields["Retry-After"] == "5")
        let prober = server.connect()
        prober.send("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(server.run())
        let (readiness, _) = try parseResponses(prober.receive(), answering: [.get])
        #expect(readiness.map(\.status) == [503])
        // A place that is given back can be taken again.
        clients[0].peer.reset()
        #expect(server.run())
        let next = server.openClient()
        #expect(server.run())
        #expect(next.isOpen)
    }

    /// The answer to the handshake is the byte too many: the place goes back, no session starts.
    @Test func startsNoSessionOnAConnectionThatIsCutOff() throws {
        var configuration = ServerConfiguration()
        configuration.connection.maxQueuedOutputBytes = 100
        let server = try SimulatedServer(configuration: configuration)
        let client = server.openClient()
        #expect(server.run())
        #expect(client.peer.isClosed && !client.isOpen)
        #expect(server.metrics.total(of: .outputLimitCloses) == 1)
        #expect(server.metrics.total(of: .sessionsStarted) == 0)
        #expect(server.metrics.total(of: .sessionsOpen) == 0)
        #expect(server.metrics.sessions.load(ordering: .relaxed) == 0)
        #expect(server.metrics.connections.load(ordering: .relaxed) == 0)
    }

    // MARK: Messages

    @Test func answersPings() throws {
        let (server, client) = try openServer()
        client.send(.ping, Array("hello".utf8))
        client.send(.ping, [])
        #expect(server.run())
        #expect(client.messages.suffix(2) == [.pong(Array("hello".utf8)), .pong([])])
    }

    @Test func survivesEventsThatDoNotParse() throws {
        let (server, client) = try openServer()
        client.send("{")
        client.send("[]")
        client.send(#"{"type":"nothing.known"}"#)
        #expect(server.run())
        #expect(client.closeCode == nil && !client.peer.isEnded)
        #expect(server.metrics.total(of: .eventsInRefused) == 3)
        #expect(server.metrics.total(of: .sessionsOpen) == 1)
    }

    @Test func countsEventsByClass() throws {
        let (server, client) = try openServer()
        client.send(#"{"type":"input_audio_buffer.clear"}"#)
        client.send(#"{"type":"session.update","session":{"type":"realtime"}}"#)
        client.send(.binary, [0, 0, 0, 0])
        #expect(server.run())
        #expect(server.metrics.total(of: .eventsInAudio) == 1)
        #expect(server.metrics.total(of: .eventsInSession) == 1)
        #expect(server.metrics.total(of: .eventsInAudioPacket) == 1)
    }

    @Test func worksUnderHarshReadsAndWrites() throws {
        for seed in UInt64(0)..<30 {
            let (server, client) = try openServer(seed: seed, faults: .harsh)
            for number in 0..<20 { client.send(.ping, [UInt8(number)]) }
            client.send(.text, Array("{".utf8), isFinal: false)
            client.send(.continuation, Array("}".utf8))
            client.close()
            #expect(server.run())
            let pongs = client.messages.filter { if case .pong = $0 { true } else { false } }
            #expect(pongs == (0..<20).map { .pong([UInt8($0)]) })
            #expect(client.closeCode == 1000)
            #expect(server.run(for: .seconds(10)))
            #expect(server.io.openHandles == 0)
        }
    }

    // MARK: The closing handshake

    @Test(arguments: [1000, 1001, 3000, 4999] as [UInt16])
    func echoesTheCodeOfAClose(code: UInt16) throws {
        let (server, client) = try openServer()
        client.close(WebSocketCloseCode(rawValue: code))
        #expect(server.run())
        #expect(client.closeCode == code)
        #expect(client.peer.isClosed && !client.peer.isReset)
        #expect(server.io.openHandles == 0)
        #expect(server.metrics.sessions.load(ordering: .relaxed) == 0)
    }

    @Test func echoesACloseWithoutACode() throws {
        let (server, client) = try openServer()
        client.close(nil)
        #expect(server.run())
        #expect(client.messages.last == .close(nil, ""))
        #expect(client.peer.isClosed)
    }

    /// A message that breaks a rule; each has its close code.
    enum Offence: CaseIterable, Sendable {
        case unmasked, reservedOpcode, reservedBit, badText, badCloseCode, tooBig, tooManyFrames

        var code: UInt16 {
            switch self {
            case .unmasked, .reservedOpcode, .reservedBit, .badCloseCode: 1002
            case .badText: 1007
            case .tooManyFrames: 1008
            case .tooBig: 1009
            }
        }
    }

    @Test(arguments: Offence.allCases)
    func closesWithTheCodeOfTheOffence(offence: Offence) throws {
        var configuration = ServerConfiguration()
        configuration.connection.webSocket.maxMessageBytes = 1_000
        configuration.connection.webSocket.maxFramesPerMessage = 10
        let (server, client) = try openServer(configuration)
        switch offence {
        case .unmasked: client.peer.send([0x81, 0x01, 0x61])
        case .reservedOpcode: client.peer.send([0x83, 0x80, 0, 0, 0, 0])
        case .reservedBit: client.peer.send([0xC1, 0x80, 0, 0, 0, 0])
        case .badText: client.send(.text, [0xFF])
        case .badCloseCode: client.send(.close, [0x03, 0xED])  // 1005 is for local use.
        case .tooBig: client.send(.binary, [UInt8](repeating: 0, count: 1_001))
        case .tooManyFrames:
            client.send(.binary, [], isFinal: false)
            for _ in 0..<10 { client.send(.continuation, [], isFinal: false) }
        }
        #expect(server.run())
        #expect(client.closeCode == offence.code)
        #expect(!client.peer.isReset, "the peer must be able to read the reason")
        #expect(server.metrics.total(of: .protocolErrors) == 1)
        #expect(server.metrics.total(of: .sessionsOpen) == 0)
        #expect(server.run(for: .seconds(6)))
        #expect(server.io.openHandles == 0)
    }

    @Test func cutsOffAPeerThatDoesNotAnswerAClose() throws {
        let (server, client) = try openServer()
        client.isPolite = false
        server.shard.stop(.goingAway)
        #expect(server.run())
        #expect(client.closeCode == 1001 && !client.peer.isClosed)
        client.send(.ping, [1])
        #expect(server.run(for: .seconds(4)))
        #expect(!client.messages.contains(.pong([1])), "nothing follows a Close")
        #expect(server.run(for: .seconds(2)))
        #expect(client.peer.isClosed && server.hasStopped)
    }

    @Test(arguments: [false, true])
    func survivesAnEndWithoutAClose(isReset: Bool) throws {
        let (server, client) = try openServer()
        let other = server.openClient()
        if isReset { client.peer.reset() } else { client.peer.finishWriting() }
        #expect(server.run())
        #expect(client.peer.isClosed && other.isOpen && !other.peer.isClosed)
        #expect(server.metrics.total(of: .sessionsOpen) == 1)
        #expect(server.io.openHandles == 1)
    }

    // MARK: Liveness and limits

    @Test func pingsASilentPeerAndKeepsOneThatAnswers() throws {
        let (server, client) = try openServer()
        #expect(server.run(for: .seconds(24)))
        #expect(client.messages.filter { $0 == .ping([]) }.isEmpty)
        #expect(server.run(for: .seconds(2)))
        #expect(client.messages.filter { $0 == .ping([]) }.count == 1)
        #expect(server.run(for: .seconds(600)))
        #expect(client.messages.filter { $0 == .ping([]) }.count == 25)
        #expect(client.closeCode == nil && !client.peer.isEnded)
    }

    @Test func closesAPeerThatShowsNoSignOfLife() throws {
        let (server, client) = try openServer()
        client.isPolite = false
        #expect(server.run(for: .seconds(74)))
        #expect(client.closeCode == nil)
        #expect(client.messages.filter { $0 == .ping([]) }.count == 1)
        #expect(server.run(for: .seconds(2)))
        #expect(client.closeCode == 1001)
        #expect(server.metrics.total(of: .silenceCloses) == 1)
        #expect(server.run(for: .seconds(6)))
        #expect(client.peer.isClosed && server.io.openHandles == 0)
    }

    @Test func cutsOffAReaderWhoseQueueGrowsBeyondTheLimit() throws {
        var configuration = ServerConfiguration()
        configuration.connection.maxQueuedOutputBytes = 20_000
        let log = LogRecord()
        let (server, client) = try openServer(configuration, log: log)
        let other = server.openClient()
        #expect(server.run())
        client.isReading = false
        client.peer.window = 0
        for _ in 0..<400 {
            client.send(#"{"type":"nothing.known"}"#)
            #expect(server.run())
        }
        #expect(client.peer.isClosed)
        #expect(server.metrics.total(of: .outputLimitCloses) == 1)
        let line = try #require(log.lines.first { $0.contains("slow reader cut off") })
        #expect(line.hasPrefix("info") && line.contains("session=sess_"))
        #expect(line.contains("reason=max-queued-output-bytes"))
        #expect(server.run())
        #expect(server.metrics.total(of: .sessionsOpen) == 1 && !other.peer.isClosed)
    }

    @Test func writesWhatAFullSocketHeldBackOnceThereIsRoom() throws {
        var configuration = ServerConfiguration()
        configuration.debugEcho = true
        let server = try SimulatedServer(configuration: configuration)
        let client = server.openClient("/debug/echo")
        #expect(server.run())
        client.isReading = false
        client.peer.window = 30
        let expected = (0..<200).map { [UInt8($0), 1, 2, 3] }
        for payload in expected { client.send(.binary, payload) }
        #expect(server.run())
        let waits = server.io.waits
        #expect(server.run(for: .seconds(1)))
        #expect(server.io.waits - waits < 10, "a full socket must not be polled")
        for _ in 0..<2_000 where client.messages.count < 200 {
            client.poll()
            #expect(server.run())
        }
        #expect(client.messages == expected.map { .binary($0) })
    }
}
