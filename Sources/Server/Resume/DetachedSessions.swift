// The sessions of a shard that wait for their clients, by caller. Where there is no room for another
// session, the caller with the most gives one up: a caller that leaves many behind keeps no other one
// out.
//
// Invariant: a caller without any has no entry.

/// The detached sessions of a shard.
struct DetachedSessions {
    /// Sessions that are given up for one that is refused while memory is short. 16: a server is short
    /// until 5% of its memory are free again, which one session seldom is.
    static let givenUpForMemory = 16

    /// By caller: when each was detached, as a number that only grows.
    private var times: [CallerTag: [EventToken: UInt64]] = [:]
    private var count = 0
    private var nextTime: UInt64 = 0

    /// A session has lost its client.
    mutating func insert(_ token: EventToken, of caller: CallerTag) {
        times[caller, default: [:]][token] = nextTime
        nextTime += 1
        count += 1
    }

    /// A session has its client again, or has ended.
    mutating func remove(_ token: EventToken, of caller: CallerTag) {
        guard times[caller]?.removeValue(forKey: token) != nil else { return }
        count -= 1
        if times[caller]?.isEmpty == true { times[caller] = nil }
    }

    /// The session that makes room for one of a caller: the oldest of the caller with the most, if it
    /// has more than the other would then have.
    func surplus(for caller: CallerTag) -> EventToken? {
        // Where each has one, none has too many.
        guard count > times.count,
            let most = times.values.max(by: { $0.count < $1.count }),
            most.count > (times[caller]?.count ?? 0) + 1
        else { return nil }
        return most.min { $0.value < $1.value }?.key
    }
}
