// A client that comes back to its session with a handle. Its socket goes to the shard that the handle
// names, and gets the session there: the session itself never moves. The connection that had it is
// closed with 4409, if it still is open, so that two connections never have one session.
//
//   client ──handle──▶ any shard ──ReturningClient──▶ session's shard ──▶ parley.resumed, what was missed
//
// A handle that no server knows begins a new session, and says so: a client whose session is lost is no
// error of its own.

import Codec
import Session

/// A connection on its way to another shard, with its client's request.
struct ReturningClient: Sendable {
    /// On the way no thread uses the TLS state.
    struct Wire: @unchecked Sendable {
        let tls: TLSConnection?
    }

    let handle: IOHandle
    let wire: Wire
    /// Records that the socket has not taken yet: after a handshake, the tickets of TLS.
    let records: [UInt8]
    /// Answers to earlier requests that the socket has not taken yet.
    let output: [UInt8]
    let client: NetworkAddress
    let addressPlace: AddressPlace
    /// The bytes that the client has sent behind its request.
    let pending: [UInt8]
    let request: HTTPRequest
    let caller: Caller
    let claim: ResumeClaim
}

extension Shard {
    // MARK: The way to the session's shard

    /// Handles the request of a client to come back.
    /// - Parameter rest: the bytes that it has sent behind its request.
    func beginReturn(
        _ claim: ResumeClaim, _ request: HTTPRequest, by caller: Caller,
        followedBy rest: UnsafeMutableRawBufferPointer, on connection: Connection
    ) {
        if claim.handle.shard != services.index,
            let post = services.directory.post(to: claim.handle.shard)
        {
            return post(
                .takeIn(takeOut(connection, claim, request, by: caller, pending: Array(rest))))
        }
        if caller.isNode { releaseAddressPlace(of: connection) }
        _ = resumeSession(claim, request, by: caller, on: connection)
        if connection.state == .webSocket, !rest.isEmpty { receiveMessages(rest, on: connection) }
    }

    /// Takes a connection out of this shard. Its socket stays open.
    private func takeOut(
        _ connection: Connection, _ claim: ResumeClaim, _ request: HTTPRequest,
        by caller: Caller, pending: [UInt8]
    ) -> ReturningClient {
        io.unwatch(connection.handle)
        let client = ReturningClient(
            handle: connection.handle, wire: .init(tls: connection.tls),
            records: connection.tls?.unsent.takeAll(into: fixtures.chunks) ?? [],
            output: connection.output.takeAll(into: fixtures.chunks),
            client: connection.http?.client ?? .unspecified,
            addressPlace: connection.addressPlace, pending: pending, request: request,
            caller: caller, claim: claim)
        connection.handle = Connection.noHandle
        connection.tls = nil
        connection.addressPlace = .none
        close(connection)
        return client
    }

    /// A connection comes over from another shard.
    func takeIn(_ client: ReturningClient) {
        guard !shutdown.isStopping, let token = connections.reserveToken(),
            io.watch(client.handle, for: .reads, token: token, isNew: true) == 0
        else {
            services.metrics.connections.subtract(1, ordering: .relaxed)
            fixtures.admission.limits.release(client.addressPlace, at: now)
            return io.close(client.handle)
        }
        let connection = Connection(token: token, handle: client.handle, at: peerClock)
        connection.addressPlace = client.addressPlace
        connection.http?.client = client.client
        if let tls = client.wire.tls {
            fixtures.wire?.adopt(tls)
            client.records.withUnsafeBytes { tls.unsent.append($0, pool: fixtures.chunks) }
        }
        connection.tls = client.wire.tls
        client.output.withUnsafeBytes { connection.output.append($0, pool: fixtures.chunks) }
        connections.insert(connection)
        connection.deadline = deadlines.schedule(
            .connection(token.index),
            at: time(ofPeerTime: connection.protocolDeadline(configuration.connection)))
        connection.http?.beginServing()
        perform(connection.hasOutput ? [.settle, .flush] : .settle, on: connection)
        var pending = client.pending
        pending.withUnsafeMutableBytes { connection.http?.keep($0) }
        let isBack = resumeSession(client.claim, client.request, by: client.caller, on: connection)
        guard isBack, connection.state == .webSocket, !pending.isEmpty else { return }
        pending.withUnsafeMutableBytes { receiveMessages($0, on: connection) }
    }

    // MARK: The return

