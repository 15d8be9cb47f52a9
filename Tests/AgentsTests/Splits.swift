// Ways to split an answer into the chunks of a network. A parser must give the same result for all.

import Codec
import Testing

enum Splits {
    /// The stream as a whole, byte by byte, and in 20 random splits.
    static func all(of bytes: [UInt8]) -> [[[UInt8]]] {
        var random = SplitMix(state: 42)
        var ways = [[bytes], bytes.map { [$0] }]
        for _ in 0..<20 {
            var way: [[UInt8]] = []
            var rest = bytes[...]
            while !rest.isEmpty {
                let count = Int.random(in: 1...min(40, rest.count), using: &random)
                way.append(Array(rest.prefix(count)))
                rest = rest.dropFirst(count)
            }
            ways.append(way)
        }
        return ways
    }

    /// Every way to split a stream in two.
    static func inTwo(_ bytes: [UInt8]) -> [[[UInt8]]] {
        (1..<bytes.count).map { [Array(bytes[..<$0]), Array(bytes[$0...])] }
    }
}
