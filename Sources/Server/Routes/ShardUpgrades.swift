// From HTTP to WebSocket: which requests become a WebSocket, with which session behind it. The request
// was judged before (RequestGate); here the handshake, the credential's limits and the server's
// places decide.

import Codec
import Session

extension Shard {
    /// Handles a request for a WebSocket.
    /// - Parameter rest: the bytes that the client has sent behind it.
    func upgrade(
        _ request: HTTPRequest, to service: WebSocketService, by caller: Caller,
        followedBy rest: UnsafeMutableRawBufferPointer, on connection: Connection
    ) {
        if let failure = fixtures.routes.objection(toUpgrading: request, to: service) {
            return send(failure.response, to: request, on: connection)
        }
        if let objection = objection(toUpgrading: request, on: connection) {
            return send(objection, to: request, on: connection)
        }
        let peer = connection.http?.client
        switch service {
        case .echo:
            if let upgrade = validUpgrade(of: request, on: connection) {
                accept(upgrade, as: .echo, on: connection)
            }
        case .administration: beginWatching(request, by: caller, on: connection)
        case .front(let make): begin(make, request, by: caller, on: connection)
        case .call(let carrier):
            answerCall(request, from: carrier, by: caller, on: connection)
        case .session:
            if let id = SidebandQuery.sessionID(of: request) {
                guard let refusal = beginJoining(id, request, by: caller, on: connection)
                else { return }
                send(refusal, to: request, on: connection)
                return releaseProxiedPlace(of: connection)
            }
            let resume: ResumeQuery
            do throws(ClientEventError) {
                resume = try ResumeQuery(request)
            } catch {
                send(HTTPResponse(badRequest: error), to: request, on: connection)
                return releaseProxiedPlace(of: connection)
            }
            if case .resume(let claim) = resume {
                return beginReturn(claim, request, by: caller, followedBy: rest, on: connection)
            }
            startSession(for: request, by: caller, resume: resume, on: connection)
        }
        if connection.state == .webSocket { noteAnswer(101, to: request, sentBy: peer) }
        releaseProxiedPlace(of: connection)
        // The client may have sent its first messages before the answer.
        if connection.state == .webSocket, !rest.isEmpty { receiveMessages(rest, on: connection) }
    }

    /// The handshake of a request. One that breaks a rule, or comes too late, is answered.
    func validUpgrade(of request: HTTPRequest, on connection: Connection) -> WebSocketUpgrade? {
        let upgrade: WebSocketUpgrade
        do {
            upgrade = try WebSocketHandshake.validate(request)
        } catch {
            metrics.add(.protocolErrors)
            logger.debug("bad handshake", metadata: ["rule": "\(error)"])
            send(RouteFailure.response(to: error), to: request, on: connection)
            return nil
        }
        guard !isTooLate(connection) else {
            send(fixtures.routes.stopping.response, to: request, on: connection)
            return nil
        }
        return upgrade
    }

    /// Begins a session of its own for a request, if it may have one.
    /// - Parameters:
    ///   - resume: `.resume` where it begins in place of a session that the client has lost.
    ///   - claimed: the session that the client has come back to, from the store, or nil for a new
    ///     one.
    func startSession(
        for request: HTTPRequest, by caller: Caller, resume: ResumeQuery,
        claimed: ClaimedSession? = nil, on connection: Connection
    ) {
        guard
            let (upgrade, place) = takePlace(
                for: request, by: caller, to: fixtures.routes.session(for: request),
                isMoved: claimed != nil, on: connection)
        else { return }
        accept(upgrade, as: .client, on: connection)
        // The answer may have exceeded the output limit of a slow reader.
        guard connection.state == .webSocket else { return release(place) }
        let dialect = RealtimeDialect(askedForBy: request.fields)
        if let claimed,
            restore(
                claimed, of: place.tag, owner: place.owner, grant: place.grant, on: connection)
        {
            return
        }
        let live = openSession(place.parameters, in: dialect, at: place, on: connection)
        beginRecord(of: live.session, owner: place.owner)
        if caller.hasRecordingConsent { beginRecording(live, hasConsent: true) }
        if resume != .none { makeResumable(live, of: caller.principal) }
        if case .resume(let claim) = resume, let state = live.resume {
            sendResumed(live, state, recovered: false, from: claim)
        }
        step(live) { $0.start(at: now) }
    }

    /// Takes the place of a session for a request, within the limits of its caller and of the
    /// server. A request that may have none is answered.
    /// - Parameters:
    ///   - asked: the session that it asks for.
    ///   - isMoved: whether the session comes from another server.
    func takePlace(
        for request: HTTPRequest, by caller: Caller, to asked: SessionParameters, isMoved: Bool,
        on connection: Connection
    ) -> (WebSocketUpgrade, SessionPlaceHeld)? {
        guard let upgrade = validUpgrade(of: request, on: connection) else { return nil }
        var seeker = seeker(of: request, by: caller, on: connection)
        do throws(PlaceRefusal) {
            if asked.kind == .realtime { try seeker.take(profile(of: request, by: caller)) }
            let place = try reservePlace(for: seeker, to: asked, isMoved: isMoved)
            // No return uses up a quota.
            if !isMoved { try countConnection(of: seeker, at: place) }
            return (upgrade, place)
        } catch {
            send(answer(to: error, of: seeker), to: request, on: connection)
            return nil
        }
    }

