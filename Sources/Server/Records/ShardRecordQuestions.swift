// An operator's requests for ended sessions on a shard: each becomes a question to the RecordLibrary, whose
// thread reads, and its finding comes back through the shard's mailbox. RecordRoutes has the questions and
// the answers.
//
// Invariant: no shard waits for a disk or a database. A request that is not answered in time is answered
// with 503, and the finding that comes later is dropped.

import Codec
import Session

extension Shard {
    /// Bytes that an answer may have: the connection must be able to queue it beside its head.
    private var maxRecordBytes: Int { configuration.connection.maxQueuedOutputBytes / 2 }

    /// Answers a request for ended sessions.
    /// - Returns: the answer where it comes at once, or nil where the library is asked.
    func beginRecordQuestion(
        _ request: HTTPRequest, to route: Route, by caller: Caller, on connection: Connection
    ) -> HTTPResponse? {
        guard services.authenticator.isOn || isLocal(request, on: connection) else {
            return RouteFailure.loopbackOnly.response
        }
        guard let library = services.library else { return RouteFailure.recordsOff.response }
        guard !questions.records.isFull else {
            return RouteFailure.tooManyRecordQuestions.response
        }
        let question: RecordQuestion
        do throws(ClientEventError) {
            question = try RecordRoutes.question(
                of: request, to: route, maxBytes: configuration.connection.softQueuedOutputBytes)
        } catch {
            return HTTPResponse(badRequest: error)
        }
        let id = questions.records.takeID()
        let isAsked = library.ask(question) { [mailbox = inbox.mailbox] finding in
            mailbox.post(.noteFinding(finding, for: id))
        }
        guard isAsked else { return RouteFailure.tooManyRecordQuestions.response }
        questions.records.insert(
            RecordQuestions.Asked(
                id: id, question: question, request: request, token: connection.token,
                subject: caller.subject))
        connection.http?.beginAnswer(.record(id))
        _ = deadlines.schedule(.recordQuestion(id), at: now + HTTPServerConnection.recordPatience)
        return nil
    }

    /// The library has answered.
    func handle(_ finding: RecordFinding, for id: RecordQuestionID) {
        guard let asked = questions.records.remove(id) else { return }
        if case .delete(let sessionID) = asked.question, finding == .deleted {
            logger.info(
                "an operator has deleted a session",
                metadata: [
                    "session": "\(sessionID)", "operator": "\(asked.subject ?? "none")",
                ])
        }
        reply(
            RecordRoutes.response(to: asked.question, finding, maxBytes: maxRecordBytes), to: asked)
    }

    /// The time for an answer is over.
    func endRecordQuestion(_ id: RecordQuestionID) {
        guard let asked = questions.records.remove(id) else { return }
        reply(RouteFailure.recordsAway.response, to: asked)
    }

    private func reply(_ response: HTTPResponse, to asked: RecordQuestions.Asked) {
        guard let connection = connections[asked.token], connection.state == .http,
            connection.http?.recordQuestion == asked.id
        else { return }
        send(response, to: asked.request, on: connection)
        if connection.state == .http { answerWaiting(on: connection) }
    }
}
