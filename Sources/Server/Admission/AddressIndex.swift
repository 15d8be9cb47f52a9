// Where in the table of addresses each is: a dictionary in many parts, so that its growth costs a
// part at a time. One dictionary of a million addresses takes a quarter of a second to grow, while
// every shard that accepts somebody waits for the table's lock.

import Codec

/// Places by address.
struct AddressIndex {
    /// Parts. 256: at a million addresses one has 4,000, and doubles in less than a millisecond.
    private static let partCount = 256
    /// From how many places on the memory of a part that is empty again is given back.
    private static let longCount = 256

    private var parts = [[NetworkAddress: UInt32]](repeating: [:], count: partCount)
    /// Nobody outside can know which addresses share a part.
    private let multiplier = UInt64.random(in: .min ... .max) | 1
    /// Addresses.
    private(set) var count = 0

    /// The place of an address; nil takes it out.
    subscript(address: NetworkAddress) -> UInt32? {
        get { parts[part(of: address)][address] }
        set {
            let part = part(of: address)
            let before = parts[part].count
            parts[part][address] = newValue
            count += parts[part].count - before
            if parts[part].isEmpty, parts[part].capacity >= Self.longCount { parts[part] = [:] }
        }
    }

    private func part(of address: NetworkAddress) -> Int {
        let mixed = (address.low ^ address.high &* 0x9E37_79B9_7F4A_7C15) &* multiplier
        return Int(mixed >> 56)
    }
}
