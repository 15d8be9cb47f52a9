// What a text front end is asked, whichever of the two formats it came in, and the parser that both
// share. The formats are beside this file: ChatCompletionsParser and UIMessagesParser. What becomes
// of a request is Server's business.
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
    /// Functions that the model may call; the client carries them out.
    public var tools: [FunctionTool] = []
    /// Whether and which function must be called.
    public var toolChoice = ToolChoice.auto
    /// Whether several calls may come in one reply, or nil: as the model is used to.
    public var parallelToolCalls: Bool?
    /// Limit of the reply's tokens, or nil.
    public var maxOutputTokens: Int?
    /// Whether the reply is wanted in pieces.
    public var streams = false
    /// Whether a streamed reply ends by telling its usage.
    public var includesUsage = false
    /// The chat's own id, by which a reply can be found again; nil where the format has none.
    public var chatID: String?
    /// The message that the reply continues, where the conversation ends in one of the assistant's.
    public var continuedMessageID: String?

    /// Creates a request that asks nothing.
    public init() {}
}

/// Parses the bodies of text front ends, one after another, in buffers that it keeps.
public final class ChatRequestParser {
    let limits: ClientEventLimits
    private let json: JSONParser

    /// Creates a parser.
    public init(limits: ClientEventLimits = ClientEventLimits()) {
        self.limits = limits
        json = JSONParser(limits: limits.json)
    }

    /// The fields of a body, which must be an object.
    func fields(of body: [UInt8]) throws(ClientEventError) -> EventFields {
        let root: JSONValue
        do throws(JSONError) {
            let result = body.withUnsafeBytes { (bytes) -> Result<JSONValue, JSONError> in
                Result { () throws(JSONError) in try json.parse(bytes) }
            }
            root = try result.get()
        } catch {
            throw ClientEventError(
                code: "invalid_json",
                message: "The body is not JSON that can be read: \(error.explanation).")
        }
        guard root.kind == .object else {
            throw ClientEventError(
                code: "invalid_type", message: "The body must be a JSON object.")
        }
        return try EventFields(root, path: "", limits: limits)
    }
}

extension ConversationItem {
    /// An item of a request. Its place is its identity, so it has no id.
    init(_ kind: Kind) { self.init(id: "", kind: kind) }
}

extension ContentPart {
    /// An image of a user's message, under the rule for images of the Realtime protocol.
    init(
        imageAt key: StaticString, in fields: EventFields, detail: ImageDetail
    ) throws(ClientEventError) {
        let url = try fields.read(RequiredField(key, ImageURLRule(), "The image."))
        self = .inputImage(url: url, detail: detail)
    }
}

extension FunctionTool {
    /// A function as both formats describe one, under a name.
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
