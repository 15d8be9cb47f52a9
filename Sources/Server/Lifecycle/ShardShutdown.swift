// Performs the end of a shard: closes listeners, sessions and connections as Shutdown decides, and
// answers its questions about each connection. A drained WebSocket is closed with 1012 (service
// restart, IANA registry).

import Codec
import Session

extension Shard {
    /// Begins to drain: accepts for a while longer, and ends once every connection is closed.
    func beginDraining(after delay: Duration) {
        guard shutdown.phase == .serving else { return }
        perform(shutdown.drain(after: delay, at: now))
    }

    /// Closes every connection, WebSockets with `code`, and ends when they are closed.
    func beginStopping(with code: WebSocketCloseCode) {
        perform(shutdown.stop(at: now), closingWith: code)
    }

    /// A deadline of the end has come.
    func handleShutdownDeadline(_ step: ShutdownStep) {
        let actions = shutdown.handle(
            step, standing: { connections[$0].flatMap(standing) },
            connections: drainedConnections, waits: waitsForConnection,
            hasSessions: services.metrics.sessions.load(ordering: .relaxed) > 0,
            at: now, drawDelay: services.drawDelay)
        perform(actions)
    }

    /// The connection has become a WebSocket.
    func scheduleClose(of connection: Connection) {
        perform(
            shutdown.handleUpgrade(
                of: connection.token, at: now, drawDelay: services.drawDelay))
    }

    /// Whether a kept-alive connection asks for a session after the listeners were closed. Its
    /// client got `Connection: close`, and can ask elsewhere. A client that has only just connected
    /// could not know, and is served.
    func isTooLate(_ connection: Connection) -> Bool {
        shutdown.hasClosedListeners && connection.http?.isKeptAlive == true
    }

    private func perform(
        _ actions: [ShutdownAction], closingWith code: WebSocketCloseCode = .serviceRestart
    ) {
        for action in actions {
            switch action {
            case .schedule(let step, let due):
                _ = deadlines.schedule(.shutdown(step), at: due)
                if case .closeSession(let token) = step { warn(token, closedAt: due) }
            case .closeListeners:
                stopListening()
                handOverWaiting()
            case .close(let token, let outcome):
                guard let connection = connections[token] else { continue }
                if let live = connection.live {
                    metrics.add(outcome.metric)
                    handOver(live)
                }
                let reason: StaticString = "The server restarts: come back."
                if connection.http?.relay != nil {
                    endRelay(of: connection, .serviceRestart, reason: reason)
                } else {
                    closeWebSocket(connection, .serviceRestart, reason: reason)
                }
            case .stop: closeAll(with: code)
            case .cutOff: connections.forEach(close)
            }
        }
    }

    /// Tells a client that can come back when its session is closed for the restart.
    private func warn(_ token: EventToken, closedAt due: Instant) {
        guard let live = connections[token]?.live else { return }
        warn(live, .restart, endingAt: due)
    }

    private func closeAll(with code: WebSocketCloseCode) {
        acceptor.closeListeners()
        connections.forEach { connection in
            if let live = connection.live { handOver(live) }
            switch connection.state {
            case .webSocket: closeWebSocket(connection, code, reason: "The server is stopping.")
            case .proxyHeader: close(connection)
            case .http where connection.http?.relay != nil:
                endRelay(of: connection, code, reason: "The server is stopping.")
            case .http where !connection.hasOutput: close(connection)
            case .http: linger(connection)
            case .closing, .lingering, .closed: break
            }
        }
        handOverWaiting(all: true)
        stopTextRequests()
        upstreams.http?.shutdown()
        // The sessions that end now may still change the store.
        upstreams.redis?.shutdown(keeping: StoreLink.purpose)
    }

    /// Whether a connection is open, or with `forAll` false, awaited; or a record awaits an answer. Asked
    /// ten times a second, so it looks no further than the first.
    private func waitsForConnection(forAll: Bool) -> Bool {
        var found = textRequests.hasAwaited
        connections.forEach { connection in
            guard !found, let standing = standing(of: connection) else { return }
            found = forAll || standing.isAwaited
        }
        return found
    }

    private var drainedConnections: [DrainedConnection] {
        var list: [DrainedConnection] = []
        connections.forEach { connection in
            if let standing = standing(of: connection) {
                list.append(DrainedConnection(token: connection.token, standing: standing))
            }
        }
        return list
    }

    private func standing(of connection: Connection) -> ShutdownStanding? {
        switch connection.state {
        // An operator sees the drain to its end, and delays it no longer than the sessions do.
        case .webSocket where connection.role == .operator: return .keptAlive
        case .webSocket: return .webSocket(isBusy: isBusy(connection))
        case .closing, .lingering: return .awaited
        case .proxyHeader:
            return awaitsFirstRequest(since: connection.phaseStart) ? .awaited : nil
        case .http:
            guard let http = connection.http else { return nil }
            // The session is at another node, and its end is not to be waited for here.
            if let relay = http.relay, relay.isWebSocket { return .webSocket(isBusy: false) }
            let isAwaited =
                connection.hasOutput || connection.isUnfinished || !http.pending.isEmpty
                || http.reply != nil || http.relay != nil || http.asksElsewhere
                || !http.hasHadRequest && awaitsFirstRequest(since: connection.activityStart)
            return isAwaited ? .awaited : .keptAlive
        case .closed: return nil
        }
    }

    /// Whether the end waits for the first request of a client. On a shared port it waits as long
    /// as the server does at any time, because a client on a busy machine may be late. The
    /// connection's own deadline closes it after `header-timeout-ms`. Elsewhere new clients may have
    /// to wait for the end.
    private func awaitsFirstRequest(since start: Instant) -> Bool {
        if case .shared = duty { return true }
        return peerClock < start + Shutdown.firstRequestGrace
    }

    /// Whether a part of a turn, or of its reply, is still to come, to be sent or to be played.
    private func isBusy(_ connection: Connection) -> Bool {
        // A sideband is needed for as long as its session lasts, and ends with it.
        if sidebands.joined[connection.token] != nil { return true }
        guard let session = connection.live?.session else { return false }
        // The part of a reply that is not spoken here is spoken where the session goes on.
        if connection.live?.resume?.stored != nil { return !session.canBeHandedOver }
        if session.hasTurnInFlight || connection.hasOutput { return true }
        return session.playedOut.map { $0 > now } ?? false
    }
}

extension DrainOutcome {
    fileprivate var metric: ShardMetric {
        switch self {
        case .idle: .drainedIdle
        case .finished: .drainedFinished
        case .cutOff: .drainedCutOff
        }
    }
}
