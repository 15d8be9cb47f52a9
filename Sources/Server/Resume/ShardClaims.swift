// A client that comes back with a handle whose session is not here. The store knows where it is:
//
//   no server has it               it is claimed, and goes on here from what was saved
//   another server that is alive   the client's connection is relayed there: nothing is missed
//   that server cannot be reached  it is claimed all the same, and the server loses it
//   unknown, or the store is away  the other servers are asked; a new session begins where none has it
//
// Invariant: nothing here waits for the store. A client that has left meanwhile costs no session: the
// claim is released, and may be made again.

import Codec
import Session

/// A session that this server has claimed, before it goes on here.
struct ClaimedSession {
    let saved: SavedSession
    let resume: SavedResume
    let log: ResumeLog
    let fence: UInt64
    let claim: ResumeClaim
    /// The calls that are hidden from its client. Nil means that none are.
    let privateCalls: PrivateCalls?
}

extension Shard {
    /// A client asks for a session that is not here.
    /// - Parameter force: also from a server that is alive.
    func beginClaim(
        _ claim: ResumeClaim, _ request: HTTPRequest, by caller: Caller, force: Bool = false,
        on connection: Connection
    ) {
        // The server that passes the request on claims the session itself: it knows the caller's limits.
        guard !caller.isNode else {
            return answerLate(RouteFailure.noSession.response, to: request, on: connection)
        }
        connection.http?.beginAnswer(.claim)
        let principal = caller.principal?.hexadecimal()
        // A session that was made resumable by an update knows no owner.
        let owners: [String?] = principal == nil ? [nil] : [principal, nil]
        let token = connection.token
        take(claim.handle, of: owners[...], force: force) { [self] outcome in
            endClaim(outcome, claim, request, by: caller, at: token)
        }
    }

    /// Claims a session that may have one of several owners.
    private func take(
        _ handle: ResumeHandle, of owners: ArraySlice<String?>, force: Bool,
        then: @escaping (ClaimOutcome) -> Void
    ) {
        guard let owner = owners.first else { return then(.missing) }
        returning.store.sessions.claim(
            SessionClaim(
                sessionID: handle.sessionID, proof: handle.secret.proof(for: owner).bytes,
                force: force, lifetime: recordLifetime)
        ) { [self] outcome in
            guard outcome == .missing else { return then(outcome) }
            take(handle, of: owners.dropFirst(), force: force, then: then)
        }
    }

    /// The store has answered.
    private func endClaim(
        _ outcome: ClaimOutcome, _ claim: ResumeClaim, _ request: HTTPRequest, by caller: Caller,
        at token: EventToken
    ) {
        guard let connection = connections[token], connection.state == .http,
            connection.http?.isClaiming == true
        else {
            // The client has left. It may come back with the same handle.
            if case .claimed(_, let fence) = outcome {
                release(claim.handle.sessionID, fence: fence)
            }
            return
        }
        if case .heldBy(let node) = outcome {
            connection.http?.beginServing()
            return pass(claim, request, by: caller, to: node, on: connection)
        }
        // A store that came back empty may not have the session yet.
        if outcome == .unavailable || outcome == .missing {
            connection.http?.beginServing()
            guard !beginFinding(claim, request, by: caller, on: connection) else { return }
        }
        guard case .claimed(let fields, let fence) = outcome else {
            return upgrade(claim, nil, request, by: caller, on: connection)
        }
        // Where this server has had it, it ends at once.
        for post in services.directory.all {
            post(.fenced(sessionID: claim.handle.sessionID, fence: fence))
        }
        handleFenced(claim.handle.sessionID, fence: fence)
        do throws(SavedSessionError) {
            let claimed = try claimedSession(fields, fence: fence, claim)
            upgrade(claim, claimed, request, by: caller, on: connection)
        } catch {
            logger.warning(
                "a saved session cannot be read",
                metadata: ["session": "\(claim.handle.sessionID)", "reason": "\(error)"])
            release(claim.handle.sessionID, fence: fence)
            guard case .version = error else {
                return upgrade(claim, nil, request, by: caller, on: connection)
            }
            // A server of the version that has written it can go on with it.
            connection.http?.beginServing()
            answerLate(fixtures.routes.otherVersion.response, to: request, on: connection)
        }
    }

    /// A session that was claimed does not go on here: others may claim it.
    func release(_ sessionID: String, fence: UInt64) {
        returning.store.sessions.release(
            sessionID, fence: fence, lifetime: configuration.resume.window)
    }

    /// Passes the client on to another server that is alive and has the session.
    private func pass(
        _ claim: ResumeClaim, _ request: HTTPRequest, by caller: Caller, to node: String,
        on connection: Connection
    ) {
        let claimAnyway = { [self] (connection: Connection) in
            beginClaim(claim, request, by: caller, force: true, on: connection)
        }
        guard node != services.nodes.name else { return claimAnyway(connection) }
        beginRelay(
            of: request, to: node, for: caller, on: connection, otherwise: claimAnyway)
    }

