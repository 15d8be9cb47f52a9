// Spoken turns through a real shard: a recording as binary messages, the real voice activity model,
// scripted agents, on simulated sockets and a virtual clock. When a turn ends is SessionTests'.

import Codec
import Session
import Simulation
import Testing

@testable import Server

/// Hears a given text, answers with a sentence, and speaks 60 ms a character.
private struct ScriptedVoice: LanguageModel, SpeechRecognizer, SlowSpeaker {
    func transcribe(_ utterance: Utterance, on host: any AgentHost) async throws -> Transcript {
        try await host.sleep(for: .milliseconds(120))
        return Transcript("go forward ten meters")
    }

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        for word in ["I", " have", " gone", " forward", " by", " ten", " meters", "."] {
            try await host.sleep(for: .milliseconds(20))
            try await reply(.text(word))
        }
    }
}

@Suite struct ShardSpeechTests {
    private static let agents: AgentSet = {
        let voice = ScriptedVoice()
        return AgentSet(model: voice, recognizer: voice, synthesizer: voice)
    }()

    /// The events and audio of one conversation at its client, and the server's counts.
    private struct Telling: Sendable {
        var texts: [String]
        var types: [String]
        var metrics: ServerMetrics

        /// The types of the events, runs of the same one as a single line.
        var story: [String] {
            types.reduce(into: []) { if $0.last != $1 { $0.append($1) } }
        }
    }

    /// One conversation: the recording is spoken at these times, in milliseconds, 20 ms a packet.
    private static func tell(
        seed: UInt64 = 1, faults: SimulatedFaults = SimulatedFaults(), speakingAt starts: [Int],
        until end: Int
    ) throws -> Telling {
        let server = try SimulatedServer(
            agents: agents, seed: seed, faults: faults,
            voiceActivityModel: VoiceActivityModel.installed())
        let client = server.openClient()
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 1_000)
        #expect(server.run())
        client.send(
            """
            {"type":"session.update","session":{"type":"realtime","audio":{"input":
            {"transcription":{"model":"scripted"}}}}}
            """)
        for milliseconds in stride(from: 0, to: end, by: 20) {
            for start in starts where milliseconds >= start {
                let index = (milliseconds - start) / 20
                if index < packets.count { client.send(.binary, packets[index]) }
            }
            #expect(server.run(for: .milliseconds(20)))
        }
        return Telling(texts: client.texts, types: client.eventTypes, metrics: server.metrics)
    }

    /// The shard is away for 2 s in the middle of a word, and the packets of those 2 s are not among the first
    /// reports of the next tick.
    @Test func audioThatWaitsBehindOthersIsNoGapInSpeech() throws {
        let server = try SimulatedServer(
            agents: Self.agents, voiceActivityModel: VoiceActivityModel.installed())
        let client = server.openClient()
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 1_000)
        #expect(server.run())
        for packet in packets[..<60] {
            client.send(.binary, packet)
            #expect(server.run(for: .milliseconds(20)))
        }
        #expect(client.eventTypes.contains("input_audio_buffer.speech_started"))
        for packet in packets[60...] { client.send(.binary, packet) }
        server.io.hidesReadiness = true
        server.io.suspend(for: .seconds(2))
        #expect(server.run(for: .milliseconds(10)))
        server.io.hidesReadiness = false
        #expect(server.run(for: .seconds(5)))
        let types = client.eventTypes
        #expect(types.count { $0 == "input_audio_buffer.speech_started" } == 1)
        #expect(types.count { $0 == "input_audio_buffer.speech_stopped" } == 1)
    }

    /// The reply begins at about 3.5 s and takes 2 s: the second utterance comes over it.
    private static func tellOfAnInterruption(
        seed: UInt64 = 1, faults: SimulatedFaults = SimulatedFaults()
    ) throws -> Telling {
        try tell(seed: seed, faults: faults, speakingAt: [0, 3_900], until: 11_000)
    }

    /// The interruption over a network without faults.
    private static let calm = Result { try tellOfAnInterruption() }

    /// Whether `lines` come in this order, with or without others between them.
    private func expectInOrder(_ lines: [String], in story: [String]) {
        var rest = story[...]
        for line in lines {
            guard let index = rest.firstIndex(of: line) else {
                Issue.record("no \(line) in its place in \(story)")
                return
            }
            rest = rest[(index + 1)...]
        }
    }

    private static let turn = [
        "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed", "conversation.item.input_audio_transcription.completed",
        "response.created", "response.output_audio_transcript.delta",
        "response.output_audio.delta", "response.output_audio.done", "response.done",
    ]

    @Test func answersASpokenTurn() throws {
        let telling = try Self.tell(speakingAt: [0], until: 7_000)
        expectInOrder(Self.turn, in: telling.story)
        let metrics = telling.metrics
        #expect(metrics.total(of: \.turns) == 1)
        #expect(metrics.total(of: \.responsesCompleted) == 1)
        #expect(metrics.total(of: .agentTasks) == 0)
        let spoken = 60 * "I have gone forward by ten meters.".count
        #expect(metrics.total(of: \.millisecondsOut) == spoken)
        #expect(metrics.shards[0].distribution(of: .firstAudio).counts.reduce(0, +) == 1)
        for text in telling.texts {
            #expect(RealtimeSchema.shared.violations(inServerEvent: text) == [])
        }
    }

    @Test func stopsSpeakingWhenTheUserBegins() throws {
        let telling = try Self.calm.get()
        #expect(telling.metrics.total(of: \.responsesCancelled) == 1)
        #expect(telling.metrics.total(of: \.responsesCompleted) == 1)
        let done = telling.texts.filter { $0.contains(#""type":"response.done""#) }
        #expect(done.count == 2)
        #expect(done.first?.contains("turn_detected") == true)
        expectInOrder(
            Array(Self.turn[..<7]) + ["input_audio_buffer.speech_started", "response.done"]
                + Array(Self.turn[1...]), in: telling.story)
    }

    /// The network may cut and delay bytes as it likes: the events and their times are the same.
    @Test func tellsTheSameUnderHarshReadsAndWrites() throws {
        let first = try Self.tellOfAnInterruption(seed: 42, faults: .harsh)
        #expect(try first.types == Self.calm.get().types)
        let second = try Self.tellOfAnInterruption(seed: 42, faults: .harsh)
        #expect(second.texts == first.texts, "a seed decides everything")
    }
}
