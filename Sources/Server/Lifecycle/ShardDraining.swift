// The drain of a shard: it ends without cutting off a reply. It accepts no new connections, lets
// turns in flight finish, and closes each WebSocket with 1012 (service restart, IANA registry) at a
// time of its own, so that the clients do not all come back at once.
//
//   serving ──drain──▶ announced ──drain-delay──▶ closing ──all gone, or drain-timeout──▶ stopping
//
// Announced: `/readyz` says 503, everything else is as before. Closing: the listeners are closed;
// each WebSocket has a time to close, and one with a turn in flight then closes when that is over.
// Invariant: while closing, every WebSocket has a deadline of its own or is overdue.

import Codec
import Session

/// The deadlines of a drain.
enum DrainStep {
    /// The end of the announcement.
    case closeDoor
    /// A connection's own time to close.
    case leave(EventToken)
    /// The next look for turns that have finished.
    case review
    /// The end of the time that turns have to finish.
    case giveUp
}

/// The state of a drain.
struct Draining {
    /// Time between two looks at turns in flight. 100 ms: a finished session does not stay open
    /// noticeably longer, and ten thousand connections cost little ten times a second.
    static let reviewInterval = Duration.milliseconds(100)
    /// Time that a client has for its first request after it connected. 1 s: a request is on its
    /// way by then, and a client that connects without one must not delay the end.
    static let firstRequestGrace = Duration.seconds(1)

    /// When the remaining turns are cut off; nil until the listeners are closed.
    var end: Instant?
    /// WebSockets whose time to close has come while they had a turn in flight.
    var overdue: [EventToken] = []
}

/// How a session ended in a drain.
private enum DrainOutcome {
    /// No turn was in flight.
    case idle
    /// The server waited for its turn.
    case finished
    /// Its turn took longer than the server waits.
    case cutOff

    var metric: ShardMetric {
        switch self {
        case .idle: .drainedIdle
        case .finished: .drainedFinished
        case .cutOff: .drainedCutOff
        }
    }
}

extension Shard {
    /// Begins to drain: accepts for a while longer, and ends once every connection is closed.
    func beginDraining(after delay: Duration) {
        guard draining == nil, !isStopping else { return }
        draining = Draining()
        let delay = max(delay, beginLeaving())
        guard delay > .zero else { return closeDoor() }
        _ = deadlines.schedule(.draining(.closeDoor), at: now + delay)
    }

    /// A deadline of the drain has come.
    func handleDrainDeadline(_ step: DrainStep) {
        guard !isStopping else { return }
        switch step {
        case .closeDoor: closeDoor()
        case .leave(let token): connections[token].map(leave)
        case .review: review()
        case .giveUp: giveUp()
        }
    }

    /// Whether a kept-alive connection asks for a WebSocket after the listeners were closed. Its
    /// client has been told by `Connection: close`, and can ask elsewhere. A client that has only
    /// just connected could not know, and is served.
    func isTooLate(_ connection: Connection) -> Bool {
        draining?.end != nil && connection.http?.isKeptAlive == true
    }

    /// The connection has become a WebSocket. After the listeners were closed it gets its time to
    /// close, like those before it.
    func scheduleLeaving(of connection: Connection) {
        guard let end = draining?.end else { return }
        let room = max(.zero, min(configuration.drainJitter, end - now))
        _ = deadlines.schedule(
            .draining(.leave(connection.token)), at: now + services.drawDelay(room))
    }

    private func closeDoor() {
        leaveDoor()
        draining?.end = now + configuration.drainTimeout
        connections.forEach { if $0.state == .webSocket { scheduleLeaving(of: $0) } }
        _ = deadlines.schedule(.draining(.giveUp), at: now + configuration.drainTimeout)
        review()
    }

    /// The connection's time to close has come.
    private func leave(_ connection: Connection) {
        guard connection.state == .webSocket else { return }
        if isBusy(connection) {
            draining?.overdue.append(connection.token)
        } else {
            close(connection, after: .idle)
        }
    }

    /// Whether a part of a turn, or of its reply, is still to come, to be sent or to be played.
    private func isBusy(_ connection: Connection) -> Bool {
        guard let session = connection.live?.session else { return false }
        if session.hasTurnInFlight || connection.hasOutput { return true }
        return session.playedOut.map { $0 > now } ?? false
    }

    /// Closes the connections whose turn is over, and ends the drain when none is left to wait for.
    private func review() {
        let overdue = draining?.overdue ?? []
        draining?.overdue = overdue.filter { token in
            guard let connection = connections[token], connection.state == .webSocket
            else { return false }
            if isBusy(connection) { return true }
            close(connection, after: .finished)
            return false
        }
        var isWaiting = false
        let hasSessions = services.metrics.sessions.load(ordering: .relaxed) > 0
        connections.forEach { isWaiting = isWaiting || holdsUp($0, hasSessions: hasSessions) }
        if isWaiting {
            _ = deadlines.schedule(.draining(.review), at: now + Draining.reviewInterval)
        } else {
            beginStopping(with: .serviceRestart)
        }
    }

    /// Whether the drain waits for a connection. One that is only kept alive may go on with
    /// requests, for example health checks, while there are sessions; then it is closed.
    private func holdsUp(_ connection: Connection, hasSessions: Bool) -> Bool {
        switch connection.state {
        case .webSocket, .closing, .lingering: true
        case .proxyHeader: peerClock < connection.phaseStart + Draining.firstRequestGrace
        case .http:
            hasSessions || connection.hasOutput || connection.http?.pending.isEmpty == false
                || connection.http?.reply != nil
                || connection.http?.hasHadRequest == false
                    && peerClock < connection.activityStart + Draining.firstRequestGrace
        case .closed: false
        }
    }

    /// The time that turns had to finish is over.
    private func giveUp() {
        connections.forEach { connection in
            guard connection.state == .webSocket else { return }
            close(connection, after: isBusy(connection) ? .cutOff : .idle)
        }
        beginStopping(with: .serviceRestart)
    }

    private func close(_ connection: Connection, after outcome: DrainOutcome) {
        if connection.live != nil { metrics.add(outcome.metric) }
        closeWebSocket(connection, .serviceRestart, reason: "The server restarts: come back.")
    }
}
