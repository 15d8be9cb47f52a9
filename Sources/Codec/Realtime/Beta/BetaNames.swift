// The beta's names that differ: of the server's events, of audio formats, and of the fields that
// errors name. Source: the types of the Python package openai 1.99, `openai/types/beta/realtime`.

extension ServerEvent {
    /// The `type` of the event in the beta.
    var betaName: String {
        switch self {
        case .conversationItemAdded: "conversation.item.created"
        case .responseOutputTextDelta: "response.text.delta"
        case .responseOutputTextDone: "response.text.done"
        case .responseOutputAudioTranscriptDelta: "response.audio_transcript.delta"
        case .responseOutputAudioTranscriptDone: "response.audio_transcript.done"
        case .responseOutputAudioDelta: "response.audio.delta"
        case .responseOutputAudioDone: "response.audio.done"
        case .sessionCreated(_, let parameters) where parameters.kind == .transcription:
            "transcription_session.created"
        case .sessionUpdated(_, let parameters) where parameters.kind == .transcription:
            "transcription_session.updated"
        default: wireName
        }
    }
}

extension AudioFormat {
    /// The name in the beta. Opus and other rates of PCM, extensions of Parley, have one so that a
    /// session that a client secret brings along can be reported.
    var betaName: String {
        switch self {
        case .pcm: "pcm16"
        case .pcm8000, .pcm16000, .pcm48000: "pcm16_\(sampleRate.hertz)"
        case .pcmu: "g711_ulaw"
        case .pcma: "g711_alaw"
        case .opus: "opus"
        }
    }
}

/// The paths of fields for errors. The beta's parser names its own fields; these are for the errors
/// of the session, which knows no dialect.
enum BetaPaths {
    /// Every path that differs, and the beta's.
    static let table: [(ga: String, beta: String)] = [
        ("session.output_modalities", "session.modalities"),
        ("session.max_output_tokens", "session.max_response_output_tokens"),
        ("session.audio.input.format", "session.input_audio_format"),
        ("session.audio.input.transcription", "session.input_audio_transcription"),
        ("session.audio.input.noise_reduction", "session.input_audio_noise_reduction"),
        ("session.audio.input.turn_detection", "session.turn_detection"),
        ("session.audio.output.format", "session.output_audio_format"),
        ("session.audio.output.voice", "session.voice"),
        ("session.audio.output.speed", "session.speed"),
        ("response.audio.output.format", "response.output_audio_format"),
        ("response.audio.output.voice", "response.voice"),
    ]

    /// The error with the beta's path in `param`, and in the message where it has the path.
    static func wording(of error: ClientEventError) -> ClientEventError {
        guard let param = error.param,
            let path = table.first(where: { param == $0.ga || param.hasPrefix($0.ga + ".") })
        else { return error }
        var error = error
        error.param = path.beta + param.dropFirst(path.ga.count)
        error.message = error.message.replacing(path.ga, with: path.beta)
        return error
    }

    /// The same for a body that is the session itself.
    static func wordingOfBody(of error: ClientEventError) -> ClientEventError {
        var error = wording(of: error)
        guard let param = error.param, param.hasPrefix("session.") else { return error }
        let name = String(param.dropFirst("session.".count))
        error.param = name
        error.message = error.message.replacing(param, with: name)
        return error
    }
}
