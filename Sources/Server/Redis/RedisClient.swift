// The connections of a shard to Redis servers, on the shard's own event loop. One per shard; a shard
// without a Redis server makes none and pays nothing.
//
// Lives here: the links by server and purpose, the descriptors that the loop watches for them, and
// their one timer. RedisLink has one connection.
//
// Invariant: everything but `commands(to:for:)` and what it returns is confined to the loop's thread.

import CLinux
import Codec
import Logging
import Session
import Synchronization

/// Redis on one event loop's thread.
///
/// The shard's own code takes a link and sends commands with handlers. Agents take `commands`, whose
/// `send` may be called from any async context: off the loop's thread it hops to it. That
/// confinement is why `@unchecked Sendable` holds: other threads only carry the reference.
package final class RedisClient: @unchecked Sendable, OutgoingSocketOwner {
    /// Links of one shard. 16: a store, and some agents with two links each.
    static let maxLinks = 16

    private struct Key: Hashable {
        let address: RedisAddress
        let purpose: String
    }

    /// Limits of each link.
    let limits: RedisLimits
    private let authorities: String?
    private unowned let loop: any UpstreamEventLoop
    private let executor: any TaskExecutor
    private let logger: Logger
    private let drawDelay: (Duration) -> Duration
    /// `pthread_self()` of the loop, from its first call; 0 before.
    private let loopThread = Atomic<UInt>(0)
    private var links: [Key: RedisLink] = [:]
    /// The links in the order in which they were made.
    private(set) var orderedLinks: [RedisLink] = []
    private var descriptors: [Int32: OutgoingSocket] = [:]
    private var owners: [ObjectIdentifier: RedisLink] = [:]
    private var armedTimer: Instant?
    private var isShutDown = false
    /// Whether a link may have bytes to send.
    package private(set) var hasUnsent = false
    /// The buffer of the last read, which all links share.
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 16 << 10, alignment: 16)

    /// Creates a client without connections.
    /// - Parameters:
    ///   - loop: the event loop; it must outlive this client or call `shutdown()` first.
    ///   - executor: runs jobs on the loop's thread.
    ///   - authorities: PEM file for `rediss`. The default is the system's authorities.
    package init(
        loop: any UpstreamEventLoop, executor: any TaskExecutor, limits: RedisLimits = .init(),
        authorities: String? = nil, logger: Logger,
        drawDelay: @escaping (Duration) -> Duration
    ) {
        self.loop = loop
        self.executor = executor
        self.limits = limits
        self.authorities = authorities
        self.logger = logger
        self.drawDelay = drawDelay
    }

    deinit { buffer.deallocate() }

    // MARK: Links

    /// The link for a purpose; made when it is first asked for. Commands that wait need a purpose of
    /// their own.
    /// - Parameter probe: the command that the server must execute before the link is ready.
    /// - Throws: `.overloaded` beyond `maxLinks`, `.unavailable` after the shutdown.
    func link(
        to address: RedisAddress, for purpose: String, probe: RedisProbe = .write
    ) throws(RedisError) -> RedisLink {
        claimThread()
        let key = Key(address: address, purpose: purpose)
        if let link = links[key] { return link }
        guard !isShutDown else { throw .unavailable }
        guard links.count < Self.maxLinks else { throw .overloaded }
        let link = RedisLink(
            to: address, purpose: purpose, probe: probe, limits: limits, authorities: authorities,
            client: self,
            logger: logger, drawDelay: drawDelay)
        links[key] = link
        orderedLinks.append(link)
        return link
    }

    /// A link for agents. Any thread.
    package func commands(to address: RedisAddress, for purpose: String) -> any RedisCommands {
        RedisClientCommands(client: self, address: address, purpose: purpose)
    }

    // MARK: What the loop calls

    /// A watched descriptor is ready.
    package func handleReady(fd: Int32, readable: Bool, writable: Bool, failed: Bool) {
        claimThread()
        guard let socket = descriptors[fd], let link = owners[ObjectIdentifier(socket)] else {
            return
        }
        link.handleReady(fd: fd, readable: readable, writable: writable, failed: failed)
        armTimer()
    }

    /// The timer has fired.
    package func handleTimer() {
        claimThread()
        armedTimer = nil
        let now = loop.now
        for link in orderedLinks {
            if let deadline = link.nextDeadline, deadline <= now { link.handleTimer() }
        }
        armTimer()
    }

    /// Writes the commands of this tick. Call it at a tick's end while `hasUnsent`.
    package func flush() {
        claimThread()
        hasUnsent = false
        for link in orderedLinks { link.flush() }
        armTimer()
    }

    /// Ends every link: commands that wait fail, and no more links are made.
    /// - Parameter kept: the purpose of links that stay, or nil where none stays.
    package func shutdown(keeping kept: String? = nil) {
        claimThread()
        isShutDown = true
        for link in orderedLinks where kept == nil || link.purpose != kept { link.close() }
        armTimer()
    }

    // MARK: What links and sockets call

    var now: Instant { loop.now }

    func noteUnsent() { hasUnsent = true }

    func noteOwner(_ link: RedisLink, of socket: OutgoingSocket?) {
        // A link has one socket at a time.
        owners = owners.filter { $0.value !== link }
        if let socket { owners[ObjectIdentifier(socket)] = link }
    }

    func watch(fd: Int32, readable: Bool, writable: Bool, of socket: OutgoingSocket) {
        descriptors[fd] = socket
        loop.watch(fd: fd, readable: readable, writable: writable)
    }

    func unwatch(fd: Int32) {
        guard descriptors.removeValue(forKey: fd) != nil else { return }
        loop.unwatch(fd: fd)
    }

    private func armTimer() {
        var next: Instant?
        for link in orderedLinks {
            guard let deadline = link.nextDeadline else { continue }
            next = min(next ?? deadline, deadline)
        }
        guard next != armedTimer else { return }
        armedTimer = next
        loop.setUpstreamTimer(at: next)
    }

    // MARK: Threads

    private var isOnLoopThread: Bool {
        loopThread.load(ordering: .relaxed) == UInt(pthread_self())
    }

    private func claimThread() {
        let current = UInt(pthread_self())
        guard loopThread.load(ordering: .relaxed) != current else { return }
        let (_, owner) = loopThread.compareExchange(
            expected: 0, desired: current, ordering: .relaxed)
        precondition(
            owner == 0 || owner == current, "RedisClient is used off its event loop's thread")
    }

    /// Sends a command for a task.
    fileprivate func perform(
        _ command: RedisCommand, timeout: Duration?, to address: RedisAddress, for purpose: String
    ) async -> Result<RedisValue, RedisError> {
        if isOnLoopThread {
            return await begin(command, timeout: timeout, to: address, for: purpose)
        }
        return await withTaskExecutorPreference(executor) {
            await self.begin(command, timeout: timeout, to: address, for: purpose)
        }
    }

    private nonisolated(nonsending) func begin(
        _ command: RedisCommand, timeout: Duration?, to address: RedisAddress, for purpose: String
    ) async -> Result<RedisValue, RedisError> {
        claimThread()
        let waiter = RedisWaiter()
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                waiter.continuation = continuation
                // A cancellation before this point found no continuation.
                guard !Task.isCancelled else { return waiter.resume(.failure(.cancelled)) }
                do throws(RedisError) {
                    try link(to: address, for: purpose).send(command, timeout: timeout) {
                        waiter.resume($0)
                    }
                } catch {
                    waiter.resume(.failure(error))
                }
            }
        } onCancel: {
            if isOnLoopThread {
                waiter.resume(.failure(.cancelled))
            } else {
                Task(executorPreference: executor) { waiter.resume(.failure(.cancelled)) }
            }
        }
    }
}

/// A task that waits for a reply. Confined to the loop's thread.
private final class RedisWaiter: @unchecked Sendable {
    var continuation: CheckedContinuation<Result<RedisValue, RedisError>, Never>?

    /// Resumes the task, once.
    func resume(_ result: Result<RedisValue, RedisError>) {
        let continuation = continuation
        self.continuation = nil
        continuation?.resume(returning: result)
    }
}

/// A link as agents see it.
private struct RedisClientCommands: RedisCommands {
    let client: RedisClient
    let address: RedisAddress
    let purpose: String

    func send(_ command: RedisCommand, timeout: Duration?) async throws(RedisError) -> RedisValue {
        try await client.perform(command, timeout: timeout, to: address, for: purpose).get()
    }
}
