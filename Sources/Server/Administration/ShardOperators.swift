// Operators' connections of a shard. A WebSocket shows the server once a second, a page of its
// sessions, and one session with its conversation. It takes the commands of the operator's page.
// Scans and calls are those of `/admin/sessions` and of sidebands, put to all shards.
//
// Invariants: a connection that reads slowly is skipped, so that at most `maxWaitingBytes` and one
// second's messages wait for it. The queued events of a watched session are limited as for a
// sideband: at more the connection is closed, and the session does not notice.

import Codec
import Session

extension Shard {
    /// Takes a sample of the server, and has the next one taken.
    func continueHistory() {
        services.history?.add(services.metrics, seconds: services.wallSeconds())
        _ = deadlines.schedule(.history, at: now + ServerHistory.interval)
    }

    // MARK: Coming and going

    /// A request for an operator's WebSocket.
    func beginWatching(_ request: HTTPRequest, by caller: Caller, on connection: Connection) {
        guard services.authenticator.isOn || isLocal(request, on: connection) else {
            return send(RouteFailure.loopbackOnly.response, to: request, on: connection)
        }
        guard !questions.operators.isFull else {
            return send(RouteFailure.tooManyOperators.response, to: request, on: connection)
        }
        guard let upgrade = validUpgrade(of: request, on: connection) else { return }
        let view = OperatorView(subject: caller.subject)
        questions.operators.insert(view, at: connection.token)
        accept(
            upgrade, as: .operator, selecting: OperatorMessage.subprotocol, on: connection)
        guard connection.state == .webSocket else { return endSession(of: connection) }
        logger.info(
            "an operator watches the server", metadata: ["operator": "\(view.subject ?? "none")"])
        send(OperatorMessage.history(services.history?.samples ?? []), toOperator: connection)
        // The first look at the shards' lag: the next ones count from it.
        _ = view.lags.look(at: services.metrics.shards)
        showServer(to: view, on: connection)
        _ = deadlines.schedule(.operatorView(connection.token), at: now + OperatorView.interval)
    }

    /// An operator's connection ends, or closes.
    func endWatching(on connection: Connection) {
        guard questions.operators.remove(connection.token) != nil else { return }
        leaveSession(of: connection)
        perform(.settle, on: connection)
    }

    /// The connection of a view, while it is shown.
    private func operatorConnection(at token: EventToken) -> (Connection, OperatorView)? {
        guard let connection = connections[token], connection.state == .webSocket,
            let view = questions.operators[token]
        else { return nil }
        return (connection, view)
    }

    // MARK: Out

    /// The view is a second old.
    func renewView(at token: EventToken) {
        guard let (connection, view) = operatorConnection(at: token) else { return }
        _ = deadlines.schedule(.operatorView(token), at: now + OperatorView.interval)
        for call in view.takeLateCalls(at: now) {
            refuse(call, RouteFailure.shardsAway, on: connection)
        }
        if connection.output.count <= OperatorView.maxWaitingBytes {
            showServer(to: view, on: connection)
            // Shards that have not answered for a second are left out.
            if let scan = view.page.take() { show(scan, for: .page, to: view, on: connection) }
            if let scan = view.card.take(), scan.isComplete {
                show(scan, for: .card, to: view, on: connection)
            }
            scanForPage(view, on: connection)
            scanForCard(view, on: connection)
        }
        perform(.settle, on: connection)
    }

    private func showServer(to view: OperatorView, on connection: Connection) {
        let limit = services.memory.limit
        let overview = ServerOverview(
            node: services.nodes.name, seconds: services.wallSeconds(),
            residentBytes: ProcessMemory.current.resident,
            memoryLimit: limit == .max ? nil : limit,
            maxSessions: configuration.admission.maxSessions,
            agent: services.agents.page.kind, keepsRecords: services.library != nil,
            keepsRecordings: services.recordings != nil,
            lagMicroseconds: view.lags.look(at: services.metrics.shards),
            metrics: services.metrics)
        send(overview.message, toOperator: connection)
        guard view.shownFailures != services.metrics.recentFailures.revision else { return }
        let recent = services.metrics.recentFailures.all
        view.shownFailures = recent.revision
        send(OperatorMessage.failures(recent.failures), toOperator: connection)
    }

