// The fields of `response` in `response.create`. ResponseParametersParser reads them.

/// `response`
enum ResponseFields: FieldTable {
    /// `conversation`
    enum Conversation: String, CaseIterable, DocumentedValue {
        case inside = "auto"
        case outside = "none"
    }

    static let instructions = OptionalField(
        "instructions", .text, "Instructions instead of the session's.")
    static let input = OptionalField(
        "input", .list(of: ResponseInputItem.self, atMost: ClientEventLimits.maxInputItems),
        "Items that replace the conversation as the model's input.")
    static let metadata = OptionalField(
        "metadata", MetadataRule(), "The client's metadata, reported back with the response.")
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
            "ResponseCreate", "Settings of one response.",
            [instructions.entry] + GenerationFields.entries + [
                input.entry, metadata.entry, reasoning.entry, prompt.entry, conversation.entry,
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
    static var table: ObjectTable {
        ObjectTable("ResponseOutputAudio", "The reply's audio.", ReplyAudioFields.entries)
    }
}

/// `metadata`: up to 16 short texts, echoed unchanged.
struct MetadataRule: ValueRule {
    var schema: ValueSchema {
        .map(
            .text(atMost: ClientEventLimits.maxNameBytes),
            atMost: ClientEventLimits.maxMetadataPairs)
    }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> RawJSON {
        let fields = try EventFields(value, path: path.text)
        guard value.count <= ClientEventLimits.maxMetadataPairs else {
            throw .tooMany(
                fields.path, "pairs", atMost: ClientEventLimits.maxMetadataPairs, got: value.count)
        }
        if let members = value.members {
            for (name, value) in members {
                guard name.utf8.count <= ClientEventLimits.maxNameBytes else {
                    throw .invalid(
                        fields.path, "a key is longer than \(ClientEventLimits.maxNameBytes) bytes")
                }
                _ = try value.text(
                    at: "\(fields.path).\(name)", atMost: ClientEventLimits.maxNameBytes)
            }
        }
        return try fields.raw(value, fields.path)
    }
}
