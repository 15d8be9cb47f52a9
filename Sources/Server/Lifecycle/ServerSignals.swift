// Signals as function calls: they are blocked in every thread, and a thread that waits for nothing
// else takes them, so that no handler ever runs in the middle of anything. ParleyServer
// has what a signal asks of the server; ChildProcess resets the signals of a child where it starts.
//
// Invariant: a blocked signal stays pending until a thread takes it, and several of one number are
// one. A signal that arrives before the server is up is therefore neither lost nor fatal.

import CLinux

/// A set of signals that one thread takes.
public struct ServerSignals: Sendable {
    /// Signals that a server outlives. SIGHUP reads files anew. SIGUSR1 and SIGUSR2 are what log
    /// rotation sends to other servers, whose default effect would end the process.
    static let standing = ServerSignals([SIGHUP, SIGUSR1, SIGUSR2])
    /// Signals that drain a server. SIGQUIT is among them as nginx's graceful end, which its
    /// container images make the stop signal.
    static let ending = ServerSignals([SIGTERM, SIGINT, SIGQUIT])

    /// The signal that the kernel sends the first process of a container when a process that it has
    /// inherited ends.
    static let childEnds = ServerSignals([SIGCHLD])

    /// Milliseconds between two calls for standing signals. 100: a storm of signals then costs ten
    /// reloads a second, as those that arrive meanwhile become one.
    private static let restMilliseconds: Int32 = 100

    private let numbers: [Int32]

    private init(_ numbers: [Int32]) { self.numbers = numbers }

    private var set: sigset_t {
        var set = sigset_t()
        sigemptyset(&set)
        for number in numbers { sigaddset(&set, number) }
        return set
    }

    /// Makes SIGHUP, SIGUSR1 and SIGUSR2 wait for a server that this process is going to run.
    /// Call it first, before any other thread exists; without it they end a process that still
    /// reads its configuration. SIGTERM and SIGINT keep their default effect until the server runs.
    /// The ends of children wait, too, where this is the first process of a container: a thread that
    /// does not block SIGCHLD would take it, and ignore it.
    public static func deferStanding() {
        standing.block()
        if isFirstProcess { childEnds.block() }
    }

    /// Whether no other process takes the orphans of this one's children.
    static var isFirstProcess: Bool { getpid() == 1 }

    /// Makes a write to a reset connection, and one beyond the limit of file sizes, an error instead of
    /// the end of the process.
    static func ignoreFailedWrites() {
        var action = sigaction()
        // SIG_IGN is a cast, which Swift does not import: the handler with the address 1.
        action.__sigaction_handler.sa_handler = unsafeBitCast(1, to: __sighandler_t?.self)
        sigaction(SIGPIPE, &action, nil)
        sigaction(SIGXFSZ, &action, nil)
    }

    /// Takes the status of every process that has ended. The programs of MCP servers start others, which
    /// become children of process 1 and would stay in the table of processes for ever. `ChildProcess`
    /// needs no status of its own children.
    static func reapOrphans() { while waitpid(-1, nil, WNOHANG) > 0 {} }

    /// Blocks them in this thread and those that it creates from now on.
    func block() {
        var set = set
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    /// Calls `body` on a thread of its own for each signal that arrives, until the process ends.
    /// Several of one number that arrive during a call, or in the pause after it, cause one more
    /// call.
    func onEachArrival(_ body: @escaping @Sendable (_ number: Int32) -> Void) {
        Self.startThread {
            while true {
                if let number = take() { body(number) }
                _ = poll(nil, 0, Self.restMilliseconds)
            }
        }
    }

    /// Calls `body` on a thread of its own when the first arrives. The next has its default effect
    /// and ends a process that takes too long.
    func onFirstArrival(_ body: @escaping @Sendable () -> Void) {
        Self.startThread {
            _ = take()
            body()
            var set = set
            pthread_sigmask(SIG_UNBLOCK, &set, nil)
            // The process needs one thread that has them unblocked.
            while true { _ = pause() }
        }
    }

    /// Waits for one of them, and returns its number.
    private func take() -> Int32? {
        var set = set
        var number: Int32 = 0
        return sigwait(&set, &number) == 0 ? number : nil
    }

    private static func startThread(_ routine: @escaping @Sendable () -> Never) {
        let handover = Unmanaged.passRetained(Routine(routine))
        var thread = pthread_t()
        let code = pthread_create(
            &thread, nil,
            { argument in
                Unmanaged<Routine>.fromOpaque(argument!).takeRetainedValue().run()
            }, handover.toOpaque())
        guard code == 0 else { return handover.release() }
        pthread_detach(thread)
    }

    /// A closure on its way through a C pointer.
    private final class Routine: Sendable {
        let run: @Sendable () -> Never

        init(_ run: @escaping @Sendable () -> Never) { self.run = run }
    }
}
