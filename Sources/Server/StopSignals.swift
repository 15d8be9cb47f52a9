// SIGTERM and SIGINT as a function call: they are blocked in every thread and taken by one that
// waits for nothing else, so that no handler ever runs in the middle of anything.

import CLinux

/// The signals that ask for an orderly end.
struct StopSignals {
    private static var set: sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, SIGTERM)
        sigaddset(&set, SIGINT)
        return set
    }

    /// Makes a write to a reset connection an error instead of the end of the process.
    static func ignoreBrokenPipes() {
        var action = sigaction()
        // SIG_IGN is a cast, which Swift does not import: the handler with the address 1.
        action.__sigaction_handler.sa_handler = unsafeBitCast(1, to: __sighandler_t?.self)
        sigaction(SIGPIPE, &action, nil)
    }

    /// Blocks them in this thread and those it creates from now on.
    func block() {
        var set = StopSignals.set
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Calls `body` on a thread of its own when the first arrives; the next has its default effect
    /// and ends a process that takes too long.
    func onArrival(_ body: @escaping @Sendable () -> Void) {
        let handover = Unmanaged.passRetained(SignalHandler(body))
        var thread = pthread_t()
        let code = pthread_create(
            &thread, nil,
            { argument in
                let handler = Unmanaged<SignalHandler>.fromOpaque(argument!).takeRetainedValue()
                var set = StopSignals.set
                var number: Int32 = 0
                sigwait(&set, &number)
                handler.body()
                pthread_sigmask(SIG_UNBLOCK, &set, nil)
                sigwaitForever()
                return nil
            }, handover.toOpaque())
        guard code == 0 else { return handover.release() }
        pthread_detach(thread)
    }
}

/// A closure on its way through a C pointer.
private final class SignalHandler: Sendable {
    let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}

/// Keeps the thread that has the signals unblocked alive until the process ends.
private func sigwaitForever() {
    while true { _ = pause() }
}
