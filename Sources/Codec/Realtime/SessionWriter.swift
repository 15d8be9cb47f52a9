// Writes the session object of `session.created` and `session.updated`: always the whole effective
// session, with the values that clients check at connect. SessionParameters has the values;
// SessionUpdateParser reads updates.

extension JSONWriter {
    /// Writes the protocol's `realtime.session` or `realtime.transcription_session`. Disabled
    /// features are `null`.
    /// - Parameters:
    ///   - expiresAt: when it ends, in seconds since 1970, or nil where it has no end.
    ///   - keepsSecrets: whether the secrets of MCP servers are written. They never are for a
    ///     client.
    mutating func session(
        id: String, _ parameters: SessionParameters, in dialect: RealtimeDialect,
        expiresAt: Int? = nil, keepsSecrets: Bool = false
    ) {
        switch (dialect, parameters.kind) {
        case (.ga, .realtime):
            realtimeSession(
                id: id, parameters, expiresAt: expiresAt, keepsSecrets: keepsSecrets)
        case (.ga, .transcription): transcriptionSession(id: id, parameters, expiresAt: expiresAt)
        case (.beta, _):
            object { json in json.betaSession(id: id, parameters, expiresAt: expiresAt) }
        }
    }

    private mutating func transcriptionSession(
        id: String, _ parameters: SessionParameters, expiresAt: Int?
    ) {
        object { json in
            json.member("object", "realtime.transcription_session")
            json.member("type", "transcription")
            json.member("id", id)
            if let expiresAt { json.member("expires_at", expiresAt) }
            json.noInclude()
            json.object("audio") { json in
                json.inputAudio(parameters)
            }
        }
    }

    private mutating func realtimeSession(
        id: String, _ parameters: SessionParameters, expiresAt: Int?, keepsSecrets: Bool
    ) {
        object { json in
            json.member("object", "realtime.session")
            json.member("type", "realtime")
            json.member("id", id)
            if let expiresAt { json.member("expires_at", expiresAt) }
            json.member("model", parameters.model)
            json.outputModalities(parameters.outputModality)
            json.member("instructions", parameters.instructions)
            json.tools(parameters.tools, parameters.mcpTools, keepsSecrets: keepsSecrets)
            if let choice = parameters.mcpToolChoice {
                json.mcpToolChoice(choice)
            } else {
                json.toolChoice(parameters.toolChoice)
            }
            if let parallel = parameters.parallelToolCalls {
                json.member("parallel_tool_calls", parallel)
            }
            json.maxOutputTokens(parameters.maxOutputTokens)
            json.member("tracing", parameters.tracing)
            json.truncation(parameters.truncation)
            json.key("reasoning")
            if let effort = parameters.reasoningEffort {
                json.object { json in
                    json.member("effort", effort.rawValue)
                }
            } else {
                json.null()
            }
            json.member("prompt", parameters.prompt)
            json.noInclude()
            json.object("audio") { json in
                json.inputAudio(parameters)
                json.outputAudio(parameters)
            }
        }
    }

    /// Writes `tools`.
    mutating func tools(
        _ functions: [FunctionTool], _ servers: [MCPTool], keepsSecrets: Bool = false
    ) {
        array("tools") { json in
            for tool in functions { json.tool(tool) }
            for tool in servers { json.mcpTool(tool, keepsSecrets: keepsSecrets) }
        }
    }

    private mutating func truncation(_ truncation: Truncation) {
        switch truncation {
        case .auto: member("truncation", "auto")
        case .disabled: member("truncation", "disabled")
        case .retentionRatio(let ratio, let limit):
            object("truncation") { json in
                json.member("type", "retention_ratio")
                json.member("retention_ratio", number: ratio)
                if let limit {
                    json.object("token_limits") { json in
                        json.member("post_instructions", limit)
                    }
                }
            }
        }
    }

    /// Writes `include` as null. It would request additional transcription data, which the
    /// recognisers here do not have.
    mutating func noInclude() {
        key("include")
        null()
    }

    /// Writes `output_modalities`.
    mutating func outputModalities(_ modality: OutputModality) {
        array("output_modalities") { json in
            json.string(modality.rawValue)
        }
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
        object("format") { json in
            json.member("type", format.wireName)
            if format.isPCM { json.member("rate", format.sampleRate.hertz) }
            if isNumbered { json.member("sequence", true) }
            json.opusSettings(opus)
        }
    }

