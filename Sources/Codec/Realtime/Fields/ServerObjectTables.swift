// The objects inside the server's events: errors, items, sessions, responses.
// ConversationItemWriter, SessionWriter and ResponseWriter write them.

/// Errors, usage and items.
enum ServerObjectTables {
    /// An error about an event or about the session.
    static var error: ObjectTable {
        ObjectTable(
            "Error", "What went wrong.",
            [
                FieldEntry(
                    "type", .choice(ClientEventError.Kind.allCases.map(\.rawValue)),
                    "The kind of error."),
                FieldEntry("code", .nullable(.text()), "A stable code for programs."),
                FieldEntry("message", .text(), "A message for people."),
                FieldEntry(
                    "param", .nullable(.text()), "Path of the invalid field."),
                FieldEntry("event_id", .nullable(.text()), "The client's event."),
            ])
    }

    /// Why a model, a synthesiser or a recogniser failed.
    static var serviceError: ObjectTable {
        ObjectTable(
            "ServiceError", "Why a model, a synthesiser or a recogniser failed.",
            [
                FieldEntry("type", .text(), "What failed."),
                FieldEntry("code", .text(), "A stable code for programs."),
                FieldEntry("message", .text(), "A message for people."),
            ])
    }

    static var transcriptionUsage: ObjectTable {
        ObjectTable(
            "TranscriptionUsage", "Usage of a transcription.",
            [
                FieldEntry("type", .constant("duration"), "The unit of the usage."),
                FieldEntry("seconds", .number(0...Double.infinity), "Seconds of audio."),
            ])
    }

    // MARK: Items

    /// Every item as the server writes it.
    static var item: ValueSchema {
        .oneOf(
            ConversationItem.Role.allCases.map { .object(message(from: $0)) } + [
                .object(functionCall), .object(functionCallOutput),
            ] + mcpItems.map { .object($0) })
    }

    private static func item(
        _ name: String, _ meaning: StaticString, _ type: String, _ own: [FieldEntry]
    ) -> ObjectTable {
        ObjectTable(
            name, meaning,
            [
                .optional("id", .text(), "The item's id."),
                FieldEntry("object", .constant("realtime.item"), "The type of this object."),
                FieldEntry("type", .constant(type), "The type of the item."),
                FieldEntry(
                    "status", .choice(ConversationItem.Status.allCases.map(\.rawValue)),
                    "The status of the item."),
            ] + own)
    }

    private static func message(from role: ConversationItem.Role) -> ObjectTable {
        let name: String
        let meaning: StaticString
        let parts: [ObjectTable]
        switch role {
        case .system:
            (name, meaning) = ("SystemMessage", "Instructions within the conversation.")
            parts = [inputText]
        case .user:
            (name, meaning) = ("UserMessage", "A message of the user.")
            parts = [inputText, inputAudio, inputImage]
        case .assistant:
            (name, meaning) = ("AssistantMessage", "A message of the agent.")
            parts = [outputText, outputAudio]
        }
        return item(
            name, meaning, "message",
            [
                FieldEntry("role", .constant(role.rawValue), "The author of the message."),
                FieldEntry("content", .list(.oneOf(parts.map { .object($0) })), "Its parts."),
            ])
    }

    private static var functionCall: ObjectTable {
        item(
            "FunctionCall", "A call that the model asks for.", "function_call",
            [
                FieldEntry("name", .text(), "The function."),
                .optional("call_id", .text(), "The call's id."),
                FieldEntry("arguments", .text(), "The arguments as JSON text."),
            ])
    }

    private static var functionCallOutput: ObjectTable {
        item(
            "FunctionCallOutput", "The output of a function call.", "function_call_output",
            [
                FieldEntry("call_id", .text(), "The call that is answered."),
                FieldEntry("output", .text(), "The output."),
            ])
    }

    // MARK: Parts of items

    private static func part(
        _ name: String, _ meaning: StaticString, _ type: String, _ own: [FieldEntry]
    ) -> ObjectTable {
        ObjectTable(
            name, meaning, [FieldEntry("type", .constant(type), "The type of the part.")] + own)
    }

    private static let text = FieldEntry("text", .text(), "The words.")
    private static let audio = FieldEntry.optional(
        "audio", .base64, "The audio, only in an item that was requested.")

    private static var inputText: ObjectTable {
        part("InputText", "Text of the user or the application.", "input_text", [text])
    }

