// An event loop on the test's own thread, with the real clock and one real epoll, for a Redis client
// and a real server. The test turns the loop until a condition is true; nothing sleeps.

import CLinux
import Codec
import Logging
import Session
import Testing

@testable import Server

/// The loop and the client under test.
final class RedisWorld: UpstreamEventLoop {
    private(set) var client: RedisClient!
    let executor: ShardExecutor
    private let epoll = epoll_create1(0)
    private let wakeup: Int32
    private var watched: Set<Int32> = []
    private var timer: Instant?
    /// Called in each turn, as a shard calls its own parts.
    var onTurn: () -> Void = {}

    init(limits: RedisLimits = RedisLimits(), authorities: String? = nil) {
        let wakeup = eventfd(0, Int32(EFD_NONBLOCK))
        self.wakeup = wakeup
        executor = ShardExecutor(wake: { _ = eventfd_write(wakeup, 1) })
        executor.adoptThread()
        _ = parley_epoll_control(epoll, EPOLL_CTL_ADD, wakeup, EPOLLIN.rawValue, UInt64(wakeup))
        client = RedisClient(
            loop: self, executor: executor.task, limits: limits, authorities: authorities,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            drawDelay: { _ in .milliseconds(10) })
    }

    deinit {
        close(epoll)
        close(wakeup)
    }

    /// Descriptors that are watched.
    var watchCount: Int { watched.count }

    // MARK: UpstreamEventLoop

    var now: Instant { MonotonicClock.now }

    func watch(fd: Int32, readable: Bool, writable: Bool) {
        let events = (readable ? EPOLLIN.rawValue : 0) | (writable ? EPOLLOUT.rawValue : 0)
        let operation = watched.insert(fd).inserted ? EPOLL_CTL_ADD : EPOLL_CTL_MOD
        _ = parley_epoll_control(epoll, operation, fd, events, UInt64(fd))
    }

    func unwatch(fd: Int32) {
        watched.remove(fd)
        _ = parley_epoll_control(epoll, EPOLL_CTL_DEL, fd, 0, 0)
    }

    func setUpstreamTimer(at instant: Instant?) { timer = instant }

    // MARK: Running

    /// Turns the loop until a condition is true.
    func run(
        sourceLocation: SourceLocation = #_sourceLocation, until condition: () -> Bool
    ) throws {
        let end = now + HangGuard.duration
        while true {
            executor.runJobs(atMost: 1_000)
            onTurn()
            if client.hasUnsent { client.flush() }
            if condition() { return }
            try #require(now < end, "nothing happens any more", sourceLocation: sourceLocation)
            turn()
        }
    }

    /// Waits for the reply of one command.
    func reply(
        to command: RedisCommand, over link: RedisLink, timeout: Duration? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> Result<RedisValue, RedisError> {
        var outcome: Result<RedisValue, RedisError>?
        try link.send(command, timeout: timeout) { outcome = $0 }
        try run(sourceLocation: sourceLocation) { outcome != nil }
        return try #require(outcome)
    }

    /// A connected link.
    func link(_ url: String, for purpose: String = "test") throws -> RedisLink {
        let link = try client.link(to: try #require(RedisAddress(url)), for: purpose)
        link.open()
        try run { link.isReady }
        return link
    }

    /// The result of an operation of a task on the loop.
    func start<Value: Sendable>(
        _ operation: @escaping @Sendable (RedisClient) async throws -> Value
    ) -> (outcome: Outcome<Value>, task: Task<Void, Never>) {
        let outcome = Outcome<Value>()
        let client: RedisClient = self.client
        let task = Task(executorPreference: executor.task) {
            do {
                outcome.settle(.success(try await operation(client)))
            } catch {
                outcome.settle(.failure(error))
            }
        }
        return (outcome, task)
    }

    private func turn() {
        var events = [epoll_event](repeating: epoll_event(), count: 16)
        // Also a loop without a timer looks at its conditions from time to time.
        var wait: Int64 = executor.hasJobs || client.hasUnsent ? 0 : 50
        if let timer { wait = min(wait, max(0, Int64((timer - now).wholeMilliseconds) + 1)) }
        let count = Int(epoll_wait(epoll, &events, 16, Int32(wait)))
        for event in events.prefix(max(0, count)) {
            let fd = Int32(event.data.u64)
            if fd == wakeup {
                var value = eventfd_t()
                eventfd_read(wakeup, &value)
            } else if watched.contains(fd) {
                client.handleReady(
                    fd: fd, readable: event.events & EPOLLIN.rawValue != 0,
                    writable: event.events & EPOLLOUT.rawValue != 0,
                    failed: event.events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0)
            }
        }
        if let timer, timer <= now {
            self.timer = nil
            client.handleTimer()
        }
    }
}
