// The embedded speech synthesis: flite's voices on the worker pool, streamed piece by piece. A
// voice is in FliteVoice, their names in FliteVoiceTable, what can be spoken in SpokenText.

import CFlite
import Codec
import Session
import Synchronization

/// Speaks English offline: 16 kHz, about 0.013 s of CPU per second of speech, the first samples
/// after 14–17 ms. A voice that it does not know is its standard one.
public struct FliteSynthesizer: SpeechSynthesizer {
    /// Speaking rates that are understood; others are brought into this range.
    public static let speedRange = 0.25...1.5

    /// The voices of the process that nobody speaks through, by speaker. As many are made as ever
    /// speak at once, which the worker pool's threads bound; each takes a few kilobytes.
    private static let idle = Mutex<[[VoiceReference]]>(
        Array(repeating: [], count: FliteSpeaker.allCases.count))

    /// Creates a synthesiser; the voice is made ready by `prepareVoice` or the first request.
    public init() {}

    /// Opens the standard voice and says a word with it, unheard: its first word takes 5 to 20 ms
    /// more than the others, while its tables are read.
    public func prepareVoice(on host: any AgentHost) async {
        try? await host.compute {
            try Self.withVoice(of: FliteVoiceTable.standard.speaker) { voice in
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
        // A worker is not held up by whoever takes its sound, so what it makes at once is bounded
        // by its text: a piece each, and shorter ones where the voice is slow.
        let pieceBytes = Int(Double(SpokenText.maxPieceBytes) * min(speed, 1))
        for piece in SpokenText.pieces(of: request.text, maxBytes: pieceBytes) {
            try await host.compute(
                yielding: { yield in
                    try Self.withVoice(of: choice.speaker) { voice in
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

    private static func withVoice(
        of speaker: FliteSpeaker, _ body: (FliteVoice) -> Void
    ) throws {
        let free = idle.withLock { $0[speaker.rawValue].popLast() }
        guard let voice = free?.voice ?? FliteVoice(speaker) else {
            throw AgentError.unavailable(
                message: "Speech synthesis is not installed: install the package flite1-dev.")
        }
        body(voice)
        idle.withLock { $0[speaker.rawValue].append(VoiceReference(voice: voice)) }
    }
}

/// Carries a voice between worker threads; the list that holds it gives it to one at a time.
private struct VoiceReference: @unchecked Sendable {
    let voice: FliteVoice
}
