// The model's head start (`speculative_response`, off by default): it is asked as soon as the words
// before a silence are known, while the silence is not long enough yet to end the turn. If nothing
// more is said, what it has written meanwhile begins the response; if somebody goes on, it is
// stopped, and the client never hears of it.
//
// Invariant: a head start lives while speech is in progress or its words are awaited, and becomes
// at most one response, which then has its id.

import Codec

/// What a model has written in answer to words that may not be all of the turn.
struct SpeculativeReply {
    /// The id that its response will have.
    let responseID: String
    /// What the model was asked. A response that asks anything else cannot use the answer.
    let request: ModelRequest
    /// Where speech had ended on the audio timeline.
    let speechEnd: Int
    /// Whether a response has been created for it.
    var isClaimed = false
    /// What the model has answered, in order.
    private(set) var events: [AgentEvent] = []
    /// UTF-8 bytes of that.
    private(set) var bytes = 0
    /// Bytes of its texts on the heap.
    private var textBytes = 0
    /// Bytes of all of it; the words of the request are the conversation's.
    var heldBytes: Int { events.heapBytes + textBytes + request.messages.heapBytes }

    init(responseID: String, request: ModelRequest, speechEnd: Int) {
        self.responseID = responseID
        self.request = request
        self.speechEnd = speechEnd
    }

    mutating func hold(_ event: AgentEvent) {
        events.append(event)
        switch event {
        case .modelDelta(_, .text(let text)), .modelDelta(_, .functionCallArguments(let text)):
            bytes += text.utf8.count
            textBytes += text.heapBytes
        default: break
        }
    }
}

extension VoiceSession {
    /// Asks the model about the words before a silence, where they sound like the end of a turn.
    func speculate(on words: String, _ speechInput: SpeechInput) {
        guard let turnDetection = parameters.turnDetection, turnDetection.speculativeResponse,
            turnDetection.createResponse, let turnDetector = speechInput.turnDetector,
            let ending = TurnEndEstimator.ending(of: words), ending != .unfinished,
            !modelHearsAudio, canRespond, awaitedTranscripts.isEmpty,
            unansweredSince == nil,
            speculativeReply == nil
        else { return }
        var request = request(with: ResponseParameters())
        request.messages.append(.user(words))
        let reply = SpeculativeReply(
            responseID: ids.make("resp_"), request: request, speechEnd: turnDetector.lastSpeechEnd)
        speculativeReply = reply
        command(.respond(responseID: reply.responseID, request))
    }

    /// The speech goes on: its words were not all.
    func dropOutdatedSpeculation(_ speechInput: SpeechInput) {
        guard let speculativeReply,
            speculativeReply.speechEnd != speechInput.turnDetector?.lastSpeechEnd
        else { return }
        dropSpeculation()
    }

    /// Stops the model where nothing can come of its head start any more.
    func dropUselessSpeculation() {
        guard let speculativeReply else { return }
        let isPossible = speechInput?.speechItemID != nil || !awaitedTranscripts.isEmpty
        let isUsed = responses.contains {
            $0.id == speculativeReply.responseID && $0.stage == .waiting
        }
        if !isUsed, speculativeReply.isClaimed || !isPossible { dropSpeculation() }
    }

    /// Keeps what a model writes ahead of its response; false: it is not ahead.
    func keepAhead(_ event: AgentEvent) -> Bool {
        guard let responseID = speculativeReply?.responseID else { return false }
        switch event {
        case .modelDelta(responseID, _), .modelFinished(responseID):
            speculativeReply?.hold(event)
            // It would not fit into a response either.
            let isTooLong = speculativeReply!.bytes > context.limits.maxResponseBytes
            if isTooLong || speculativeReply!.events.count > Self.maxHeldEvents {
                dropSpeculation()
            }
            return true
        case .modelFailed(responseID, _):
            // The response, if there is to be one, asks anew and tells what fails then.
            dropSpeculation()
            return true
        default: return false
        }
    }

    /// Deltas that may be held back: a silence of 8 s at 500 a second, more than any model writes.
    private static let maxHeldEvents = 4_000

    /// Lets a response that has just been asked for go on from what the model has written, if it
    /// was asked the same.
    /// - Returns: false: the model must be asked.
    func resumeSpeculation(_ response: Response, _ request: ModelRequest, at now: Instant) -> Bool {
        guard let reply = speculativeReply, reply.responseID == response.id else { return false }
        guard reply.request == request else {
            dropSpeculation()
            return false
        }
        speculativeReply = nil
        for event in reply.events {
            switch event {
            case .modelDelta(_, let delta):
                response.handle(delta, ids: &ids, conversation: &conversation, at: now)
            case .modelFinished: response.handleModelFinished(&conversation, at: now)
            default: break
            }
        }
        return true
    }

    /// Stops the model; nothing of its answer was told to anybody.
    func dropSpeculation() {
        guard let reply = speculativeReply.take() else { return }
        command(.cancelResponse(responseID: reply.responseID))
    }
}