    private static var inputAudio: ObjectTable {
        part(
            "InputAudioPart", "Audio of the user.", "input_audio",
            [
                audio, .optional("transcript", .text(), "Its words, once they are known."),
            ])
    }

    private static var inputImage: ObjectTable {
        part(
            "InputImagePart", "An image of the user; image data is not sent back.",
            "input_image",
            [
                .optional("image_url", .text(), "Where it is."),
                FieldEntry(
                    "detail", NewPartFields.detail.rule.schema, NewPartFields.detail.meaning),
            ])
    }

    private static var outputText: ObjectTable {
        part("OutputText", "Text of the agent.", "output_text", [text])
    }

    private static var outputAudio: ObjectTable {
        part(
            "OutputAudioPart", "Audio of the agent.", "output_audio",
            [audio, FieldEntry("transcript", .text(), "Its words.")])
    }
}

/// The session of `session.created` and `session.updated`.
enum SessionObjectTables {
    /// The whole effective session.
    static var schema: ValueSchema { .oneOf([.object(session), .object(transcriptionSession)]) }

    private static var transcriptionSession: ObjectTable {
        ObjectTable(
            "TranscriptionSession", "The whole effective session of type transcription.",
            [
                FieldEntry(
                    "object", .constant("realtime.transcription_session"),
                    "The type of this object."),
                FieldEntry(
                    "type", .constant(SessionKind.transcription.rawValue),
                    "The purpose of the session."),
                FieldEntry("id", .text(), "The session's id."),
                .optional(
                    "expires_at", .integer(), "When it ends, in Unix seconds; absent: no limit."),
                entry(SessionFields.include, isNullable: true),
                FieldEntry(
                    "audio",
                    .object(
                        ObjectTable(
                            "TranscriptionAudioState", "The user's audio.",
                            [FieldEntry("input", .object(input), "The user's audio.")])),
                    "The user's audio."),
            ])
    }

    private static var session: ObjectTable {
        ObjectTable(
            "Session", "The whole effective session of type realtime.",
            [
                FieldEntry("object", .constant("realtime.session"), "The type of this object."),
                FieldEntry(
                    "type", .constant(SessionKind.realtime.rawValue), "The purpose of the session."),
                FieldEntry("id", .text(), "The session's id."),
                .optional(
                    "expires_at", .integer(), "When it ends, in Unix seconds; absent: no limit."),
                FieldEntry("model", .text(), "The model's name from the URL."),
                entry(GenerationFields.outputModalities),
                entry(SessionFields.instructions),
                entry(GenerationFields.tools),
                entry(GenerationFields.toolChoice),
                .optional(
                    "parallel_tool_calls", .boolean, GenerationFields.parallelToolCalls.meaning),
                entry(GenerationFields.maxOutputTokens),
                entry(SessionFields.tracing, isNullable: true),
                entry(SessionFields.truncation),
                entry(SessionFields.prompt, isNullable: true),
                .optional("reasoning", .nullable(.anyObject), "How the model reasons."),
                entry(SessionFields.include, isNullable: true),
                FieldEntry("audio", .object(audio), "The audio of both directions."),
            ])
    }

    /// A field as the client may set it; the server always reports it.
    private static func entry<Rule>(
        _ field: OptionalField<Rule>, isNullable: Bool = false
    ) -> FieldEntry {
        FieldEntry(field.name, field.rule.schema, isNullable: isNullable, field.meaning)
    }

    private static var audio: ObjectTable {
        ObjectTable(
            "SessionAudioState", "The audio of both directions.",
            [
                FieldEntry("input", .object(input), "The user's audio."),
                FieldEntry("output", .object(output), "The reply's audio."),
            ])
    }

    private static var input: ObjectTable {
        ObjectTable(
            "InputAudioState", "The user's audio.",
            [
                entry(InputAudioFields.format),
                entry(InputAudioFields.transcription, isNullable: true),
                entry(InputAudioFields.noiseReduction, isNullable: true),
                entry(InputAudioFields.turnDetection, isNullable: true),
            ])
    }

    private static var output: ObjectTable {
        ObjectTable(
            "OutputAudioState", "The reply's audio.",
            [
                entry(ReplyAudioFields.format),
                FieldEntry("voice", .text(), ReplyAudioFields.voice.meaning),
                entry(OutputAudioFields.speed),
                .optional(
                    "transport", OutputAudioFields.transport.rule.schema,
                    OutputAudioFields.transport.meaning),
            ])
    }
}

