// HTTP on a shard's connections: performs what HTTPServerConnection asks for, and puts answers into
// the send buffer. Which answer belongs to a request is up to Routes; ShardUpgrades changes a
// connection to WebSocket.

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
        if http.relay != nil { continueRelay(on: connection) }
        if http.isAnswering { perform(.watch, on: connection) }
    }

    /// Whether the tick has time for a request. Otherwise the connection has its turn in the next
    /// one, among those whose messages wait, and is not watched until then. Handshakes of TLS have
    /// a share of their own. Another node's answers are not limited here, because they may be a
    /// conversation.
    func admitsRequest(of connection: Connection) -> Bool {
        guard !connection.isUnfinished else { return false }
        guard connection.tls?.stage != .handshake, connection.http?.relay == nil,
            tickWork.messageTime.isSpent(at: io.now)
        else { return true }
        // In this order: a connection with queued work is not watched.
        perform(.resume, on: connection)
        perform(.watch, on: connection)
        return false
    }

    /// Continues the requests of a connection for which the tick before had no time.
    func continueRequests(on connection: Connection) {
        perform(.watch, on: connection)
        if connection.http?.isPaused == true {
            resumeHTTP(connection)
        } else {
            readNow(connection)
        }
    }

    /// Continues the requests that have waited for the output to leave.
    func resumeHTTP(_ connection: Connection) {
        guard let http = connection.http, http.isPaused else { return }
        http.resume()
        answerPending(on: connection)
        if connection.state == .http, connection.hasEnded, !http.isPaused, !http.asksElsewhere,
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
        case .relay(let relay): handleTimeout(of: relay, on: connection)
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
                in: &rest, hasOutput: !connection.output.isEmpty, at: peerClock,
                configuration.connection.http)
        {
            switch event {
            case .request(let request): answer(request, followedBy: rest, on: connection)
            case .judgeHead(let head):
                switch judge(head, isBodyDue: true, on: connection) {
                case .answered(let refusal): refuse(refusal, on: connection)
                case .undecided(let digest): askForSecret(digest, head: head, on: connection)
                case .admitted: break
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
        perform(judge(request, on: connection), request, followedBy: rest, on: connection)
    }

    /// Does what the verdict on a whole request asks.
    func perform(
        _ verdict: JudgedRequest, _ request: HTTPRequest,
        followedBy rest: UnsafeMutableRawBufferPointer, on connection: Connection
    ) {
        switch verdict {
        case .answered(let response): send(response, to: request, on: connection)
        case .undecided(let digest): askForSecret(digest, of: request, on: connection)
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
            let response = share(answer(request, fixtures.routes), with: request, of: route)
            send(response, to: request, on: connection)
        case .clientSecret(let form):
            let secret = issueClientSecret(request, in: form, to: caller, on: connection)
            send(share(secret, with: request, of: route), to: request, on: connection)
        case .pageSetup:
            send(pageSetup(request, on: connection), to: request, on: connection)
        case .survey:
            if let response = beginSurvey(request, by: caller, on: connection) {
                send(response, to: request, on: connection)
            }
        case .records:
            let response = beginRecordQuestion(request, to: route, by: caller, on: connection)
            if let response { send(response, to: request, on: connection) }
        case .hangUp:
            if let response = beginHangup(request, by: caller, on: connection) {
                send(response, to: request, on: connection)
            }
        case .find:
            if let response = beginFinding(request, by: caller, on: connection) {
                send(response, to: request, on: connection)
            }
        case .webSocket(let service):
            upgrade(request, to: service, by: caller, followedBy: rest, on: connection)
        case .text(let front):
            var fields = HTTPFields()
            if route.servesOtherOrigins {
                fixtures.admission.crossOrigin.permit(request, in: &fields)
            }
            if let response = beginText(
                request, front, by: caller, fields: fields, on: connection)
            {
                let shared = share(response, with: request, of: route)
                send(shared, to: request, on: connection)
            } else if connection.http?.reply != nil {
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
                "peer":
                    "\(fixtures.admission.source(of: request, sentBy: peer ?? .unspecified).client)",
                "method": "\(request.method)", "path": "\(fixtures.routes.shownPath(of: request))",
                "status": "\(status)",
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

    /// Queues the bytes that were written into `scratch`.
    @discardableResult
    func enqueueScratch(on connection: Connection) -> SendOutcome {
        scratch.withUnsafeBytes { connection.output.append($0, pool: fixtures.chunks) }
        scratch.removeAll()
        return admitOutput(of: connection)
    }
}
