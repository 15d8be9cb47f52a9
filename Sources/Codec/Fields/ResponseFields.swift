// The fields of `response` in `response.create`. What reading them makes of the response is in
// ResponseParametersParser.

/// `response`
enum ResponseFields: FieldTable {
    /// `conversation`
    enum Conversation: String, CaseIterable, DocumentedValue {
        case inside = "auto"
        case outside = "none"
    }

    static let instructions = OptionalField(
        "instructions", .text, "Instructions instead of the session's.")
    static let outputModalities = OptionalField(
        "output_modalities", OutputModalityRule(), GenerationFields.outputModalitiesMeaning)
    static let tools = OptionalField(
        "tools", FunctionToolsRule(), GenerationFields.toolsMeaning)
    /// The other half of `tools`.
    static let mcpTools = OptionalField("tools", MCPToolsRule(), "")
    static let toolChoice = OptionalField(
        "tool_choice", ToolChoiceRule(), GenerationFields.toolChoiceMeaning)
    /// The other half of `tool_choice`.
    static let mcpToolChoice = OptionalField("tool_choice", MCPToolChoiceRule(), "")
    static let parallelToolCalls = OptionalField(
        "parallel_tool_calls", .boolean, GenerationFields.parallelToolCallsMeaning)
    static let maxOutputTokens = OptionalField(
        "max_output_tokens", MaxOutputTokensRule(), GenerationFields.maxOutputTokensMeaning)
    static let input = OptionalField(
        "input", .list(of: ResponseInputItem.self, atMost: \.maxInputItems),
        "What the model is shown instead of the conversation.")
    static let metadata = OptionalField(
        "metadata", MetadataRule(), "The client's own, reported back with the response.")
    static let reasoning = OptionalField(
        "reasoning", ReasoningRule(), "Checked, without effect.")
    static let prompt = OptionalField(
        "prompt", UnservedPromptRule(), "Refused: this server stores no prompts.")
    static let conversation = DefaultedField(
        "conversation", .choice(of: Conversation.self), default: .inside,
        "Whether the response becomes part of the conversation.")
    static let audio = OptionalField(
        "audio", .object(with: ResponseAudioFields.self), "The audio of the response.")

    static var table: ObjectTable {
        ObjectTable(
            "ResponseCreate", "What is different for one response.",
            [
                instructions.entry, outputModalities.entry, tools.entry, toolChoice.entry,
                parallelToolCalls.entry, maxOutputTokens.entry, input.entry, metadata.entry,
                reasoning.entry, prompt.entry, conversation.entry,
                audio.entry,
            ])
    }
}

/// `response.audio`
enum ResponseAudioFields: FieldTable {
    static let output = OptionalField(
        "output", .object(with: ResponseOutputFields.self), "The reply's audio.")

    static var table: ObjectTable {
        ObjectTable("ResponseAudio", "The audio of the response.", [output.entry])
    }
}

/// `response.audio.output`
enum ResponseOutputFields: FieldTable {
    static let format = OptionalField(
        "format", AudioFormatRule(direction: .output), "How the reply's audio is encoded.")
    /// The other half of `format`.
    static let opus = OptionalField("format", OpusSettingsRule(), "")
    static let voice = OptionalField("voice", VoiceRule(), GenerationFields.voiceMeaning)

    static var table: ObjectTable {
        ObjectTable("ResponseOutputAudio", "The reply's audio.", [format.entry, voice.entry])
    }
}

/// `metadata`: up to 16 short texts, echoed as they came.
struct MetadataRule: ValueRule {
    var schema: ValueSchema {
        .map(
            .text(atMost: ClientEventLimits().maxNameBytes),
            atMost: ClientEventLimits().maxMetadataPairs)
    }

    func read(
        _ value: JSONValue, at path: FieldPath, _ limits: ClientEventLimits
    ) throws(ClientEventError) -> RawJSON {
        let fields = try EventFields(value, path: path.text, limits: limits)
        guard value.count <= limits.maxMetadataPairs else {
            throw .invalid(
                fields.path,
                "expected at most \(limits.maxMetadataPairs) pairs, got \(value.count)")
        }
        if let members = value.members {
            for (name, value) in members {
                guard name.utf8.count <= limits.maxNameBytes else {
                    throw .invalid(
                        fields.path, "a key is longer than \(limits.maxNameBytes) bytes")
                }
                _ = try value.text(at: "\(fields.path).\(name)", atMost: limits.maxNameBytes)
            }
        }
        return try fields.raw(value, fields.path)
    }
}
