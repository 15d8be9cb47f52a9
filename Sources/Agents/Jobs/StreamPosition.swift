// A place in a stream of Redis: the id of an entry. It orders entries; Redis makes the ids.

/// The id of a stream's entry: milliseconds and a number.
struct StreamPosition: Comparable, Sendable, LosslessStringConvertible {
    /// Where a reply stream begins: the scripts make it with an entry of this id, and remove that.
    static let start = StreamPosition(milliseconds: 0, number: 1)

    let milliseconds: UInt64
    let number: UInt64

    private init(milliseconds: UInt64, number: UInt64) {
        self.milliseconds = milliseconds
        self.number = number
    }

    /// Reads `1763894400000-0`; nil for any other text.
    init?(_ description: String) {
        let halves = description.split(separator: "-", omittingEmptySubsequences: false)
        guard halves.count == 2, let milliseconds = UInt64(halves[0]),
            let number = UInt64(halves[1])
        else { return nil }
        self.init(milliseconds: milliseconds, number: number)
    }

    var description: String { "\(milliseconds)-\(number)" }

    static func < (one: Self, other: Self) -> Bool {
        (one.milliseconds, one.number) < (other.milliseconds, other.number)
    }
}
