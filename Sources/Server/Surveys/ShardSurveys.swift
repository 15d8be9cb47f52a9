// Surveys on a shard: a request for the sessions of the server becomes a question to all shards,
// each scans its own connections, and their reports become the answer. The values are in
// SessionSurvey, a scan is SessionScan's, the JSON is SurveyAnswer's.

import Codec
import Session

extension Shard {
    // MARK: Asking

    /// Answers a request for sessions.
    /// - Returns: the answer where it comes at once, or nil where the shards are asked.
    func beginSurvey(
        _ request: HTTPRequest, by caller: Caller, on connection: Connection
    ) -> HTTPResponse? {
        guard caller.isNode || services.authenticator.isOn || isLocal(request, on: connection)
        else {
            return RouteFailure.loopbackOnly.response
        }
        let query: SessionQuery
        do throws(ClientEventError) {
            if let route = fixtures.routes.route(at: request.path), route.path.hasSuffix("}") {
                // No session has an id that is not text.
                query = SessionQuery(id: route.parameter(of: request.path) ?? "")
            } else {
                query = try SessionQuery(request)
            }
        } catch {
            return HTTPResponse(badRequest: error)
        }
        guard !questions.surveys.isFull else { return RouteFailure.tooManySurveys.response }
        let shards = services.directory.all
        let id = questions.surveys.takeID()
        let asksNodes =
            query.scope == .cluster && asksNodes(caller)
            && query.id.map(SessionQuery.isPlain) ?? true
        var survey = Survey(
            id: id, query: query, request: request, token: connection.token, shards: shards.count)
        if asksNodes { survey.nodes = services.nodes.others.count }
        survey.awaitsNodes = asksNodes
        questions.surveys.insert(survey)
        connection.http?.beginAnswer(.survey(id))
        _ = deadlines.schedule(.survey(id), at: now + survey.patience)
        if asksNodes { askNodesForSessions(query, for: caller, as: id) }
        let question = SurveyQuestion(query: query, patience: survey.patience) { [noteReport] in
            noteReport($0, id)
        }
        for post in shards { post(.answerSurvey(question)) }
        return nil
    }

    /// Whether a request comes from this machine, and was not passed on by a proxy for a client
    /// elsewhere. A proxy is known by the fields that it adds; only a trusted one that names its
    /// client can vouch for it.
    func isLocal(_ request: HTTPRequest, on connection: Connection) -> Bool {
        guard let http = connection.http else { return false }
        let named = "X-Forwarded-For"
        let namesClient =
            fixtures.admission.trusts(http.client) && request.fields.count(of: named) > 0
        let isForwarded = [named, "Forwarded", "Via", "X-Real-IP"].contains {
            request.fields.count(of: $0) > 0
        }
        if isForwarded, !namesClient { return false }
        return source(of: request, on: connection).client.isLoopback
    }

    /// A shard has answered.
    func handle(_ report: SurveyReport, for id: SurveyID) {
        if let survey = questions.surveys.add(report, to: id) { answer(survey) }
    }

    /// Other nodes have answered.
    func handle(_ answers: [NodeAnswer], for id: SurveyID) {
        if let survey = questions.surveys.add(answers, to: id) { answer(survey) }
    }

    /// The time for a survey is over: the reports that have come are the answer.
    func endSurvey(_ id: SurveyID) {
        if let survey = questions.surveys.remove(id) { answer(survey) }
    }

    private func answer(_ survey: Survey) {
        guard let connection = connections[survey.token], connection.state == .http,
            connection.http?.survey == survey.id
        else { return }
        send(
            SurveyAnswer(survey, of: services.nodes.name).response, to: survey.request,
            on: connection)
        if connection.state == .http { answerWaiting(on: connection) }
    }

    // MARK: Being asked

