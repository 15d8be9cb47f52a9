// From HTTP to WebSocket: which requests become a WebSocket, with which session behind it. The request
// was judged before (RequestGate); here the handshake, the credential's limits and the server's
// places decide.

import Codec
import Session

/// The place of a session that has not begun: it is to be used, or released.
struct SessionPlaceHeld {
    /// The session as its request and its credential have it.
    var parameters: SessionParameters
    /// Limits of the credential; nil where there are none.
    let grant: SessionGrant?
    /// Whose session it is.
    let tag: CallerTag
    /// The same, as its credential names it.
    let owner: SessionOwner
}

extension Shard {
    /// A request for a WebSocket.
    /// - Parameter rest: what the client has sent behind it.
    func upgrade(
        _ request: HTTPRequest, to service: WebSocketService, by caller: Caller,
        followedBy rest: UnsafeMutableRawBufferPointer, on connection: Connection
    ) {
        if let failure = routes.objection(toUpgrading: request, to: service) {
            return send(failure.response, to: request, on: connection)
        }
        if let objection = objection(toUpgrading: request, on: connection) {
            return send(objection, to: request, on: connection)
        }
        let peer = connection.http?.client
        switch service {
        case .echo:
            if let upgrade = validUpgrade(of: request, on: connection) {
                accept(upgrade, on: connection)
            }
        case .administration: beginWatching(request, by: caller, on: connection)
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
            if case .comeBack(let claim) = resume {
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
            send(routes.stopping.response, to: request, on: connection)
            return nil
        }
        return upgrade
    }

    /// Begins a session of its own for a request, if it may have one.
    /// - Parameters:
    ///   - resume: `comeBack`: in place of the session that the client has lost.
    ///   - claimed: the session that the client has come back to, from the store; nil: a new one.
    func startSession(
        for request: HTTPRequest, by caller: Caller, resume: ResumeQuery,
        claimed: ClaimedSession? = nil, on connection: Connection
    ) {
        guard
            let (upgrade, place) = takePlace(
                for: request, by: caller, to: routes.session(for: request),
                isMoved: claimed != nil, on: connection)
        else { return }
        accept(upgrade, on: connection)
        // The answer may have exceeded the output limit of a slow reader.
        guard connection.state == .webSocket else { return release(place) }
        let dialect = RealtimeDialect(askedForBy: request.fields)
        if let claimed,
            restore(
                claimed, of: place.tag, owner: place.owner, grant: place.grant, on: connection)
        {
            return
        }
        let live = openSession(
            place.parameters, in: dialect, of: place.tag, grant: place.grant, on: connection)
        beginRecord(of: live.session, owner: place.owner)
        if caller.hasRecordingConsent { beginRecording(live, hasConsent: true) }
        if resume != .none { makeResumable(live, of: caller.principal, on: connection) }
        if case .comeBack(let claim) = resume, let state = live.resume {
            sendResumed(live, state, recovered: false, from: claim, on: connection)
        }
        step(live, of: connection) { $0.start(at: now) }
    }

    /// Takes the place of a session for a request, within the limits of its caller and of the
    /// server. A request that may have none is answered.
    /// - Parameters:
    ///   - asked: the session that it asks for.
    ///   - isMoved: whether the session comes from another server.
    func takePlace(
        for request: HTTPRequest, by caller: Caller, to asked: SessionParameters,
        isMoved: Bool = false, on connection: Connection
    ) -> (WebSocketUpgrade, SessionPlaceHeld)? {
        guard let upgrade = validUpgrade(of: request, on: connection) else { return nil }
        let client = source(of: request, on: connection).client
        let (parameters, grant): (SessionParameters, SessionGrant?)
        do {
            (parameters, grant) = try admit(caller, at: client, to: asked, isMoved: isMoved)
        } catch {
            send(credentialRefusal(error, on: connection), to: request, on: connection)
            return nil
        }
        // The address is known as long as the connection speaks HTTP.
        let tag = tag(of: caller, sending: request, on: connection)
        guard !isShortOfMemory() else {
            var givenUp = 0
            while givenUp < DetachedSessions.givenUpForMemory, makeRoom(for: tag) { givenUp += 1 }
            metrics.add(.sessionsRefused)
            send(routes.shortOfMemory.response, to: request, on: connection)
            return nil
        }
        guard reserveSession(for: tag) else {
            send(routes.full.response, to: request, on: connection)
            return nil
        }
        let place = SessionPlaceHeld(
            parameters: parameters, grant: grant, tag: tag, owner: SessionOwner(caller))
        // A server without room does not use up its caller's quota, and no return does.
        do throws(QuotaRefusal) {
            if !isMoved { try grant?.quotas?.openConnection(at: now) }
        } catch {
            release(place)
            send(refuse(error, of: client), to: request, on: connection)
            return nil
        }
        return (upgrade, place)
    }

    /// No session takes the place.
    func release(_ place: SessionPlaceHeld) {
        services.metrics.sessions.subtract(1, ordering: .relaxed)
    }

    private func reserveSession(for caller: CallerTag) -> Bool {
        let reserve = { [services, limit = configuration.maxSessions] in
            services.metrics.reserve(services.metrics.sessions, limit: limit)
        }
        guard reserve() || makeRoom(for: caller) && reserve() else {
            metrics.add(.sessionsRefused)
            logger.debug("session refused", metadata: ["reason": "max-sessions"])
            return false
        }
        return true
    }

    /// Answers the handshake; from then on the connection is a WebSocket, unless it is closed.
    /// - Parameters:
    ///   - subprotocols: those of which an offered one is selected. Browsers send a key in another
    ///     one, which is never selected.
    ///   - compresses: whether an offer of compression may be taken.
    func accept(
        _ upgrade: WebSocketUpgrade,
        subprotocols: [String] = [WebSocketHandshake.realtimeSubprotocol],
        compresses: Bool = true, on connection: Connection
    ) {
        let agreement = compresses ? compression.negotiate(upgrade.extensions) : nil
        var headers = HTTPFields()
        if let agreement { headers.append("Sec-WebSocket-Extensions", agreement.headerValue) }
        scratch.removeAll()
        WebSocketHandshake.writeAcceptance(
            of: upgrade, subprotocol: upgrade.selectSubprotocol(from: subprotocols),
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
