// The protocol's conversation items as values. ConversationItemParser reads them,
// ConversationItemWriter writes them; Session/Conversation keeps them in order.

/// An entry of the conversation (protocol object `realtime.item`).
public struct ConversationItem: Equatable, Sendable {
    /// The author of a message.
    public enum Role: String, CaseIterable, Sendable { case system, user, assistant }

    /// The protocol's item status.
    public enum Status: String, CaseIterable, Sendable {
        case completed, incomplete
        case inProgress = "in_progress"
    }

    /// Type and content of an item.
    public enum Kind: Equatable, Sendable {
        /// `message`
        case message(role: Role, content: [ContentPart])
        /// `function_call`: `arguments` is JSON text as the model wrote it.
        case functionCall(callID: String, name: String, arguments: String)
        /// `function_call_output`
        case functionCallOutput(callID: String, output: String)
        /// `item_reference`: refers to the conversation's item with this id. Only in the `input` of
        /// a response.
        case reference
        /// `mcp_list_tools`, `mcp_call`, `mcp_approval_request`, `mcp_approval_response`
        indirect case mcp(MCPItem)
    }

    /// Unique in its conversation. Empty only in an item that a client created without an id.
    public var id: String
    /// The protocol's item status.
    public var status: Status
    /// Type and content of the item.
    public var kind: Kind

    /// Creates an item.
    public init(id: String, status: Status = .completed, kind: Kind) {
        self.id = id
        self.status = status
        self.kind = kind
    }
}

/// Resolution at which a model reads an image (`detail`); a lower one costs fewer tokens.
public enum ImageDetail: String, CaseIterable, Sendable {
    case auto, low, high

    /// Estimated tokens of an image that no service has counted: 85 at low detail, otherwise 765,
    /// which is a square of 1,024 pixels by OpenAI's guide to vision.
    public var estimatedTokens: Int { self == .low ? 85 : 765 }
}

/// A part of a message item.
public enum ContentPart: Equatable, Sendable {
    /// `input_text`, in user and system messages.
    case inputText(String)
    /// `input_audio`, in user messages. `bytes` are audio in the session's input format if the
    /// client sent or requested them, otherwise empty. `transcript` is set when one exists.
    case inputAudio(bytes: [UInt8], transcript: String?)
    /// `input_image`, in user messages: an `https:` URL that the model's service fetches, or a
    /// `data:` URL of a PNG, JPEG, GIF or WebP file in base64.
    case inputImage(url: String, detail: ImageDetail)
    /// `output_text`, in assistant messages.
    case outputText(String)
    /// `output_audio`, in assistant messages; only the transcript is kept.
    case outputAudio(transcript: String)
}
