// What the server says. Cases mirror the wire names; ServerEventWriter (beside this file) turns
// one into JSON. When each is said is decided in Session.

/// Tokens that a response took, by kind.
public struct ResponseUsage: Equatable, Sendable {
    /// Tokens of the context that were text.
    public var inputTextTokens = 0
    /// Tokens of the context that were audio.
    public var inputAudioTokens = 0
    /// Tokens of the context that the model had cached; part of the above.
    public var cachedTokens = 0
    /// Tokens of text that the model wrote.
    public var outputTextTokens = 0
    /// Tokens of audio that the model wrote.
    public var outputAudioTokens = 0

    /// No tokens.
    public init() {}
}

/// The protocol's `realtime.response` object.
public struct ResponseDescription: Equatable, Sendable {
    /// How far the response has come, and why it ended.
    public enum Status: Equatable, Sendable {
        case inProgress, completed
        /// `turn_detected` or `client_cancelled`.
        case cancelled(reason: String)
        /// `max_output_tokens` or `content_filter`.
        case incomplete(reason: String)
        /// An error that ended it.
        case failed(type: String, code: String, message: String)
    }

    /// `resp_…`
    public var id: String
    /// Nil for a response outside the conversation.
    public var conversationID: String?
    /// How far it has come.
    public var status = Status.inProgress
    /// Its items, in the order of their output index; filled in when it is done.
    public var output: [ConversationItem] = []
    /// What it is made of.
    public var outputModality: OutputModality
    /// Format of its audio.
    public var outputFormat: AudioFormat
    /// Voice of its audio.
    public var voice: String
    /// Nil for `"inf"`.
    public var maxOutputTokens: Int?
    /// The client's own, echoed.
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

/// Names the content part that a delta belongs to.
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

/// One event of the server. `event_id` is given when it is written. The large and rare payloads are
/// indirect, so that a queued delta does not take their room.
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
    /// `transcript` is what is left of it, where the server itself truncated (an extension of
    /// Parley): the client need not retrieve the item.
    case conversationItemTruncated(
        itemID: String, contentIndex: Int, audioEndMilliseconds: Int, transcript: String? = nil)
    case transcriptionDelta(itemID: String, contentIndex: Int, delta: String)
    /// `usage` is the duration form: seconds of audio transcribed.
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
    /// in the item's audio it starts, given where that is not the end of what was sent before (an
    /// extension of Parley, `audio_start_ms`). `position` is always where it starts, in samples at
    /// 48 kHz; it is not on the wire.
    case responseOutputAudioDelta(
        PartAddress, audio: [UInt8], startMilliseconds: Int? = nil, position: Int = 0)
    case responseOutputAudioDone(PartAddress)
    case responseFunctionCallArgumentsDelta(PartAddress, callID: String, delta: String)
    case responseFunctionCallArgumentsDone(
        PartAddress, callID: String, name: String, arguments: String)
    case rateLimitsUpdated
    case outputAudioBufferCleared(responseID: String)
    /// What concerns MCP servers: `mcp_list_tools.…` and `response.mcp_call….…`.
    indirect case mcp(MCPEvent)
}