    /// Gives the client its session back, or looks for it elsewhere.
    /// - Returns: whether it was here.
    private func resumeSession(
        _ claim: ResumeClaim, _ request: HTTPRequest, by caller: Caller,
        on connection: Connection
    ) -> Bool {
        let peer = connection.http?.client
        guard let live = session(of: claim, for: caller), let resume = live.resume else {
            beginClaim(claim, request, by: caller, on: connection)
            return false
        }
        guard let upgrade = validUpgrade(of: request, on: connection) else { return true }
        moveClient(of: live, to: connection, upgrade)
        guard connection.live === live, connection.state == .webSocket else { return true }
        greet(live, resume, claim, on: connection)
        if connection.state == .webSocket { noteAnswer(101, to: request, sentBy: peer) }
        releaseProxiedPlace(of: connection)
        return true
    }

    /// A session on this shard: where the handle says, or where its id leads, because the handle of a
    /// session that came from another process may be older than its place.
    private func session(of claim: ResumeClaim, for caller: Caller) -> LiveSession? {
        let id = claim.handle.sessionID
        return [claim.handle.token, returning.stored[id]].lazy.compactMap { $0 }
            .compactMap { self.sessions[$0] }
            .first { live in
                guard let resume = live.resume else { return false }
                return live.session.id == id && resume.accepts(claim.handle.secret)
                    && self.owns(caller, live)
            }
    }

    /// Whether the session is the caller's. A caller with a principal opens only its own sessions,
    /// whatever handle it has.
    private func owns(_ caller: Caller, _ live: LiveSession) -> Bool {
        guard let principal = caller.principal else { return true }
        return CallerTag(principal: principal, address: .unspecified) == live.work.caller
    }

    /// Gives a session to the connection that its client has come back with. The connection that
    /// had the session before is closed, if it is still open.
    private func moveClient(
        of live: LiveSession, to connection: Connection, _ upgrade: WebSocketUpgrade
    ) {
        let earlier = live.connection
        if let earlier {
            tellUnsentAudio(to: live)
            releaseAgents(of: earlier)
            earlier.part()
            metrics.add(.resumesTakenOver)
        } else {
            stopWaiting(live)
        }
        connection.give(live)
        if let earlier {
            closeWebSocket(
                earlier, .takenOver, reason: "The session goes on at another connection.")
            perform([.settle, .rearm], on: earlier)
        }
        accept(upgrade, as: .client, on: connection)
        perform([.settle, .rearm, .watch], on: connection)
        // The rest of a long message that came on the earlier connection is heard first.
        if connection.state == .webSocket, connection.hasUnheardAudio {
            perform(.resume, on: connection)
        }
    }

    /// Sends a client that is back the events that it has missed, and resumes its session.
    private func greet(
        _ live: LiveSession, _ resume: ResumeState, _ claim: ResumeClaim,
        on connection: Connection
    ) {
        if resume.awayUntil == nil || resume.takeClientAwayNotice() {
            step(live) { $0.handleClientAway(at: now) }
        }
        // The output of this step may be too much for a client that does not read: then its
        // connection has ended.
        guard connection.live === live, connection.state == .webSocket else { return }
        let isRecovered = resume.attach(from: claim.position, at: now)
        metrics.add(isRecovered ? .resumesRecovered : .resumesRestored)
        if !isRecovered {
            resume.beginEpoch(services.makeRandomBytes(ResumeState.epochByteCount))
        }
        sendResumed(live, resume, recovered: isRecovered, from: claim)
        if !isRecovered { step(live) { $0.announceConversation(at: now) } }
        guard connection.live === live, connection.state == .webSocket else { return }
        step(live) { $0.handleClientBack(played: claim.played, at: now) }
        perform([.settle, .rearm], on: connection)
    }

    /// Tells the client which session it has come back to, and sends the events that it has missed.
    func sendResumed(
        _ live: LiveSession, _ resume: ResumeState, recovered isRecovered: Bool,
        from claim: ResumeClaim
    ) {
        let session = live.session
        // Functions of sidebands are not shown to the client.
        let parameters =
            sidebands.observations[live.token]?.privateCalls
            .view(of: session.parameters, for: []) ?? session.parameters
        send(.resumed(id: session.id, parameters, recovered: isRecovered), of: live)
        guard isRecovered, let position = claim.position, let connection = live.connection
        else { return }
        resume.log.forEach(after: position.offset) { _ = send(.text, $0, on: connection) }
    }
}
