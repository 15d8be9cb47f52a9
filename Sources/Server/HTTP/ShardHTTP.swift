// HTTP on a shard's connections: performs what HTTPServerConnection asks for, puts answers into the
// send buffer, and changes a connection to WebSocket. Which answer belongs to a request is up to
// Routes.

import Codec
import Session

extension Shard {
    /// Bytes came on a connection that speaks HTTP.
    func receiveHTTP(_ bytes: UnsafeMutableRawBufferPointer, on connection: Connection) {
        guard let http = connection.http else { return }
        if http.pending.isEmpty {
            http.handleFirstBytes(at: peerClock)
            // The usual case: a whole request in one read is parsed where it lies.
            let rest = performEvents(of: bytes, on: connection)
            if connection.state == .http, !rest.isEmpty {
                http.keep(rest)
                perform(.rearm, on: connection)
            }
        } else {
            http.append(bytes)
            if http.isParsing { answerPending(on: connection) }
        }
        if http.isAnswering { perform(.watch, on: connection) }
    }

    /// The output has left, and requests wait for that.
    func resumeHTTP(_ connection: Connection) {
        guard let http = connection.http, http.isPaused else { return }
        http.resume()
        answerPending(on: connection)
        if connection.state == .http, connection.hasEnded, !http.isPaused,
            connection.output.isEmpty
        {
            close(connection)
        }
        perform(.watch, on: connection)
    }

    /// The time for a request is over; silence between requests ends a connection without an
    /// answer.
    func handleHTTPTimeout(of connection: Connection) {
        switch connection.http?.overdue {
        case .reply(let answer): handleAnswerSilence(answer, on: connection)
        case .slowRequest:
            metrics.add(.slowRequestCloses)
            refuse(RouteFailure.timeout.response, on: connection)
        case .idleConnection, nil: close(connection)
        }
    }

    /// An answer that other requests waited behind is queued.
    func answerWaiting(on connection: Connection) {
        if connection.http?.pending.isEmpty == false { answerPending(on: connection) }
        guard connection.state == .http else { return }
        perform(.rearm, on: connection)
        perform(.watch, on: connection)
    }

    private func answerPending(on connection: Connection) {
        guard let http = connection.http else { return }
        http.usePending { performEvents(of: $0, on: connection).count }
        if connection.state == .http, !http.pending.isEmpty { perform(.rearm, on: connection) }
    }

    /// Answers the requests at the front of `bytes`, until more bytes are needed, the connection
    /// changes its state, or an answer or the output has to be waited for.
    /// - Returns: the bytes that were not used.
    private func performEvents(
        of bytes: UnsafeMutableRawBufferPointer, on connection: Connection
    ) -> UnsafeMutableRawBufferPointer {
        var rest = bytes
        while connection.state == .http, let http = connection.http,
            let event = http.nextEvent(
                in: &rest, queuedBytes: connection.output.count, at: peerClock, configuration)
        {
            switch event {
            case .request(let request): answer(request, followedBy: rest, on: connection)
            case .judgeHead(let head):
                if case .answered(let refusal) = judge(head, isBodyDue: true, on: connection) {
                    refuse(refusal, on: connection)
                }
            case .sendContinue:
                scratch.removeAll()
                scratch.append(HTTPResponse.continueHead)
                enqueueScratch(on: connection)
            case .pause: perform(.watch, on: connection)
            case .failed(let error):
                metrics.add(.protocolErrors)
                logger.debug(
                    "bad request", metadata: ["peer": "\(http.client)", "rule": "\(error)"])
                refuse(RouteFailure(error).response, on: connection)
            }
        }
        return rest
    }

    private func answer(
        _ request: HTTPRequest, followedBy rest: UnsafeMutableRawBufferPointer,
        on connection: Connection
    ) {
        metrics.add(.requests)
        switch judge(request, on: connection) {
        case .answered(let response): send(response, to: request, on: connection)
        case .admitted(let route, let caller):
            serve(request, on: route, to: caller, followedBy: rest, on: connection)
        }
    }

