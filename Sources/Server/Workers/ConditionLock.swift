// A mutex with a condition, for the few threads beside the shards that must wait for work. Shards never
// wait for its condition: they lock it for the length of a queue operation only.

import CLinux
import Session

/// A pthread mutex and one condition. Not recursive.
package final class ConditionLock: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>

    /// Creates an unlocked mutex.
    package init() {
        mutex = .allocate(capacity: 1)
        condition = .allocate(capacity: 1)
        precondition(pthread_mutex_init(mutex, nil) == 0)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        // A change of the time of day must not change how long a thread waits.
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        precondition(pthread_cond_init(condition, &attributes) == 0)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    /// Runs `body` while no other thread is in a `withLock` of this lock.
    package func withLock<Result, Failure: Error>(
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body()
    }

    /// Unlocks until the condition is signalled; may also return without a signal.
    /// - Precondition: the caller is inside `withLock`.
    package func wait() { pthread_cond_wait(condition, mutex) }

    /// Waits like `wait()`, for this time at most.
    /// - Precondition: the caller is inside `withLock`.
    package func wait(atMost limit: Duration) {
        let end = MonotonicClock.now + limit
        var time = timespec(
            tv_sec: Int(end.nanoseconds / 1_000_000_000),
            tv_nsec: Int(end.nanoseconds % 1_000_000_000))
        pthread_cond_timedwait(condition, mutex, &time)
    }

    /// Wakes one waiting thread.
    package func signal() { pthread_cond_signal(condition) }

    /// Wakes all waiting threads.
    package func broadcast() { pthread_cond_broadcast(condition) }
}