/// The response of `response.created` and `response.done`.
enum ResponseObjectTables {
    /// `realtime.response`
    static var response: ObjectTable {
        ObjectTable(
            "Response", "A response; values that are not known yet are null.",
            [
                FieldEntry("object", .constant("realtime.response"), "The type of this object."),
                FieldEntry("id", .text(), "The response's id."),
                FieldEntry(
                    "conversation_id", .nullable(.text()),
                    "Null for a response outside the conversation."),
                FieldEntry(
                    "status",
                    .choice(["in_progress", "completed", "cancelled", "incomplete", "failed"]),
                    "Its status."),
                FieldEntry(
                    "status_details", .nullable(.oneOf([.object(ending), .object(failure)])),
                    "Why it ended, if it did not complete."),
                FieldEntry("output", .list(ServerObjectTables.item), "Its items."),
                FieldEntry(
                    "output_modalities", OutputModalityRule().schema, "Its modality."),
                FieldEntry("audio", .object(audio), "Its audio."),
                FieldEntry(
                    "max_output_tokens", MaxOutputTokensRule().schema, "Maximum tokens."),
                FieldEntry("usage", .nullable(.object(usage)), "Tokens used."),
                FieldEntry(
                    "metadata", .nullable(MetadataRule().schema), "The client's own."),
            ])
    }

    /// A part of an item in `response.content_part` events.
    static var part: ValueSchema {
        func part(_ name: String, _ type: OutputModality, _ field: StaticString) -> ValueSchema {
            .object(
                ObjectTable(
                    name, "A part of an item.",
                    [
                        FieldEntry("type", .constant(type.rawValue), "The type of the part."),
                        FieldEntry(field, .text(), "The words; empty at the start."),
                    ]))
        }
        return .oneOf([part("TextPart", .text, "text"), part("AudioPart", .audio, "transcript")])
    }

    private static var ending: ObjectTable {
        ObjectTable(
            "ResponseEnding", "Why a response ended early.",
            [
                FieldEntry("type", .choice(["cancelled", "incomplete"]), "The status again."),
                FieldEntry(
                    "reason",
                    .choice([
                        "turn_detected", "client_cancelled", "max_output_tokens", "content_filter",
                        "handed_over", "interrupted_by_restart",
                    ]), "Why; the last two in a session that was resumed."),
            ])
    }

    private static var failure: ObjectTable {
        ObjectTable(
            "ResponseFailure", "Why a response failed.",
            [
                FieldEntry("type", .constant("failed"), "The status again."),
                FieldEntry("error", .object(ServerObjectTables.serviceError), "What went wrong."),
            ])
    }

    private static var audio: ObjectTable {
        ObjectTable(
            "ResponseAudioState", "The audio of a response.",
            [
                FieldEntry(
                    "output",
                    .object(
                        ObjectTable(
                            "ResponseOutputAudioState", "The reply's audio.",
                            [
                                FieldEntry(
                                    "format", AudioFormatRule(direction: .output).schema,
                                    "How it is encoded."),
                                FieldEntry("voice", .text(), "Who speaks."),
                            ])), "The reply's audio.")
            ])
    }

    private static func count(_ name: StaticString, _ meaning: StaticString) -> FieldEntry {
        FieldEntry(name, .integer(), meaning)
    }

    private static var usage: ObjectTable {
        ObjectTable(
            "Usage", "Tokens of a response.",
            [
                count("total_tokens", "All tokens."),
                count("input_tokens", "Tokens of the model's input."),
                count("output_tokens", "What it wrote."),
                FieldEntry(
                    "input_token_details",
                    .object(
                        ObjectTable(
                            "InputTokens", "Tokens of the model's input, by kind.",
                            [
                                count("text_tokens", "Text."), count("audio_tokens", "Audio."),
                                count("image_tokens", "Images."),
                                count("cached_tokens", "Those that the model had cached."),
                            ])), "By kind."),
                FieldEntry(
                    "output_token_details",
                    .object(
                        ObjectTable(
                            "OutputTokens", "Tokens of the model's output, by kind.",
                            [count("text_tokens", "Text."), count("audio_tokens", "Audio.")])),
                    "By kind."),
            ])
    }
}
