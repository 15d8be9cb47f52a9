// SIGHUP as a function call: it is blocked in every thread and taken by one that waits for nothing
// else. Only a server that has something to reload does so; for others the signal keeps its
// default effect, the end, which a closed terminal means.

import CLinux

/// The signal that asks for files to be read anew.
struct ReloadSignal {
    private static var set: sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, SIGHUP)
        return set
    }

    /// Blocks it in this thread and those it creates from now on.
    func block() {
        var set = Self.set
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Calls `body` on a thread of its own each time it arrives, until the process ends. Several
    /// that arrive during one call are one more call.
    func onArrival(_ body: @escaping @Sendable () -> Void) {
        let handover = Unmanaged.passRetained(Handler(body))
        var thread = pthread_t()
        let code = pthread_create(
            &thread, nil,
            { argument in
                let handler = Unmanaged<Handler>.fromOpaque(argument!).takeRetainedValue()
                var set = ReloadSignal.set
                var number: Int32 = 0
                while true {
                    if sigwait(&set, &number) == 0 { handler.body() }
                }
            }, handover.toOpaque())
        guard code == 0 else { return handover.release() }
        pthread_detach(thread)
    }

    /// A closure on its way through a C pointer.
    private final class Handler: Sendable {
        let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
}
