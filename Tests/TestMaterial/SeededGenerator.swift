// Random numbers determined by a seed. Every part of a simulation has its own stream, so that an
// additional draw in one part does not shift the others.

/// SplitMix64 (Steele, Lea, Flood 2014): tiny, fast, and good enough to choose faults.
package struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    /// Creates the stream of a seed.
    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// Creates an independent stream for one part of the simulation.
    package mutating func makeStream() -> SeededGenerator { SeededGenerator(seed: next()) }

    /// True with the given probability.
    package mutating func happens(percent: Int) -> Bool {
        percent > 0 && Int.random(in: 0..<100, using: &self) < percent
    }
}
