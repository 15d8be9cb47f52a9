// Deterministic signals and measures that the audio tests share.

import Foundation

/// Pseudo-random whole numbers, the same in every run (Marsaglia's xorshift).
struct RepeatableNumbers: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 | 1 }

    mutating func next() -> UInt64 {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return state
    }

    mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: next() >> 24) }
    }
}

/// A sine of `hertz` at `rate` samples per second.
func tone(_ hertz: Double, rate: Int, count: Int, amplitude: Double = 16_000) -> [Int16] {
    (0..<count).map { index in
        let angle = 2 * Double.pi * hertz * Double(index) / Double(rate)
        return Int16((amplitude * sin(angle)).rounded())
    }
}

/// Fits a sine of known frequency to samples, in any phase, and measures the remainder.
struct ToneFit {
    /// The fitted sine's amplitude.
    let amplitude: Double
    /// Power of the fitted sine relative to the remainder, in decibels.
    let signalToNoise: Double

    init(_ samples: some Collection<Int16>, hertz: Double, rate: Int) {
        // Over whole periods sine and cosine are orthogonal, so two projections give the fit.
        let period = Double(rate) / hertz
        let count = Int((Double(samples.count) / period).rounded(.down) * period)
        var (sine, cosine, power) = (0.0, 0.0, 0.0)
        for (index, sample) in samples.prefix(count).enumerated() {
            let angle = 2 * Double.pi * hertz * Double(index) / Double(rate)
            sine += Double(sample) * sin(angle)
            cosine += Double(sample) * cos(angle)
            power += Double(sample) * Double(sample)
        }
        let tonePower = (sine * sine + cosine * cosine) * 2 / Double(count)
        amplitude = (tonePower * 2 / Double(count)).squareRoot()
        signalToNoise = 10 * log10(tonePower / max(power - tonePower, 1))
    }
}

/// The mean square of samples.
func power(_ samples: some Collection<Int16>) -> Double {
    samples.reduce(0) { $0 + Double($1) * Double($1) } / Double(samples.count)
}

/// Cuts a collection into pieces of 1…`largest` elements.
func randomPieces<Element>(
    of elements: [Element], largest: Int, seed: UInt64
) -> [ArraySlice<Element>] {
    var numbers = RepeatableNumbers(seed: seed)
    var pieces: [ArraySlice<Element>] = []
    var rest = elements[...]
    while !rest.isEmpty {
        let piece = rest.prefix(Int.random(in: 1...largest, using: &numbers))
        pieces.append(piece)
        rest = rest.dropFirst(piece.count)
    }
    return pieces
}
