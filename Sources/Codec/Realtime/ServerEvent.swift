// The events that the server sends. Cases mirror the wire names. ServerEventWriter (beside this
// file) writes them as JSON; Session decides when to send which.

/// Tokens of a response, by kind.
public struct ResponseUsage: Equatable, Sendable {
    /// Text tokens of the model's input.
    public var inputTextTokens = 0
    /// Audio tokens of the model's input.
    public var inputAudioTokens = 0
    /// Input tokens that the model had cached; included in the counts above.
    public var cachedTokens = 0
    /// Text tokens of the model's output.
    public var outputTextTokens = 0
    /// Audio tokens of the model's output.
    public var outputAudioTokens = 0

    /// No tokens.
    public init() {}

    /// Adds the tokens of another response. The counts come from a model's service: wrapping
    /// addition, because an absurd sum must not trap.
    public mutating func add(_ other: ResponseUsage) {
        inputTextTokens &+= other.inputTextTokens
        inputAudioTokens &+= other.inputAudioTokens
        cachedTokens &+= other.cachedTokens
        outputTextTokens &+= other.outputTextTokens
        outputAudioTokens &+= other.outputAudioTokens
    }
}

/// An element of `rate_limits.updated`: the rest of a quota.
public struct RateLimit: Equatable, Sendable {
    /// The names that the protocol has.
    public enum Name: String, CaseIterable, Sendable {
        /// Requests to models.
        case requests
        case tokens
    }

    /// The unit that is limited.
    public var name: Name
    /// How much may be used in the period of the quota.
    public var limit: Int
    /// How much of it may be used now.
    public var remaining: Int
    /// Milliseconds until all of it may be used again.
    public var resetMilliseconds: Int

    /// Creates an element.
    public init(name: Name, limit: Int, remaining: Int, resetMilliseconds: Int) {
        self.name = name
        self.limit = limit
        self.remaining = remaining
        self.resetMilliseconds = resetMilliseconds
    }
}

/// The protocol's `realtime.response` object.
public struct ResponseDescription: Equatable, Sendable {
    /// The state of the response, and why it ended.
    public enum Status: Equatable, Sendable {
        case inProgress, completed
        /// `turn_detected` or `client_cancelled`.
        case cancelled(reason: String)
        /// `max_output_tokens` or `content_filter`; in a session that can be resumed also
        /// `handed_over` or `interrupted_by_restart` (extensions of Parley).
        case incomplete(reason: String)
        /// The error that ended it. `retryAfterSeconds`: when another response may succeed, if that
        /// is known.
        case failed(type: String, code: String, message: String, retryAfterSeconds: Int? = nil)
    }

    /// `resp_…`
    public var id: String
    /// Nil for a response outside the conversation.
    public var conversationID: String?
    /// The state of the response.
    public var status = Status.inProgress
    /// Its items in the order of their output index; set when it is done.
    public var output: [ConversationItem] = []
    /// Its modality.
    public var outputModality: OutputModality
    /// `temperature` of the beta, reported back.
    public var temperature = Temperature()
    /// Format of its audio.
    public var outputFormat: AudioFormat
    /// Voice of its audio.
    public var voice: String
    /// Maximum tokens; nil for `"inf"`.
    public var maxOutputTokens: Int?
    /// The client's metadata, echoed.
    public var metadata: RawJSON?
    /// Nil until the response is done.
    public var usage: ResponseUsage?

    /// Describes a response that has just begun.
    public init(
        id: String, conversationID: String?, outputModality: OutputModality,
        outputFormat: AudioFormat, voice: String, maxOutputTokens: Int? = nil,
        metadata: RawJSON? = nil
    ) {
        self.id = id
        self.conversationID = conversationID
        self.outputModality = outputModality
        self.outputFormat = outputFormat
        self.voice = voice
        self.maxOutputTokens = maxOutputTokens
        self.metadata = metadata
    }
}

/// Locates the content part that a delta belongs to.
public struct PartAddress: Equatable, Sendable {
    /// The response.
    public var responseID: String
    /// The item of the response.
    public var itemID: String
    /// The item's place in the response, from 0.
    public var outputIndex: Int
    /// The part's place in the item, from 0.
    public var contentIndex: Int

    /// Creates an address.
    public init(responseID: String, itemID: String, outputIndex: Int, contentIndex: Int = 0) {
        self.responseID = responseID
        self.itemID = itemID
        self.outputIndex = outputIndex
        self.contentIndex = contentIndex
    }
}

