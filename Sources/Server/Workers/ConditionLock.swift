// A mutex with a condition, for the few places where a thread of the worker pool must wait.
// Shards never wait for its condition: they lock it for the length of a queue operation only.

import CLinux

/// A pthread mutex and one condition. Not recursive.
final class ConditionLock: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let condition: UnsafeMutablePointer<pthread_cond_t>

    init() {
        mutex = .allocate(capacity: 1)
        condition = .allocate(capacity: 1)
        precondition(pthread_mutex_init(mutex, nil) == 0)
        precondition(pthread_cond_init(condition, nil) == 0)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    /// Runs `body` while no other thread is in a `withLock` of this lock.
    func withLock<Result, Failure: Error>(
        _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body()
    }

    /// Unlocks until the condition is signalled; may also return without a signal.
    /// - Precondition: the caller is inside `withLock`.
    func wait() { pthread_cond_wait(condition, mutex) }

    /// Wakes one waiting thread.
    func signal() { pthread_cond_signal(condition) }

    /// Wakes all waiting threads.
    func broadcast() { pthread_cond_broadcast(condition) }
}
