// The sound of a clause of the natural voice, window by window. The arithmetic is CVoiceSignal's;
// NaturalVoiceModel makes the spectra.

import CVoiceSignal

/// The kernels of CVoiceSignal.
enum VoiceKernel: CaseIterable {
    /// What every processor has.
    case baseline
    /// AVX2 and FMA.
    case avx2
    /// AVX-512F.
    case avx512

    /// Whether this processor can run it.
    var isAvailable: Bool { voice_kernel_is_available(value) }

    /// The widest that this processor can run.
    static let best = allCases.last(where: \.isAvailable) ?? baseline

    fileprivate var value: voice_kernel {
        switch self {
        case .baseline: VOICE_BASELINE
        case .avx2: VOICE_AVX2
        case .avx512: VOICE_AVX512
        }
    }
}

/// What the transforms read. 150 KB, made with the first clause and never freed.
private struct VoiceTables: @unchecked Sendable {
    let values: UnsafePointer<voice_tables>

    static let shared: VoiceTables = {
        let tables = UnsafeMutablePointer<voice_tables>.allocate(capacity: 1)
        voice_fill_tables(tables)
        return VoiceTables(values: UnsafePointer(tables))
    }()
}

/// The sound of a clause at 24 kHz. One thread uses it.
struct VoiceSignal: ~Copyable {
    /// Samples of a frame: 12.5 ms.
    static let frameSamples = Int(VOICE_HOP)
    /// Frames of a window. 16, 200 ms: about 0.2 ms of CPU, after which a cancellation takes effect.
    /// A kernel computes up to as many at once.
    static let windowFrames = 16
    /// The sound begins half a transform before the first frame.
    private static let lead = Int(VOICE_WINDOW) / 2
    /// Samples that the next frames add to.
    private static let overlap = Int(VOICE_WINDOW) - frameSamples

    private let kernel: VoiceKernel
    private let clause: voice_clause
    /// Own the memory of the clause.
    private let owners: [ONNXTensor]
    private let random: UInt64
    private var pulses: [Float]
    private var open = [Float](repeating: 0, count: overlap)
    private var frame = 0

    /// Begins the sound of a clause.
    /// - Parameters:
    ///   - clause: its pointers are valid as long as `owners` live, or the caller keeps them.
    ///   - random: chooses the noise.
    /// - Returns: nil where the clause is shorter than 200 ms: it has no sound.
    init?(
        _ clause: voice_clause, of owners: [ONNXTensor] = [], random: UInt64, by kernel: VoiceKernel
    ) {
        guard clause.frames >= Int(VOICE_MIN_FRAMES) else { return nil }
        (self.clause, self.owners, self.random, self.kernel) = (clause, owners, random, kernel)
        let samples = clause.frames * Self.frameSamples
        pulses = [Float](repeating: 0, count: samples + 2 * Int(VOICE_MARGIN))
        withUnsafePointer(to: clause) { voice_pulses(kernel.value, $0, &pulses) }
    }

    /// The samples of the next frames, or nil at the end. All windows together have 300 samples for
    /// each frame.
    mutating func next() -> ArraySlice<Float>? {
        guard frame < clause.frames else { return nil }
        let (first, count) = (frame, min(Self.windowFrames, clause.frames - frame))
        let whole = count * Self.frameSamples
        var sound = open + [Float](repeating: 0, count: whole)
        withUnsafePointer(to: clause) {
            voice_add(
                kernel.value, VoiceTables.shared.values, $0, pulses, first, count,
                random &+ UInt64(first), &sound)
        }
        frame += count
        open = Array(sound[whole...])
        let end = frame == clause.frames ? whole + Self.lead : whole
        return sound[(first == 0 ? Self.lead : 0)..<end]
    }
}