    /// Whether a caller may know why a service has failed: an operator on this machine.
    func mayKnowCauses(
        _ caller: Caller, _ request: HTTPRequest, on connection: Connection
    ) -> Bool {
        configuration.log.explainsFailures && caller.access == .operator
            && isLocal(request, on: connection)
    }

    /// The agent of a request's session, if it has one.
    private func profile(
        of request: HTTPRequest, by caller: Caller
    ) throws(PlaceRefusal) -> AgentProfile? {
        do throws(RefusalReason) { return try profile(namedBy: request, for: caller) } catch {
            throw .credential(error)
        }
    }

    /// The seeker that sends a request. Its address is known as long as the connection speaks HTTP.
    func seeker(
        of request: HTTPRequest, by caller: Caller, on connection: Connection
    ) -> PlaceSeeker {
        PlaceSeeker(
            caller: caller, client: source(of: request, on: connection).client,
            tag: tag(of: caller, sending: request, on: connection),
            isLocalOperator: mayKnowCauses(caller, request, on: connection))
    }

    /// Takes a place within the limits of the caller and of the server.
    func reservePlace(
        for seeker: PlaceSeeker, to asked: SessionParameters, isMoved: Bool = false
    ) throws(PlaceRefusal) -> SessionPlaceHeld {
        let (parameters, grant): (SessionParameters, SessionGrant?)
        do {
            (parameters, grant) = try admit(
                seeker.caller, at: seeker.client, to: self.parameters(asked, of: seeker.profile),
                isMoved: isMoved)
        } catch {
            throw .credential(error)
        }
        guard !isShortOfMemory() else {
            metrics.add(.sessionsRefused)
            throw .memoryIsShort
        }
        guard reserveSession() else { throw .serverIsFull }
        return SessionPlaceHeld(
            parameters: parameters, grant: grant, seeker: seeker,
            owner: SessionOwner(seeker.caller))
    }

    /// Counts a session in its caller's quota. A server without room does not use it up.
    func countConnection(
        of seeker: PlaceSeeker, at place: SessionPlaceHeld
    ) throws(PlaceRefusal) {
        do throws(QuotaRefusal) {
            try place.grant?.quotas?.openConnection(at: now)
        } catch {
            release(place)
            throw .quota(error)
        }
    }

    /// Counts and logs a refusal, and makes its answer.
    func answer(to refusal: PlaceRefusal, of seeker: PlaceSeeker) -> HTTPResponse {
        switch refusal {
        case .credential(let reason):
            noteRefusal(reason, of: seeker.client, agent: seeker.profile?.name)
            return reason.failure(retryAfterSeconds: configuration.admission.retryAfterSeconds)
                .response
        case .quota(let refusal): return refuse(refusal, of: seeker.client)
        case .memoryIsShort: return fixtures.routes.shortOfMemory.response
        case .serverIsFull: return fixtures.routes.full.response
        }
    }

    /// Releases a place that no session takes.
    func release(_ place: SessionPlaceHeld) {
        services.metrics.sessions.subtract(1, ordering: .relaxed)
    }

    /// Takes a place. A session that waits for its client has none of its own: it ends where an
    /// active session needs the place.
    private func reserveSession() -> Bool {
        let all = services.metrics
        let limit = configuration.admission.maxSessions + all.detached.load(ordering: .relaxed)
        guard all.reserve(all.sessions, limit: limit) else {
            metrics.add(.sessionsRefused)
            logger.debug("session refused", metadata: ["reason": "max-sessions"])
            return false
        }
        endWaitingForPlace()
        return true
    }

    /// Answers the handshake; from then on the connection is a WebSocket, unless it is closed.
    /// - Parameter subprotocol: the subprotocol to select where it is offered. Browsers send a key
    ///   in another one, which is never selected.
    func accept(
        _ upgrade: WebSocketUpgrade, as role: Connection.Role,
        selecting subprotocol: String = WebSocketHandshake.realtimeSubprotocol,
        on connection: Connection
    ) {
        connection.role = role
        let agreement = role.mayCompress ? fixtures.compression.negotiate(upgrade.extensions) : nil
        var headers = HTTPFields()
        if let agreement { headers.append("Sec-WebSocket-Extensions", agreement.headerValue) }
        scratch.removeAll()
        WebSocketHandshake.writeAcceptance(
            of: upgrade, subprotocol: upgrade.selectSubprotocol(from: [subprotocol]),
            headers: headers, into: &scratch)
        guard enqueueScratch(on: connection) != .overLimit else { return }
        connection.http?.end()
        connection.http = nil
        connection.phaseStart = peerClock
        connection.state = .webSocket
        connection.webSocket = WebSocketConnection(
            role: .server, limits: configuration.connection.webSocket.parserLimits,
            takesCompressed: agreement != nil)
        if let agreement { adopt(agreement, on: connection) }
        scheduleClose(of: connection)
    }
}

extension Connection.Role {
    /// Whether an offer of compression may be taken.
    fileprivate var mayCompress: Bool { self == .echo || self == .client }
}
