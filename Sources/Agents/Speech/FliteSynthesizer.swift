// The embedded speech synthesis: flite's voices on the worker pool, streamed piece by piece.
// FliteVoice is one voice, FliteVoiceTable has their names, and SpokenText prepares the text.

import CFlite
import Codec
import Session

/// Speaks English offline: 16 kHz, about 0.013 s of CPU per second of speech, the first samples
/// after 14–17 ms. An unknown voice name means the standard voice.
public struct FliteSynthesizer: SpeechSynthesizer {
    /// Supported speaking rates; others are clamped to this range.
    public static let speedRange = 0.25...1.5

    /// Creates a synthesiser. `prepareVoice` or the first request opens the voice.
    public init() {}

    /// Opens the standard voice, and synthesises a word that is discarded. The first word takes 5
    /// to 20 ms more than others, because it loads the voice's tables.
    public func prepareVoice(on host: any AgentHost) async {
        try? await host.compute {
            try FliteVoicePool.withVoice(of: FliteVoiceTable.standard.speaker) { voice in
                _ = voice.speak("ready", speed: 1) { _ in true }
            }
        }
    }

    /// Speaks text. Text without a letter or digit makes no sound.
    /// - Throws: `AgentError.unavailable`, `AgentError.overloaded`, or what `emit` throws.
    public func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        let speed = min(
            max(request.speed, Self.speedRange.lowerBound), Self.speedRange.upperBound)
        let choice = FliteVoiceTable.choice(named: request.voice)
        // A worker does not wait until its sound is consumed. The text of a job therefore bounds
        // the sound that it makes: one piece each, and a shorter one where the voice is slow.
        let pieceBytes = Int(Double(SpokenText.maxPieceBytes) * min(speed, 1))
        for piece in SpokenText.pieces(of: request.text, maxBytes: pieceBytes) {
            try await host.compute(
                yielding: { yield in
                    try FliteVoicePool.withVoice(of: choice.speaker) { voice in
                        _ = voice.speak(piece, speed: speed, pitch: choice.pitch) {
                            yield([Int16]($0))
                        }
                    }
                },
                each: { (samples: [Int16]) in
                    try await emit(SpeechChunk(samples: samples, rate: .hz16000))
                })
        }
    }
}
