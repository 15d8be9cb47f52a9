// The `session` object of `session.update`: from checked fields to a `SessionUpdate`. What the
// update does to a session is SessionParameters' business. Formats, tools and limits that
// `response.create` shares are in GenerationFieldsParser; `turn_detection` and the passed-through
// fields are at the end.

extension SessionUpdate {
    /// Reads the fields of `session`. Fields that are not named here are ignored: the model is
    /// fixed by the URL, and `reasoning` is a hint that no port takes yet.
    init(_ fields: EventFields) throws(ClientEventError) {
        self.init()
        try Self.checkSessionType(fields)
        _ = try fields.name("model")
        instructions = try fields.patch("instructions", fields.text)
        outputModality = try fields.patch("output_modalities", fields.outputModality)
        tools = try fields.patch("tools", fields.tools)
        toolChoice = try fields.patch("tool_choice", fields.toolChoice)
        parallelToolCalls = try fields.patch("parallel_tool_calls", fields.bool)
        maxOutputTokens = try fields.patch("max_output_tokens", fields.maxOutputTokens)
        tracing = try fields.patch("tracing", fields.tracing)
        truncation = try fields.patch("truncation", fields.truncation)
        prompt = try fields.patch("prompt", fields.prompt)
        include = try fields.patch("include", fields.include)
        guard let audio = try fields.fields("audio") else { return }
        if let input = try audio.fields("input") { try readInput(input) }
        if let output = try audio.fields("output") { try readOutput(output) }
    }

    /// `type` is required by the protocol; clients that leave it out mean `realtime`.
    private static func checkSessionType(_ fields: EventFields) throws(ClientEventError) {
        guard let type = fields.value("type") else { return }
        if type.isString("realtime") { return }
        let path = fields.path(of: "type")
        if type.isString("transcription") || type.isString("translation") {
            throw .unsupported(
                "unsupported_session_type", path, "A session of type \(type.raw.text)")
        }
        guard type.kind == .string else {
            throw .wrongType(path, expected: "'realtime'", type)
        }
        throw .wrongValue(path, expected: "'realtime'", type)
    }

    /// `audio.input`
    private mutating func readInput(_ fields: EventFields) throws(ClientEventError) {
        inputFormat = try fields.patch("format", fields.audioFormat)
        inputIsNumbered = try fields.patch("format", fields.isNumbered)
        transcription = try fields.patch("transcription", fields.transcription)
        turnDetection = try fields.patch("turn_detection", fields.turnDetection)
        noiseReduction = try fields.patch("noise_reduction", fields.noiseReduction)
    }

    /// `audio.output`
    private mutating func readOutput(_ fields: EventFields) throws(ClientEventError) {
        outputFormat = try fields.patch("format", fields.audioFormat)
        outputOpus = try fields.patch("format", fields.opusSettings)
        outputTransport = try fields.patch("transport") {
            (key) throws(ClientEventError) in try fields.choice(key)
        }
        voice = try fields.patch("voice", fields.voice)
        speed = try fields.patch("speed") { (key) throws(ClientEventError) in
            try fields.number(key, in: 0.25...1.5)
        }
    }
}

extension EventFields {
    /// `audio.input.noise_reduction`
    fileprivate func noiseReduction(
        _ key: StaticString
    ) throws(ClientEventError) -> NoiseReduction? {
        guard let fields = try fields(key) else { return nil }
        guard let type = try fields.choice("type", NoiseReduction.self) else {
            throw .missing(fields.path(of: "type"))
        }
        return type
    }

    /// `audio.input.transcription`. Hints that embedded recognition cannot follow are ignored.
    fileprivate func transcription(
        _ key: StaticString
    ) throws(ClientEventError) -> TranscriptionParameters? {
        guard let fields = try fields(key) else { return nil }
        return TranscriptionParameters(
            model: try fields.name("model"), language: try fields.name("language"),
            prompt: try fields.text("prompt"))
    }

