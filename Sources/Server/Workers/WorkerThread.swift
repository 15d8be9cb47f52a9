// Threads beside the shards': those of the worker pool, and one for each program that is run.

import CLinux

/// Starts a thread to which no signal is delivered: another thread handles them, and a write to a
/// pipe without a reader is an error of the write.
/// - Returns: the thread, to be joined or detached; nil where the system has none.
package func startThread(_ body: @escaping @Sendable () -> Void) -> pthread_t? {
    final class Start {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    // A thread inherits the mask of the thread that starts it.
    var all = sigset_t()
    var previous = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_SETMASK, &all, &previous)
    defer { pthread_sigmask(SIG_SETMASK, &previous, nil) }
    let context = Unmanaged.passRetained(Start(body))
    var thread = pthread_t()
    let result = pthread_create(
        &thread, nil,
        { context in
            Unmanaged<Start>.fromOpaque(context!).takeRetainedValue().body()
            return nil
        }, context.toOpaque())
    guard result == 0 else {
        context.release()
        return nil
    }
    return thread
}
