// A request to a text front end, in either of its two formats, and the parser that both formats
// share. The formats themselves are in ChatCompletionsParser and UIMessagesParser. Server answers
// the request.
//
// Invariant: any bytes give a request or a `ClientEventError`, never a trap.

/// One request of a text front end, validated.
public struct ChatRequest: Equatable, Sendable {
    /// The model that the client named, or nil.
    public var model: String?
    /// Instructions beside the conversation, or nil. Only the UI message format has them.
    public var instructions: String?
    /// The conversation, oldest first; never empty.
    public var items: [ConversationItem] = []
    /// Functions that the model may call. The client executes them.
    public var tools: [FunctionTool] = []
    /// Whether a function must be called, and which one.
    public var toolChoice = ToolChoice.auto
    /// Whether several calls may come in one reply. The default is the model's.
    public var parallelToolCalls: Bool?
    /// Maximum tokens of the reply, or nil.
    public var maxOutputTokens: Int?
    /// In front of which words the reply ends. Only chat completions have them.
    public var stopWords = StopWords([])
    /// Whether the reply is streamed.
    public var streams = false
    /// Whether a streamed reply ends with its usage.
    public var includesUsage = false
    /// The chat's own id, by which a client can resume a reply; nil where the format has none.
    public var chatID: String?
    /// The assistant's message that the reply continues, where the conversation ends with one.
    public var continuedMessageID: String?

    /// Creates an empty request.
    public init() {}
}

/// Parses bodies of text requests, one after another, in buffers that it reuses.
public final class ChatRequestParser {
    private let json = JSONParser()

    /// Creates a parser.
    public init() {}

    /// The fields of a body, which must be an object.
    func fields(of body: [UInt8]) throws(ClientEventError) -> EventFields {
        try EventFields(body: body, json)
    }
}

extension ConversationItem {
    /// An item of a request. Items are identified by position, so they have no id.
    init(_ kind: Kind) { self.init(id: "", kind: kind) }
}

extension ContentPart {
    /// An image of a user's message, checked like images of the Realtime protocol.
    init(
        imageAt key: StaticString, in fields: EventFields, detail: ImageDetail
    ) throws(ClientEventError) {
        let url = try fields.read(RequiredField(key, ImageURLRule(), "The image."))
        self = .inputImage(url: url, detail: detail)
    }
}

extension FunctionTool {
    /// A function under a name, as described in both formats.
    init(
        named name: String, _ fields: EventFields, schema key: StaticString
    ) throws(ClientEventError) {
        let parameters = try fields.fields(key)
        self.init(
            name: name, description: try fields.text("description"),
            parameters: try parameters.map { (schema) throws(ClientEventError) in
                try fields.raw(schema.object, schema.path)
            })
    }
}
