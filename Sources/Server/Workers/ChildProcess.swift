// A program that the server runs and exchanges lines with: MCP servers over stdio. One thread for
// each, because there are few of them, all shards share them, and no other part of the server waits
// for a child. Agents/MCPStdio parses the lines.
//
// Invariants: at most one child lives at a time, and it has been waited for before the next starts.
// Between two starts of a program that fails is a pause, which doubles from 1 s to 60 s.

import Agents
import CLinux
import Session

/// Runs a command, and restarts it when it is needed after its end.
public final class ChildProcess: LineProgram, @unchecked Sendable {
    /// Bytes of one line of the child. 4 MiB: four times the most that is kept of an answer.
    private static let maxLineBytes = 4 << 20
    /// Bytes that wait for the child to read them.
    private static let maxQueuedBytes = 4 << 20
    /// A child that has lived for this long did not fail at its start.
    private static let settledNanoseconds: Int64 = 60_000_000_000
    private static let longestPause: Int64 = 60_000_000_000
    /// The variables of our environment that a child gets: others may contain the server's keys.
    private static let inherited = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER"]

    private let command: [String]
    private let environment: [String]
    private let firstPause: Int64
    private let handler: @Sendable (LineProgramEvent) -> Void
    /// Guards everything below; signalled when the program is to start or to end.
    private let lock = ConditionLock()
    private var isWanted = false
    private var isRunning = false
    private var isStopping = false
    private var thread: pthread_t?
    private var queued: [[UInt8]] = []
    private var queuedBytes = 0
    private var pause: Int64 = 0
    private var heldBackUntil: Int64 = 0
    /// Wakes the thread out of `poll`.
    private let wakeup: Int32

    /// Prepares a program; it starts when it is first needed.
    /// - Parameters:
    ///   - command: the program, looked up in `PATH`, and its arguments.
    ///   - environment: `NAME=value`, beside the usual few names.
    ///   - firstPause: the pause before the second start. 1 s: a program that was killed is back
    ///     soon, and one that always fails costs little.
    public init(
        command: [String], environment: [String], firstPause: Duration = .seconds(1),
        handler: @escaping @Sendable (LineProgramEvent) -> Void
    ) {
        precondition(!command.isEmpty)
        self.command = command
        self.environment = environment
        self.firstPause = firstPause.wholeNanoseconds
        self.handler = handler
        wakeup = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    }

    deinit { if wakeup >= 0 { close(wakeup) } }

    /// Starts the program, unless it runs.
    public func start() throws {
        try lock.withLock {
            guard !isStopping, wakeup >= 0 else {
                throw AgentError.unavailable(message: "The server is stopping.")
            }
            guard !isRunning, !isWanted else { return }
            guard Self.now >= heldBackUntil else {
                throw AgentError.unavailable(
                    message: "The tool server has failed and is started again in a moment.")
            }
            if thread == nil { thread = startThread { [self] in runChildren() } }
            isWanted = thread != nil
            lock.signal()
        }
    }

    /// Sends a line to a program that runs.
    public func send(_ line: [UInt8]) throws {
        try lock.withLock {
            // A child that has ended reads no line; the callers that wait for its answers get its
            // end.
            guard isRunning else { return }
            guard queuedBytes + line.count < Self.maxQueuedBytes else {
                throw AgentError.overloaded
            }
            queued.append(line + [0x0A])
            queuedBytes += line.count + 1
        }
        wake()
    }

    /// Ends the program for good; returns once it has ended.
    public func stop() {
        let ending = lock.withLock { () -> pthread_t? in
            isStopping = true
            lock.broadcast()
            return thread.take()
        }
        wake()
        if let ending { pthread_join(ending, nil) }
    }

    private func wake() {
        var one: UInt64 = 1
        _ = write(wakeup, &one, 8)
    }

    private static var now: Int64 { MonotonicClock.now.nanoseconds }

    // MARK: The thread

    private func runChildren() {
        pthread_setname_np(pthread_self(), "child")
        while waitUntilWanted() {
            let started = Self.now
            let reason: String
            if let child = SpawnedChild(command, environment: childEnvironment()) {
                lock.withLock { isRunning = true }
                handler(.started)
                reason = converse(with: child)
                child.end()
            } else {
                reason = "cannot be started: \(command[0])"
            }
            lock.withLock { noteEnd(started: started) }
            handler(.ended(reason: reason))
        }
    }

    private func waitUntilWanted() -> Bool {
        lock.withLock {
            while !isWanted, !isStopping { lock.wait() }
            return !isStopping
        }
    }

    private func noteEnd(started: Int64) {
        isWanted = false
        isRunning = false
        queued = []
        queuedBytes = 0
        let end = Self.now
        let hasSettled = end - started >= Self.settledNanoseconds
        pause = hasSettled || pause == 0 ? firstPause : min(pause * 2, Self.longestPause)
        heldBackUntil = end + pause
    }

