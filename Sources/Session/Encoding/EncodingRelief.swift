// By how much a busy shard lowers the complexity of Opus. The shard measures how busy it is; this
// file has the rule. Encoding at complexity 0 takes a quarter of the time that 10 takes.

/// Lowers the complexity of Opus while a shard is busy, and raises it again, slowly, when it is
/// not.
public struct EncodingRelief: Equatable, Sendable {
    /// Above this share of a busy second the complexity is lowered at once. 0.75: the rest absorbs
    /// a burst.
    public static let busyShare = 0.75
    /// Above this share the complexity is lowered as far as possible.
    public static let overloadedShare = 0.9
    /// Below this share the complexity may be raised. 0.5: far enough below the other for the work
    /// that a step adds.
    public static let calmShare = 0.5
    /// Calm seconds in a row before the complexity is raised a step. 5: the complexity does not
    /// follow a load that comes and goes.
    public static let calmSeconds = 5
    /// The largest reduction: the whole range of Opus.
    public static let most = 10

    /// The reduction of every session's complexity, 0…`most`.
    public private(set) var reduction = 0
    private var calm = 0

    /// No relief.
    public init() {}

    /// Takes the share of the last second in which the shard was busy, 0…1.
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
