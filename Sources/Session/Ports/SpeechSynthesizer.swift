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

    /// Creates a request.
    public init(text: String, voice: String, speed: Double = 1) {
        self.text = text
        self.voice = voice
        self.speed = speed
    }
}

/// A run of synthesised speech.
public struct SpeechChunk: Sendable {
    /// Mono samples at `rate`.
    public var samples: [Int16]
    /// Constant within one request.
    public var rate: SampleRate

    /// Creates a chunk.
    public init(samples: [Int16], rate: SampleRate) {
        self.samples = samples
        self.rate = rate
    }
}

/// Turns text into speech.
public protocol SpeechSynthesizer: Sendable {
    /// Speaks a clause: calls `emit` for every run of samples, returns at the end.
    /// - Throws: an `AgentError`; the response fails and the session lives on.
    func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws
}