    /// The client's session is not found: it gets a new one, and `parley.resumed` says so.
    func beginAnew(
        _ claim: ResumeClaim, _ request: HTTPRequest, by caller: Caller, on connection: Connection
    ) {
        upgrade(claim, nil, request, by: caller, on: connection)
    }

    /// Upgrades the client's connection.
    /// - Parameter claimed: the session that the client has come back to, or nil where a new one
    ///   begins.
    private func upgrade(
        _ claim: ResumeClaim, _ claimed: ClaimedSession?, _ request: HTTPRequest,
        by caller: Caller, on connection: Connection
    ) {
        let peer = connection.http?.client
        var rest = connection.http?.pending ?? []
        if claimed == nil { metrics.add(.resumesUnknown) }
        startSession(
            for: request, by: caller, resume: .resume(claim), claimed: claimed, on: connection)
        if connection.state == .webSocket { noteAnswer(101, to: request, sentBy: peer) }
        releaseProxiedPlace(of: connection)
        guard connection.state == .webSocket else {
            if let claimed { release(claimed.saved.id, fence: claimed.fence) }
            if connection.state == .http { answerWaiting(on: connection) }
            return
        }
        perform([.settle, .rearm, .watch], on: connection)
        guard !rest.isEmpty else { return }
        rest.withUnsafeMutableBytes { receiveMessages($0, on: connection) }
    }

    private func claimedSession(
        _ fields: [String: [UInt8]], fence: UInt64, _ claim: ResumeClaim
    ) throws(SavedSessionError) -> ClaimedSession {
        let saved = try SavedSession(fields: fields)
        guard saved.id == claim.handle.sessionID else { throw .malformed("id") }
        guard let resume = SavedResume(fields[SavedResume.name]) else {
            throw .missing(SavedResume.name)
        }
        let log = ResumeLog(
            lines: fields[SavedResume.logName] ?? [], first: resume.first,
            limit: configuration.resume.maxBytes)
        var privateCalls: PrivateCalls?
        if let field = fields[PrivateCalls.fieldName] {
            privateCalls = PrivateCalls(field: field, parser: JSONParser())
            if privateCalls == nil { throw .malformed(PrivateCalls.fieldName) }
        }
        return ClaimedSession(
            saved: saved, resume: resume, log: log, fence: fence, claim: claim,
            privateCalls: privateCalls)
    }

    /// The session that was claimed goes on.
    func goOn(with claimed: ClaimedSession, _ live: LiveSession) {
        let resume = ResumeState(
            random: services.makeRandomBytes(ResumeSecret.byteCount),
            shown: claimed.claim.handle.secret, epoch: claimed.resume.epoch, log: claimed.log,
            window: configuration.resume.window, at: now)
        resume.principal = claimed.resume.principal
        live.resume = resume
        // No number of an event id is used twice in the session, even across servers.
        live.eventNumber = claimed.fence << 32 | 1
        live.session.isResumable = true
        metrics.add(.sessionsResumable)
        let use = claimed.resume.use
        live.turns = use.turns
        live.grant?.quotas?.restore(
            ownFullTimes: use.quotasFullAt.mapValues(instant(ofWallSeconds:)),
            estimates: use.estimates, at: now)
        if let end = claimed.resume.end {
            live.grant?.shorten(to: instant(ofWallSeconds: end))
        }
        // In memory, what goes on has no record.
        if !returning.store.sessions.isShared {
            returning.store.sessions.remove(live.session.id, fence: claimed.fence)
        }
        returning.stored[live.session.id] = live.token
        let isRecovered = resume.attach(from: claimed.claim.position, at: now)
        metrics.add(isRecovered ? .resumesRecovered : .resumesRestored)
        if !isRecovered {
            resume.beginEpoch(services.makeRandomBytes(ResumeState.epochByteCount))
        }
        beginStoring(
            live, resume, fence: claimed.fence, principal: claimed.resume.principal)
        if let calls = claimed.privateCalls { restore(calls, of: live) }
        beginRecording(live, hasConsent: claimed.resume.isRecorded)
        sendResumed(live, resume, recovered: isRecovered, from: claimed.claim)
        if claimed.resume.isRecorded { noteRecordedElsewhere(live) }
        step(live) {
            $0.startRestored(
                claimed.saved, played: claimed.claim.played, announcesItems: !isRecovered, at: now)
        }
    }

    /// The instant of a time in seconds since 1970: not before now, and at most 136 years from now.
    private func instant(ofWallSeconds seconds: Int) -> Instant {
        let wall = services.wallSeconds()
        return now + .seconds(min(max(seconds, wall) - wall, 1 << 32))
    }
}

extension ResumeSecret {
    /// The proof of the right to claim a session, which does not reveal the secret.
    /// - Parameter principal: the principal of the session, as hexadecimal digits, or nil where it
    ///   has no key.
    func proof(for principal: String?) -> SHA256Digest {
        (bytes + Array((principal ?? "").utf8)).withUnsafeBytes { SHA256Digest(of: $0) }
    }
}
