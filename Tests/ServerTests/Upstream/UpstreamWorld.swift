// A scripted HTTP service and an event loop, both on the test's own thread and one real epoll. The
// test decides what the service sends and when, and turns the loop until a condition is true.
// Nothing sleeps; a time limit passes by moving the loop's clock ahead.

import CLinux
import Session
import Synchronization
import Testing

@testable import Server

/// The result of a task, readable from the test's thread.
final class Outcome<Value: Sendable>: Sendable {
    private let result = Mutex<Result<Value, any Error>?>(nil)

    var isKnown: Bool { result.withLock { $0 != nil } }

    var value: Value? { result.withLock { try? $0?.get() } }

    var error: (any Error)? {
        result.withLock {
            if case .failure(let error)? = $0 { error } else { nil }
        }
    }

    /// The error's text for the operator, if it is the agents' own.
    var message: String? { (error as? AgentError)?.detail }

    func settle(_ result: Result<Value, any Error>) { self.result.withLock { $0 = result } }
}

/// One connection that the service has accepted.
final class ServiceConnection {
    private let fd: Int32
    /// The bytes that have come from the client.
    fileprivate(set) var received = ""
    /// Whether the client has closed its end.
    fileprivate(set) var isEnded = false
    fileprivate var isClosed = false

    fileprivate init(fd: Int32) { self.fd = fd }

    /// How many whole requests have come, each with a head and the body that it announces.
    var requestCount: Int {
        var count = 0
        var rest = Array(received.utf8)[...]
        while let end = rest.firstRange(of: Array("\r\n\r\n".utf8)) {
            let head = String(decoding: rest[..<end.lowerBound], as: UTF8.self)
            let length = head.split(separator: "\r\n")
                .first { $0.lowercased().hasPrefix("content-length:") }
                .flatMap { Int($0.split(separator: " ").last ?? "") }
            rest = rest[end.upperBound...]
            guard rest.count >= length ?? 0 else { break }
            rest = rest.dropFirst(length ?? 0)
            count += 1
        }
        return count
    }

    /// Sends as much as the kernel takes; returns how much that was.
    func send(_ bytes: [UInt8]) -> Int {
        max(0, write(fd, bytes, bytes.count))
    }

    func send(_ text: String) {
        #expect(send(Array(text.utf8)) == text.utf8.count)
    }

    /// Closes, so that the client sees an end, or a reset.
    func close(reset: Bool = false) {
        if reset {
            var linger = linger(l_onoff: 1, l_linger: 0)
            setsockopt(
                fd, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
        }
        isClosed = true
        CLinux.close(fd)
    }

    fileprivate func receive() {
        guard !isClosed else { return }
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = read(fd, &buffer, buffer.count)
        if count > 0 { received += String(decoding: buffer[..<count], as: UTF8.self) }
        if count == 0 || (count < 0 && parley_errno() != EAGAIN) { isEnded = true }
    }
}

/// The loop, the client under test and the service that it talks to.
final class UpstreamWorld: UpstreamEventLoop {
    /// The port at which the service listens.
    private(set) var port = 0
    private(set) var connections: [ServiceConnection] = []
    private(set) var client: UpstreamHTTP!
    private let executor: ShardExecutor
    private let epoll = epoll_create1(0)
    private let listener = socket(
        AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
    private let wakeup: Int32
    private var watched: Set<Int32> = []
    private var timer: Instant?

    init(limits: UpstreamLimits = UpstreamLimits()) {
        let wakeup = eventfd(0, Int32(EFD_NONBLOCK))
        self.wakeup = wakeup
        executor = ShardExecutor(wake: { _ = eventfd_write(wakeup, 1) })
        executor.adoptThread()
        listen()
        control(EPOLL_CTL_ADD, wakeup, EPOLLIN.rawValue)
        client = UpstreamHTTP(loop: self, executor: executor.task, limits: limits)
    }

    deinit {
        for connection in connections where !connection.isClosed { connection.close() }
        for fd in [epoll, listener, wakeup] { close(fd) }
    }

    var url: String { "http://127.0.0.1:\(port)/v1/speak?x=1" }

    private func listen() {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                precondition(bind(listener, $0, length) == 0)
                precondition(CLinux.listen(listener, 16) == 0)
                precondition(getsockname(listener, $0, &length) == 0)
            }
        }
        port = Int(UInt16(bigEndian: address.sin_port))
        control(EPOLL_CTL_ADD, listener, EPOLLIN.rawValue)
    }

    /// Stops listening: later connections are refused.
    func stopListening() {
        control(EPOLL_CTL_DEL, listener, 0)
        shutdown(listener, Int32(SHUT_RDWR))
    }

