// A request that a model answers over HTTP: its session, and the parts of the reply that the
// session's events make. The answer is a TextAnswer on a connection of this or another shard; a
// ReplyLog joins the two. TextRequests decides what happens to a request, ShardTextRequests does it.
//
// A request has the token of its session: it may outlive the connection that asked for it.

import Codec
import Session

/// A format in which text is asked for and answered.
enum TextFront: Sendable {
    /// OpenAI's chat completions.
    case chatCompletions
    /// The UI message stream of the Vercel AI SDK.
    case uiMessages
    /// The same, for a reply that has already begun.
    case uiMessagesResumed
}

/// A session that answers one request.
final class TextRequest {
    /// The progress of its work; the diagram is in TextRequests.swift.
    enum Phase {
        /// The model may write.
        case writing
        /// The model waits for a reader.
        case paused
        /// The work is done; the log is left.
        case complete
    }

    let live: LiveSession
    /// That of its session.
    var token: EventToken { live.token }
    let log: ReplyLog
    /// The chat by which the reply can be found again, or nil.
    let chat: ChatKey?
    /// The address that asked.
    let client: NetworkAddress
    /// The question about an ended session, where the request is one. No connection reads its
    /// answer.
    let afterCall: AfterCallRequest?
    /// Places of the reply's calls by the output index of their items, in the order of their start.
    var calls: [Int] = []
    /// In front of which words the reply ends.
    private var stopWords: StopWords
    /// The response that is to be cancelled, because a stop word was found.
    private var stoppedResponseID: String?
    /// Readers that are to be woken.
    private var waiters: [ReplyLog.Waiter] = []
    /// Its entry in the shard's deadline queue, while it has one.
    var deadline: DeadlineHandle?
    /// When it began, and when it last had input or output; by the peers' clock.
    let started: Instant
    var lastActive: Instant
    /// When it is removed unless a reader comes; nil while it has one.
    var expiry: Instant?
    var phase = Phase.writing
    /// Whether its work is done.
    var isOver: Bool { phase == .complete }
    /// Whether a record waits for its reply, and not a reader.
    var isAwaited: Bool { afterCall != nil && !isOver }
    /// Its ledger when that was last settled: its part of the shard's sum.
    var charge = LedgerCharge()
    /// Bytes of its places in the shard's table and queue, about.
    static let placeBytes = 64
    /// Bytes of the object itself, and of its places.
    static let objectBytes = HeapBlock.object(TextRequest.self) + placeBytes

    init(
        live: LiveSession, log: ReplyLog, chat: ChatKey?, client: NetworkAddress,
        afterCall: AfterCallRequest? = nil, stopWords: StopWords = StopWords([]), at now: Instant
    ) {
        self.live = live
        self.log = log
        self.chat = chat
        self.client = client
        self.afterCall = afterCall
        self.stopWords = stopWords
        started = now
        lastActive = now
    }

    // MARK: Parts

    /// Takes an event that the session shows, and adds its meaning for the reply to the log.
    func take(_ event: ServerEvent) {
        for part in parts(of: event) { waiters += log.append(part) }
    }

    /// Ends the reply, unless it has ended, and wakes its readers on their shards.
    func end(_ part: ReplyPart) {
        for waiter in log.append(part) { waiter.wake(waiter.reader.token) }
    }

    /// Takes the readers that wait for the parts that have come.
    func takeWaiters() -> [ReplyLog.Waiter] {
        defer { waiters = [] }
        return waiters
    }

    /// The parts of the reply that an event of the session makes.
    func parts(of event: ServerEvent) -> [ReplyPart] {
        switch event {
        case .responseOutputTextDelta(let address, let delta):
            return text(delta, at: address)
        case .responseOutputTextDone(let address, _):
            return Self.text(stopWords.flush(), of: address)
        case .responseDone(let response):
            stoppedResponseID = nil
            return parts(ofEnd: response)
        // As in a session of voice, a server that cannot be reached does not cost the reply.
        case .error(let error) where error.code == "mcp_list_tools_failed": return []
        case .error(let error):
            return [
                .failed(
                    code: error.code, message: error.message,
                    isRequestError: error.kind == .invalidRequest)
            ]
        default: return stopWords.hasStopped ? [] : parts(ofCall: event)
        }
    }

    /// Bytes of what hangs off it, without the reply and the session.
    var heldBytes: Int { stopWords.heldBytes + (afterCall?.heldBytes ?? 0) }

    /// The response that is to be cancelled now, once: the rest of it is not wanted.
    func takeStoppedResponse() -> String? { stoppedResponseID.take() }

    private func text(_ delta: String, at address: PartAddress) -> [ReplyPart] {
        guard !stopWords.isEmpty else {
            return [.text(message: address.outputIndex, delta)]
        }
        let wasStopped = stopWords.hasStopped
        let text = stopWords.pass(delta)
        if stopWords.hasStopped, !wasStopped { stoppedResponseID = address.responseID }
        return Self.text(text, of: address)
    }

    private static func text(_ text: String, of address: PartAddress) -> [ReplyPart] {
        text.isEmpty ? [] : [.text(message: address.outputIndex, text)]
    }

    private func parts(ofCall event: ServerEvent) -> [ReplyPart] {
        switch event {
        case .responseOutputItemAdded(_, let index, let item):
            guard case .functionCall(let callID, let name, _) = item.kind else { return [] }
            calls.append(index)
            return [.callStarted(call: calls.count - 1, callID: callID, name: name)]
        case .responseFunctionCallArgumentsDelta(let address, _, let delta):
            guard let call = calls.firstIndex(of: address.outputIndex) else { return [] }
            return [.callArguments(call: call, delta)]
        case .responseOutputItemDone(_, let index, let item):
            guard case .functionCall(let callID, let name, let arguments) = item.kind,
                item.status == .completed, let call = calls.firstIndex(of: index)
            else { return [] }
            return [.callFinished(call: call, callID: callID, name: name, arguments: arguments)]
        default: return []
        }
    }

    private func parts(ofEnd response: ResponseDescription) -> [ReplyPart] {
        // The model is stopped, whatever it was doing when the word was found.
        if stopWords.hasStopped { return [.finished(.stop, response.usage ?? ResponseUsage())] }
        // Tools of MCP servers were called: the session has asked the model again.
        let callsClient = response.output.contains {
            if case .functionCall = $0.kind { true } else { false }
        }
        if case .completed = response.status, !callsClient, !live.session.isIdle { return [] }
        return [Self.end(of: response)]
    }

    private static func end(of response: ResponseDescription) -> ReplyPart {
        let usage = response.usage ?? ResponseUsage()
        switch response.status {
        case .completed, .inProgress: return .finished(.stop, usage)
        case .incomplete(reason: "content_filter"): return .finished(.contentFilter, usage)
        case .incomplete: return .finished(.length, usage)
        case .cancelled: return .finished(.cancelled, usage)
        case .failed(_, let code, let message, let retryAfterSeconds):
            return .failed(
                code: code, message: message, isRequestError: false,
                retryAfterSeconds: retryAfterSeconds)
        }
    }
}
