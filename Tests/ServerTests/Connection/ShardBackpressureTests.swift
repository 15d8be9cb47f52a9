// Clients that read slowly: what becomes of what they are sent, who waits for them, and which audio
// they never get.

import Codec
import Session
import Simulation
import Testing

@testable import Server

/// Writes a sentence, and speaks for a given time.
private struct Speaker: LanguageModel, SpeechSynthesizer {
    let seconds: Int

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        try await reply(.text("I have gone forward by ten meters."))
    }

    func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        for _ in 0..<seconds * 10 {
            let samples = [Int16](repeating: 1_000, count: 2_400)
            try await emit(SpeechChunk(samples: samples, rate: .hz24000))
        }
    }
}

@Suite struct ShardBackpressureTests {
    private func openEcho(
        _ configuration: ServerConfiguration = ServerConfiguration()
    ) throws -> (SimulatedServer, SimulatedClient) {
        var configuration = configuration
        configuration.debugEcho = true
        let server = try SimulatedServer(configuration: configuration)
        let client = server.openClient("/debug/echo")
        #expect(server.run())
        try #require(client.isOpen)
        return (server, client)
    }

    /// A client whose reply of some seconds has begun.
    private func openListener(
        _ configuration: ServerConfiguration = ServerConfiguration(), speaking seconds: Int = 20,
        isBinary: Bool = false
    ) throws -> (SimulatedServer, SimulatedClient) {
        let speaker = Speaker(seconds: seconds)
        let server = try SimulatedServer(
            configuration: configuration, agents: AgentSet(model: speaker, synthesizer: speaker))
        let client = server.openClient()
        #expect(server.run())
        if isBinary {
            client.send(
                """
                {"type":"session.update","session":{"type":"realtime","audio":{"output":\
                {"transport":"binary"}}}}
                """)
        }
        client.send(#"{"type":"response.create"}"#)
        #expect(server.run(for: .seconds(1)))
        return (server, client)
    }

    private func count(_ type: String, in client: SimulatedClient) -> Int {
        client.eventTypes.count { $0 == type }
    }

    // MARK: Outcomes

    @Test func countsWhatBecameOfSends() throws {
        var configuration = ServerConfiguration()
        configuration.connection.maxQueuedOutputBytes = 64 << 10
        configuration.connection.softQueuedOutputBytes = 64 << 10
        let server = try SimulatedServer(configuration: configuration)
        let client = server.openClient()
        #expect(server.run())
        let metrics = server.metrics
        let sent = metrics.total(of: .sendsSent)
        client.send(#"{"type":"input_audio_buffer.clear"}"#)
        #expect(server.run())
        #expect(metrics.total(of: .sendsSent) == sent + 1)
        #expect(metrics.total(of: .sendsBuffered) == 0)
        client.isReading = false
        client.peer.window = 0
        var sends = 0
        while !client.peer.isClosed, sends < 1_000 {
            client.send(#"{"type":"input_audio_buffer.clear"}"#)
            #expect(server.run())
            sends += 1
        }
        #expect(metrics.total(of: .sendsSent) == sent + 2, "the first found nothing before it")
        #expect(metrics.total(of: .sendsBuffered) == sends - 2)
        #expect(metrics.total(of: .sendsOverLimit) == 1)
    }

    // MARK: Echo

    @Test func anEchoStopsReadingInsteadOfBeingCutOff() throws {
        var configuration = ServerConfiguration()
        configuration.connection.softQueuedOutputBytes = 64 << 10
        configuration.connection.maxQueuedOutputBytes = 128 << 10
        let (server, client) = try openEcho(configuration)
        client.isReading = false
        client.peer.window = 4_096
        let expected = (0..<300).map { [UInt8](repeating: UInt8($0 & 0xFF), count: 5_000) }
        for message in expected { client.send(.binary, message) }
        #expect(server.run())
        #expect(!client.peer.isClosed)
        #expect(server.metrics.total(of: .sendBufferBytes) < 512 << 10)
        let waits = server.io.waits
        #expect(server.run(for: .seconds(5)))
        #expect(server.io.waits - waits < 10, "waiting costs nothing")
        client.peer.window = 1 << 20
        for _ in 0..<1_000 where client.messages.count < expected.count {
            client.poll()
            #expect(server.run())
        }
        #expect(client.messages == expected.map { .binary($0) })
        client.send(.text, [65])
        #expect(server.run())
        client.poll()
        #expect(client.messages.last == .text("A"), "it goes on")
        #expect(server.metrics.total(of: .outputLimitCloses) == 0)
    }

    @Test func echoesAMessageThatIsLargerThanTheHardLimit() throws {
        let (server, client) = try openEcho()
        let large = [UInt8](repeating: 7, count: 16 << 20)
        client.send(.binary, large)
        client.send(.text, [65])
        client.close()
        #expect(server.run())
        #expect(client.messages == [.binary(large), .text("A"), .close(1000, "")])
        #expect(server.run(for: .seconds(6)))
        #expect(server.io.openHandles == 0)
    }

    // MARK: Limits over time

    @Test func cutsOffAReaderThatStaysAboveTheSoftLimit() throws {
        let log = LogRecord()
        var configuration = ServerConfiguration()
        configuration.debugEcho = true
        configuration.connection.webSocket.idleTimeout = .seconds(1_000)
        let server = try SimulatedServer(configuration: configuration, log: log)
        let clients = (0..<2).map { _ in server.openClient("/debug/echo") }
        #expect(server.run())
        for client in clients {
            client.isReading = false
            client.peer.window = 4_096
            client.send(.binary, [UInt8](repeating: 1, count: 2 << 20))
        }
        #expect(server.run(for: .seconds(59)))
        #expect(clients.allSatisfy { !$0.peer.isClosed })
        // One of them reads, though no more than it must.
        clients[0].peer.window = 1_100_000
        clients[0].poll()
        #expect(server.run())
        clients[0].poll()
        clients[0].peer.window = 0
        #expect(server.run(for: .seconds(2)))
        #expect(clients.map(\.peer.isClosed) == [false, true])
        #expect(server.metrics.total(of: .slowReaderCloses) == 1)
        #expect(log.lines.contains { $0.contains("reason=slow-reader-timeout-ms") })
    }

    // MARK: Pongs

    @Test func aFloodOfPingsDoesNotGrowTheQueueOfAClientThatDoesNotRead() throws {
        let (server, client) = try openEcho()
        client.isReading = false
        client.peer.window = 100
        client.send(.binary, [UInt8](repeating: 9, count: 20_000))
        #expect(server.run())
        for number in 0..<900 {
            client.send(.ping, [UInt8(number & 0xFF), UInt8(number >> 8)])
            if number % 10 == 0 { #expect(server.run()) }
        }
        #expect(server.run())
        #expect(server.metrics.total(of: .postponedPongs) == 899)
        client.isReading = true
        client.peer.window = 1 << 20
        #expect(server.run())
        #expect(
            client.messages == [
                .binary([UInt8](repeating: 9, count: 20_000)), .pong([0, 0]), .pong([131, 3]),
            ])
        client.send(.ping, [5])
        #expect(server.run())
        #expect(client.messages.last == .pong([5]))
    }

    // MARK: Others

    @Test func aSlowReaderDelaysNoOtherClient() throws {
        let (server, slow) = try openEcho()
        let others = (0..<5).map { _ in server.openClient("/debug/echo") }
        #expect(server.run())
        slow.isReading = false
        slow.peer.window = 64 << 10
        for _ in 0..<40 { slow.send(.binary, [UInt8](repeating: 1, count: 100_000)) }
        for round in 0..<200 {
            for other in others { other.send(.binary, [UInt8(round)]) }
            #expect(server.shard.tick())
            for other in others { other.poll() }
            #expect(others.allSatisfy { $0.messages.count == round + 1 }, "in the same tick")
        }
        #expect(!slow.peer.isClosed && slow.peer.unreadBytes == 64 << 10)
    }

    // MARK: Audio

    @Test func dropsAudioThatIsTooLateAndNoControlEvent() throws {
        let (server, client) = try openListener()
        client.isReading = false
        client.peer.window = 0
        #expect(server.run(for: .seconds(10)))
        // Sent at 1 s to 11 s, and useful for 5.5 s more.
        client.isReading = true
        client.peer.window = 1 << 30
        #expect(server.run(for: .seconds(30)))
        let late = server.metrics.total(of: .lateAudioMessages)
        #expect((40...50).contains(late))
        #expect(server.metrics.total(of: .lateAudioBytes) > late * 6_400)
        #expect(count("response.output_audio.delta", in: client) == 200 - late)
        for type in ["response.output_audio.done", "response.done", "response.content_part.done"] {
            #expect(count(type, in: client) == 1)
        }
        #expect(server.metrics.total(of: .cancelledAudioMessages) == 0)
        #expect(!client.messages.contains { if case .violation = $0 { true } else { false } })
    }

    @Test func dropsNothingInTime() throws {
        let (server, client) = try openListener()
        client.isReading = false
        client.peer.window = 0
        #expect(server.run(for: .seconds(5)))
        client.isReading = true
        client.peer.window = 1 << 30
        #expect(server.run(for: .seconds(30)))
        #expect(server.metrics.total(of: .lateAudioMessages) == 0)
        #expect(count("response.output_audio.delta", in: client) == 200)
    }

    @Test func latenessMakesRoomBelowTheLimits() throws {
        var configuration = ServerConfiguration()
        configuration.connection.softQueuedOutputBytes = 300_000
        configuration.connection.maxQueuedOutputBytes = 600_000
        configuration.connection.slowReaderTimeout = .seconds(3_600)
        configuration.connection.webSocket.idleTimeout = .seconds(3_600)
        let (server, client) = try openListener(configuration, speaking: 120)
        client.isReading = false
        client.peer.window = 0
        #expect(server.run(for: .seconds(60)))
        #expect(!client.peer.isClosed)
        #expect(server.metrics.total(of: .lateAudioMessages) > 0)
        client.isReading = true
        client.peer.window = 1 << 30
        #expect(server.run(for: .seconds(200)))
        #expect(count("response.done", in: client) == 1)
        #expect(server.metrics.total(of: \.responsesCompleted) == 1)
    }

    @Test(arguments: [false, true])
    func dropsTheAudioOfAnInterruptedReply(isBinary: Bool) throws {
        let (server, client) = try openListener(isBinary: isBinary)
        client.isReading = false
        client.peer.window = 0
        #expect(server.run(for: .seconds(3)))
        let before =
            count("response.output_audio.delta", in: client)
            + client.messages.count { if case .binary = $0 { true } else { false } }
        client.send(#"{"type":"response.cancel"}"#)
        #expect(server.run())
        client.isReading = true
        client.peer.window = 1 << 30
        #expect(server.run(for: .seconds(5)))
        let after =
            count("response.output_audio.delta", in: client)
            + client.messages.count { if case .binary = $0 { true } else { false } }
        #expect(after <= before + 1, "no more than a message that has begun to leave")
        #expect(server.metrics.total(of: .cancelledAudioMessages) > 20)
        #expect(count("response.output_audio.done", in: client) == 1)
        #expect(count("response.done", in: client) == 1)
        #expect(!client.messages.contains { if case .violation = $0 { true } else { false } })
        client.send(#"{"type":"response.create"}"#)
        #expect(server.run(for: .seconds(30)))
        #expect(count("response.done", in: client) == 2)
    }

    @Test func keepsNothingOfAudioThatLeftInItsTick() throws {
        let (server, _) = try openListener()
        #expect(server.run(for: .seconds(3)))
        #expect(server.shard.connections[slot: 0]?.backlog == nil)
    }
}
