// Fields of the session that are objects. Those without effect are kept as the exact text that the
// client sent. They are checked nevertheless, because `session.updated` reports them, and a wrong
// shape there breaks other client libraries.

/// `tracing`: `"auto"` or an object.
struct TracingRule: ValueRule {
    private enum Fields: FieldTable {
        static let workflowName = OptionalField("workflow_name", .text, "A name for the trace.")
        static let groupID = OptionalField("group_id", .text, "What the trace belongs to.")
        static let metadata = OptionalField(
            "metadata", RawObjectRule(), "What is attached to the trace.")

        static var table: ObjectTable {
            ObjectTable(
                "Tracing", "How the session is traced.",
                [workflowName.entry, groupID.entry, metadata.entry])
        }
    }

    var schema: ValueSchema { .oneOf([.constant("auto"), .object(Fields.table)]) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> RawJSON {
        let fields = EventFields(object: value, path: path.text)
        if value.kind == .object {
            _ = try fields.read(Fields.workflowName)
            _ = try fields.read(Fields.groupID)
            _ = try fields.read(Fields.metadata)
        } else {
            try value.check(isOneOf: ["auto"], orObject: true, at: path.text)
        }
        return try fields.raw(value, fields.path)
    }
}

/// `truncation`: `"auto"`, `"disabled"`, or an object of type `retention_ratio`.
struct TruncationRule: ValueRule {
    private enum Fields: FieldTable {
        static let type = RequiredField(
            "type", StringsRule(names: ["retention_ratio"]), "How much is kept.")
        static let ratio = RequiredField(
            "retention_ratio", .number(in: 0...1), "The part of the context that is kept.")
        static let tokenLimits = OptionalField(
            "token_limits", .object(with: TokenLimitFields.self), "Bounds of the context.")

        static var table: ObjectTable {
            ObjectTable(
                "RetentionRatio", "Keeps a part of the context.",
                [type.entry, ratio.entry, tokenLimits.entry])
        }
    }

    private enum TokenLimitFields: FieldTable {
        static let postInstructions = OptionalField(
            "post_instructions", .integer(in: 0...Int.max), "Tokens after the instructions.")

        static var table: ObjectTable {
            ObjectTable("TokenLimits", "Bounds of the context.", [postInstructions.entry])
        }
    }

    private let names = ["auto", "disabled"]

    var schema: ValueSchema { .oneOf([.choice(names), .object(Fields.table)]) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> Truncation {
        guard value.kind == .object else {
            try value.check(isOneOf: names, orObject: true, at: path.text)
            return value.isString("auto") ? .auto : .disabled
        }
        let fields = EventFields(object: value, path: path.text)
        try fields.read(Fields.type)
        return .retentionRatio(
            try fields.read(Fields.ratio),
            postInstructionTokens: try fields.read(Fields.tokenLimits)?
                .read(TokenLimitFields.postInstructions))
    }
}

/// `reasoning`: an object with an `effort`.
struct ReasoningRule: ValueRule {
    private enum Fields: FieldTable {
        static let effort = OptionalField(
            "effort", .choice(of: ReasoningEffort.self), "How much the model reasons.")

        static var table: ObjectTable {
            ObjectTable("Reasoning", "How the model reasons.", [effort.entry])
        }
    }

    var schema: ValueSchema { .object(Fields.table) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> ReasoningEffort? {
        try EventFields(value, path: path.text).read(Fields.effort)
    }
}

/// `prompt` of a response: a valid one requests a stored prompt, which this server does not have.
struct UnservedPromptRule: ValueRule {
    private let rule = PromptRule()

    var schema: ValueSchema { .never }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) {
        _ = try rule.read(value, at: path)
        throw .unsupported("unsupported_prompt", path.text, "A stored prompt")
    }
}

/// `prompt`: an object with an `id`.
struct PromptRule: ValueRule {
    private enum Fields: FieldTable {
        static let id = RequiredField("id", .name, "The prompt.")
        static let version = OptionalField("version", .anyName, "Its version.")
        static let variables = OptionalField(
            "variables", .rawObject, "Values of the prompt's variables.")

        static var table: ObjectTable {
            ObjectTable("Prompt", "A stored prompt.", [id.entry, version.entry, variables.entry])
        }
    }

    var schema: ValueSchema { .object(Fields.table) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> RawJSON {
        let fields = try EventFields(value, path: path.text)
        _ = try fields.read(Fields.id)
        _ = try fields.read(Fields.version)
        _ = try fields.read(Fields.variables)
        return try fields.raw(fields.object, fields.path)
    }
}

/// `include`: an array of names. The protocol defines one, which no recogniser here supports.
struct IncludeRule: ValueRule {
    private let names = ["item.input_audio_transcription.logprobs"]

    var schema: ValueSchema { .list(.choice(names), atMost: 0) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) {
        guard let elements = value.elements else {
            throw .wrongType(path.text, expected: "an array", value)
        }
        for element in elements {
            try element.check(isOneOf: names, at: path.text)
            throw .unsupported("unsupported_include", path.text, quotedList(names))
        }
    }
}

/// One of a few strings that are not an enumeration in the server.
private struct StringsRule: ValueRule {
    let names: [String]

    var schema: ValueSchema { .choice(names) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) {
        try value.check(isOneOf: names, at: path.text)
    }
}

extension JSONValue {
    /// Checks that a value is one of a few strings.
    fileprivate func check(
        isOneOf names: [String], orObject: Bool = false, at path: String
    ) throws(ClientEventError) {
        let expected =
            (names.count == 1 ? "" : "one of ") + quotedList(names)
            + (orObject ? " or an object" : "")
        guard let string, names.contains(string) else {
            throw .mismatch(path, expected: expected, self, of: .string)
        }
    }
}
