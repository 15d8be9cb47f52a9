// The end of a shard, without IO: deadlines and the state of connections come in, actions come out.
// ShardShutdown performs the actions. A drain cuts off no reply: the shard accepts no new
// connections and lets turns in flight finish. Each WebSocket is closed at a random time, so that
// the clients do not all reconnect at once.
//
//   serving ──drain──▶ announced ──drain-delay──▶ closing ──all gone, or drain-timeout──▶ stopping
//      └──────────────────────────────────stop, from every phase──────────────────────────▲
//
// Announced: `/readyz` answers 503, everything else is as before. Closing: the listeners are closed.
// Each WebSocket has a time to close; one with a turn in flight closes when its turn is over.
// Stopping: every connection is being closed, and is cut off after `close-timeout-ms`.
//
// Invariant: while closing, every WebSocket has a deadline of its own or is overdue, and a review or
// the end of the drain is scheduled.

import Session

/// The deadlines of a shard's end.
enum ShutdownStep: Equatable {
    /// The announcement is over.
    case closeListeners
    /// A WebSocket's own time to close.
    case closeSession(EventToken)
    /// The next look for turns that have finished.
    case review
    /// The time that turns have to finish is over.
    case endDrain
    /// The time that connections have to close is over.
    case cutOff
}

/// The state of an open connection, as far as a drain depends on it.
enum ShutdownStanding: Equatable {
    /// A WebSocket; busy while a part of a turn, or of its reply, is still to come, to be sent or to
    /// be played.
    case webSocket(isBusy: Bool)
    /// Its last bytes, an answer or its first request are on their way.
    case awaited
    /// It is kept alive between two requests.
    case keptAlive
}

/// An open connection, as a drain sees it.
struct DrainedConnection {
    let token: EventToken
    let standing: ShutdownStanding
}

/// How a session ended in a drain.
enum DrainOutcome: Equatable {
    /// No turn was in flight.
    case idle
    /// The server waited for its turn.
    case finished
    /// Its turn took longer than the server waits.
    case cutOff
}

/// The steps that the shard performs, in order.
enum ShutdownAction: Equatable {
    /// Call `handle` with the step at this time.
    case schedule(ShutdownStep, at: Instant)
    /// Stop accepting.
    case closeListeners
    /// Close a WebSocket.
    case close(EventToken, after: DrainOutcome)
    /// Close every connection, now that its turn is over or was waited for long enough.
    case stop
    /// End the connections that have not closed.
    case cutOff
}

/// The end of one shard.
struct Shutdown {
    /// The diagram is at the top of the file.
    enum Phase: Equatable {
        case serving
        case announced
        /// Turns are waited for until `end`.
        case closing(end: Instant)
        case stopping
    }

    /// Time between two looks at turns in flight. 100 ms: a finished session does not stay open
    /// noticeably longer, and checking ten thousand connections ten times a second costs little.
    static let reviewInterval = Duration.milliseconds(100)
    /// Time that a client has for its first request after it connected. 1 s: a request is on its
    /// way by then. A client that connects without one must not delay the end. On a shared port,
    /// where a successor serves meanwhile, the end waits for `header-timeout-ms` instead.
    static let firstRequestGrace = Duration.seconds(1)

    private(set) var phase = Phase.serving
    /// WebSockets whose time to close has come while they had a turn in flight.
    private var overdue: [EventToken] = []
    private let timeout: Duration
    private let jitter: Duration
    private let closeTimeout: Duration

    init(_ settings: DrainSettings, closeTimeout: Duration) {
        timeout = settings.timeout
        jitter = settings.jitter
        self.closeTimeout = closeTimeout
    }

    /// Whether the shard takes nothing new and ends once its connections have.
    @inline(__always)
    var isStopping: Bool { if case .stopping = phase { true } else { false } }

    /// Whether a connection may be kept for another request.
    var keepsConnections: Bool { phase == .serving }

    /// Whether the listeners are closed.
    var hasClosedListeners: Bool {
        switch phase {
        case .serving, .announced: false
        case .closing, .stopping: true
        }
    }

