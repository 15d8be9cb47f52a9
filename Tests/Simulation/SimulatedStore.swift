// A store of sessions that several simulated servers share, as they share a Redis server. Tests decide
// whether it answers, and when.

import Session

/// Records of sessions beside all servers.
package final class SimulatedStore {
    /// What the store does with an operation.
    package enum Mood {
        /// It is carried out, and its outcome is known at once.
        case quick
        /// It is carried out; its outcome is told by `answer()`.
        case slow
        /// It fails.
        case away
    }

    package var mood = Mood.quick
    /// Sessions that were written, in order.
    package private(set) var writes: [SessionChange] = []
    /// Writes that were tried.
    package private(set) var attempts = 0
    private let records = MemorySessionRecords(maxBytes: 1 << 30)
    private var untold: [() -> Void] = []

    package init() {}

    /// Records that are kept.
    package var count: Int { records.count }

    /// Loses all records.
    package func lose(_ sessionID: String) {
        for fence in 1...UInt64(10) {
            MemorySessionStore(records, now: { .milliseconds(0) }).remove(sessionID, fence: fence)
        }
    }

    /// Tells the outcomes of operations that were carried out.
    package func answer() {
        let told = untold
        untold = []
        for tell in told { tell() }
    }

    /// The store as a server sees it.
    package func view(_ now: @escaping () -> Instant) -> any SessionStore {
        View(store: self, inner: MemorySessionStore(records, now: now))
    }

    private func carryOut<Outcome>(
        failure: Outcome, _ then: @escaping (Outcome) -> Void,
        _ operation: (@escaping (Outcome) -> Void) -> Void
    ) {
        switch mood {
        case .quick: operation(then)
        case .slow: operation { outcome in self.untold.append { then(outcome) } }
        case .away: then(failure)
        }
    }

    private final class View: SessionStore {
        private let store: SimulatedStore
        private let inner: MemorySessionStore

        init(store: SimulatedStore, inner: MemorySessionStore) {
            (self.store, self.inner) = (store, inner)
        }

        var isShared: Bool { true }
        var isReachable: Bool { store.mood != .away }
        var pendingChanges: Int { store.untold.count }

        func write(_ change: SessionChange, then: @escaping (StoreWriteOutcome) -> Void) {
            store.attempts += 1
            if store.mood != .away { store.writes.append(change) }
            store.carryOut(failure: .failed, then) { inner.write(change, then: $0) }
        }

        func claim(_ claim: SessionClaim, then: @escaping (ClaimOutcome) -> Void) {
            store.carryOut(failure: .unavailable, then) { inner.claim(claim, then: $0) }
        }

        func release(_ sessionID: String, fence: UInt64, lifetime: Duration) {
            guard store.mood != .away else { return }
            inner.release(sessionID, fence: fence, lifetime: lifetime)
        }

        func remove(_ sessionID: String, fence: UInt64) {
            guard store.mood != .away else { return }
            inner.remove(sessionID, fence: fence)
        }
    }
}