    private mutating func inputAudio(_ parameters: SessionParameters) {
        object("input") { json in
            json.audioFormat(parameters.inputFormat, isNumbered: parameters.inputIsNumbered)
            json.key("transcription")
            json.transcription(parameters.transcription)
            json.key("noise_reduction")
            json.noiseReduction(parameters.noiseReduction)
            json.key("turn_detection")
            json.turnDetection(of: parameters, in: .ga)
        }
    }

    /// Writes the value of `noise_reduction`.
    mutating func noiseReduction(_ reduction: NoiseReduction?) {
        guard let reduction else { return null() }
        object { json in
            if let place = reduction.place { json.member("type", place.rawValue) }
            if let strength = reduction.strength { json.member("strength", number: strength) }
        }
    }

    private mutating func outputAudio(_ parameters: SessionParameters) {
        object("output") { json in
            json.audioFormat(parameters.outputFormat, opus: parameters.outputOpus)
            json.member("voice", parameters.voice)
            json.member("speed", number: parameters.speed)
            // An extension of Parley, written only if the client has set it.
            if parameters.outputTransport != .json {
                json.member("transport", parameters.outputTransport.rawValue)
            }
        }
    }

    /// Writes the value of `transcription`.
    mutating func transcription(_ transcription: TranscriptionParameters?) {
        guard let transcription else { return null() }
        object { json in
            if let model = transcription.model { json.member("model", model) }
            if let language = transcription.language { json.member("language", language) }
            if let prompt = transcription.prompt { json.member("prompt", prompt) }
            json.names("languages", transcription.languages)
            json.names("keywords", transcription.keywords)
            if let delay = transcription.delay { json.member("delay", delay.rawValue) }
        }
    }

    private mutating func names(_ key: StaticString, _ names: [String]) {
        guard !names.isEmpty else { return }
        array(key) { json in
            for name in names { json.string(name) }
        }
    }

    /// Writes the value of `turn_detection`. Where turns are not answered, it has no fields for
    /// responses. The beta has no `idle_timeout_ms`, except for a client that has set it.
    mutating func turnDetection(of parameters: SessionParameters, in dialect: RealtimeDialect) {
        guard let detection = parameters.turnDetection else { return null() }
        let hasResponses = parameters.kind == .realtime
        let idleTimeout = detection.idleTimeoutMilliseconds
        object { json in
            switch detection.mode {
            case .serverVAD(let threshold, let silenceMilliseconds):
                json.member("type", "server_vad")
                json.member("threshold", number: threshold)
                json.member("prefix_padding_ms", detection.prefixPaddingMilliseconds)
                json.member("silence_duration_ms", silenceMilliseconds)
                if hasResponses, dialect == .ga || idleTimeout != nil {
                    json.member("idle_timeout_ms", idleTimeout)
                }
            case .semanticVAD(let eagerness):
                json.member("type", "semantic_vad")
                json.member("eagerness", eagerness.rawValue)
                if let patience = detection.patience {
                    json.member("patience", patience.rawValue)
                }
            }
            if hasResponses {
                json.member("create_response", detection.createResponse)
                json.member("interrupt_response", detection.interruptResponse)
            }
            // Fields that stock clients do not know are written only if the client has set them.
            if detection.speculativeResponse { json.member("speculative_response", true) }
            if let milliseconds = detection.minInterruptionMilliseconds {
                json.member("min_interruption_ms", milliseconds)
            }
            if let interruption = detection.interruption {
                json.member("interruption", interruption.rawValue)
            }
        }
    }

    private mutating func tool(_ tool: FunctionTool) {
        object { json in
            json.member("type", "function")
            json.member("name", tool.name)
            if let description = tool.description { json.member("description", description) }
            if let parameters = tool.parameters { json.member("parameters", parameters) }
        }
    }

    /// Writes `tool_choice`.
    mutating func toolChoice(_ choice: ToolChoice) {
        switch choice {
        case .auto: member("tool_choice", "auto")
        case .none: member("tool_choice", "none")
        case .required: member("tool_choice", "required")
        case .function(let name):
            object("tool_choice") { json in
                json.member("type", "function")
                json.member("name", name)
            }
        }
    }
}
