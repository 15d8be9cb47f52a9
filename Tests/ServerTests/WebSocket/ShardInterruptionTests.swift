// Speech over a reply, seen from the socket: from the tick of the shard in which the speech is
// noticed nothing of the reply's audio is written, whatever of it was queued. When speech
// interrupts is SessionTests'.

import Codec
import Session
import Simulation
import Testing

@testable import Server

/// Answers with a long sentence, spoken 60 ms a character, and hears a given text.
private struct LongAnswer: LanguageModel, SpeechRecognizer, SlowSpeaker {
    let words: String

    func transcribe(_ utterance: Utterance, on host: any AgentHost) async throws -> Transcript {
        try await host.sleep(for: .milliseconds(120))
        return Transcript(words)
    }

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        try await reply(.text("I have gone forward by ten meters, and I shall go on and on."))
    }
}

@Suite struct ShardInterruptionTests {
    private struct World {
        let server: SimulatedServer
        let client: SimulatedClient
        /// Packets of 20 ms, speech from the 25th on.
        let speech: [[UInt8]]

        func count(_ type: String) -> Int { client.eventTypes.count { $0 == type } }

        /// Sends speech, packet by packet, until the server says that it has noticed it.
        func speakUntilNoticed() {
            for packet in speech where count("input_audio_buffer.speech_started") == 0 {
                client.send(.binary, packet)
                #expect(server.run(for: .milliseconds(20)))
            }
        }
    }

    /// A client whose reply has been playing for a second.
    private func talk(words: String = "go forward", window: Int = 1 << 20) throws -> World {
        let agent = LongAnswer(words: words)
        let server = try SimulatedServer(
            agents: AgentSet(model: agent, recognizer: agent, synthesizer: agent),
            voiceActivityModel: VoiceActivityModel.installed())
        let client = server.openClient()
        #expect(server.run())
        client.send(#"{"type":"response.create"}"#)
        #expect(server.run(for: .seconds(1)))
        return World(
            server: server, client: client,
            speech: try SpeechRecording.goForward.packets(silenceMilliseconds: 1_000))
    }

    @Test func nothingOfTheReplyIsWrittenAfterTheTickThatNoticedTheSpeech() throws {
        let world = try talk()
        world.speakUntilNoticed()
        let types = world.client.eventTypes
        let noticed = try #require(types.lastIndex(of: "input_audio_buffer.speech_started"))
        #expect(types[noticed...].allSatisfy { $0 != "response.output_audio.delta" })
        let before = world.count("response.output_audio.delta")
        #expect(before > 5)
        // It stays silent while the speech goes on, and the speech then ends it.
        for packet in world.speech.dropFirst(30).prefix(60) {
            world.client.send(.binary, packet)
            #expect(world.server.run(for: .milliseconds(20)))
        }
        #expect(world.count("response.output_audio.delta") == before)
        #expect(world.count("response.done") == 1)
        #expect(world.count("conversation.item.truncated") == 1)
        #expect(world.server.metrics.total(of: \.interruptions) == 1)
    }

    @Test func audioThatIsQueuedAtTheOnsetIsDropped() throws {
        let world = try talk()
        world.client.isReading = false
        world.client.peer.window = 0
        #expect(world.server.run(for: .milliseconds(600)))
        #expect(world.server.metrics.total(of: .cancelledAudioMessages) == 0)
        for packet in world.speech.prefix(60) {
            world.client.send(.binary, packet)
            #expect(world.server.run(for: .milliseconds(20)))
        }
        #expect(world.server.metrics.total(of: .cancelledAudioMessages) > 2)
        let connection = try #require(world.server.shard.connections[slot: 0])
        #expect(connection.backlog?.audio.isEmpty == true)
        world.client.isReading = true
        world.client.peer.window = 1 << 30
        #expect(world.server.run(for: .milliseconds(20)))
        #expect(!world.client.messages.contains { if case .violation = $0 { true } else { false } })
    }

    @Test func aClientThatIsLostWhileTheReplyIsHeldLeavesNothingBehind() throws {
        let world = try talk()
        world.speakUntilNoticed()
        world.client.peer.reset()
        #expect(world.server.run(for: .seconds(1)))
        #expect(world.server.metrics.total(of: .agentTasks) == 0)
        #expect(world.server.metrics.total(of: .ledgerBytes) == 0)
        #expect(world.server.shard.connections[slot: 0] == nil)
    }
}
