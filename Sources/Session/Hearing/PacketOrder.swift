// Which packets of a numbered stream have not come. Numbers of 16 bits that wrap around, judged as
// RFC 3550 §A.1 does. What takes a missing packet's place is OpusInput's business.

/// The order of one stream's packets.
struct PacketOrder {
    /// What a packet is in its stream.
    enum Place: Equatable {
        /// The next one, after so many that did not come.
        case next(missing: Int)
        /// A duplicate, or one whose place has been filled already.
        case late
    }

    /// Missing packets that may still be a gap. 3,000: a minute; beyond, the sender has begun anew.
    static let maxMissing = 3_000
    /// How far back a packet may lie and be late. 100: two seconds; beyond, it has begun anew.
    static let maxLateness = 100

    /// The number that the next packet should have; nil before the first.
    private var expected: UInt16?
    /// The number that would show that the sender has begun anew.
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
            // One packet may have a wrong number; two in a row are a new beginning.
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
