// The state of a conversation's turns, followed from the server's events alone. Nothing here prints
// or reads a clock, so that the rules can be tested with a list of events.

import Codec

/// The meaning of one event to a person who follows the conversation.
enum ConversationNotice: Equatable {
    case sessionCreated
    case sessionUpdated
    /// The server hears speech.
    case speechStarted
    /// A turn of the user is complete.
    case turnCommitted
    /// More of the user's words.
    case transcript(String)
    /// The transcript of a turn is complete; `isShown`: the pieces before add up to it.
    case transcriptDone(String, isShown: Bool)
    /// More of the reply's text.
    case replyText(String)
    /// A packet of reply audio, as base64 of the session's output format. `start` is its place in
    /// the item's audio in milliseconds. Where nil, it follows the packet before.
    case replyAudio(base64: String, itemID: String, start: Int? = nil)
    /// The agent calls a function.
    case functionCall(name: String, arguments: String)
    /// A response ended; `reason` is set unless it is `completed` as it was asked for.
    case responseDone(status: String, reason: String?)
    /// Whether the server has the line that was sent last: the answer to a search for its item.
    case lineIsKnown(Bool)
    /// An error event, or a failed transcription.
    case failed(String)
    /// An event that means nothing to a person.
    case other

    /// Whether it is a part of a reply, or its end.
    fileprivate var isOfReply: Bool {
        switch self {
        case .replyText, .replyAudio, .functionCall, .responseDone: true
        default: false
        }
    }
}

/// The state of the turns of one conversation.
struct ConversationProgress {
    /// The reason with which a response ends whose rest another server speaks, in a new response.
    static let handedOver = "handed_over"
    /// The id of the event that interrupts a reply: an error that names it found no reply.
    static let interruptionID = "interrupt"

    /// Whether the server hears speech now.
    private(set) var isSpeechHeard = false
    /// Committed items whose transcript has not come.
    private(set) var untranscribedItems: Set<String> = []
    /// User turns committed so far.
    private(set) var turnCount = 0
    /// Whether a response followed the last turn, and whether one is running.
    private(set) var hasResponse = false
    private(set) var isResponding = false
    /// Whether the user has interrupted the response that is running: its rest is not news.
    private(set) var isInterrupting = false
    /// The streamed parts of transcripts that are not complete. The complete text repeats or
    /// corrects them.
    private var streamed: [String: String] = [:]
    /// The item of the line that was sent last.
    private var lineID: String?
    /// The messages of the agent that are complete.
    private var completeReplies: Set<String> = []
    /// Whether the conversation is being told from its beginning, after events were lost.
    private var isRetold = false

    /// Whether the last turn is over: heard, transcribed, answered, and nothing is under way.
    var isTurnOver: Bool {
        turnCount > 0 && !isSpeechHeard && untranscribedItems.isEmpty && hasResponse
            && !isResponding
    }

    /// A new turn begins: the turns before it no longer count.
    mutating func beginTurn() {
        turnCount = 0
        hasResponse = false
    }

    /// A turn of typed text was sent: it needs no transcript.
    /// - Parameter itemID: the id that the client gave it, if any.
    mutating func handleTextSent(itemID: String? = nil) {
        turnCount += 1
        hasResponse = false
        lineID = itemID
    }

    /// The user has interrupted the response that is running.
    mutating func beginInterruption() { isInterrupting = isResponding }

    /// The id of the event that searches for the line's item: an error that names it is the answer.
    static func searchID(of itemID: String) -> String { "find_" + itemID }

    /// Events were lost. The items follow, and responses in flight as far as they have come.
    mutating func beginRetelling() {
        isRetold = true
        isSpeechHeard = false
        isResponding = false
        untranscribedItems = []
        streamed = [:]
    }

    /// Ends the repetition of missed events: all of them have come.
    mutating func endRetelling() { isRetold = false }

    /// Follows one event.
    mutating func handle(type: String, body: JSONValue) -> ConversationNotice {
        let isNews = !isInterrupting
        let notice = follow(type: type, body: body)
        return isNews || !notice.isOfReply ? notice : .other
    }

