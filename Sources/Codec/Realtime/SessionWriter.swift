// Writes the session object of `session.created` and `session.updated`: always the whole effective
// session, with the values that clients check at connect. SessionParameters has the values;
// SessionUpdateParser reads updates.

extension JSONWriter {
    /// Writes the protocol's `realtime.session` or `realtime.transcription_session`. Disabled
    /// features are `null`.
    mutating func session(id: String, _ parameters: SessionParameters) {
        switch parameters.kind {
        case .realtime: realtimeSession(id: id, parameters)
        case .transcription: transcriptionSession(id: id, parameters)
        }
    }

    private mutating func transcriptionSession(id: String, _ parameters: SessionParameters) {
        beginObject()
        member("object", "realtime.transcription_session")
        member("type", "transcription")
        member("id", id)
        noInclude()
        key("audio")
        beginObject()
        inputAudio(parameters)
        endObject()
        endObject()
    }

    private mutating func realtimeSession(id: String, _ parameters: SessionParameters) {
        beginObject()
        member("object", "realtime.session")
        member("type", "realtime")
        member("id", id)
        member("model", parameters.model)
        outputModalities(parameters.outputModality)
        member("instructions", parameters.instructions)
        key("tools")
        beginArray()
        for tool in parameters.tools { self.tool(tool) }
        for tool in parameters.mcpTools { mcpTool(tool) }
        endArray()
        if let choice = parameters.mcpToolChoice {
            mcpToolChoice(choice)
        } else {
            toolChoice(parameters.toolChoice)
        }
        if let parallel = parameters.parallelToolCalls { member("parallel_tool_calls", parallel) }
        maxOutputTokens(parameters.maxOutputTokens)
        member("tracing", parameters.tracing)
        truncation(parameters.truncation)
        key("reasoning")
        if let effort = parameters.reasoningEffort {
            beginObject()
            member("effort", effort.rawValue)
            endObject()
        } else {
            null()
        }
        member("prompt", parameters.prompt)
        noInclude()
        key("audio")
        beginObject()
        inputAudio(parameters)
        outputAudio(parameters)
        endObject()
        endObject()
    }

    private mutating func truncation(_ truncation: Truncation) {
        switch truncation {
        case .auto: member("truncation", "auto")
        case .disabled: member("truncation", "disabled")
        case .retentionRatio(let ratio, let limit):
            key("truncation")
            beginObject()
            member("type", "retention_ratio")
            member("retention_ratio", number: ratio)
            if let limit {
                key("token_limits")
                beginObject()
                member("post_instructions", limit)
                endObject()
            }
            endObject()
        }
    }

    /// `include` would request additional transcription data, of which the recognisers here have
    /// none.
    private mutating func noInclude() {
        key("include")
        null()
    }

    /// Writes `output_modalities`.
    mutating func outputModalities(_ modality: OutputModality) {
        key("output_modalities")
        beginArray()
        string(modality.rawValue)
        endArray()
    }

    /// Writes `max_output_tokens`.
    mutating func maxOutputTokens(_ limit: Int?) {
        if let limit {
            member("max_output_tokens", limit)
        } else {
            member("max_output_tokens", "inf")
        }
    }

    /// Writes `format`. Only PCM has a `rate` field: the protocol defines none for the other
    /// formats, and client libraries refuse it there.
    mutating func audioFormat(
        _ format: AudioFormat, isNumbered: Bool = false, opus: OpusSettings = OpusSettings()
    ) {
        key("format")
        beginObject()
        member("type", format.wireName)
        if format == .pcm { member("rate", format.sampleRate.hertz) }
        if isNumbered { member("sequence", true) }
        opusSettings(opus)
        endObject()
    }

    private mutating func inputAudio(_ parameters: SessionParameters) {
        key("input")
        beginObject()
        audioFormat(parameters.inputFormat, isNumbered: parameters.inputIsNumbered)
        key("transcription")
        if let transcription = parameters.transcription {
            self.transcription(transcription)
        } else {
            null()
        }
        key("noise_reduction")
        if let reduction = parameters.noiseReduction {
            beginObject()
            if let place = reduction.place { member("type", place.rawValue) }
            if let strength = reduction.strength { member("strength", number: strength) }
            endObject()
        } else {
            null()
        }
        key("turn_detection")
        if let detection = parameters.turnDetection {
            turnDetection(detection, hasResponses: parameters.kind == .realtime)
        } else {
            null()
        }
        endObject()
    }

    private mutating func outputAudio(_ parameters: SessionParameters) {
        key("output")
        beginObject()
        audioFormat(parameters.outputFormat, opus: parameters.outputOpus)
        member("voice", parameters.voice)
        member("speed", number: parameters.speed)
        // An extension of Parley, written only if the client has set it.
        if parameters.outputTransport != .json {
            member("transport", parameters.outputTransport.rawValue)
        }
        endObject()
    }

    private mutating func transcription(_ transcription: TranscriptionParameters) {
        beginObject()
        if let model = transcription.model { member("model", model) }
        if let language = transcription.language { member("language", language) }
        if let prompt = transcription.prompt { member("prompt", prompt) }
        names("languages", transcription.languages)
        names("keywords", transcription.keywords)
        if let delay = transcription.delay { member("delay", delay.rawValue) }
        endObject()
    }

    private mutating func names(_ key: StaticString, _ names: [String]) {
        guard !names.isEmpty else { return }
        self.key(key)
        beginArray()
        for name in names { string(name) }
        endArray()
    }

    /// - Parameter hasResponses: whether turns are answered. The fields for responses are written
    ///   only then.
    private mutating func turnDetection(_ detection: TurnDetectionParameters, hasResponses: Bool) {
        beginObject()
        switch detection.mode {
        case .serverVAD(let threshold, let silenceMilliseconds):
            member("type", "server_vad")
            member("threshold", number: threshold)
            member("prefix_padding_ms", detection.prefixPaddingMilliseconds)
            member("silence_duration_ms", silenceMilliseconds)
            if hasResponses { member("idle_timeout_ms", detection.idleTimeoutMilliseconds) }
        case .semanticVAD(let eagerness):
            member("type", "semantic_vad")
            member("eagerness", eagerness.rawValue)
        }
        if hasResponses {
            member("create_response", detection.createResponse)
            member("interrupt_response", detection.interruptResponse)
        }
        // Fields that stock clients do not know are written only if the client has set them.
        if detection.speculativeResponse { member("speculative_response", true) }
        if let milliseconds = detection.minInterruptionMilliseconds {
            member("min_interruption_ms", milliseconds)
        }
        if detection.interruptionNeedsWords { member("interruption_needs_words", true) }
        endObject()
    }

    private mutating func tool(_ tool: FunctionTool) {
        beginObject()
        member("type", "function")
        member("name", tool.name)
        if let description = tool.description { member("description", description) }
        if let parameters = tool.parameters { member("parameters", parameters) }
        endObject()
    }

    private mutating func toolChoice(_ choice: ToolChoice) {
        switch choice {
        case .auto: member("tool_choice", "auto")
        case .none: member("tool_choice", "none")
        case .required: member("tool_choice", "required")
        case .function(let name):
            key("tool_choice")
            beginObject()
            member("type", "function")
            member("name", name)
            endObject()
        }
    }
}
