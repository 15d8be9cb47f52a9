// A voice for tests whose audio must last: what it says takes 60 ms a character, all of it at once.

import Session

/// Speaks 60 ms a character.
protocol SlowSpeaker: SpeechSynthesizer {}

extension SlowSpeaker {
    func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        for _ in request.text {
            let samples = [Int16](repeating: 1_000, count: 16 * 60)
            try await emit(SpeechChunk(samples: samples, rate: .hz16000))
        }
    }
}
