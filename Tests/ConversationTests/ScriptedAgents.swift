// The model, the recogniser and the synthesiser of a conversation, as scripted in its file. Their
// delays run on the shard's virtual clock.

import Codec
import Session
import Synchronization
import YAML

/// All three agents of one conversation.
final class ScriptedAgents: LanguageModel, SpeechRecognizer, SpeechSynthesizer {
    private struct State {
        var utterances = 0
        var replies = 0
        /// The first samples of the last utterance; its partial hypotheses begin with the same
        /// samples.
        var beginning: [Int16] = []
        var spokenSamples = 0
        /// Requests to the model that are not recorded yet.
        var asked: [[String]] = []
    }

    /// Samples that identify an utterance: 50 ms.
    private static let beginningSamples = 800

    let makesHypotheses: Bool
    private let hears: [Heard]
    private let replies: [Reply]
    private let voice: Voice
    private let state = Mutex(State())

    init(_ conversation: ScriptedConversation) throws {
        let delay = conversation.recogniser?["delay"]?.integer ?? 120
        makesHypotheses = conversation.recogniser?["while_speaking"]?.flag ?? false
        hears = (conversation.recogniser?["hears"]?.items ?? []).map { Heard($0, delay: delay) }
        replies = conversation.model.map { Reply($0) }
        voice = try Voice(conversation.synthesiser)
    }

    /// The requests to the model since the last call.
    func takeAsked() -> [[String]] {
        state.withLock { state in
            defer { state.asked = [] }
            return state.asked
        }
    }

    // MARK: The recogniser

    /// The recogniser's results for one utterance.
    private struct Heard {
        let delay: Duration
        let failure: AgentError?
        /// Partial texts, each with the milliseconds of audio that it needs, ascending.
        let stages: [(milliseconds: Int, text: String)]

        init(_ value: YAMLValue, delay: Int) {
            self.delay = .milliseconds(value["delay"]?.integer ?? delay)
            failure = value["fails"]?.integer.map { .upstream(status: $0, message: "scripted") }
            let partial = (value["so_far"]?.items ?? []).map { stage in
                (stage.items?.first?.integer ?? 0, stage.items?.last?.text ?? "")
            }
            stages = partial + [(.max, value.text ?? value["text"]?.text ?? "")]
        }
    }

    func transcribe(_ utterance: Utterance, on host: any AgentHost) async throws -> Transcript {
        let beginning = Array(try utterance.samples().prefix(Self.beginningSamples))
        let index = state.withLock { state in
            if beginning != state.beginning {
                state.beginning = beginning
                state.utterances += 1
            }
            return state.utterances - 1
        }
        guard index < hears.count else { return Transcript("") }
        let heard = hears[index]
        try await host.sleep(for: heard.delay)
        if let failure = heard.failure { throw failure }
        let milliseconds = utterance.sampleCount / 16
        return Transcript(heard.stages.first { milliseconds <= $0.milliseconds }?.text ?? "")
    }

    // MARK: The model

    /// The model's answer to one request.
    private struct Reply {
        let delay: Duration
        let pause: Duration
        let words: [String]
        let call: (name: String, arguments: String)?
        let ending: AgentError?
        let hangs: Bool

        init(_ value: YAMLValue) {
            delay = .milliseconds(value["after"]?.integer ?? 100)
            pause = .milliseconds(value["per_word"]?.integer ?? 20)
            let text = value["says"]?.text ?? value.text ?? ""
            words = text.split(separator: " ").enumerated().map {
                $0.offset == 0 ? "\($0.element)" : " \($0.element)"
            }
            call = value["calls"].map {
                ($0["name"]?.text ?? "", $0["arguments"]?.text ?? "{}")
            }
            ending = value["fails"]?.integer.map { .upstream(status: $0, message: "scripted") }
            hangs = value["hangs"]?.flag ?? false
        }
    }

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let index = state.withLock { state in
            state.asked.append(request.messages.map(\.line))
            defer { state.replies += 1 }
            return state.replies
        }
        guard index < replies.count else { return }
        let script = replies[index]
        try await host.sleep(for: script.delay)
        for (position, word) in script.words.enumerated() {
            if position > 0 { try await host.sleep(for: script.pause) }
            try await reply(.text(word))
        }
        if let call = script.call {
            try await reply(.functionCallStarted(callID: "call_1", name: call.name))
            try await reply(.functionCallArguments(call.arguments))
        }
        if script.hangs { try await host.sleep(for: .seconds(3_600)) }
        if let ending = script.ending { throw ending }
    }

    // MARK: The synthesiser

    private struct Voice {
        let millisecondsPerCharacter: Int
        let delay: Duration
        let failure: AgentError?
        /// Its sound, repeated for as long as the text needs.
        let sound: [Int16]

        init(_ value: YAMLValue?) throws {
            millisecondsPerCharacter = value?["ms_per_character"]?.integer ?? 50
            delay = .milliseconds(value?["delay"]?.integer ?? 15)
            failure = value?["fails"]?.integer.map { .upstream(status: $0, message: "scripted") }
            let recording = try value?["voice"]?.text.map { try Sound.recording($0).samples }
            sound = (recording ?? [0.03]).map { Int16(clamping: Int($0 * 32_767)) }
        }
    }

    func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        try await host.sleep(for: voice.delay)
        if let failure = voice.failure { throw failure }
        let count = Sound.rate.samples(
            inMilliseconds: voice.millisecondsPerCharacter * request.text.count)
        let start = state.withLock { state in
            defer { state.spokenSamples += count }
            return state.spokenSamples
        }
        let samples = (start..<start + count).map { voice.sound[$0 % voice.sound.count] }
        try await emit(SpeechChunk(samples: samples, rate: Sound.rate))
    }
}

extension ModelMessage {
    /// One line of a request: the author and the text.
    fileprivate var line: String {
        switch self {
        case .system(let text): "system: \(text)"
        case .user(let text): "user: \(text)"
        case .assistant(let text): "assistant: \(text)"
        case .functionCall(_, let name, let arguments): "calls \(name) \(arguments)"
        case .functionOutput(_, let output): "returns \(output)"
        case .userAudio: "user: (audio)"
        case .userParts(let parts): "user: (\(parts.count) parts)"
        }
    }
}
