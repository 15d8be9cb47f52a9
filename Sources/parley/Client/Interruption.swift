// Ctrl-C and SIGTERM for a command that has something to say to its server before it ends: a session
// that can be resumed waits for its client, unless a Close ends it. The command notices the signal
// where it waits. A second signal ends the process at once.

import CLinux
import Glibc
import Synchronization

/// A signal that asks the command to end.
enum Interruption {
    /// The number of the signal; 0: none has come.
    private static let number = Atomic<Int32>(0)
    /// An eventfd that becomes readable with the signal: a signal that comes just before poll(2) would
    /// not end it. -1: signals are not watched.
    private static let event = Atomic<Int32>(-1)

    /// The descriptor to wait for besides a socket. It is negative, which poll(2) ignores, where
    /// there is none.
    static var descriptor: Int32 { event.load(ordering: .relaxed) }

    /// Notices these signals from now on.
    static func watch() {
        number.store(0, ordering: .relaxed)
        event.store(eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)), ordering: .relaxed)
        for signal in [SIGINT, SIGTERM] {
            var action = sigaction()
            action.__sigaction_handler.sa_handler = { Interruption.note($0) }
            // SA_RESETHAND: the second one does what it does without a handler.
            action.sa_flags = SA_RESTART | Int32(bitPattern: 0x8000_0000)
            sigaction(signal, &action, nil)
        }
    }

    /// Runs in the signal's handler.
    private static func note(_ signal: Int32) {
        number.store(signal, ordering: .relaxed)
        var one: UInt64 = 1
        _ = write(descriptor, &one, 8)
    }

    /// - Throws: a `CommandFailure` once a signal has come, once.
    static func check() throws(CommandFailure) {
        let signal = number.exchange(0, ordering: .relaxed)
        guard signal != 0 else { return }
        var count: UInt64 = 0
        _ = read(descriptor, &count, 8)
        // As shells report a program that a signal has ended.
        throw CommandFailure(description: "interrupted", status: 128 + signal)
    }
}
