// The place of each address in the table of addresses: a dictionary in many parts, which grow one
// at a time. One dictionary of a million addresses would take a quarter of a second to grow, and
// every shard that accepts a connection would wait for the table's lock.

import Codec

/// Places by address.
struct AddressIndex {
    /// Parts. 256: at a million addresses one has 4,000, and doubles in less than a millisecond.
    private static let partCount = 256
    /// Capacity at which a part that is empty again gives its memory back.
    private static let longCount = 256

    private var parts = [[NetworkAddress: UInt32]](repeating: [:], count: partCount)
    /// The multiplier is secret, so that no client can choose addresses that share a part.
    private let multiplier = UInt64.random(in: .min ... .max) | 1
    /// The number of addresses.
    private(set) var count = 0

    /// Bytes on the heap.
    var heapBytes: Int {
        let stride = MemoryLayout<NetworkAddress>.stride + MemoryLayout<UInt32>.stride
        return parts.reduce(parts.heapBytes) {
            $0 + HeapBlock.dictionary(capacity: $1.capacity, stride: stride)
        }
    }

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
