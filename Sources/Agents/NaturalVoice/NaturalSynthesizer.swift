// Speaks with the natural voice: text to clauses of phonemes, and a clause to sound. A clause is one
// job of the worker pool, so that other sessions' jobs run between two of them. It is heard while it is
// made, window by window, and its model's run ends when the task is cancelled.
//
// EmbeddedSynthesizer decides which requests come here.

import Codec
import Session
import Synchronization

/// The natural voice as a synthesiser. It takes about 0.009 s of CPU per second of speech. A clause is
/// at most 7 s of it: 50 ms of work, for which others' jobs wait.
struct NaturalSynthesizer {
    let model: NaturalVoiceModel
    /// What is played faster than it is spoken sounds like another person.
    let rate: SampleRate

    /// Speaks text. Text without a letter or digit makes no sound.
    /// - Throws: `AgentError.overloaded`, `AgentError.malformedReply`, `CancellationError`, or what
    ///   `emit` throws.
    func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        let range = FliteSynthesizer.speedRange
        let speed =
            min(max(request.speed, range.lowerBound), range.upperBound)
            * Double(NaturalVoiceTable.rate.hertz) / Double(rate.hertz)
        // A slow clause takes longer, so it has fewer phonemes.
        let maxSymbols = Int(Double(Phonemizer.maxClauseSymbols) * min(speed, 1))
        for piece in SpokenText.pieces(of: request.text) {
            // The first clause is spoken by the job that finds the clauses: its sound waits for a
            // thread once.
            let later = Mailbox()
            try await speak(at: speed, on: host, emit: emit) { [model] in
                let clauses = model.phonemizer.clauses(of: piece, maxSymbols: maxSymbols)
                later.clauses.withLock { $0 = Array(clauses.dropFirst()) }
                return clauses.first
            }
            for clause in later.clauses.withLock({ $0 }) {
                try await speak(at: speed, on: host, emit: emit) { clause }
            }
        }
    }

    /// Carries clauses from a job to the task.
    private final class Mailbox: Sendable {
        let clauses = Mutex<[String]>([])
    }

    /// Speaks one clause as one job.
    private func speak(
        at speed: Double, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void,
        clause: @escaping @Sendable () -> String?
    ) async throws {
        let interruption = ONNXInterruption()
        try await withTaskCancellationHandler {
            try await host.compute(
                yielding: { [model] yield in
                    guard let clause = clause() else { return }
                    do throws(ONNXError) {
                        try model.speak(clause, speed: speed, until: interruption, deliver: yield)
                    } catch {
                        guard !interruption.isInterrupted else { throw CancellationError() }
                        throw AgentError.malformedReply(
                            message: "The natural voice made no sound.", detail: error.message)
                    }
                },
                each: { (samples: [Int16]) in
                    try await emit(SpeechChunk(samples: samples, rate: rate))
                })
        } onCancel: {
            interruption.interrupt()
        }
    }
}
