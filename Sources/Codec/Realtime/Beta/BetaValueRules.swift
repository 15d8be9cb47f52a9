// The rules for values that only the beta writes like this.

/// `modalities`: `["text"]`, or audio. Audio comes with its transcript, whether `text` is in the list
/// or not.
struct BetaModalitiesRule: ValueRule {
    var schema: ValueSchema {
        .list(.choice(OutputModality.allCases.map(\.rawValue)), atLeast: 1, atMost: 2)
    }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> OutputModality {
        let expected = "[\"text\"] or [\"text\", \"audio\"]"
        var names: [OutputModality] = []
        if let elements = value.elements, (1...2).contains(elements.count) {
            for element in elements {
                if let name = element.string.flatMap(OutputModality.init) { names.append(name) }
            }
            if names.count == elements.count { return names.contains(.audio) ? .audio : .text }
        }
        throw .mismatch(path.text, expected: expected, value, of: .array)
    }
}

/// `input_audio_format` and `output_audio_format`: a name.
struct BetaAudioFormatRule: ValueRule {
    private var names: [String] { AudioFormat.ofEachType.map(\.betaName) }

    var schema: ValueSchema { .choice(names) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> AudioFormat {
        guard let name = value.string,
            let format = AudioFormat.ofEachType.first(where: { $0.betaName == name })
        else {
            throw .mismatch(
                path.text, expected: "one of \(quotedList(names))", value, of: .string)
        }
        return format
    }
}

/// `temperature`, within the beta's range.
struct BetaTemperatureRule: ValueRule {
    private let rule = NumberRule(range: Temperature.range)

    var schema: ValueSchema { rule.schema }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> Temperature {
        Temperature(try rule.read(value, at: path))
    }
}

/// `tool_choice`: what it is today, or only a function's name, as the beta's types have it, or an
/// object without a type, as livekit-agents 1.0 wrote it.
struct BetaToolChoiceRule: ValueRule {
    private let rule = ToolChoiceRule()

    var schema: ValueSchema { .oneOf([rule.schema, NameRule.name.schema]) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> ToolChoice {
        if value.kind == .object, value["type"] == nil {
            let fields = try EventFields(value, path: path.text)
            return .function(name: try fields.read(ToolChoiceRule.Fields.name))
        }
        guard let name = value.string, !["auto", "none", "required"].contains(name) else {
            return try rule.read(value, at: path)
        }
        return .function(name: try NameRule.name.read(value, at: path))
    }
}
