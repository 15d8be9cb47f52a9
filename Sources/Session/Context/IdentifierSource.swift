// Ids of items, responses, calls and sessions. Their randomness is seeded by the shell, so that a
// simulated session names its things the same in every run.

/// Makes ids such as `item_4fQ2sXb81k`: a five-byte prefix and ten base-62 digits (59 bits), which
/// together fit Swift's inline string, so that an id costs no heap memory.
struct IdentifierSource {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    /// The next random number (SplitMix64).
    private mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// A new id with a prefix such as `item_`.
    mutating func make(_ prefix: StaticString) -> String {
        var bits = next()
        return String(unsafeUninitializedCapacity: prefix.utf8CodeUnitCount + 10) { target in
            for index in 0..<prefix.utf8CodeUnitCount { target[index] = prefix.utf8Start[index] }
            for index in 0..<10 {
                let digit = UInt8(bits % 62)
                bits /= 62
                target[prefix.utf8CodeUnitCount + index] =
                    digit < 10 ? 48 + digit : digit < 36 ? 55 + digit : 61 + digit
            }
            return prefix.utf8CodeUnitCount + 10
        }
    }
}
