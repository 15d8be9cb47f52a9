// The protocol's conversation items as values. How they are read is in ConversationItemParser, how
// they are written in ConversationItemWriter; how they form a conversation is in
// Session/Conversation.

/// An entry of the conversation (protocol object `realtime.item`).
public struct ConversationItem: Equatable, Sendable {
    /// Who a message is from.
    public enum Role: String, CaseIterable, Sendable { case system, user, assistant }

    /// The protocol's item status.
    public enum Status: String, CaseIterable, Sendable {
        case completed, incomplete
        case inProgress = "in_progress"
    }

    /// What the item is.
    public enum Kind: Equatable, Sendable {
        /// `message`
        case message(role: Role, content: [ContentPart])
        /// `function_call`: `arguments` is JSON text as the model wrote it.
        case functionCall(callID: String, name: String, arguments: String)
        /// `function_call_output`
        case functionCallOutput(callID: String, output: String)
    }

    /// Unique in its conversation; empty only in an item that a client created without an id.
    public var id: String
    /// The protocol's item status.
    public var status: Status
    /// What the item is.
    public var kind: Kind

    /// Creates an item.
    public init(id: String, status: Status = .completed, kind: Kind) {
        self.id = id
        self.status = status
        self.kind = kind
    }
}

/// A piece of a message item.
public enum ContentPart: Equatable, Sendable {
    /// `input_text`, in user and system messages.
    case inputText(String)
    /// `input_audio`, in user messages: audio bytes in the session's input format (empty once they
    /// live in the input buffer's segment), and the transcript when one exists.
    case inputAudio(bytes: [UInt8], transcript: String?)
    /// `output_text`, in assistant messages.
    case outputText(String)
    /// `output_audio`, in assistant messages; only the transcript is kept.
    case outputAudio(transcript: String)
}
