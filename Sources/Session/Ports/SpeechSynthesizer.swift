// The port to speech synthesis.

import Codec

/// A clause to be spoken.
public struct SpeechRequest: Equatable, Sendable {
    /// Text of one or more clauses.
    public var text: String
    /// The voice that the client named; a synthesiser without it uses its own default.
    public var voice: String
    /// Speaking rate, 0.25…1.5.
    public var speed: Double
    /// The language of the conversation (ISO 639-1), if the client has named it or it was heard.
    public var language: String?

    /// Creates a request.
    public init(text: String, voice: String, speed: Double = 1, language: String? = nil) {
        self.text = text
        self.voice = voice
        self.speed = speed
        self.language = language
    }
}

/// A run of synthesised speech.
public struct SpeechChunk: Sendable {
    /// The audio of a run: samples or packets.
    public enum Payload: Sendable {
        /// Mono samples; the rate is a multiple of 50 Hz, so that 20 ms are whole samples.
        case samples([Int16], rate: SampleRate)
        /// Packets of a service that encodes itself: sent untouched where the client takes Opus,
        /// decoded where it does not.
        case opus(OpusPackets)
    }

    /// The audio of the run. One rate within one request, and packets before samples: Opus of a
    /// service that cannot be passed on any further is decoded from there on.
    public var payload: Payload
    /// Whether another voice than the requested one spoke it, because that one cannot be loaded. The
    /// phrase cache does not keep such a phrase.
    public var isSubstitute = false

    /// Creates a chunk of samples.
    public init(samples: [Int16], rate: SampleRate) {
        payload = .samples(samples, rate: rate)
    }

    /// Creates a chunk of encoded speech.
    public init(packets: OpusPackets) { payload = .opus(packets) }

    /// The samples; none where the run is encoded.
    public var samples: [Int16] {
        if case .samples(let samples, _) = payload { samples } else { [] }
    }

    /// The rate of the samples. For encoded speech it is the rate in which Opus counts.
    public var rate: SampleRate {
        if case .samples(_, let rate) = payload { rate } else { .hz48000 }
    }
}

/// Turns text into speech.
public protocol SpeechSynthesizer: ModelMemory {
    /// Clauses since the start that were spoken by another voice than the requested one. Any
    /// thread. 0, the default, where the voice always is the requested one.
    var substitutedClauses: Int { get }

    /// The languages that it speaks (ISO 639). Nil, the default, means any: a service has voices that
    /// the server does not know. Replies in other languages are text.
    var languages: [String]? { get }

    /// Speaks a clause: calls `emit` for every run of samples, returns at the end.
    /// - Throws: an `AgentError`; the response fails and the session lives on.
    func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws

    /// The user has begun to talk: load the voice, so that the first words of the reply do not wait
    /// for it. An error is not reported here, but by `speak`, which meets it again. The default
    /// does nothing.
    func prepareVoice(on host: any AgentHost) async

    /// Checks whether its service can be used, when the server starts. Faults are reported to the
    /// host. By default there is no service.
    func checkSynthesizer(on host: any AgentHost) async
}

extension SpeechSynthesizer {
    /// By default there are none.
    public var substitutedClauses: Int { 0 }

    /// By default any.
    public var languages: [String]? { nil }

    /// By default there is nothing to load.
    public func prepareVoice(on host: any AgentHost) async {}

    /// By default there is no service to check.
    public func checkSynthesizer(on host: any AgentHost) async {}
}
