// Random numbers that a seed decides. Every part of a simulation has a stream of its own, so that
// one more draw in one part does not shift the others.

/// SplitMix64 (Steele, Lea, Flood 2014): tiny, fast, and good enough to choose faults.
package struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    /// Starts the stream of a seed.
    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// A stream for one part of the simulation.
    package mutating func makeStream() -> SeededGenerator { SeededGenerator(seed: next()) }

    /// True so many times out of a hundred.
    package mutating func happens(percent: Int) -> Bool {
        percent > 0 && Int.random(in: 0..<100, using: &self) < percent
    }
}