    // MARK: Commands

    /// Begins to drain; nothing where the shard ends already.
    /// - Parameter delay: how long it still accepts connections.
    mutating func drain(after delay: Duration, at now: Instant) -> [ShutdownAction] {
        guard phase == .serving else { return [] }
        phase = .announced
        return [.schedule(.closeListeners, at: now + max(.zero, delay))]
    }

    /// Ends without waiting for turns; nothing where the shard stops already.
    mutating func stop(at now: Instant) -> [ShutdownAction] {
        guard phase != .stopping else { return [] }
        phase = .stopping
        return [.stop, .schedule(.cutOff, at: now + closeTimeout)]
    }

    // MARK: Events

    /// A connection has become a WebSocket. After the listeners were closed it gets its time to
    /// close, like those before it.
    /// - Parameter drawDelay: a delay from zero to the given one.
    func handleUpgrade(
        of token: EventToken, at now: Instant, drawDelay: (Duration) -> Duration
    ) -> [ShutdownAction] {
        guard case .closing(let end) = phase else { return [] }
        let room = max(.zero, min(jitter, end - now))
        return [.schedule(.closeSession(token), at: now + drawDelay(room))]
    }

    /// A deadline has come.
    /// - Parameters:
    ///   - standing: of one connection; nil where it is closed, or the end need not wait for it.
    ///   - connections: those with a standing, in the order of their slots.
    ///   - waits: whether there is a connection to wait for: any with a standing (`forAll`), or one
    ///     that is awaited.
    ///   - hasSessions: whether any shard of the server has one.
    mutating func handle(
        _ step: ShutdownStep, standing: (EventToken) -> ShutdownStanding?,
        connections: @autoclosure () -> [DrainedConnection], waits: (_ forAll: Bool) -> Bool,
        hasSessions: @autoclosure () -> Bool, at now: Instant,
        drawDelay: (Duration) -> Duration
    ) -> [ShutdownAction] {
        switch (step, phase) {
        case (.closeListeners, .announced):
            phase = .closing(end: now + timeout)
            var actions = [ShutdownAction.closeListeners]
            for connection in connections() where connection.standing.isWebSocket {
                actions += handleUpgrade(of: connection.token, at: now, drawDelay: drawDelay)
            }
            // Connections that waited to be accepted are reviewed too.
            actions.append(.schedule(.endDrain, at: now + timeout))
            actions.append(.schedule(.review, at: now))
            return actions
        case (.closeSession(let token), .closing):
            guard case .webSocket(let isBusy)? = standing(token) else { return [] }
            guard isBusy else { return [.close(token, after: .idle)] }
            overdue.append(token)
            return []
        case (.review, .closing):
            guard waits(hasSessions()) else { return stop(at: now) }
            return closeFinished(standing) + [.schedule(.review, at: now + Self.reviewInterval)]
        case (.endDrain, .closing):
            let closes = connections().compactMap { connection -> ShutdownAction? in
                guard case .webSocket(let isBusy) = connection.standing else { return nil }
                return .close(connection.token, after: isBusy ? .cutOff : .idle)
            }
            return closes + stop(at: now)
        case (.cutOff, .stopping): return [.cutOff]
        case (_, .serving), (_, .announced), (_, .closing), (_, .stopping): return []
        }
    }

    /// Closes the overdue WebSockets whose turn is over, and forgets those that are closed.
    private mutating func closeFinished(
        _ standing: (EventToken) -> ShutdownStanding?
    ) -> [ShutdownAction] {
        var actions: [ShutdownAction] = []
        overdue.removeAll { token in
            guard case .webSocket(let isBusy)? = standing(token) else { return true }
            if !isBusy { actions.append(.close(token, after: .finished)) }
            return !isBusy
        }
        return actions
    }
}

extension ShutdownStanding {
    fileprivate var isWebSocket: Bool { if case .webSocket = self { true } else { false } }
}

extension ShutdownStanding {
    /// Whether the end waits for the connection, also without a session anywhere.
    var isAwaited: Bool { self != .keptAlive }
}
