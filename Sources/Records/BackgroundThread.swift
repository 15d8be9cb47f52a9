// A thread of this layer: it does what the shards must not wait for. Its owner decides what it waits for,
// and how it ends.

import CLinux
import Server
import Synchronization

/// A running thread with a name, which `ps -L` and `top -H` show.
final class BackgroundThread: Sendable {
    /// How much nicer than the process a thread is whose work is long, as workers are: event loops have
    /// priority.
    static let addedNiceness: Int32 = 5

    /// Nil: it was joined.
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