    // MARK: UpstreamEventLoop

    /// Moves with `advance(by:)` and libcurl's own short timers only.
    private(set) var now = Instant(nanoseconds: 1_000_000_000_000)

    func watch(fd: Int32, readable: Bool, writable: Bool) {
        let events = (readable ? EPOLLIN.rawValue : 0) | (writable ? EPOLLOUT.rawValue : 0)
        control(watched.insert(fd).inserted ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, events)
    }

    func unwatch(fd: Int32) {
        watched.remove(fd)
        control(EPOLL_CTL_DEL, fd, 0)
    }

    func setUpstreamTimer(at instant: Instant?) { timer = instant }

    private func control(_ operation: Int32, _ fd: Int32, _ events: UInt32) {
        _ = parley_epoll_control(epoll, operation, fd, events, UInt64(fd))
    }

    // MARK: Running

    /// Moves the loop's clock ahead.
    func advance(by duration: Duration) { now = now + duration }

    /// Starts a task on the loop.
    func start<Value: Sendable>(
        _ operation: @escaping @Sendable (UpstreamHTTP) async throws -> Value
    ) -> (outcome: Outcome<Value>, task: Task<Void, Never>) {
        let outcome = Outcome<Value>()
        let client: UpstreamHTTP = self.client
        let task = Task(executorPreference: executor.task) {
            do {
                outcome.settle(.success(try await operation(client)))
            } catch {
                outcome.settle(.failure(error))
            }
        }
        return (outcome, task)
    }

    /// Turns the loop until a condition is true; fails the test once the loop is idle.
    func run(
        sourceLocation: SourceLocation = #_sourceLocation, until condition: () -> Bool
    ) throws {
        let end = MonotonicClock.now + HangGuard.duration
        while true {
            executor.runJobs(atMost: 1_000)
            if condition() { return }
            try #require(
                MonotonicClock.now < end, "it does not come", sourceLocation: sourceLocation)
            try #require(turn(), "nothing happens any more", sourceLocation: sourceLocation)
        }
    }

    /// Ends the transfers in flight, so that no task waits for ever.
    func stop() {
        client.shutdown()
        settle()
    }

    /// Turns the loop while something is ready.
    func settle() {
        repeat { executor.runJobs(atMost: 1_000) } while turn(maxMilliseconds: 0)
    }

    /// A timer that is due within a second is libcurl's own, of some milliseconds; the others are
    /// the limits that tests are about, which only `advance(by:)` reaches.
    private var isTimerShort: Bool { timer.map { $0 <= now + .seconds(1) } ?? false }

    /// One tick: false when nothing was ready within the time.
    private func turn(maxMilliseconds: Int32 = HangGuard.milliseconds) -> Bool {
        var events = [epoll_event](repeating: epoll_event(), count: 16)
        let waits = !executor.hasJobs && maxMilliseconds > 0
        var wait = waits ? maxMilliseconds : 0
        if waits, isTimerShort, let timer {
            wait = Int32(clamping: max(0, (timer - now).wholeMilliseconds + 1))
        }
        let count = Int(epoll_wait(epoll, &events, 16, wait))
        for event in events.prefix(max(0, count)) { handle(event) }
        if count == 0, waits, isTimerShort, let timer { now = max(now, timer) }
        let isDue = timer.map { $0 <= now } ?? false
        if isDue {
            timer = nil
            client.handleTimer()
        }
        return count > 0 || isDue || executor.hasJobs
    }

    private func handle(_ event: epoll_event) {
        let fd = Int32(event.data.u64)
        if fd == wakeup {
            var value = eventfd_t()
            eventfd_read(wakeup, &value)
        } else if fd == listener {
            let accepted = parley_accept(listener, nil, nil)
            guard accepted >= 0 else { return }
            connections.append(ServiceConnection(fd: accepted))
            accepts[accepted] = connections.last
            control(EPOLL_CTL_ADD, accepted, EPOLLIN.rawValue)
        } else if watched.contains(fd) {
            client.handleReady(
                fd: fd, readable: event.events & EPOLLIN.rawValue != 0,
                writable: event.events & EPOLLOUT.rawValue != 0,
                failed: event.events & (EPOLLERR.rawValue | EPOLLHUP.rawValue) != 0)
        } else if let connection = accepts[fd] {
            connection.receive()
            if connection.isEnded { control(EPOLL_CTL_DEL, fd, 0) }
        }
    }

    /// The service's connections by their descriptors.
    private var accepts: [Int32: ServiceConnection] = [:]
}
