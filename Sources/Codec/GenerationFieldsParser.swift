// The fields that `session.update` and `response.create` share: what a response is made of, the
// voice and format it is spoken in, and the tools it may call. One rule for both.

extension EventFields {
    /// `output_modalities`: one modality; audio includes its transcript.
    func outputModality(_ key: StaticString) throws(ClientEventError) -> OutputModality? {
        guard let value = value(key) else { return nil }
        let expected = "[\"audio\"] or [\"text\"]"
        guard var elements = value.elements else {
            throw .wrongType(path(of: key), expected: expected, value)
        }
        guard elements.count == 1, let only = elements.next(),
            let modality = only.string.flatMap(OutputModality.init)
        else { throw .wrongValue(path(of: key), expected: expected, value) }
        return modality
    }

    /// `format` of either direction: an object whose `type` is an `AudioFormat`.
    func audioFormat(_ key: StaticString) throws(ClientEventError) -> AudioFormat? {
        guard let value = value(key) else { return nil }
        guard value.kind == .object else {
            let expected = "an object such as {\"type\":\"audio/pcm\",\"rate\":24000}"
            throw .wrongType(path(of: key), expected: expected, value)
        }
        let fields = try EventFields(value, path: path(of: key), limits: limits)
        let name = try fields.requiredName("type")
        guard let format = AudioFormat.allCases.first(where: { $0.wireName == name }) else {
            let names = quotedList(AudioFormat.allCases.map(\.wireName))
            throw .invalid(fields.path(of: "type"), "expected one of \(names), got '\(name)'")
        }
        // The protocol has one rate per format; only PCM's is ever named.
        let hertz = format.sampleRate.hertz
        if let rate = fields.value("rate") {
            let expected = "\(hertz)"
            guard rate.kind == .number else {
                throw .wrongType(fields.path(of: "rate"), expected: expected, rate)
            }
            guard rate.int == hertz else {
                throw .wrongValue(fields.path(of: "rate"), expected: expected, rate)
            }
        }
        return format
    }

    /// `voice`: a name, or an object with the `id` of one.
    func voice(_ key: StaticString) throws(ClientEventError) -> String? {
        guard let value = value(key) else { return nil }
        switch value.kind {
        case .string: return try requiredName(key)
        case .object:
            return try EventFields(value, path: path(of: key), limits: limits).requiredName("id")
        case .null, .bool, .number, .array:
            throw .wrongType(path(of: key), expected: "a string or an object with an id", value)
        }
    }

    /// `max_output_tokens`: 1…4096; `"inf"` is nil.
    func maxOutputTokens(_ key: StaticString) throws(ClientEventError) -> Int? {
        guard let value = value(key) else { return nil }
        let expected = "an integer from 1 to 4096 or \"inf\""
        switch value.kind {
        case .string where value.isString("inf"): return nil
        case .string: throw .wrongValue(path(of: key), expected: expected, value)
        case .number:
            guard let tokens = value.int, (1...4_096).contains(tokens) else {
                throw .wrongValue(path(of: key), expected: expected, value)
            }
            return tokens
        case .null, .bool, .array, .object:
            throw .wrongType(path(of: key), expected: expected, value)
        }
    }

    /// `tools`: functions only.
    func tools(_ key: StaticString) throws(ClientEventError) -> [FunctionTool]? {
        try list(key, atMost: limits.maxTools, FunctionTool.init)
    }

    /// `tool_choice`: a mode, or an object that names one function.
    func toolChoice(_ key: StaticString) throws(ClientEventError) -> ToolChoice? {
        guard let value = value(key) else { return nil }
        let expected = "'auto', 'none', 'required' or an object of type 'function'"
        switch value.kind {
        case .string:
            switch value.string {
            case "auto": return .auto
            case "none": return ToolChoice.none
            case "required": return .required
            default: throw .wrongValue(path(of: key), expected: expected, value)
            }
        case .object:
            let fields = try EventFields(value, path: path(of: key), limits: limits)
            try fields.checkIsFunction(fields.required("type"))
            return .function(name: try fields.requiredName("name"))
        case .null, .bool, .number, .array:
            throw .wrongType(path(of: key), expected: expected, value)
        }
    }

    /// Checks the `type` of a tool or of a tool choice.
    fileprivate func checkIsFunction(_ type: JSONValue) throws(ClientEventError) {
        if type.isString("function") { return }
        let path = path(of: "type")
        if type.isString("mcp") {
            throw .unsupported("unsupported_tool_type", path, "A tool of type 'mcp'")
        }
        guard type.kind == .string else {
            throw .wrongType(path, expected: "'function'", type)
        }
        throw .wrongValue(path, expected: "'function'", type)
    }
}

extension FunctionTool {
    /// Reads one element of `tools`. The protocol lets `type` be left out.
    init(_ fields: EventFields) throws(ClientEventError) {
        if let type = fields.value("type") { try fields.checkIsFunction(type) }
        let parameters = try fields.fields("parameters")
        self.init(
            name: try fields.requiredName("name"), description: try fields.text("description"),
            parameters: try parameters.map { (schema) throws(ClientEventError) in
                try fields.raw(schema.object, schema.path)
            })
    }
}
