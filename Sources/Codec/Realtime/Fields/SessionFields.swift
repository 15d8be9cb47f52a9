// The fields of `session` in `session.update`. SessionUpdateParser reads them; GenerationFields has
// the fields that `response.create` shares.

/// `session`
enum SessionFields: FieldTable {
    static let type = OptionalField(
        "type", SessionTypeRule(), "The purpose of the session; default: unchanged.")
    static let model = OptionalField(
        "model", .anyName, "No effect: the URL chooses the model.")
    static let instructions = OptionalField(
        "instructions", .text, "The system instructions of the model.")
    static let tracing = OptionalField(
        "tracing", TracingRule(), "Reported back, without effect.")
    static let truncation = OptionalField(
        "truncation", TruncationRule(),
        "What happens to items that do not fit in the model's context.")
    static let reasoning = OptionalField(
        "reasoning", ReasoningRule(), "Reported back, without effect.")
    static let prompt = OptionalField("prompt", PromptRule(), "Reported back, without effect.")
    static let include = OptionalField(
        "include", IncludeRule(), "No effect: no recogniser here has log probabilities.")
    static let audio = OptionalField(
        "audio", .object(with: AudioFields.self), "The audio of both directions.")
    static let resume = OptionalField(
        "resume", .boolean,
        "Whether the client can come back after a lost connection (an extension of Parley).")

    static let recording = OptionalField(
        "recording", .object(with: RecordingFields.self),
        "Whether the session may be recorded (an extension of Parley).")

    static var table: ObjectTable {
        ObjectTable(
            "SessionUpdate", "A session, as session.update changes it.",
            [type.entry, model.entry, instructions.entry] + GenerationFields.entries + [
                tracing.entry, truncation.entry, reasoning.entry, prompt.entry, include.entry,
                audio.entry,
            ] + extensionEntries)
    }

    /// The extensions that are no parameters of the session, in both dialects.
    static var extensionEntries: [FieldEntry] { [resume.entry, recording.entry] }
}

/// `session.recording`
enum RecordingFields: FieldTable {
    static let consent = OptionalField(
        "consent", .boolean, "Whether the user agrees to be recorded.")

    static var table: ObjectTable {
        ObjectTable("SessionRecording", "The recording of the session.", [consent.entry])
    }
}

/// `session.audio`
enum AudioFields: FieldTable {
    static let input = OptionalField(
        "input", .object(with: InputAudioFields.self), "The user's audio.")
    static let output = OptionalField(
        "output", .object(with: OutputAudioFields.self), "The reply's audio.")

    static var table: ObjectTable {
        ObjectTable("SessionAudio", "The audio of both directions.", [input.entry, output.entry])
    }
}

/// `session.audio.input`
enum InputAudioFields: FieldTable {
    static let format = OptionalField(
        "format", AudioFormatRule(direction: .input), "How the user's audio is encoded.")
    /// Reads `sequence` of `format`.
    static let numbering = OptionalField("format", OpusNumberingRule(), "")
    static let transcription = OptionalField(
        "transcription", .object(TranscriptionParameters.self),
        "Requests events with the user's words; null: none.")
    static let turnDetection = OptionalField(
        "turn_detection", .object(TurnDetectionParameters.self),
        "What ends a turn; null: only input_audio_buffer.commit does.")
    static let noiseReduction = OptionalField(
        "noise_reduction", .object(NoiseReduction.self),
        "How noise is suppressed; null: no suppression.")

    static var table: ObjectTable {
        ObjectTable(
            "InputAudio", "The user's audio.",
            [format.entry, transcription.entry, turnDetection.entry, noiseReduction.entry])
    }
}

/// `session.audio.output`
enum OutputAudioFields: FieldTable {
    static let transport = OptionalField(
        "transport", .choice(of: AudioTransport.self),
        "Whether audio comes as events or binary messages (an extension of Parley).")
    static let speed = OptionalField(
        "speed", .number(in: 0.25...1.5), "How fast the voice speaks; 1 is its own pace.")

    static var table: ObjectTable {
        ObjectTable(
            "OutputAudio", "The reply's audio.",
            ReplyAudioFields.entries + [transport.entry, speed.entry])
    }
}

/// `session.audio.input.noise_reduction`
enum NoiseReductionFields: FieldTable {
    static let type = OptionalField(
        "type", .choice(of: NoiseReduction.Place.self), "Where the microphone is.")
    static let strength = OptionalField(
        "strength", .number(in: 0...1), "Strength of the suppression; default 1.")

