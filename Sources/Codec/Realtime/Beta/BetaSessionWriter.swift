// Writes the session and the settings of a response as the beta has them: flat, with other names.
// SessionWriter and ResponseWriter write the parts that are as today.

extension JSONWriter {
    /// Writes the members of the beta's `realtime.session` or `realtime.transcription_session`.
    /// - Parameter expiresAt: when it ends, in seconds since 1970, or nil where it has no end.
    mutating func betaSession(
        id: String, _ parameters: SessionParameters, expiresAt: Int? = nil
    ) {
        member("id", id)
        if let expiresAt { member("expires_at", expiresAt) }
        switch parameters.kind {
        case .realtime:
            member("object", "realtime.session")
            betaRealtime(parameters)
        case .transcription:
            member("object", "realtime.transcription_session")
        }
        betaInputAudio(parameters)
        noInclude()
    }

    /// Writes `modalities`, `voice`, `output_audio_format` and `temperature` of a response.
    mutating func betaReplySettings(_ response: ResponseDescription) {
        betaModalities(response.outputModality)
        member("voice", response.voice)
        member("output_audio_format", response.outputFormat.betaName)
        member("temperature", number: response.temperature.value)
    }

    private mutating func betaRealtime(_ parameters: SessionParameters) {
        member("model", parameters.model)
        betaModalities(parameters.outputModality)
        member("instructions", parameters.instructions)
        member("voice", parameters.voice)
        member("output_audio_format", parameters.outputFormat.betaName)
        tools(parameters.tools, parameters.mcpTools)
        betaToolChoice(of: parameters)
        member("temperature", number: parameters.temperature.value)
        key("max_response_output_tokens")
        if let limit = parameters.maxOutputTokens { integer(limit) } else { string("inf") }
        member("speed", number: parameters.speed)
        member("tracing", parameters.tracing)
    }

    private mutating func betaInputAudio(_ parameters: SessionParameters) {
        member("input_audio_format", parameters.inputFormat.betaName)
        key("input_audio_transcription")
        transcription(parameters.transcription)
        key("input_audio_noise_reduction")
        noiseReduction(parameters.noiseReduction)
        key("turn_detection")
        turnDetection(of: parameters, in: .beta)
    }

    /// Audio includes its transcript.
    private mutating func betaModalities(_ modality: OutputModality) {
        array("modalities") { json in
            if modality == .audio { json.string(OutputModality.audio.rawValue) }
            json.string(OutputModality.text.rawValue)
        }
    }

    /// The beta's types have a string: a mode, or a function's name.
    private mutating func betaToolChoice(of parameters: SessionParameters) {
        if let choice = parameters.mcpToolChoice { return mcpToolChoice(choice) }
        switch parameters.toolChoice {
        case .auto: member("tool_choice", "auto")
        case .none: member("tool_choice", "none")
        case .required: member("tool_choice", "required")
        case .function(let name): member("tool_choice", name)
        }
    }
}
