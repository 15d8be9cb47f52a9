// The beta's fields that clients send: the session, which is flat, and what a response shares with
// it. A field that both dialects have under the same name is declared with those of today.
// BetaClientEvents reads them.

/// `session` in `session.update`
enum BetaSessionFields {
    static let transcription = OptionalField(
        "input_audio_transcription", .object(TranscriptionParameters.self),
        "Requests events with the user's words; null: none.")
    static let noiseReduction = OptionalField(
        "input_audio_noise_reduction", .object(NoiseReduction.self),
        "How noise is suppressed; null: no suppression.")
    static let inputFormat = OptionalField(
        "input_audio_format", BetaAudioFormatRule(), "How the user's audio is encoded.")
    static let maxOutputTokens = OptionalField(
        "max_response_output_tokens", MaxOutputTokensRule(), "Maximum tokens of one response.")

    /// The fields of the user's audio.
    static var inputEntries: [FieldEntry] {
        [
            inputFormat.entry, transcription.entry, noiseReduction.entry,
            InputAudioFields.turnDetection.entry,
        ]
    }

    /// All of them, in reading order.
    static var entries: [FieldEntry] {
        [SessionFields.model.entry, SessionFields.instructions.entry]
            + BetaGenerationFields.entries + inputEntries + [
                maxOutputTokens.entry, OutputAudioFields.speed.entry, SessionFields.tracing.entry,
            ] + SessionFields.extensionEntries
    }
}

/// Fields that `session.update` and `response.create` share.
enum BetaGenerationFields {
    static let modalities = OptionalField(
        "modalities", BetaModalitiesRule(), "Text, or audio with its transcript.")
    static let outputFormat = OptionalField(
        "output_audio_format", BetaAudioFormatRule(), "How the reply's audio is encoded.")
    static let toolChoice = OptionalField(
        "tool_choice", BetaToolChoiceRule(), "Whether the model must call a tool, and which.")
    static let temperature = OptionalField(
        "temperature", BetaTemperatureRule(), "Reported back, without effect.")

    /// All of them, in reading order.
    static var entries: [FieldEntry] {
        [
            modalities.entry, ReplyAudioFields.voice.entry, outputFormat.entry,
            GenerationFields.tools.entry, toolChoice.entry, temperature.entry,
        ]
    }
}

/// `session` in `transcription_session.update`
enum BetaTranscriptionFields {
    /// All of them, in reading order.
    static var entries: [FieldEntry] {
        [BetaGenerationFields.modalities.entry] + BetaSessionFields.inputEntries
            + [SessionFields.include.entry] + SessionFields.extensionEntries
    }
}