    static var table: ObjectTable {
        ObjectTable("NoiseReduction", "How noise is suppressed.", [type.entry, strength.entry])
    }
}

/// `session.audio.input.transcription`
enum TranscriptionFields: FieldTable {
    static let model = OptionalField(
        "model", .anyName, "Reported back; the server's own setting counts.")
    static let language = OptionalField(
        "language", .anyName, "Language of the speech (ISO 639-1), if the recogniser supports it.")
    static let prompt = OptionalField(
        "prompt", .text, "Words to expect, if the recogniser supports it.")
    static let languages = OptionalField(
        "languages", .names(atMost: ClientEventLimits.maxNames),
        "Languages that may be spoken; one alone is the language.")
    static let keywords = OptionalField(
        "keywords", .names(atMost: ClientEventLimits.maxNames),
        "More words to expect, added after the prompt.")
    static let delay = OptionalField(
        "delay", .choice(of: TranscriptionParameters.Delay.self), "Reported back, without effect.")

    static var table: ObjectTable {
        ObjectTable(
            "Transcription", "How the user's speech is transcribed.",
            [
                model.entry, language.entry, prompt.entry, languages.entry, keywords.entry,
                delay.entry,
            ])
    }
}

/// `session.audio.input.turn_detection`. An update replaces the whole object: an omitted field gets
/// the protocol's default, not its previous value.
enum TurnDetectionFields {
    /// `type`
    enum Kind: String, CaseIterable {
        case serverVAD = "server_vad"
        case semanticVAD = "semantic_vad"
    }

    /// Longer than any useful wait, and far from overflow in sample arithmetic.
    private static let milliseconds = 0...3_600_000

    static let type = RequiredField("type", .choice(of: Kind.self), "What ends a turn.")
    static let threshold = DefaultedField(
        "threshold", .number(in: 0...1), default: 0.5, "Minimum probability of speech.")
    static let silence = DefaultedField(
        "silence_duration_ms", .integer(in: milliseconds), default: 500,
        "The silence that ends a turn.")
    static let prefixPadding = DefaultedField(
        "prefix_padding_ms", .integer(in: milliseconds), default: 300,
        "Audio kept from before speech was detected.")
    static let idleTimeout = OptionalField(
        "idle_timeout_ms", .integer(in: 5_000...30_000),
        "The silence after a reply at which the agent speaks again; null: never.")
    static let eagerness = DefaultedField(
        "eagerness", .choice(of: TurnDetectionParameters.Eagerness.self), default: .auto,
        "How soon a turn counts as complete.")
    static let createResponse = DefaultedField(
        "create_response", .boolean, default: true, "Whether a turn is answered automatically.")
    static let interruptResponse = DefaultedField(
        "interrupt_response", .boolean, default: true, "Whether speech interrupts a reply.")
    static let speculativeResponse = DefaultedField(
        "speculative_response", .boolean, default: false,
        "Whether the model is asked before the turn is certain to be over (an extension of Parley)."
    )
    static let patience = OptionalField(
        "patience", .choice(of: TurnDetectionParameters.PatienceChoice.self),
        "How long the end of a turn is waited for (an extension of Parley).")
    static let minInterruption = OptionalField(
        "min_interruption_ms", .integer(in: 0...10_000),
        "How long speech must last to interrupt a reply (an extension of Parley).")
    static let interruption = OptionalField(
        "interruption", .choice(of: TurnDetectionParameters.Interruption.self),
        "What speech must say to interrupt a reply (an extension of Parley).")
    /// The name of an earlier version: true is `words`, false is `any`.
    static let interruptionNeedsWords = OptionalField(
        "interruption_needs_words", .boolean,
        "An earlier name of `interruption`: true is `words`, false is `any`.")

    private static var shared: [FieldEntry] {
        [
            createResponse.entry, interruptResponse.entry, speculativeResponse.entry,
            minInterruption.entry, interruption.entry, interruptionNeedsWords.entry,
        ]
    }

    static var schema: ValueSchema {
        func type(_ kind: Kind) -> FieldEntry {
            FieldEntry(Self.type.name, .constant(kind.rawValue), Self.type.meaning)
        }
        return .oneOf([
            .object(
                ObjectTable(
                    "ServerVAD", "Silence ends a turn.",
                    [
                        type(.serverVAD), threshold.entry, silence.entry, prefixPadding.entry,
                        idleTimeout.entry,
                    ] + shared)),
            .object(
                ObjectTable(
                    "SemanticVAD", "Words and silence end a turn.",
                    [type(.semanticVAD), eagerness.entry, patience.entry] + shared)),
        ])
    }
}
