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
        /// `item_reference`: the item of the conversation that has this id; only in the `input` of
        /// a response.
        case reference
        /// `mcp_list_tools`, `mcp_call`, `mcp_approval_request`, `mcp_approval_response`
        indirect case mcp(MCPItem)
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

/// How closely a model looks at an image (`detail`); less costs fewer tokens.
public enum ImageDetail: String, CaseIterable, Sendable {
    case auto, low, high

    /// Tokens that an image is taken to cost where no service has counted them: 85 for a look at
    /// low detail and 765 for a square of 1,024 pixels, as OpenAI's guide to vision counts.
    public var estimatedTokens: Int { self == .low ? 85 : 765 }
}

/// A piece of a message item.
public enum ContentPart: Equatable, Sendable {
    /// `input_text`, in user and system messages.
    case inputText(String)
    /// `input_audio`, in user messages: audio bytes in the session's input format, where the client
    /// gives or is given them (else empty), and the transcript when one exists.
    case inputAudio(bytes: [UInt8], transcript: String?)
    /// `input_image`, in user messages: an `https:` URL that the model's service fetches, or a
    /// `data:` URL of a PNG, JPEG, GIF or WebP file in base64.
    case inputImage(url: String, detail: ImageDetail)
    /// `output_text`, in assistant messages.
    case outputText(String)
    /// `output_audio`, in assistant messages; only the transcript is kept.
    case outputAudio(transcript: String)
}