    /// Shows the result of a scan.
    private func show(
        _ scan: OperatorScan, for purpose: OperatorScan.Purpose, to view: OperatorView,
        on connection: Connection
    ) {
        switch purpose {
        case .page:
            // Another page was requested meanwhile.
            guard scan.query == view.query else { break }
            send(OperatorMessage.page(scan, of: services.nodes.name), toOperator: connection)
        case .card:
            guard scan.query.id == view.sessionID,
                let card = OperatorMessage.card(scan, of: services.nodes.name)
            else { break }
            send(card, toOperator: connection)
        }
    }

    private func send(_ message: consuming ByteWriter, toOperator connection: Connection) {
        guard connection.state == .webSocket else { return }
        message.withUnsafeBytes { _ = send(.text, $0, on: connection) }
        connection.lastMessage = peerClock
    }

    // MARK: Scans

    private func scanForPage(_ view: OperatorView, on connection: Connection) {
        guard let query = view.query else { return }
        guard view.page == nil, connection.output.count <= OperatorView.maxWaitingBytes else {
            view.isPageDue = true
            return
        }
        view.isPageDue = false
        view.page = beginScan(query, for: .page, of: view, on: connection)
    }

    private func scanForCard(_ view: OperatorView, on connection: Connection) {
        guard let id = view.sessionID, view.card == nil else { return }
        view.card = beginScan(SessionQuery(id: id), for: .card, of: view, on: connection)
    }

    private func beginScan(
        _ query: SessionQuery, for purpose: OperatorScan.Purpose, of view: OperatorView,
        on connection: Connection
    ) -> OperatorScan {
        let shards = services.directory.all
        let scan = OperatorScan(number: view.takeNumber(), query: query, shards: shards.count)
        let (mailbox, token, number) = (inbox.mailbox, connection.token, scan.number)
        let question = SurveyQuestion(query: query, patience: OperatorView.interval) { report in
            mailbox.post(
                .showOperator(.report(report, of: purpose, number: number), on: token))
        }
        for post in shards { post(.answerSurvey(question)) }
        return scan
    }

    /// Something has come that an operator's connection may wait for.
    func handle(_ news: OperatorNews, at token: EventToken) {
        guard let (connection, view) = operatorConnection(at: token) else {
            // A session that was joined for a connection that has ended is left again.
            if case .answer(.joined(let place, let link), _) = news {
                place.post(.leave(link, place.token))
            }
            return
        }
        switch news {
        case .report(let report, let purpose, let number):
            if let scan = view.add(report, to: purpose, number: number) {
                show(scan, for: purpose, to: view, on: connection)
                if case .page = purpose, view.isPageDue { scanForPage(view, on: connection) }
            }
        case .answer(let answer, let number):
            handle(answer, to: number, of: view, on: connection)
        }
        perform(.settle, on: connection)
    }

    // MARK: In

    /// A message of an operator's page.
    func receiveCommand(
        _ opcode: WebSocketOpcode, _ message: UnsafeRawBufferPointer, on connection: Connection
    ) {
        guard connection.state == .webSocket, let view = questions.operators[connection.token]
        else { return }
        guard opcode == .text else {
            return closeWebSocket(
                connection, .unsupportedData, reason: "An operator sends no binary messages.")
        }
        do throws(ClientEventError) {
            perform(try OperatorCommand(message), of: view, on: connection)
        } catch {
            send(OperatorMessage.error(error), toOperator: connection)
            spendFloodBudget(1, of: connection)
        }
        perform(.settle, on: connection)
    }

    private func perform(
        _ command: OperatorCommand, of view: OperatorView, on connection: Connection
    ) {
        switch command {
        case .watchSessions(let query):
            view.query = query
            scanForPage(view, on: connection)
        case .ignoreSessions: (view.query, view.isPageDue) = (nil, false)
        case .watchSession(let id):
            ignoreSession(of: view, on: connection)
            let link = SidebandLink(
                observer: connection.token, tools: [], isOperator: true, post: postToThisShard)
            ask(for: id, .watch(link), of: view, on: connection)
        case .ignoreSession: ignoreSession(of: view, on: connection)
        case .closeSession(let id): ask(for: id, .close, of: view, on: connection)
        case .drain: drainServer(for: view, on: connection)
        }
    }

    private func ignoreSession(of view: OperatorView, on connection: Connection) {
        view.ignoreSession()
        leaveSession(of: connection)
    }

