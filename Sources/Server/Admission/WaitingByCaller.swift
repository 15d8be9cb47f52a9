// Sessions and connections of a shard that take something without being used, by caller: sessions
// that wait for their client (ShardWaiting), and telephone lines whose call has not begun
// (ShardTelephony). They are evicted first: where a place or memory is needed, one of them ends,
// from the caller that has the most.
//
// Invariant: a caller without any has no entry.

/// The waiting sessions, or the waiting lines, of one shard.
struct WaitingByCaller {
    /// How many end in one look at the memory. 64: the tick stays short, and another look goes on.
    static let mostAtOnce = 64

    /// By caller: when each began to wait, as a number that only grows.
    private var times: [CallerTag: [EventToken: UInt64]] = [:]
    private var nextTime: UInt64 = 0
    /// How many of one caller wait at most.
    private let share: Int
    /// How many wait.
    private var count = 0

    /// - Parameter share: how many of one caller wait at most.
    init(share: Int) { self.share = share }

    /// Adds a session that begins to wait.
    mutating func insert(_ token: EventToken, of caller: CallerTag) {
        times[caller, default: [:]][token] = nextTime
        nextTime += 1
        count += 1
    }

    /// Removes a session that waits no longer.
    mutating func remove(_ token: EventToken, of caller: CallerTag) {
        guard times[caller]?.removeValue(forKey: token) != nil else { return }
        count -= 1
        if times[caller]?.isEmpty == true { times[caller] = nil }
    }

    /// The session that ends before another of the caller may wait, or nil where the caller has
    /// less than its share.
    func beyondShare(of caller: CallerTag) -> EventToken? {
        guard let own = times[caller], own.count >= share else { return nil }
        return Self.oldest(of: own)
    }

    /// The session that ends where too many wait, so that one of this caller may wait. It is the
    /// oldest of the caller that has the most, if that caller has more than this one would then
    /// have.
    func surplus(for caller: CallerTag) -> EventToken? {
        // Where each has one, none has too many.
        guard count > times.count, let most = most(by: { $0.count }),
            most.count > (times[caller]?.count ?? 0) + 1
        else { return nil }
        return Self.oldest(of: most)
    }

    /// The session that ends where a place is needed: the oldest of the caller with the most.
    var first: EventToken? { most { $0.count }.flatMap(Self.oldest) }

    /// Those that end where memory is needed: the oldest ones of the caller whose sessions take the
    /// most.
    /// - Parameters:
    ///   - bytes: how much is needed. Together they may take less.
    ///   - size: the bytes of one session.
    func first(taking bytes: Int, size: (EventToken) -> Int) -> [EventToken] {
        let holders = times.values.map { own in
            (bytes: own.keys.reduce(0) { $0 + size($1) }, own: own)
        }
        var taken: [EventToken] = []
        var left = bytes
        // If callers have equal bytes, the one with the oldest session comes first: a dictionary's
        // order differs from process to process.
        for holder in holders.sorted(by: {
            ($0.bytes, $1.own.values.min() ?? 0) > ($1.bytes, $0.own.values.min() ?? 0)
        }) {
            for (token, _) in holder.own.sorted(by: { $0.value < $1.value }) {
                guard left > 0, taken.count < Self.mostAtOnce else { return taken }
                taken.append(token)
                left -= size(token)
            }
        }
        return taken
    }

    private func most(by count: ([EventToken: UInt64]) -> Int) -> [EventToken: UInt64]? {
        times.values.max {
            (count($0), $1.values.min() ?? 0) < (count($1), $0.values.min() ?? 0)
        }
    }

    private static func oldest(of sessions: [EventToken: UInt64]) -> EventToken? {
        sessions.min { $0.value < $1.value }?.key
    }
}