/// One event of the server. Its `event_id` is assigned when it is written. Large and rare payloads
/// are indirect, so that a queued delta does not need their room.
public enum ServerEvent: Equatable, Sendable {
    case error(ClientEventError)
    indirect case sessionCreated(id: String, SessionParameters)
    indirect case sessionUpdated(id: String, SessionParameters)
    case inputAudioBufferSpeechStarted(itemID: String, audioStartMilliseconds: Int)
    case inputAudioBufferSpeechStopped(itemID: String, audioEndMilliseconds: Int)
    case inputAudioBufferCommitted(itemID: String, previousItemID: String?)
    case inputAudioBufferCleared
    case inputAudioBufferTimeoutTriggered(
        itemID: String, audioStartMilliseconds: Int, audioEndMilliseconds: Int)
    case conversationItemAdded(ConversationItem, previousItemID: String?)
    case conversationItemDone(ConversationItem, previousItemID: String?)
    case conversationItemDeleted(itemID: String)
    case conversationItemRetrieved(ConversationItem)
    /// `transcript` is the remaining transcript, set where the server itself truncated (an
    /// extension of Parley), so that the client need not retrieve the item.
    case conversationItemTruncated(
        itemID: String, contentIndex: Int, audioEndMilliseconds: Int, transcript: String? = nil)
    case transcriptionDelta(itemID: String, contentIndex: Int, delta: String)
    /// `usage` is written in its duration form: seconds of audio transcribed.
    case transcriptionCompleted(
        itemID: String, contentIndex: Int, transcript: String, seconds: Double)
    case transcriptionFailed(itemID: String, contentIndex: Int, code: String, message: String)
    indirect case responseCreated(ResponseDescription)
    indirect case responseDone(ResponseDescription)
    case responseOutputItemAdded(responseID: String, outputIndex: Int, ConversationItem)
    case responseOutputItemDone(responseID: String, outputIndex: Int, ConversationItem)
    /// `part.type` is `text` or `audio`, with `text` or `transcript` beside it.
    case responseContentPartAdded(PartAddress, OutputModality)
    case responseContentPartDone(PartAddress, OutputModality, text: String)
    case responseOutputTextDelta(PartAddress, delta: String)
    case responseOutputTextDone(PartAddress, text: String)
    case responseOutputAudioTranscriptDelta(PartAddress, delta: String)
    case responseOutputAudioTranscriptDone(PartAddress, transcript: String)
    /// `audio` is in the response's output format, written as base64. `startMilliseconds` is where
    /// it starts in the item's audio (an extension of Parley, `audio_start_ms`); set only where
    /// that is not the end of the previous delta.
    case responseOutputAudioDelta(PartAddress, audio: [UInt8], startMilliseconds: Int? = nil)
    case responseOutputAudioDone(PartAddress)
    case responseFunctionCallArgumentsDelta(PartAddress, callID: String, delta: String)
    case responseFunctionCallArgumentsDone(
        PartAddress, callID: String, name: String, arguments: String)
    case rateLimitsUpdated([RateLimit])
    case outputAudioBufferCleared(responseID: String)
    /// An event of the agent that answers, as it came: `parley.agent.event`, an extension of Parley.
    case agentEvent(responseID: String, name: String, RawJSON)
    /// The caller of a telephone line has pressed a key: `parley.dtmf.received`, an extension of
    /// Parley.
    case dtmfReceived(digit: String)
    /// The client has come back to its session, or to one that goes on in its place:
    /// `parley.resumed`, an extension of Parley. `recovered`: the events that it has missed follow.
    indirect case resumed(id: String, SessionParameters, recovered: Bool)
    /// The client has a new handle: `parley.resume.updated`, an extension of Parley. The handle is
    /// in the event's `ResumeNote`.
    case resumeUpdated
    /// The session ends soon: `parley.going_away`, an extension of Parley.
    case goingAway(GoingAwayReason, millisecondsLeft: Int)
    /// Whether the session is recorded from now on: `parley.recording.updated`, an extension of
    /// Parley, the answer to a client's consent.
    case recordingUpdated(isActive: Bool)
    /// A sign of life: `parley.pong`, an extension of Parley, the answer to `parley.ping`.
    case pong
    /// Events about MCP servers: `mcp_list_tools.…` and `response.mcp_call….…`.
    indirect case mcp(MCPEvent)
}
