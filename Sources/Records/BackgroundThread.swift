// A thread of this layer: it does work that the shards must not wait for. Its owner decides what it
// waits for, and how it ends.

import CLinux
import Server
import Synchronization

/// A running thread with a name, which `ps -L` and `top -H` show.
final class BackgroundThread: Sendable {
    /// By how much a thread with long work has a higher niceness than the process, like the
    /// workers: event loops have priority.
    static let addedNiceness: Int32 = 5

    /// The thread, or nil after it was joined.
    private let thread: Mutex<pthread_t?>

    /// Starts it. A process that cannot have another thread at its start ends here.
    /// - Parameters:
    ///   - name: at most 15 bytes.
    ///   - niceness: how much nicer than the process it is, 0 to 19.
    init(
        _ name: StaticString, niceness: Int32 = 0, _ body: @escaping @Sendable () -> Void
    ) {
        let thread = startThread {
            if niceness > 0 { _ = nice(niceness) }
            pthread_setname_np(pthread_self(), "\(name)")
            body()
        }
        guard let thread else { fatalError("the thread \(name) cannot be started") }
        self.thread = Mutex(thread)
    }

    /// Waits for its end. Its owner has told it to end.
    func join() {
        if let thread = thread.withLock({ $0.take() }) { pthread_join(thread, nil) }
    }
}
