// The events that a client may send. `ClientEventParser` (beside this file) turns one text message
// into one of these values or a `ClientEventError`; Session/VoiceSession acts on them.

/// One validated event of a client: types, ranges and enums are checked. Cases mirror the wire
/// names. Large payloads are indirect, so that the value of a small event stays small.
public enum ClientEvent: Equatable, Sendable {
    /// `session.update`
    indirect case sessionUpdate(SessionUpdate)
    /// `input_audio_buffer.append`: the decoded bytes are in the parser's `audio` until its next
    /// call. `sequence` is the packet's number, if the client sends one (an extension of Parley).
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
    /// `conversation.item.truncate`: how much of the item's audio was heard, in ms.
    case conversationItemTruncate(itemID: String, contentIndex: Int, audioEndMilliseconds: Int)
    /// `response.create`
    indirect case responseCreate(ResponseParameters)
    /// `response.cancel`; nil means the active response.
    case responseCancel(responseID: String?)
    /// `output_audio_buffer.clear`
    case outputAudioBufferClear
    /// `output_audio_buffer.played` (an extension of Parley): how much of the item's audio was
    /// heard.
    case outputAudioBufferPlayed(itemID: String, contentIndex: Int, audioEndMilliseconds: Int)
    /// `parley.ping` (an extension of Parley): asks for a sign of life. The connection answers it;
    /// the session does not see it.
    case ping
}

/// Why a client's event is refused. It becomes an `error` event, and the session continues.
public struct ClientEventError: Error, Equatable, Sendable {
    /// The protocol's error type.
    public enum Kind: String, CaseIterable, Sendable {
        case invalidRequest = "invalid_request_error"
        case server = "server_error"
    }

    /// The protocol's error type.
    public var kind: Kind
    /// A stable code that clients key on, for example `invalid_value`.
    public var code: String
    /// A sentence for people.
    public var message: String
    /// Path of the invalid field, for example `session.audio.input.format`.
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
