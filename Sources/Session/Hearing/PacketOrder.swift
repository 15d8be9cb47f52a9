// Finds missing packets in a numbered stream. The numbers have 16 bits and wrap around; they are
// judged by RFC 3550 §A.1. OpusInput fills in for a missing packet.

/// The order of one stream's packets.
struct PacketOrder {
    /// The place of a packet in its stream.
    enum Place: Equatable {
        /// The next packet, and how many before it did not come.
        case next(missing: Int)
        /// A duplicate, or one whose place has been filled already.
        case late
    }

    /// The longest gap, in packets. 3,000: a minute. Beyond that, the sender has restarted.
    static let maxMissing = 3_000
    /// How late a packet may be, in packets. 100: two seconds. Beyond that, the sender has
    /// restarted.
    static let maxLateness = 100

    /// The number that the next packet should have; nil before the first.
    private var expected: UInt16?
    /// The number that would show that the sender has restarted.
    private var restart: UInt16?

    /// A packet has come.
    mutating func handle(_ number: UInt16) -> Place {
        guard let expected else { return begin(at: number) }
        // Read as signed, the difference is the shorter way round.
        let distance = Int(Int16(bitPattern: number &- expected))
        switch distance {
        case 0...Self.maxMissing:
            self.expected = number &+ 1
            restart = nil
            return .next(missing: distance)
        case -Self.maxLateness..<0:
            return .late
        default:
            // One packet may have a wrong number; two in a row mean a restart.
            if number == restart { return begin(at: number) }
            restart = number &+ 1
            return .late
        }
    }

    private mutating func begin(at number: UInt16) -> Place {
        expected = number &+ 1
        restart = nil
        return .next(missing: 0)
    }
}
