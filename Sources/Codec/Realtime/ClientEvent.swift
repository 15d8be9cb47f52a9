// What a client may say. `ClientEventParser` (beside this file) turns one text message into one of
// these values or a `ClientEventError`; what they do is in Session/VoiceSession.

/// One event of a client, validated: types, ranges and enums hold. Cases mirror the wire names. The
/// large payloads are indirect, so that an audio event does not move their room about.
public enum ClientEvent: Equatable, Sendable {
    /// `session.update`
    indirect case sessionUpdate(SessionUpdate)
    /// `input_audio_buffer.append`: the decoded bytes are the parser's `audio` until its next call.
    /// `sequence` is the packet's number, where the client gives one (an extension of Parley).
    case inputAudioBufferAppend(sequence: UInt16? = nil)
    /// `input_audio_buffer.commit`
    case inputAudioBufferCommit
    /// `input_audio_buffer.clear`
    case inputAudioBufferClear
    /// `conversation.item.create`; `previousItemID` is nil (append), `"root"` or an item's id.
    case conversationItemCreate(item: ConversationItem, previousItemID: String?)
    /// `conversation.item.delete`
    case conversationItemDelete(itemID: String)
    /// `conversation.item.retrieve`
    case conversationItemRetrieve(itemID: String)
    /// `conversation.item.truncate`: the audio of the item that was heard, in ms.
    case conversationItemTruncate(itemID: String, contentIndex: Int, audioEndMilliseconds: Int)
    /// `response.create`
    indirect case responseCreate(ResponseParameters)
    /// `response.cancel`; nil is the active response.
    case responseCancel(responseID: String?)
    /// `output_audio_buffer.clear`
    case outputAudioBufferClear
    /// `output_audio_buffer.played` (an extension of Parley): so much of the item has been heard.
    case outputAudioBufferPlayed(itemID: String, contentIndex: Int, audioEndMilliseconds: Int)
}

/// Why a client's event is refused; becomes an `error` event, and the session lives on.
public struct ClientEventError: Error, Equatable, Sendable {
    /// The protocol's error type.
    public enum Kind: String, CaseIterable, Sendable {
        case invalidRequest = "invalid_request_error"
        case server = "server_error"
    }

    /// The protocol's error type.
    public var kind: Kind
    /// A stable word that clients key on, for example `invalid_value`.
    public var code: String
    /// A sentence for a person.
    public var message: String
    /// The offending field as a path, for example `session.audio.input.format`.
    public var param: String?
    /// The `event_id` of the client's event, echoed.
    public var eventID: String?

    /// Creates an error.
    public init(
        kind: Kind = .invalidRequest, code: String, message: String, param: String? = nil,
        eventID: String? = nil
    ) {
        self.kind = kind
        self.code = code
        self.message = message
        self.param = param
        self.eventID = eventID
    }
}
