// How much less work a busy shard puts into a packet. The shard measures how busy it is; here is
// the rule. Encoding at complexity 0 takes a quarter of the time that 10 takes.

/// Lowers the complexity of Opus while a shard is busy, and raises it again, slowly, when it is
/// not.
public struct EncodingRelief: Equatable, Sendable {
    /// Above this share of a second less is done at once. 0.75: what is left takes a burst.
    public static let busyShare = 0.75
    /// Above this share nothing is spared any more.
    public static let overloadedShare = 0.9
    /// Below this share more may be done. 0.5: far enough below the other for what the step adds.
    public static let calmShare = 0.5
    /// Calm seconds in a row before a step back. 5: a load that comes and goes is not followed.
    public static let calmSeconds = 5
    /// The most that is taken off: all that Opus has.
    public static let most = 10

    /// What is taken off every session's complexity, 0…`most`.
    public private(set) var reduction = 0
    private var calm = 0

    /// No relief.
    public init() {}

    /// A second has passed, of which the shard was busy this share, 0…1.
    public mutating func handle(busyShare share: Double) {
        if share > Self.overloadedShare {
            reduction = Self.most
            calm = 0
        } else if share > Self.busyShare {
            reduction = min(Self.most, reduction + 2)
            calm = 0
        } else if share < Self.calmShare {
            calm += 1
            guard calm >= Self.calmSeconds else { return }
            calm = 0
            reduction = max(0, reduction - 1)
        } else {
            calm = 0
        }
    }
}
