// The model's head start (`speculative_response`, off by default): the model is asked as soon as
// the words before a silence are known, while the silence is too short to end the turn. If the user
// says nothing more, the response begins with the text that the model has written by then. If the
// user goes on, the model is stopped, and the client is not told.
//
//   none ── asked ──▶ ahead ── a response begins ──▶ claimed ── asks the same ──▶ none (used)
//                       └── more is said, or it fails ──┴── asks anything else ──▶ none (stopped)
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
    /// UTF-8 bytes of that.
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
    /// The model writes; no response has its id.
    case ahead(SpeculativeReply)
    /// The model writes; a response has its id and has not asked yet.
    case claimed(SpeculativeReply)

    /// The fate of an event of a model.
    enum Recording: Equatable {
        /// It is no answer of this head start.
        case ofAnother
        /// It is kept for the response.
        case kept
        /// It cannot be used: the head start is to be stopped.
        case unusable
    }

    /// The use of a head start for a response.
    enum Outcome {
        /// It is not this response's.
        case ofAnother
        /// The response goes on from these answers; nothing is left of the head start.
        case used([AgentEvent])
        /// The model was asked something else: the head start is to be stopped.
        case unusable
    }

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

    /// A response begins in the conversation.
    /// - Returns: the id that it must have, or nil: any.
    mutating func claim() -> String? {
        guard case .ahead(let reply) = self else { return nil }
        self = .claimed(reply)
        return reply.responseID
    }

    /// Keeps what a model answers ahead of its response.
    func record(_ event: AgentEvent, maxBytes: Int) -> Recording {
        guard let reply else { return .ofAnother }
        switch event {
        case .modelDelta(reply.responseID, _), .modelFinished(reply.responseID):
            reply.append(event)
            // More than that would not fit into a response either.
            return reply.bytes > maxBytes || reply.events.count > Self.maxEvents ? .unusable : .kept
        case .modelFailed(reply.responseID, _):
            // The response, if there is to be one, asks again and reports what fails then.
            return .unusable
        default: return .ofAnother
        }
    }

    /// A response asks.
    mutating func use(for responseID: String, asking request: ModelRequest) -> Outcome {
        guard let reply, reply.responseID == responseID else { return .ofAnother }
        guard reply.request == request else { return .unusable }
        self = .none
        return .used(reply.events)
    }

    /// Forgets the head start.
    /// - Returns: the id by which the model is to be stopped, or nil: there was none.
    mutating func stop() -> String? {
        defer { self = .none }
        return reply?.responseID
    }
}