    private mutating func follow(type: String, body: JSONValue) -> ConversationNotice {
        let itemID = body["item_id"]?.string ?? ""
        let delta = body["delta"]?.string ?? ""
        switch type {
        case "session.created": return .sessionCreated
        case "session.updated": return .sessionUpdated
        case "input_audio_buffer.speech_started":
            isSpeechHeard = true
            return .speechStarted
        case "input_audio_buffer.speech_stopped":
            isSpeechHeard = false
        case "input_audio_buffer.committed":
            turnCount += 1
            hasResponse = false
            isSpeechHeard = false
            untranscribedItems.insert(itemID)
            return .turnCommitted
        case "conversation.item.input_audio_transcription.delta":
            streamed[itemID, default: ""] += delta
            return .transcript(delta)
        case "conversation.item.input_audio_transcription.completed":
            untranscribedItems.remove(itemID)
            let transcript = body["transcript"]?.string ?? ""
            return .transcriptDone(
                transcript, isShown: streamed.removeValue(forKey: itemID) == transcript)
        case "conversation.item.input_audio_transcription.failed":
            untranscribedItems.remove(itemID)
            return .failed("the transcription failed: \(message(of: body))")
        case "conversation.item.added": handleItem(body["item"])
        case "conversation.item.retrieved":
            if let lineID, body["item"]?["id"]?.string == lineID { return .lineIsKnown(true) }
        case "conversation.item.done": return handleCompleteItem(body["item"])
        case "error":
            let cause = body["error"]?["event_id"]?.string
            if let lineID, cause == Self.searchID(of: lineID) { return .lineIsKnown(false) }
            if cause == Self.interruptionID {
                isInterrupting = false
                return .other
            }
            return .failed(message(of: body))
        default: return handleResponseEvent(type: type, body: body, delta: delta, itemID: itemID)
        }
        return .other
    }

    private mutating func handleItem(_ item: JSONValue?) {
        guard isRetold, let role = item?["role"]?.string else { return }
        // The answer to the last turn is behind it.
        hasResponse = role == "assistant"
    }

    private mutating func handleCompleteItem(_ item: JSONValue?) -> ConversationNotice {
        guard let item, item["role"]?.string == "assistant", let id = item["id"]?.string,
            completeReplies.insert(id).inserted, isRetold
        else { return .other }
        // Its end was missed, so that all of it is news.
        let texts = item["content"]?.elements.map { parts in
            parts.map { $0["transcript"]?.string ?? $0["text"]?.string ?? "" }
        }
        return .replyText(texts?.joined() ?? "")
    }

    private mutating func handleResponseEvent(
        type: String, body: JSONValue, delta: String, itemID: String
    ) -> ConversationNotice {
        switch type {
        case "response.created":
            hasResponse = true
            isResponding = true
        case "response.output_text.delta", "response.output_audio_transcript.delta":
            return .replyText(delta)
        case "response.output_audio.delta":
            return .replyAudio(
                base64: delta, itemID: itemID, start: body["audio_start_ms"]?.int)
        case "response.function_call_arguments.done":
            return .functionCall(
                name: body["name"]?.string ?? "?",
                arguments: body["arguments"]?.string ?? "")
        case "response.done":
            isResponding = false
            let notice = responseDone(body["response"])
            if case .responseDone(_, let reason) = notice, reason == Self.handedOver {
                hasResponse = false
            } else {
                isInterrupting = false
            }
            return notice
        default: break
        }
        return .other
    }

    private func responseDone(_ response: JSONValue?) -> ConversationNotice {
        let status = response?["status"]?.string ?? "?"
        if status == "completed" {
            let language = response?["metadata"]?["parley_no_voice"]?.string
            return .responseDone(
                status: status,
                reason: language.map { "no voice of this server speaks '\($0)': the reply is text" }
            )
        }
        let details = response?["status_details"]
        let error = details?["error"]
        let reason = error?["message"]?.string ?? error?["code"]?.string
        return .responseDone(
            status: status, reason: reason ?? details?["reason"]?.string ?? "no reason given")
    }

    private func message(of body: JSONValue) -> String {
        let error = body["error"]
        let message = error?["message"]?.string ?? "an error without a message"
        guard let code = error?["code"]?.string else { return message }
        return "\(message) [\(code)]"
    }
}
