// The beta's requests for ephemeral keys, `POST /v1/realtime/sessions` and
// `/v1/realtime/transcription_sessions`, and their answers. The fields of the session are beside
// `client_secret`. ClientSecretRequest reads and writes them.

/// The requests.
enum BetaSecretFields {
    static let secret = OptionalField(
        "client_secret", .object(with: BetaExpiryFields.self), "How long the secret opens sessions."
    )
    static let transcriptionSecret = OptionalField(
        "client_secret", .object(with: BetaTranscriptionExpiryFields.self),
        "How long the secret opens sessions.")
}

/// `client_secret` of a session.
enum BetaExpiryFields: FieldTable {
    static let expiresAfter = OptionalField(
        "expires_after", .object(with: ExpiryFields.self), "How long the secret opens sessions.")
    static let expiresAt = OptionalField(
        "expires_at", .object(with: ExpiryFields.self), "How long the secret opens sessions.")

    static var table: ObjectTable {
        ObjectTable("BetaExpiry", "When a secret expires.", [expiresAfter.entry])
    }
}

/// `client_secret` of a transcription session; its field has another name.
enum BetaTranscriptionExpiryFields: FieldTable {
    static var table: ObjectTable {
        ObjectTable(
            "BetaTranscriptionExpiry", "When a secret expires.", [BetaExpiryFields.expiresAt.entry])
    }
}

/// The schemas of the bodies, for the generated documents.
package enum BetaSecretTables {
    /// The request for a session's secret.
    package static var request: ValueSchema {
        .object(
            ObjectTable(
                "BetaSessionRequest", "Request for a client secret.",
                BetaSessionFields.entries + [BetaSecretFields.secret.entry]))
    }

    /// The request for a transcription session's secret.
    package static var transcriptionRequest: ValueSchema {
        .object(
            ObjectTable(
                "BetaTranscriptionRequest", "Request for a client secret.",
                BetaTranscriptionFields.entries + [BetaSecretFields.transcriptionSecret.entry]))
    }

    /// The answer to a request for a session's secret.
    package static var answer: ValueSchema {
        .object(
            ObjectTable(
                "BetaSessionSecret", "A session, and the secret that opens it.",
                header("realtime.session") + realtime + input + [secret]))
    }

    /// The answer to a request for a transcription session's secret.
    package static var transcriptionAnswer: ValueSchema {
        .object(
            ObjectTable(
                "BetaTranscriptionSecret", "A session, and the secret that opens it.",
                header("realtime.transcription_session") + input + [secret]))
    }

    private static func header(_ object: String) -> [FieldEntry] {
        [
            FieldEntry("id", .text(), "The session's id."),
            FieldEntry("object", .constant(object), "The type of this object."),
        ]
    }

    private static var realtime: [FieldEntry] {
        [
            FieldEntry("model", .text(), "The model that answers."),
            FieldEntry(
                "modalities", BetaModalitiesRule().schema, "Text, or audio with its transcript."),
            FieldEntry("instructions", .text(), "The system instructions of the model."),
            FieldEntry("voice", .text(), "The voice."),
            FieldEntry("output_audio_format", BetaAudioFormatRule().schema, "The reply's audio."),
            FieldEntry("tools", .list(.anyObject), "Tools that the model may call."),
            FieldEntry(
                "tool_choice", .oneOf([.text(), .anyObject]), "Whether the model must call one."),
            FieldEntry("temperature", BetaTemperatureRule().schema, "Without effect."),
            FieldEntry(
                "max_response_output_tokens", MaxOutputTokensRule().schema,
                "Maximum tokens of one response."),
            FieldEntry("speed", .number(0.25...1.5), "How fast the voice speaks."),
            FieldEntry("tracing", .nullable(.any), "Without effect."),
        ]
    }

    private static var input: [FieldEntry] {
        [
            FieldEntry("input_audio_format", BetaAudioFormatRule().schema, "The user's audio."),
            FieldEntry(
                "input_audio_transcription", .nullable(.anyObject),
                "How the user's speech is transcribed; null: no events with its words."),
            FieldEntry(
                "input_audio_noise_reduction", .nullable(.anyObject),
                "How noise is suppressed; null: no suppression."),
            FieldEntry(
                "turn_detection", .nullable(.anyObject),
                "What ends a turn; null: only input_audio_buffer.commit does."),
            FieldEntry("include", .nullable(.list(.text())), "No additional data."),
        ]
    }

    private static var secret: FieldEntry {
        FieldEntry(
            "client_secret",
            .object(
                ObjectTable(
                    "BetaSecret", "The secret.",
                    [
                        FieldEntry("value", .text(), "The secret: a credential of its own."),
                        FieldEntry("expires_at", .integer(), "When it expires, in Unix seconds."),
                    ])), "The secret.")
    }
}
