// Decides which windows need no voice activity network, so that silence costs next to nothing.
// GatedVoiceActivity runs the network.
//
// The gate errs towards computing. It closes only after the network itself has judged the sound as
// silence. It opens at the first window that is louder than that silence in any of three bands.
//
//   open ── `windowsToClose` silences in a row, and a window within the floor ──▶ closed
//   closed ── a window above the floor, or speech at a recheck ──▶ open

/// Mean squares of a window in three bands. A band is the part that a difference of samples lets
/// pass: the energy of speech may hide below that of a rumble, but not in all three.
struct WindowEnergy: Equatable {
    /// Everything, above about 300 Hz, above about 2 kHz; the fourth lane is unused.
    let bands: SIMD4<Float>

    /// The distance of the samples in each of the two differences.
    private static let (farther, nearer) = (8, 1)

    /// Measures a window of a multiple of eight samples, at least sixteen; about 0.1 µs.
    init(_ window: UnsafeBufferPointer<Int16>) {
        let bytes = UnsafeRawBufferPointer(window)
        func eight(_ index: Int) -> SIMD8<Float> {
            SIMD8(bytes.loadUnaligned(fromByteOffset: 2 * index, as: SIMD8<Int16>.self))
        }
        var whole = SIMD8<Float>.zero
        var middle = SIMD8<Float>.zero
        var upper = SIMD8<Float>.zero
        for index in stride(from: Self.farther, to: window.count, by: 8) {
            let now = eight(index)
            let slow = now - eight(index - Self.farther)
            let fast = now - eight(index - Self.nearer)
            whole += now * now
            middle += slow * slow
            upper += fast * fast
        }
        let scale = 1 / Float(window.count - Self.farther)
        bands = SIMD4(whole.sum(), middle.sum(), upper.sum(), 0) * scale
    }
}

/// Decides which windows of one stream need no network. A copy is independent.
struct VoiceActivityGate {
    /// The decision about a window.
    enum Decision: Equatable {
        /// The window may hold speech.
        case compute
        /// The window holds no speech, but it is time to check that with the network.
        case recheck
        /// The window holds no speech.
        case skip
    }

    /// Windows in a row that the network must have called silence before the gate closes. 8: by
    /// then its memory hardly moves, so that it may stand still.
    static let windowsToClose: UInt8 = 8
    /// One of this many skipped windows is computed all the same: an error of the gate is found
    /// within half a second, for a sixteenth of the cost.
    static let windowsToRecheck: UInt8 = 16
    /// The probability below which the network's answer counts as silence here; the lowest
    /// threshold in use is three times as high.
    static let silence: Float = 0.1
    /// A mean square that no speech falls below: an amplitude of 2 in 32,768, -84 dB.
    static let inaudible: Float = 4
    /// How much louder than the floor a silent window may be, per band: 1.5 dB.
    static let margin: Float = 1.4
    /// The same where the packets say that their sender heard no voice: 6 dB.
    static let trustedMargin: Float = 4
    /// The part of the distance by which the floor goes up per window that the network calls
    /// silence. A tenth: the first windows of speech, before the network notices it, hardly lift
    /// the floor.
    static let rise: Float = 0.1
    /// The part of the distance by which the floor goes down. Half: the quieter of a noise's levels
    /// counts.
    static let fall: Float = 0.5

    /// The loudest silence so far; infinite before any.
    private var floor = SIMD4<Float>(repeating: .infinity)
    /// Silences in a row, up to `windowsToClose`.
    private var silentWindows: UInt8 = 0
    /// Windows since the last one that was computed.
    private var skippedWindows: UInt8 = 0

    /// Decides about a stream's next window.
    /// - Parameter senderHeardNothing: whether its packets are marked as silence.
    mutating func decide(_ energy: WindowEnergy, senderHeardNothing: Bool) -> Decision {
        guard silentWindows >= Self.windowsToClose,
            isQuiet(energy.bands, senderHeardNothing: senderHeardNothing)
        else { return .compute }
        guard skippedWindows < Self.windowsToRecheck else { return .recheck }
        skippedWindows += 1
        return .skip
    }

    private func isQuiet(_ bands: SIMD4<Float>, senderHeardNothing: Bool) -> Bool {
        if bands[0] <= Self.inaudible { return true }
        return all(bands .<= floor * (senderHeardNothing ? Self.trustedMargin : Self.margin))
    }

    /// Learns from a window that was computed.
    mutating func handle(probability: Float, of energy: WindowEnergy) {
        skippedWindows = 0
        guard probability < Self.silence else {
            silentWindows = 0
            return
        }
        silentWindows = min(silentWindows + 1, Self.windowsToClose)
        let before = floor[0].isInfinite ? energy.bands : floor
        let change = energy.bands - before
        let pace = SIMD4(repeating: Self.rise).replacing(with: Self.fall, where: change .< 0)
        floor = before + change * pace
    }
}
