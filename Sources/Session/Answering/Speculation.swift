// The model's head start (`speculative_response`, off by default): the model is asked as soon as
// the words before a silence are known, while the silence is too short to end the turn. If the user
// says nothing more, the response begins with the text that the model has written by then. If the
// user goes on, the model is stopped, and the client is not told.
//
//   none ── asked ──▶ ahead ── a response begins ──▶ claimed ── asks the same ──▶ none (used)
//                       └── more words, or it fails ────┴── asks anything else ──▶ none (stopped)
//
// Invariant: a head start lives while speech is in progress or its words are awaited, and becomes
// at most one response, which then has its id. An idle session has none, and no memory for one.

import Codec

/// A model's answer to words that may not be all of the turn.
final class SpeculativeReply {
    /// The id that its response will have.
    let responseID: String
    /// The request to the model. A response that asks anything else cannot use the answer.
    let request: ModelRequest
    /// Where speech had ended on the audio timeline.
    let speechEnd: Int
    /// The model's answer, in order.
    fileprivate(set) var events: [AgentEvent] = []
    /// UTF-8 bytes of these events.
    fileprivate var bytes = 0
    /// Bytes of its texts on the heap.
    fileprivate var textBytes = 0
    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(SpeculativeReply.self)
    /// Bytes of all of it; the words of the request are the conversation's.
    var heldBytes: Int {
        Self.objectBytes + events.heapBytes + textBytes + request.messages.heapBytes
    }

    init(responseID: String, request: ModelRequest, speechEnd: Int) {
        self.responseID = responseID
        self.request = request
        self.speechEnd = speechEnd
    }

    fileprivate func append(_ event: AgentEvent) {
        events.append(event)
        switch event {
        case .modelDelta(_, .text(let text)), .modelDelta(_, .functionCallArguments(let text)):
            bytes += text.utf8.count
            textBytes += text.heapBytes
        default: break
        }
    }
}

/// A head start and how far it has come.
enum Speculation {
    /// No model was asked ahead of its turn.
    case none
    /// The model is writing, and no response has its id yet.
    case ahead(SpeculativeReply)
    /// The model writes; a response has its id and has not asked yet.
    case claimed(SpeculativeReply)

    /// Deltas that are kept at most: a silence of 8 s at 500 a second, more than any model writes.
    static let maxEvents = 4_000

    /// The model's answer so far, or nil.
    var reply: SpeculativeReply? {
        switch self {
        case .none: nil
        case .ahead(let reply), .claimed(let reply): reply
        }
    }

    /// Whether a response has the id of the head start.
    var isClaimed: Bool {
        if case .claimed = self { true } else { false }
    }

    /// Takes note that a response begins in the conversation.
    /// - Returns: the id that it must have, or nil where any id will do.
    mutating func claim() -> String? {
        guard case .ahead(let reply) = self else { return nil }
        self = .claimed(reply)
        return reply.responseID
    }

    /// Asks the model about the words before a silence.
    mutating func begin(_ reply: SpeculativeReply, _ context: SessionContext) {
        self = .ahead(reply)
        context.outputs.append(
            .command(.respond(responseID: reply.responseID, reply.request)))
    }

    /// Keeps a model's answer ahead of its response.
    /// - Returns: false where the event does not belong to this head start.
    mutating func record(_ event: AgentEvent, _ context: SessionContext) -> Bool {
        guard let reply else { return false }
        switch event {
        case .modelDelta(reply.responseID, _), .modelFinished(reply.responseID):
            reply.append(event)
            // More than that would not fit into a response either.
            let isTooMuch =
                reply.bytes > context.limits.maxResponseBytes
                || reply.events.count > Self.maxEvents
            if isTooMuch { stop(context) }
        case .modelFailed(reply.responseID, _):
            // The response, if there is to be one, asks again and reports what fails then.
            stop(context)
        default: return false
        }
        return true
    }

    /// A response asks the model. If it asks the same, it goes on from the answers so far, and the
    /// head start is over. If it asks anything else, the head start is stopped.
    /// - Returns: the answers, or nil where the model must be asked.
    mutating func use(
        for responseID: String, asking request: ModelRequest, _ context: SessionContext
    ) -> [AgentEvent]? {
        guard let reply, reply.responseID == responseID else { return nil }
        guard reply.request == request else {
            stop(context)
            return nil
        }
        self = .none
        return reply.events
    }

    /// Speech was last heard at this position of the audio timeline. If that is not where the words
    /// ended, they were not all.
    mutating func handleSpeech(endingAt end: Int?, _ context: SessionContext) {
        if let reply, reply.speechEnd != end { stop(context) }
    }

    /// Stops the model where no response can use the head start any more.
    /// - Parameters:
    ///   - isTurnOpen: whether the user speaks, or words are being recognised.
    ///   - responses: those in flight; one that waits may still use it.
    mutating func stopIfUseless(
        isTurnOpen: Bool, _ responses: [Response], _ context: SessionContext
    ) {
        guard let reply, isClaimed || !isTurnOpen,
            !responses.contains(where: { $0.id == reply.responseID && $0.stage == .waiting })
        else { return }
        stop(context)
    }

    /// Stops the model. The client has got nothing of its answer.
    mutating func stop(_ context: SessionContext) {
        guard let reply else { return }
        self = .none
        context.outputs.append(.command(.cancelResponse(responseID: reply.responseID)))
    }
}
