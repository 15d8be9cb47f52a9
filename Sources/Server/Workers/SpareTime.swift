// The worker threads' time that is left for work that no client waits for. The jobs that run are
// subtracted from a share of the threads' time, whatever they are for. So the more transcripts are
// made, the fewer words are shown while they are spoken, and above the share none are.
//
// Invariant: the balance is within `reserve` for each thread, above and below zero.

import Session

/// A balance of time that grows as time passes and shrinks as jobs run.
struct SpareTime {
    /// The share of all threads' time up to which there is spare time: one half. A transcript then
    /// finds a thread free at least every second time, whatever is shown to other users.
    static let busyPercent = 50
    /// The highest balance for each thread: 500 ms. It allows a burst of words after a quiet
    /// moment, and forgets an overload within a second.
    static let reserve = Duration.milliseconds(500)

    private let threads: Int
    private var balance: Duration
    private var updated: Instant?

    /// The whole reserve.
    init(threads: Int) {
        self.threads = threads
        balance = Self.reserve * threads
    }

    /// Whether there is time for a job that is not awaited.
    mutating func isLeft(at now: Instant) -> Bool {
        settle(at: now)
        return balance > .zero
    }

    /// Charges the time that a thread has worked.
    mutating func spend(_ time: Duration, at now: Instant) {
        settle(at: now)
        balance = max(balance - time, .zero - Self.reserve * threads)
    }

    private mutating func settle(at now: Instant) {
        let passed = max(.zero, now - (updated ?? now))
        updated = max(now, updated ?? now)
        let gained = passed * (threads * Self.busyPercent) / 100
        balance = min(balance + gained, Self.reserve * threads)
    }
}