    private func serve(
        _ request: HTTPRequest, on route: Route, to caller: Caller,
        followedBy rest: UnsafeMutableRawBufferPointer, on connection: Connection
    ) {
        switch route.service {
        case .value(let answer):
            let response = share(answer(request, routes), with: request, of: route)
            send(response, to: request, on: connection)
        case .clientSecret(let form):
            let secret = issueClientSecret(request, in: form, to: caller, on: connection)
            send(share(secret, with: request, of: route), to: request, on: connection)
        case .survey:
            if let response = beginSurvey(request, on: connection) {
                send(response, to: request, on: connection)
            }
        case .hangUp:
            if let response = beginHangup(request, by: caller, on: connection) {
                send(response, to: request, on: connection)
            }
        case .webSocket(let service):
            upgrade(request, to: service, by: caller, followedBy: rest, on: connection)
        case .text(let front):
            var fields = HTTPFields()
            if route.servesOtherOrigins { admission.crossOrigin.permit(request, in: &fields) }
            if let response = beginText(
                request, front, by: caller, fields: fields, on: connection)
            {
                let shared = share(response, with: request, of: route)
                send(shared, to: request, on: connection)
            } else {
                noteAnswer(200, to: request, sentBy: connection.http?.client)
            }
        }
    }

    /// Answers a request, and keeps the connection for the next if both sides want that.
    func send(
        _ response: HTTPResponse, to request: HTTPRequest, on connection: Connection
    ) {
        noteAnswer(response.status, to: request, sentBy: connection.http?.client)
        let keepAlive = request.wantsKeepAlive && shutdown.keepsConnections
        connection.http?.endAnswer(keepsConnection: keepAlive, at: peerClock)
        enqueue(response, answering: request.method, keepAlive: keepAlive, on: connection)
        if !keepAlive { linger(connection) }
    }

    /// Logs an answer, without the query, which may contain a key.
    func noteAnswer(_ status: Int, to request: HTTPRequest, sentBy peer: NetworkAddress?) {
        logger.debug(
            "request",
            metadata: [
                "peer": "\(admission.source(of: request, sentBy: peer ?? .unspecified).client)",
                "method": "\(request.method)", "path": "\(request.path)", "status": "\(status)",
            ])
    }

    /// Answers and ends the connection, where the beginning of the next request is not known.
    func refuse(_ response: HTTPResponse, on connection: Connection) {
        enqueue(response, answering: .get, keepAlive: false, on: connection)
        linger(connection)
    }

    /// Queues an answer.
    func enqueue(
        _ response: HTTPResponse, answering method: HTTPMethod, keepAlive: Bool,
        on connection: Connection
    ) {
        scratch.removeAll()
        response.write(answering: method, keepAlive: keepAlive, into: &scratch)
        enqueueScratch(on: connection)
    }

    /// Queues what was written into `scratch`.
    @discardableResult
    func enqueueScratch(on connection: Connection) -> SendOutcome {
        scratch.withUnsafeBytes { connection.output.append($0, pool: chunks) }
        scratch.removeAll()
        return admitOutput(of: connection)
    }

    // MARK: Upgrade

    private func upgrade(
        _ request: HTTPRequest, to service: WebSocketService, by caller: Caller,
        followedBy rest: UnsafeMutableRawBufferPointer, on connection: Connection
    ) {
        if let failure = routes.objection(toUpgrading: request, to: service) {
            return send(failure.response, to: request, on: connection)
        }
        if let objection = objection(toUpgrading: request, on: connection) {
            return send(objection, to: request, on: connection)
        }
        if case .session = service, let id = SidebandQuery.sessionID(of: request) {
            guard let refusal = beginJoining(id, request, by: caller, on: connection)
            else { return }
            send(refusal, to: request, on: connection)
            return releaseProxiedPlace(of: connection)
        }
        let peer = connection.http?.client
        upgrade(request, to: service, by: caller, on: connection)
        if connection.state == .webSocket { noteAnswer(101, to: request, sentBy: peer) }
        releaseProxiedPlace(of: connection)
        // The client may have sent its first messages before the answer.
        if connection.state == .webSocket, !rest.isEmpty { receiveMessages(rest, on: connection) }
    }

