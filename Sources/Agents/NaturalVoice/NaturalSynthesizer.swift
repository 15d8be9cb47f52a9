// Speaks with the natural voice: text to clauses of phonemes, a clause to frames, and the frames to
// sound, window by window. Each window is a job of its own on the worker pool, so that other
// sessions' jobs run between two of them, and a cancellation takes effect there.
//
// EmbeddedSynthesizer decides which requests come here.

import Codec
import Session

/// The natural voice as a synthesiser. It takes about 0.12 s of CPU per second of speech.
struct NaturalSynthesizer: SpeechSynthesizer {
    /// Unicode scalars of a clause at speed 1, at most. 240: about 12 s of speech. The encoder works
    /// on a whole clause before its first sound.
    static let maxClauseSymbols = 240
    /// Samples of 20 ms. Runs are whole multiples of it, so that their length is exact on the
    /// timeline of 48 kHz.
    private static let grain = NaturalVoiceModel.rate.samples(inMilliseconds: 20)

    let voice: NaturalVoice

    /// Loads the voice on a worker thread.
    func prepareVoice(on host: any AgentHost) async {
        try? await host.compute { _ = try voice.model() }
    }

    /// Speaks text. Text without a letter or digit makes no sound.
    /// - Throws: `AgentError.unavailable`, `AgentError.overloaded`, `AgentError.malformedReply`, or
    ///   what `emit` throws.
    func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        let range = FliteSynthesizer.speedRange
        let speed = min(max(request.speed, range.lowerBound), range.upperBound)
        // A slow clause has more frames, so it has fewer phonemes.
        let maxSymbols = Int(Double(Self.maxClauseSymbols) * min(speed, 1))
        for piece in SpokenText.pieces(of: request.text) {
            // One job for all that comes before the first sound, which waits for a thread once.
            let (begun, later) = try await host.compute { [self] in
                let clauses = try FliteVoicePool.withVoice(of: FliteVoiceTable.standard.speaker) {
                    PhonemeRules.clauses(of: $0.analyse(piece), maxSymbols: maxSymbols)
                }
                return (
                    try clauses.first.map { try begin($0, speed: speed) }, clauses.dropFirst()
                )
            }
            guard let begun else { continue }
            try await speak(begun, on: host, emit: emit)
            for clause in later {
                let begun = try await host.compute { try begin(clause, speed: speed) }
                try await speak(begun, on: host, emit: emit)
            }
        }
    }

    /// A clause whose first window has become sound.
    private struct BegunClause {
        let frames: VoiceFrames
        let sound: [Int16]
    }

    /// Encodes a clause, and decodes its first window. Call it on a worker thread.
    private func begin(_ clause: String, speed: Double) throws(AgentError) -> BegunClause {
        let model = try voice.model()
        return try Self.reportingFailure { () throws(ONNXError) in
            let frames = try model.frames(of: clause, speed: speed)
            var windows = DecodingWindows(frames: frames.count)
            guard let window = windows.next() else { return BegunClause(frames: frames, sound: []) }
            return BegunClause(frames: frames, sound: try model.sound(of: window, in: frames))
        }
    }

    /// Decodes the other windows of a clause, and emits all of them.
    private func speak(
        _ clause: BegunClause, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        let frames = clause.frames
        host.charge(frames.bytes)
        defer { host.charge(-frames.bytes) }
        var rest: [Int16] = []
        try await Self.emit(clause.sound, after: &rest, emit)
        for window in DecodingWindows(frames: frames.count).dropFirst() {
            let sound = try await host.compute { [voice] in
                let model = try voice.model()
                return try Self.reportingFailure { () throws(ONNXError) in
                    try model.sound(of: window, in: frames)
                }
            }
            try await Self.emit(sound, after: &rest, emit)
        }
        if !rest.isEmpty {
            try await emit(SpeechChunk(samples: rest, rate: NaturalVoiceModel.rate))
        }
    }

    /// Emits whole multiples of 20 ms, and keeps the rest for the next window.
    private static func emit(
        _ sound: [Int16], after rest: inout [Int16],
        _ emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        var samples = rest + sound
        let whole = samples.count - samples.count % grain
        rest = Array(samples[whole...])
        samples.removeLast(samples.count - whole)
        if !samples.isEmpty {
            try await emit(SpeechChunk(samples: samples, rate: NaturalVoiceModel.rate))
        }
    }

    private static func reportingFailure<Result>(
        _ body: () throws(ONNXError) -> Result
    ) throws(AgentError) -> Result {
        do throws(ONNXError) { return try body() } catch {
            throw .malformedReply(
                message: "The natural voice made no sound.", detail: error.message)
        }
    }
}
