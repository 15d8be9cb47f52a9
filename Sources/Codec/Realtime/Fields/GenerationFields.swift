// The fields that `session.update` and `response.create` share, and their rules: modality, voice,
// format and tools of responses. Each field is declared once for both.

/// Fields for the content of responses.
enum GenerationFields {
    static let outputModalities = OptionalField(
        "output_modalities", OutputModalityRule(),
        "Modality of responses: text, or audio with its transcript.")
    static let tools = OptionalField("tools", FunctionToolsRule(), "Tools that the model may call.")
    /// Reads the MCP servers of `tools`.
    static let mcpTools = OptionalField("tools", MCPToolsRule(), "")
    static let toolChoice = OptionalField(
        "tool_choice", ToolChoiceRule(), "Whether the model must call a tool, and which.")
    /// Reads the MCP choice of `tool_choice`.
    static let mcpToolChoice = OptionalField("tool_choice", MCPToolChoiceRule(), "")
    static let parallelToolCalls = OptionalField(
        "parallel_tool_calls", .boolean,
        "Whether the model may make several calls in one response.")
    static let maxOutputTokens = OptionalField(
        "max_output_tokens", MaxOutputTokensRule(), "Maximum tokens of one response.")

    /// All of them, in reading order.
    static var entries: [FieldEntry] {
        [
            outputModalities.entry, tools.entry, toolChoice.entry, parallelToolCalls.entry,
            maxOutputTokens.entry,
        ]
    }
}

/// Fields for the audio of a reply.
enum ReplyAudioFields {
    static let format = OptionalField(
        "format", AudioFormatRule(direction: .output), "How the reply's audio is encoded.")
    /// Reads the Opus settings of `format`.
    static let opus = OptionalField("format", OpusSettingsRule(), "")
    static let voice = OptionalField(
        "voice", VoiceRule(), "The voice; it cannot change once it has spoken.")

    /// All of them, in reading order.
    static var entries: [FieldEntry] { [format.entry, voice.entry] }
}

/// `output_modalities`: one modality. Audio includes its transcript.
struct OutputModalityRule: ValueRule {
    var schema: ValueSchema {
        .list(.choice(OutputModality.allCases.map(\.rawValue)), atLeast: 1, atMost: 1)
    }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> OutputModality {
        let expected = "[\"audio\"] or [\"text\"]"
        guard var elements = value.elements, elements.count == 1, let only = elements.next(),
            let modality = only.string.flatMap(OutputModality.init)
        else { throw .mismatch(path.text, expected: expected, value, of: .array) }
        return modality
    }
}

/// `voice`: a name, or an object with the name as `id`.
struct VoiceRule: ValueRule {
    /// The object.
    enum Fields: FieldTable {
        static let id = RequiredField("id", .name, "The voice's name.")

        static var table: ObjectTable { ObjectTable("Voice", "A voice.", [id.entry]) }
    }

    var schema: ValueSchema { .oneOf([NameRule.name.schema, .object(Fields.table)]) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> String {
        switch value.kind {
        case .string: return try NameRule.name.read(value, at: path)
        case .object:
            return try EventFields(value, path: path.text).read(Fields.id)
        case .null, .bool, .number, .array:
            throw .wrongType(path.text, expected: "a string or an object with an id", value)
        }
    }
}

/// `max_output_tokens`: 1…4096; `"inf"` is nil.
struct MaxOutputTokensRule: ValueRule {
    private let range = 1...4_096

    var schema: ValueSchema { .oneOf([.integer(range), .constant("inf")]) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> Int? {
        let expected = "an integer from 1 to 4096 or \"inf\""
        if value.isString("inf") { return nil }
        guard let tokens = value.int, range.contains(tokens) else {
            throw .mismatch(path.text, expected: expected, value, of: .string, .number)
        }
        return tokens
    }
}

// MARK: - Tools

/// An element of `tools`.
enum FunctionToolFields: FieldTable {
    static let type = OptionalField(
        "type", FunctionTypeRule(), "The type of the tool; default: function.")
    static let name = RequiredField("name", .name, "The function's name.")
    static let description = OptionalField(
        "description", .text, "What it does and when to call it, for the model.")
    static let parameters = OptionalField(
        "parameters", .rawObject, "JSON Schema of its arguments.")

    static var table: ObjectTable {
        ObjectTable(
            "FunctionTool", "A function that the client runs.",
            [type.entry, name.entry, description.entry, parameters.entry])
    }
}

/// The `type` of a tool or of a tool choice.
struct FunctionTypeRule: ValueRule {
    var schema: ValueSchema { .constant("function") }

    func read(_ type: JSONValue, at path: FieldPath) throws(ClientEventError) {
        guard type.isString("function") else {
            throw .mismatch(path.text, expected: "'function' or 'mcp'", type, of: .string)
        }
    }
}

/// `tool_choice`: a mode, or an object that names one function. One that names an MCP server reads
/// as `auto`; `MCPToolChoiceRule` reads that one.
struct ToolChoiceRule: ValueRule {
    /// The object.
    enum Fields: FieldTable {
        static let type = RequiredField("type", FunctionTypeRule(), "The type of the tool.")
        static let name = RequiredField("name", .name, "The function that must be called.")

        static var table: ObjectTable {
            ObjectTable("ToolChoice", "One tool that must be called.", [type.entry, name.entry])
        }
    }

    var schema: ValueSchema {
        .oneOf([
            .choice(["auto", "none", "required"]), .object(Fields.table),
            .object(MCPToolFields.choice),
        ])
    }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> ToolChoice {
        let expected = "'auto', 'none', 'required' or an object of type 'function' or 'mcp'"
        switch value.string {
        case "auto": return .auto
        case "none": return ToolChoice.none
        case "required": return .required
        default: break
        }
        guard value.kind == .object else {
            throw .mismatch(path.text, expected: expected, value, of: .string)
        }
        if value["type"]?.isString("mcp") == true { return .auto }
        let fields = try EventFields(value, path: path.text)
        try fields.read(Fields.type)
        return .function(name: try fields.read(Fields.name))
    }
}
