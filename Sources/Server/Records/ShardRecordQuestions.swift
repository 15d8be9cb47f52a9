// An operator's requests for ended sessions on a shard: each becomes a question to the RecordLibrary, whose
// thread reads, and its finding comes back through the shard's mailbox. RecordRoutes has the questions and
// the answers.
//
// Invariant: no shard waits for a disk or a database. A request that is not answered in time is answered
// with 503, and the finding that comes later is dropped.

import Codec
import Session

/// Names a question of one shard.
typealias RecordQuestionID = UInt64

/// The questions that a shard has asked.
struct RecordQuestions {
    /// Questions of one shard that are not answered. 8: a page asks for one or two at a time.
    static let maxAsked = 8
    /// How long an answer is waited for. 8 s: a database that is away is noticed after 5 s.
    static let patience = Duration.seconds(8)

    /// A request that waits for its answer.
    struct Asked {
        let id: RecordQuestionID
        let question: RecordQuestion
        let request: HTTPRequest
        let token: EventToken
        /// The operator's name for the log; nil: its credential has none.
        let subject: String?
    }

    private var asked: [Asked] = []
    private var nextID: RecordQuestionID = 1

    /// Whether no more can be asked now.
    var isFull: Bool { asked.count >= Self.maxAsked }

    mutating func takeID() -> RecordQuestionID {
        defer { nextID += 1 }
        return nextID
    }

    mutating func insert(_ question: Asked) { asked.append(question) }

    /// The question, which is over; nil: it was before.
    mutating func remove(_ id: RecordQuestionID) -> Asked? {
        asked.firstIndex { $0.id == id }.map { asked.remove(at: $0) }
    }
}

extension Shard {
    /// Bytes that an answer may have: the connection must be able to queue it beside its head.
    private var maxRecordBytes: Int { configuration.maxQueuedOutputBytes / 2 }

    /// Answers a request for ended sessions.
    /// - Returns: the answer where it comes at once; nil: the library is asked.
    func beginRecordQuestion(
        _ request: HTTPRequest, to route: Route, by caller: Caller, on connection: Connection
    ) -> HTTPResponse? {
        guard services.authenticator.isOn || isLocal(request, on: connection) else {
            return RouteFailure.loopbackOnly.response
        }
        guard let library = services.library else { return RouteFailure.recordsOff.response }
        guard !recordQuestions.isFull else {
            return RouteFailure.tooManyRecordQuestions.response
        }
        let question: RecordQuestion
        do throws(ClientEventError) {
            question = try RecordRoutes.question(
                of: request, to: route, maxBytes: configuration.softQueuedOutputBytes)
        } catch {
            return HTTPResponse(badRequest: error)
        }
        let id = recordQuestions.takeID()
        let isAsked = library.ask(question) { [mailbox = inbox.mailbox] finding in
            mailbox.post(.noteFinding(finding, for: id))
        }
        guard isAsked else { return RouteFailure.tooManyRecordQuestions.response }
        recordQuestions.insert(
            RecordQuestions.Asked(
                id: id, question: question, request: request, token: connection.token,
                subject: caller.subject))
        connection.http?.beginAnswer(.record(id))
        _ = deadlines.schedule(.recordQuestion(id), at: now + RecordQuestions.patience)
        return nil
    }

    /// The library has answered.
    func handle(_ finding: RecordFinding, for id: RecordQuestionID) {
        guard let asked = recordQuestions.remove(id) else { return }
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
        guard let asked = recordQuestions.remove(id) else { return }
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