    /// Goes on with the scans by a tick's share. It removes those whose time is over.
    func continueScans() {
        questions.surveys.dropLateScans(at: now)
        var slots = SessionScan.slotsPerTick
        while slots > 0, var scan = questions.surveys.takeScan() {
            let start = io.now
            slots -= scan.look(
                through: connections, sessions, returning.waiting, atMost: slots, clock: clock,
                shard: services.index)
            if scan.isOver { scan.look(through: textRequests, clock: clock) }
            let report = scan.isOver ? report(scan) : nil
            scan.nanoseconds += Int(io.now.nanoseconds - start.nanoseconds)
            guard let report else { return questions.surveys.giveBack(scan) }
            metrics.observe(.sessionScan, nanoseconds: scan.nanoseconds)
            scan.question.answer(report)
        }
    }

    private func report(_ scan: SessionScan) -> SurveyReport {
        var report = SurveyReport(states: scan.states)
        report.matching = scan.ranking.counted
        report.preceding = scan.preceding
        report.connections = connections.count
        report.ledgerBytes = ledgerBytes
        let hasParts = scan.question.query.id != nil
        for candidate in scan.ranking.sorted {
            // Connections that have ended since the scan came to them are left out.
            if let connection = connections[candidate.token] {
                report.rows.append(row(of: connection, candidate.rank, hasParts: hasParts))
            } else if let turn = textRequests[candidate.token] {
                report.rows.append(row(of: turn, candidate.rank, hasParts: hasParts))
            } else if let live = sessions[candidate.token],
                let place = returning.waiting[live.token]
            {
                report.rows.append(row(of: live, place, candidate.rank, hasParts: hasParts))
            }
        }
        return report
    }

    private func row(
        of connection: Connection, _ rank: SessionRank, hasParts: Bool
    ) -> SessionRow {
        let live = connection.live
        let parts = hasParts ? ledger(of: connection) : nil
        return SessionRow(
            rank: rank,
            sidebands: live.map(sidebandCount) ?? 0,
            joined: sidebands.joined[connection.token]?.place.sessionID,
            shard: services.index, state: connection.chargedState ?? .connection,
            bytes: parts?.total ?? Int(connection.charged),
            age: peerClock - connection.activityStart,
            idle: peerClock - connection.lastActive,
            client: client(of: connection), model: live?.session.parameters.model,
            turns: Int(live?.turns ?? 0), lastTurn: live?.shownTurn,
            call: live.flatMap { front(of: $0) }?.0.call, parts: parts)
    }

    private func row(of turn: TextRequest, _ rank: SessionRank, hasParts: Bool) -> SessionRow {
        let session = turn.live.session
        let parts = hasParts ? ledger(of: turn) : nil
        return SessionRow(
            rank: rank, shard: services.index, state: session.state,
            bytes: parts?.total ?? Int(turn.charge.bytes), age: peerClock - turn.started,
            idle: peerClock - turn.lastActive,
            client: turn.client, model: session.parameters.model, turns: Int(turn.live.turns),
            lastTurn: turn.live.shownTurn, parts: parts)
    }

    private func row(
        of live: LiveSession, _ place: WaitingSession, _ rank: SessionRank, hasParts: Bool
    ) -> SessionRow {
        let parts = hasParts ? ledger(of: live) : nil
        return SessionRow(
            rank: rank, sidebands: sidebandCount(of: live), shard: services.index,
            state: place.charge.state ?? .idle,
            bytes: parts?.total ?? Int(place.charge.bytes), age: peerClock - place.began,
            idle: peerClock - place.lastActive,
            client: .unspecified, model: live.session.parameters.model, turns: Int(live.turns),
            lastTurn: live.shownTurn, parts: parts)
    }

    private func sidebandCount(of live: LiveSession) -> Int {
        sidebands.observations[live.token]?.sidebandCount ?? 0
    }

    /// The client's address, without storing it in the connection: the kernel knows the peer, the
    /// table of addresses the client that a proxy has named.
    private func client(of connection: Connection) -> NetworkAddress {
        if let http = connection.http { return http.client }
        let peer = io.peer(of: connection.handle)
        guard fixtures.admission.trusts(peer) else { return peer }
        return fixtures.admission.limits.address(of: connection.addressPlace) ?? peer
    }
}

extension LiveSession {
    /// How the last turn went; nil before the first.
    fileprivate var shownTurn: TurnLatencies? {
        turns > 0 || lastTurn != TurnLatencies() ? lastTurn : nil
    }
}