    /// `audio.input.turn_detection`. An update replaces the whole object: what it leaves out gets
    /// the protocol's default, not the value of before.
    fileprivate func turnDetection(
        _ key: StaticString
    ) throws(ClientEventError) -> TurnDetectionParameters? {
        guard let fields = try fields(key) else { return nil }
        enum Kind: String, CaseIterable {
            case serverVAD = "server_vad"
            case semanticVAD = "semantic_vad"
        }
        var result = TurnDetectionParameters()
        guard let kind = try fields.choice("type", Kind.self) else {
            throw .missing(fields.path(of: "type"))
        }
        switch kind {
        case .serverVAD:
            result.mode = .serverVAD(
                threshold: try fields.number("threshold", in: 0...1) ?? 0.5,
                silenceMilliseconds:
                    try fields.integer("silence_duration_ms", in: millisecondRange) ?? 500)
            result.prefixPaddingMilliseconds =
                try fields.integer("prefix_padding_ms", in: millisecondRange) ?? 300
            result.idleTimeoutMilliseconds =
                try fields.integer("idle_timeout_ms", in: 5_000...30_000)
        case .semanticVAD:
            result.mode = .semanticVAD(eagerness: try fields.choice("eagerness") ?? .auto)
        }
        result.createResponse = try fields.bool("create_response") ?? true
        result.interruptResponse = try fields.bool("interrupt_response") ?? true
        result.speculativeResponse = try fields.bool("speculative_response") ?? false
        result.minInterruptionMilliseconds =
            try fields.integer("min_interruption_ms", in: 0...10_000)
        result.interruptionNeedsWords = try fields.bool("interruption_needs_words") ?? false
        return result
    }

    /// Any wait that an utterance could need; it also keeps sample arithmetic far from overflow.
    private var millisecondRange: ClosedRange<Int> { 0...3_600_000 }
}

// MARK: - Fields that are passed through

/// These are kept as the exact text that came, but checked first: they are reported in
/// `session.updated`, where a wrong shape would break every other client library.
extension EventFields {
    /// `"auto"` or an object.
    fileprivate func tracing(_ key: StaticString) throws(ClientEventError) -> RawJSON? {
        guard let value = value(key) else { return nil }
        if value.kind == .object {
            let fields = try EventFields(value, path: path(of: key), limits: limits)
            _ = try fields.text("workflow_name")
            _ = try fields.text("group_id")
        } else {
            try check(value, key, isOneOf: ["auto"], orObject: true)
        }
        return try raw(value, path(of: key))
    }

    /// `"auto"`, `"disabled"`, or an object of type `retention_ratio`.
    fileprivate func truncation(_ key: StaticString) throws(ClientEventError) -> RawJSON? {
        guard let value = value(key) else { return nil }
        if value.kind == .object {
            let fields = try EventFields(value, path: path(of: key), limits: limits)
            try fields.check(fields.required("type"), "type", isOneOf: ["retention_ratio"])
            if try fields.number("retention_ratio", in: 0...1) == nil {
                throw .missing(fields.path(of: "retention_ratio"))
            }
            _ = try fields.fields("token_limits")?.integer("post_instructions", in: 0...Int.max)
        } else {
            try check(value, key, isOneOf: ["auto", "disabled"], orObject: true)
        }
        return try raw(value, path(of: key))
    }

    /// An object with an `id`.
    fileprivate func prompt(_ key: StaticString) throws(ClientEventError) -> RawJSON? {
        guard let fields = try fields(key) else { return nil }
        _ = try fields.requiredName("id")
        _ = try fields.name("version")
        _ = try fields.fields("variables")
        return try raw(fields.object, fields.path)
    }

    /// An array of names; the protocol has one.
    fileprivate func include(_ key: StaticString) throws(ClientEventError) -> RawJSON? {
        guard let value = value(key) else { return nil }
        guard let elements = value.elements else {
            throw .wrongType(path(of: key), expected: "an array", value)
        }
        for element in elements {
            try check(element, key, isOneOf: ["item.input_audio_transcription.logprobs"])
        }
        return try raw(value, path(of: key))
    }

    /// Checks that a value is one of a few strings.
    private func check(
        _ value: JSONValue, _ key: StaticString, isOneOf names: [String], orObject: Bool = false
    ) throws(ClientEventError) {
        let expected =
            (names.count == 1 ? "" : "one of ") + quotedList(names)
            + (orObject ? " or an object" : "")
        guard let string = value.string else {
            throw .wrongType(path(of: key), expected: expected, value)
        }
        guard names.contains(string) else {
            throw .wrongValue(path(of: key), expected: expected, value)
        }
    }
}
