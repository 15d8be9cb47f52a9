// One connection to a Redis server: a pipeline and the socket under it. RedisClient has the links of
// a shard and the loop.
//
// Invariant: confined to the loop's thread. Each accepted command calls its handler exactly once,
// and never within `send`. Bytes are written in `flush()`, once for all commands of a tick.

import Codec
import Logging
import Session

/// The counts of a link since its start. All but the last two only grow.
struct RedisCounts: Equatable {
    /// Commands with a reply that is no error.
    var completed = 0
    /// Commands that were refused, timed out, lost, or answered with an error.
    var failed = 0
    /// Connections that were lost or could not be made.
    var losses = 0
    /// Commands without a reply now.
    var waiting = 0
    /// Whether the server answers.
    var isReady = false
}

/// A connection that commands share.
final class RedisLink {
    /// Gets the outcome of a command, on the loop's thread.
    typealias Handler = (Result<RedisValue, RedisError>) -> Void

    /// Reads of one report of the loop. 64: 1 MiB; a server that sends more waits for the next tick.
    private static let maxReads = 64

    let address: RedisAddress
    /// The use of the link. Commands with another purpose have a link of their own.
    let purpose: String
    private unowned let client: RedisClient
    private let logger: Logger
    private let authorities: String?
    private var pipeline: RedisPipeline<Handler>
    private var socket: OutgoingSocket?
    private var isDraining = false
    /// More may be there to read than one report allows.
    private(set) var hasMore = false
    private(set) var counts = RedisCounts()
    /// Is called each time the server begins to answer, at the start and after a loss.
    var onReady: (() -> Void)?

    init(
        to address: RedisAddress, purpose: String, probe: RedisProbe, limits: RedisLimits,
        authorities: String?,
        client: RedisClient, logger: Logger, drawDelay: @escaping (Duration) -> Duration
    ) {
        self.address = address
        self.purpose = purpose
        self.client = client
        self.authorities = authorities
        self.logger = logger
        pipeline = RedisPipeline(
            to: address, named: "parley-\(purpose)",
            probe: probe, limits: limits,
            drawDelay: drawDelay)
    }

    /// Whether the server answers.
    var isReady: Bool { pipeline.isReady }
    /// Why the server cannot be used, or nil where it can, or was not asked yet.
    var trouble: RedisTrouble? { pipeline.trouble }
    /// Whether commands are refused because it does not.
    var isAway: Bool { pipeline.isAway }
    /// Bytes that are not sent.
    var queuedBytes: Int { pipeline.queuedBytes }
    /// When `handleTimer` is next needed.
    var nextDeadline: Instant? {
        if hasMore { return client.now }
        guard let own = pipeline.nextDeadline, let socket = socket?.deadline else {
            return pipeline.nextDeadline ?? socket?.deadline
        }
        return min(own, socket)
    }

    /// Connects, unless it has begun to. The first command does the same.
    func open() {
        pipeline.open(at: client.now)
        drain()
    }

    /// Sends a command with the next `flush()`.
    /// - Parameter timeout: the limit of the wait for the reply. Nil is the usual limit, and
    ///   `.zero` sets none.
    /// - Throws: `.unavailable` or `.overloaded`. Then the handler is not called.
    func send(
        _ command: RedisCommand, timeout: Duration? = nil, then handler: @escaping Handler
    ) throws(RedisError) {
        do {
            try pipeline.send(command, timeout: timeout, tag: handler, at: client.now)
        } catch {
            counts.failed += 1
            throw error
        }
        client.noteUnsent()
    }

    /// Writes the bytes that wait.
    func flush() {
        drain()
        guard let socket, socket.state == .open, pipeline.hasUnsent else { return }
        var sent: Int?
        pipeline.withUnsent { sent = socket.send($0) }
        if let sent {
            pipeline.handleSent(sent)
        } else {
            pipeline.handleLoss("the connection broke", at: client.now)
            drain()
        }
    }

    /// Ends for good.
    func close() {
        pipeline.close(at: client.now)
        drain()
    }

    // MARK: The loop

    /// A descriptor of its socket is ready.
    func handleReady(fd: Int32, readable: Bool, writable: Bool, failed: Bool) {
        guard let socket else { return }
        if socket.state == .connecting {
            socket.handleReady(fd: fd, readable: readable, writable: writable, failed: failed)
            return reviewSocket()
        }
        if readable || failed { receive() }
        flush()
    }

    /// The time of `nextDeadline` has come, or an earlier one of another link.
    func handleTimer() {
        if hasMore { receive() }
        if let socket, let deadline = socket.deadline, deadline <= client.now {
            socket.handleTimer()
            reviewSocket()
        }
        pipeline.handleTimer(at: client.now)
        flush()
    }

    private func reviewSocket() {
        guard let socket else { return }
        switch socket.state {
        case .connecting: break
        case .open:
            pipeline.handleConnected(at: client.now)
            flush()
        case .failed(let reason): pipeline.handleLoss(reason, at: client.now)
        }
        drain()
    }

    private func receive() {
        hasMore = false
        for _ in 0..<Self.maxReads {
            // A handler, or the bytes that were read, may have closed it.
            guard let socket else { return }
            switch socket.receive(into: client.buffer) {
            case .bytes(let count):
                pipeline.handleReceived(
                    UnsafeRawBufferPointer(rebasing: client.buffer[..<count]), at: client.now)
                drain()
            case .nothing: return
            case .lost(let reason):
                pipeline.handleLoss(reason, at: client.now)
                return drain()
            }
        }
        hasMore = true
    }

    // MARK: What the pipeline decides

    /// Carries out the pipeline's actions. A handler may send further commands. The call that is
    /// under way carries out their actions, too.
    private func drain() {
        guard !isDraining else { return }
        isDraining = true
        defer { isDraining = false }
        while let action = pipeline.nextAction() { perform(action) }
        counts.waiting = pipeline.commandCount
        counts.isReady = pipeline.isReady
    }

    private func perform(_ action: RedisAction<Handler>) {
        switch action {
        case .connect:
            socket = OutgoingSocket(to: address.socketURL, authorities: authorities, owner: client)
            client.noteOwner(self, of: socket)
            if case .failed(let reason)? = socket?.state {
                pipeline.handleLoss(reason, at: client.now)
            } else if socket?.state == .open {
                pipeline.handleConnected(at: client.now)
            }
            client.noteUnsent()
        case .disconnect:
            socket?.close()
            socket = nil
            hasMore = false
        case .complete(let handler, let result):
            switch result {
            case .success: counts.completed += 1
            case .failure: counts.failed += 1
            }
            handler(result)
        case .becomeReady:
            logger.info("redis answers", metadata: ["server": "\(address)"])
            client.noteUnsent()
            onReady?()
        case .becomeAway(let reason, let cause):
            counts.losses += 1
            let advice = cause.advice.map { ": \($0)" } ?? ""
            logger.warning(
                "redis is away",
                metadata: [
                    "server": "\(address)", "cause": "\(cause)", "reason": "\(reason)\(advice)",
                ])
        }
    }
}

extension RedisAddress {
    /// Where its socket leads.
    fileprivate var socketURL: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return "\(isSecure ? "https" : "http")://\(name):\(port)"
    }
}
