// The question about a session that is over (`after-call` of its agent): a text request whose reply no
// connection reads. Its answer goes to the session's record, and from there to the receiver of webhooks.
//
//   session ends ──▶ record awaits ──▶ text request ──▶ answer, failure, end of time ──▶ record
//                         └── no place, no memory, the server stops: not asked ────────────▲
//
// It counts as a text request, in the ledger and in the caller's quotas. It has no place among the
// sessions of its caller and agent, so that it keeps no call out. A drain waits for it as for replies.
//
// Invariant: a record that awaits an answer gets one, before its shard has ended.

import Codec
import Session

extension Shard {
    /// The question to ask about a session that ends, if there is one.
    func afterCall(of live: LiveSession, _ recorder: SessionRecorder) -> AfterCallRequest? {
        guard let question = live.session.afterCall,
            let conversation = live.session.endedConversation(for: question, at: now)
        else { return nil }
        return AfterCallRequest(
            question, about: conversation, of: live.session.id, for: recorder)
    }

    /// Asks about a session that ends, if there is room.
    func begin(_ asked: AfterCallRequest, after live: LiveSession) {
        let places = services.metrics
        // The result of the last look at the memory counts: a new look could end sessions, while
        // one ends.
        let objection: String? =
            if shutdown.isStopping {
                "The server was stopping."
            } else if memory.watch.isShort {
                "The server was short of memory."
            } else if !places.reserve(
                places.textRequests, limit: configuration.textRequests.maxRequests)
            {
                "All places of text requests were taken (max-text-turns)."
            } else { nil }
        if let objection { return keep(.notAsked(objection), to: asked) }
        let model = asked.question.model ?? live.session.parameters.model
        let session = makeTextSession(SessionParameters(model: model))
        let grant = SessionGrant(
            after: live.grant, until: now + .seconds(AfterCallRequest.seconds),
            in: services.authenticator.places)
        let own = register(session, of: live.work.caller, grant: grant)
        beginLater(
            TextRequest(
                live: own, log: makeLog(of: own), chat: nil, client: .unspecified,
                afterCall: asked, at: peerClock))
    }

    /// The request is over: its reply is the answer.
    func keepAnswer(in parts: [ReplyPart], to asked: AfterCallRequest) {
        if case .failed(let code, let message, _, _)? = parts.last {
            return keep(.failed(code: code, message: message), to: asked)
        }
        let texts = parts.map { if case .text(_, let text) = $0 { text } else { "" } }
        keep(asked.question.answer(in: texts.joined()), to: asked)
    }

    private func keep(_ answer: AfterCallAnswer, to asked: AfterCallRequest) {
        metrics.add(answer.metric)
        asked.recorder.keep(answer, of: asked.sessionID, at: now)
    }
}

extension ReplyPart {
    /// The model has taken too long for its answer.
    static let afterCallTimeout = ReplyPart.failed(
        code: "timeout",
        message: "The model had not answered after \(AfterCallRequest.seconds) s.",
        isRequestError: false)
}

extension AfterCallAnswer {
    private static let notAskedCode = "not_asked"

    fileprivate static func notAsked(_ reason: String) -> AfterCallAnswer {
        .failed(code: notAskedCode, message: reason)
    }

    fileprivate var metric: ShardMetric {
        switch self {
        case .text, .data: .afterCallsAnswered
        case .failed(code: Self.notAskedCode, _): .afterCallsNotAsked
        case .failed: .afterCallsFailed
        }
    }
}
