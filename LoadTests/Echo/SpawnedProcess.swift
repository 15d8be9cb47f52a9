// A child process of the harness, as the kernel knows it. Foundation's Process is not used: it
// learns of an end from a socket, which every other child that starts meanwhile inherits, and then
// waits without end.

import CLinux
import Foundation
import Synchronization

/// How a process has ended.
enum ProcessEnding: Equatable {
    case exit(status: Int32)
    case signal(Int32)

    /// For a report of a failure.
    var account: String {
        switch self {
        case .exit(let status): "ended with status \(status)"
        case .signal(let number): "was ended by signal \(number)"
        }
    }
}

/// A child that has been started. It inherits no descriptor but its three streams, and no signal
/// that this process blocks or ignores.
final class SpawnedProcess: Sendable {
    /// The other end of a stream of the child.
    enum Stream {
        case null
        /// A descriptor of this process.
        case descriptor(Int32)
        /// This process's own.
        case inherited
    }

    let identifier: pid_t
    private let known = Mutex<ProcessEnding?>(nil)

    /// Starts a program.
    /// - Parameter command: its path, and its arguments.
    /// - Throws: `LoadFailure` when it cannot be started.
    init(
        _ command: [String], input: Stream, output: Stream, errors: Stream
    ) throws(LoadFailure) {
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
        }
        for (number, stream) in [(STDIN_FILENO, input), (STDOUT_FILENO, output), (2, errors)] {
            switch stream {
            case .null:
                posix_spawn_file_actions_addopen(&actions, number, "/dev/null", O_RDWR, 0)
            case .descriptor(let descriptor):
                posix_spawn_file_actions_adddup2(&actions, descriptor, number)
            case .inherited: break
            }
        }
        posix_spawn_file_actions_addclosefrom_np(&actions, 3)
        var none = sigset_t()
        var all = sigset_t()
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        var words: [UnsafeMutablePointer<CChar>?] = command.map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        var process: pid_t = 0
        let status = posix_spawn(
            &process, command[0], &actions, &attributes, &words, parley_environment())
        guard status == 0 else {
            throw LoadFailure("cannot start \(command[0]): \(String(cString: strerror(status)))")
        }
        identifier = process
    }

    /// How it has ended; nil while it runs.
    var ending: ProcessEnding? {
        known.withLock { known in
            if known == nil { known = poll() }
            return known
        }
    }

    /// Waits until it has ended by itself.
    /// - Parameter seconds: the longest wait; nil: without end.
    /// - Returns: how it has ended; nil while it runs.
    @discardableResult
    func awaitEnding(within seconds: Double? = nil) -> ProcessEnding? {
        let deadline = seconds.map { monotonicNanoseconds() + Int64($0 * 1e9) }
        while true {
            if let ending { return ending }
            if let deadline, monotonicNanoseconds() >= deadline { return nil }
            _ = CLinux.poll(nil, 0, 5)
        }
    }

    /// Ends it with SIGTERM, or with SIGKILL when it has not ended a minute later: a server drains
    /// for half as long.
    func terminate() {
        guard ending == nil else { return }
        kill(identifier, SIGTERM)
        guard awaitEnding(within: 60) == nil else { return }
        kill(identifier, SIGKILL)
        awaitEnding()
    }

    /// Asks the kernel.
    private func poll() -> ProcessEnding? {
        var status: Int32 = 0
        let process = waitpid(identifier, &status, WNOHANG)
        guard process == identifier else { return nil }
        let number = status & 0x7F
        return number == 0 ? .exit(status: (status >> 8) & 0xFF) : .signal(number)
    }
}