    private func upgrade(
        _ request: HTTPRequest, to service: WebSocketService, by caller: Caller,
        on connection: Connection
    ) {
        let upgrade: WebSocketUpgrade
        do {
            upgrade = try WebSocketHandshake.validate(request)
        } catch {
            metrics.add(.protocolErrors)
            logger.debug("bad handshake", metadata: ["rule": "\(error)"])
            return send(RouteFailure.response(to: error), to: request, on: connection)
        }
        guard !isTooLate(connection) else {
            return send(routes.stopping.response, to: request, on: connection)
        }
        switch service {
        case .session:
            let client = source(of: request, on: connection).client
            let (parameters, grant): (SessionParameters, SessionGrant?)
            do {
                (parameters, grant) = try admit(
                    caller, at: client, to: routes.session(for: request))
            } catch {
                return send(credentialRefusal(error, on: connection), to: request, on: connection)
            }
            guard !isShortOfMemory() else {
                metrics.add(.sessionsRefused)
                return send(routes.shortOfMemory.response, to: request, on: connection)
            }
            // A server without room does not use up its caller's quota.
            do throws(QuotaRefusal) {
                try grant?.quotas?.openConnection(at: now)
            } catch {
                return send(refuse(error, of: client), to: request, on: connection)
            }
            guard reserveSession() else {
                return send(routes.full.response, to: request, on: connection)
            }
            // The address is known as long as the connection speaks HTTP.
            let tag = tag(of: caller, sending: request, on: connection)
            accept(upgrade, on: connection)
            guard connection.state == .webSocket else {
                // The answer exceeded the output limit of a slow reader: the place is free again.
                services.metrics.sessions.subtract(1, ordering: .relaxed)
                return
            }
            let dialect = RealtimeDialect(askedForBy: request.fields)
            startSession(parameters, in: dialect, of: tag, grant: grant, on: connection)
        case .echo:
            accept(upgrade, on: connection)
        }
    }

    private func reserveSession() -> Bool {
        let limit = configuration.maxSessions
        guard services.metrics.reserve(services.metrics.sessions, limit: limit) else {
            metrics.add(.sessionsRefused)
            logger.debug("session refused", metadata: ["reason": "max-sessions"])
            return false
        }
        return true
    }

    /// Answers the handshake; from then on the connection is a WebSocket, unless it is closed.
    /// - Parameter compresses: whether an offer of compression may be taken.
    func accept(
        _ upgrade: WebSocketUpgrade, compresses: Bool = true, on connection: Connection
    ) {
        let agreement = compresses ? compression.negotiate(upgrade.extensions) : nil
        var headers = HTTPFields()
        if let agreement { headers.append("Sec-WebSocket-Extensions", agreement.headerValue) }
        scratch.removeAll()
        // Browsers send a key in another subprotocol; only `realtime` is ever selected.
        WebSocketHandshake.writeAcceptance(
            of: upgrade,
            subprotocol: upgrade.selectSubprotocol(from: [WebSocketHandshake.realtimeSubprotocol]),
            headers: headers, into: &scratch)
        guard enqueueScratch(on: connection) != .overLimit else { return }
        connection.http?.end()
        connection.http = nil
        connection.phaseStart = peerClock
        connection.state = .webSocket
        connection.webSocket = WebSocketConnection(
            role: .server, limits: configuration.webSocketLimits,
            takesCompressed: agreement != nil)
        if let agreement { adopt(agreement, on: connection) }
        scheduleClose(of: connection)
    }
}