    private func childEnvironment() -> [String] {
        Self.inherited.compactMap { name in
            getenv(name).map { "\(name)=\(String(cString: $0))" }
        } + environment
    }

    /// Passes lines on until the child ends, exceeds a limit, or is stopped.
    /// - Returns: why it ended.
    private func converse(with child: SpawnedChild) -> String {
        var line: [UInt8] = []
        var unsent: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            if lock.withLock({ isStopping }) { return "the server is stopping" }
            if unsent.isEmpty { unsent = takeQueued() }
            if !unsent.isEmpty {
                let count = write(child.input, unsent, unsent.count)
                if count > 0 { unsent.removeFirst(count) }
                if count < 0, parley_errno() != EAGAIN, parley_errno() != EINTR {
                    return "it has closed its input"
                }
            }
            var watched = [
                pollfd(fd: child.output, events: Int16(POLLIN), revents: 0),
                pollfd(fd: wakeup, events: Int16(POLLIN), revents: 0),
                pollfd(fd: unsent.isEmpty ? -1 : child.input, events: Int16(POLLOUT), revents: 0),
            ]
            guard poll(&watched, 3, -1) > 0 else { continue }
            if watched[1].revents != 0 {
                var count: UInt64 = 0
                _ = read(wakeup, &count, 8)
            }
            guard watched[0].revents != 0 else { continue }
            let count = read(child.output, &buffer, buffer.count)
            if count == 0 { return "it has ended" }
            guard count > 0 else { continue }
            guard pass(buffer[..<count], &line) else { return "it wrote too long a line" }
        }
    }

    private func takeQueued() -> [UInt8] {
        lock.withLock {
            defer {
                queued = []
                queuedBytes = 0
            }
            return Array(queued.joined())
        }
    }

    private func pass(_ bytes: ArraySlice<UInt8>, _ line: inout [UInt8]) -> Bool {
        var rest = bytes
        while let end = rest.firstIndex(of: 0x0A) {
            line += rest[..<end]
            if !line.isEmpty { handler(.line(line)) }
            line = []
            rest = rest[(end + 1)...]
        }
        line += rest
        return line.count <= Self.maxLineBytes
    }
}

/// A child that has been started, and our ends of its pipes.
private struct SpawnedChild {
    let process: pid_t
    /// The pipe to the child.
    let input: Int32
    /// The pipe from the child.
    let output: Int32

    /// Starts a command; nil where that fails. It shares our standard error, so that the operator
    /// sees its messages.
    init?(_ command: [String], environment: [String]) {
        var toChild: [Int32] = [-1, -1]
        var fromChild: [Int32] = [-1, -1]
        guard pipe2(&toChild, O_CLOEXEC) == 0 else { return nil }
        guard pipe2(&fromChild, O_CLOEXEC) == 0 else {
            for end in toChild { close(end) }
            return nil
        }
        var actions = posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawnattr_init(&attributes)
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
            close(toChild[0])
            close(fromChild[1])
        }
        posix_spawn_file_actions_adddup2(&actions, toChild[0], 0)
        posix_spawn_file_actions_adddup2(&actions, fromChild[1], 1)
        // libcurl's sockets are not closed on exec: the child would keep connections to services
        // open.
        posix_spawn_file_actions_addclosefrom_np(&actions, 3)
        // A process group of its own: a terminal's Ctrl-C ends the server, which then ends the
        // child, with the processes that the child has started.
        var none = sigset_t()
        var all = sigset_t()
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setflags(
            &attributes,
            Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        var process: pid_t = 0
        let result = withCStrings(command) { arguments in
            withCStrings(environment) { environment in
                posix_spawnp(
                    &process, command[0], &actions, &attributes, arguments, environment)
            }
        }
        guard result == 0 else {
            close(toChild[1])
            close(fromChild[0])
            return nil
        }
        _ = parley_own_descriptor(toChild[1])
        _ = parley_own_descriptor(fromChild[0])
        self.process = process
        input = toChild[1]
        output = fromChild[0]
    }

    /// Ends the child: by the end of its input, after half a second by SIGTERM, after another half
    /// by SIGKILL. Waits for it.
    func end() {
        close(input)
        close(output)
        for signal in [0, SIGTERM] {
            if signal != 0 { kill(-process, signal) }
            for _ in 0..<50 {
                // As process 1 the server may have taken its status already (ServerSignals): -1.
                if waitpid(process, nil, WNOHANG) != 0 {
                    // The processes that it has started must not outlive it.
                    kill(-process, SIGKILL)
                    return
                }
                _ = poll(nil, 0, 10)
            }
        }
        kill(-process, SIGKILL)
        waitpid(process, nil, 0)
    }
}

/// Calls `body` with a null-terminated array of C strings.
private func withCStrings<Result>(
    _ texts: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> Result
) -> Result {
    let copies = texts.map { strdup($0) }
    defer { for copy in copies { free(copy) } }
    return body(copies + [nil])
}
