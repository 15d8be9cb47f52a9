// A synthesiser that speaks far faster than its speech is played: how much of one clause a session
// holds, and that nothing waits for ever, whatever ends the reply.

import Codec
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

/// Says one clause of a given length at once, in pieces of 50 ms.
private final class FastVoice: LanguageModel, SpeechRecognizer, SpeechSynthesizer {
    private let seconds: Int
    private let state = Mutex((emitted: 0, speaking: 0))

    init(seconds: Int) { self.seconds = seconds }

    /// Milliseconds that were taken from it.
    var emitted: Int { state.withLock { $0.emitted } }
    /// Clauses that it has begun and not left.
    var speaking: Int { state.withLock { $0.speaking } }

    func transcribe(_ utterance: Utterance, on host: any AgentHost) async throws -> Transcript {
        Transcript("")
    }

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        try await reply(.text("Hello."))
    }

    func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        state.withLock { $0.speaking += 1 }
        defer { state.withLock { $0.speaking -= 1 } }
        let samples = [Int16](repeating: 1_000, count: 16 * 50)
        for _ in 0..<seconds * 20 {
            try await emit(SpeechChunk(samples: samples, rate: .hz16000))
            state.withLock { $0.emitted += 50 }
        }
    }
}

@Suite struct SpeechPacingTests {
    private struct World {
        let voice: FastVoice
        let server: SimulatedServer
        let client: SimulatedClient

        var audio: Int { server.metrics.total(of: \.millisecondsOut) }
        func count(_ type: String) -> Int { client.eventTypes.count { $0 == type } }
    }

    /// A client whose reply has been playing for a second.
    private func talk(seconds: Int) throws -> World {
        let voice = FastVoice(seconds: seconds)
        var configuration = ServerConfiguration()
        configuration.session.maxQueuedSpeechSeconds = 4
        let server = try SimulatedServer(
            configuration: configuration,
            agents: AgentSet(model: voice, recognizer: voice, synthesizer: voice),
            voiceActivityModel: VoiceActivityModel.installed())
        let client = server.openClient()
        #expect(server.run())
        client.send(#"{"type":"response.create"}"#)
        #expect(server.run(for: .seconds(1)))
        return World(voice: voice, server: server, client: client)
    }

    @Test func oneClauseIsPausedAtTheLimitAndPlaysToItsEnd() throws {
        let world = try talk(seconds: 40)
        // The limit, what one tick takes, and a second that was sent and is kept.
        let most = 4 * 32_000 + ShardGate.maxUntakenSpeechBytes + 3 * 48_000
        for _ in 0..<36 {
            #expect(world.server.metrics.total(of: .ledgerBytes) < most)
            #expect(world.voice.emitted <= world.audio + 4_000 + 2 * 2_048)
            #expect(world.server.run(for: .seconds(1)))
        }
        #expect(world.count("response.done") == 0)
        #expect(world.server.run(for: .seconds(5)))
        #expect(world.audio == 40_000)
        #expect(world.count("response.done") == 1)
        #expect(world.voice.speaking == 0)
        #expect(world.server.metrics.total(of: .agentTasks) == 0)
    }

    @Test(arguments: [
        #"{"type":"response.cancel"}"#, #"{"type":"output_audio_buffer.clear"}"#, "close", "reset",
    ])
    func everyEndOfAReplyReleasesTheSynthesiser(_ end: String) throws {
        let world = try talk(seconds: 40)
        #expect(world.voice.speaking == 1 && world.voice.emitted < 10_000)
        switch end {
        case "close": world.client.close()
        case "reset": world.client.peer.reset()
        default: world.client.send(end)
        }
        #expect(world.server.run(for: .seconds(1)))
        #expect(world.voice.speaking == 0 && world.voice.emitted < 10_000)
        #expect(world.server.metrics.total(of: .agentTasks) == 0)
        guard end.hasPrefix("{") else { return }
        #expect(world.count("response.done") == 1)
        world.client.send(#"{"type":"response.create"}"#)
        #expect(world.server.run(for: .seconds(45)))
        #expect(world.count("response.done") == 2)
    }

    @Test func speechOverTheReplyHoldsAndInterruptsIt() throws {
        let world = try talk(seconds: 40)
        let emitted = world.voice.emitted
        for packet in try SpeechRecording.goForward.packets(silenceMilliseconds: 1_000) {
            world.client.send(.binary, packet)
            #expect(world.server.run(for: .milliseconds(20)))
        }
        #expect(world.server.metrics.total(of: \.interruptions) == 1)
        #expect(world.voice.emitted < emitted + 2_000)
        #expect(world.voice.speaking == 0)
    }

    /// Too short for an interruption: the reply goes on, and with it its synthesis.
    @Test func aReplyThatWasHeldPlaysToItsEnd() throws {
        let world = try talk(seconds: 20)
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 1_000)
        for packet in packets.prefix(40) {
            world.client.send(.binary, packet)
            #expect(world.server.run(for: .milliseconds(20)))
        }
        for _ in 0..<100 {
            world.client.send(.binary, [UInt8](repeating: 0, count: 960))
            #expect(world.server.run(for: .milliseconds(20)))
        }
        #expect(world.server.metrics.total(of: \.falseInterruptions) == 1)
        #expect(world.server.run(for: .seconds(25)))
        #expect(world.count("response.done") == 1)
        #expect(world.server.metrics.total(of: \.responsesCompleted) == 1)
        #expect(world.voice.emitted == 20_000)
    }

    @Test func anotherReplyOfTheSessionIsNotPaused() throws {
        let world = try talk(seconds: 40)
        let emitted = world.voice.emitted
        world.client.send(#"{"type":"response.create","response":{"conversation":"none"}}"#)
        #expect(world.server.run(for: .milliseconds(100)))
        #expect(world.voice.speaking == 2)
        #expect(world.voice.emitted >= emitted + 4_000)
    }
}
