// The session object of `session.created` and `session.updated`: always the whole effective
// session, with the values that clients check at connect. Its fields are SessionParameters; how it
// is parsed is in SessionUpdateParser.

extension JSONWriter {
    /// Writes the protocol's `realtime.session`. Features that are off are `null`.
    mutating func session(id: String, _ parameters: SessionParameters) {
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
        endArray()
        toolChoice(parameters.toolChoice)
        if let parallel = parameters.parallelToolCalls { member("parallel_tool_calls", parallel) }
        maxOutputTokens(parameters.maxOutputTokens)
        member("tracing", parameters.tracing)
        member("truncation", parameters.truncation)
        member("prompt", parameters.prompt)
        member("include", parameters.include)
        key("audio")
        beginObject()
        inputAudio(parameters)
        outputAudio(parameters)
        endObject()
        endObject()
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

    /// Writes `format`. Only PCM names its rate: the protocol's other formats have one without a
    /// name for it, and libraries refuse it there.
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
            member("type", reduction.rawValue)
            endObject()
        } else {
            null()
        }
        key("turn_detection")
        if let detection = parameters.turnDetection {
            turnDetection(detection)
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
        // An extension of Parley: a client that has not asked for it never sees it.
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
        endObject()
    }

    private mutating func turnDetection(_ detection: TurnDetectionParameters) {
        beginObject()
        switch detection.mode {
        case .serverVAD(let threshold, let silenceMilliseconds):
            member("type", "server_vad")
            member("threshold", number: threshold)
            member("prefix_padding_ms", detection.prefixPaddingMilliseconds)
            member("silence_duration_ms", silenceMilliseconds)
            member("idle_timeout_ms", detection.idleTimeoutMilliseconds)
        case .semanticVAD(let eagerness):
            member("type", "semantic_vad")
            member("eagerness", eagerness.rawValue)
        }
        member("create_response", detection.createResponse)
        member("interrupt_response", detection.interruptResponse)
        // A stock client never sees a field that it does not know.
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