    private func drainServer(for view: OperatorView, on connection: Connection) {
        guard let drain = services.drainServer else {
            let error = ClientEventError(
                code: "drain_not_supported", message: "This server is not drained from here.")
            return send(OperatorMessage.error(error), toOperator: connection)
        }
        guard !services.metrics.isDraining.load(ordering: .relaxed) else { return }
        logger.info(
            "an operator drains the server", metadata: ["operator": "\(view.subject ?? "none")"])
        drain()
    }

    // MARK: One session

    private func ask(
        for sessionID: String, _ wish: OperatorCall.Wish, of view: OperatorView,
        on connection: Connection
    ) {
        let shards = services.directory.all
        let call = OperatorCall(
            number: view.takeNumber(), sessionID: sessionID, wish: wish, shards: shards.count,
            begun: now)
        guard !view.hasCallsEnough else {
            return refuse(call, RouteFailure.tooManyCalls, on: connection)
        }
        view.begin(call)
        let purpose: CallQuestion.Purpose =
            switch wish {
            case .watch(let link): .join(link)
            case .close: .hangUp
            }
        let (mailbox, token, number) = (inbox.mailbox, connection.token, call.number)
        let question = CallQuestion(sessionID: sessionID, owner: nil, purpose: purpose) { answer in
            mailbox.post(.showOperator(.answer(answer, to: number), on: token))
        }
        for post in shards { post(.sideband(.ask(question))) }
    }

    private func handle(
        _ answer: CallAnswer, to number: UInt64, of view: OperatorView, on connection: Connection
    ) {
        switch answer {
        case .missing, .away, .elsewhere, .found:
            guard let call = view.noteMissing(number) else { return }
            refuse(call, RouteFailure.noSession, on: connection)
        case .refused(let failure):
            guard let call = view.endCall(number) else { return }
            refuse(call, failure, on: connection)
        case .hungUp:
            guard let call = view.endCall(number) else { return }
            logger.info(
                "an operator has closed a session",
                metadata: [
                    "session": "\(call.sessionID)", "operator": "\(view.subject ?? "none")",
                ])
            send(
                OperatorMessage.notice("session.closed", of: call.sessionID),
                toOperator: connection)
        case .joined(let place, let link):
            // Another session, or none, is watched by now.
            guard view.endWatchCall(number) else {
                return place.post(.leave(link, place.token))
            }
            sidebands.joined[connection.token] = JoinedSideband(link: link, place: place)
            metrics.add(.sidebandsOpen)
            send(
                OperatorMessage.notice("session.watched", of: place.sessionID),
                toOperator: connection)
            scanForCard(view, on: connection)
        }
    }

    private func refuse(
        _ call: OperatorCall, _ failure: RouteFailure, on connection: Connection
    ) {
        questions.operators[connection.token]?.noteRefusal(of: call)
        let error = ClientEventError(code: "\(failure.code)", message: failure.message)
        send(OperatorMessage.error(error, of: call.sessionID), toOperator: connection)
    }

    /// An event of the session that is watched.
    func showEvent(_ text: [UInt8], on connection: Connection) {
        guard let id = sidebands.joined[connection.token]?.place.sessionID else { return }
        send(OperatorMessage.event(text, of: id), toOperator: connection)
    }

    /// The session that was watched is over.
    func showEnd(of link: SidebandLink, on connection: Connection) {
        guard let id = sidebands.joined[connection.token]?.place.sessionID else { return }
        if let view = questions.operators[connection.token] {
            ignoreSession(of: view, on: connection)
        }
        send(OperatorMessage.notice("session.ended", of: id), toOperator: connection)
        perform(.settle, on: connection)
    }
}

extension RouteFailure {
    static let tooManyOperators = unavailable(
        "too_many_operators", "As many operators watch this shard as may.", retryAfterSeconds: 5)
}

extension RouteContent {
    /// `GET /admin/live`
    static var operatorSocket: RouteContent {
        RouteContent(
            answers: [
                RouteAnswer(
                    status: 101,
                    "The connection is a WebSocket now; docs/http.md has its messages."),
                RouteAnswer(status: 426, "No WebSocket was asked for.", .failure),
                RouteAnswer(status: 503, "Too many operators watch the server.", .failure),
            ])
    }
}
