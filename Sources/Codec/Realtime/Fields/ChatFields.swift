// The fields of the bodies of `POST /v1/chat/completions` and `POST /api/chat`, and of the whole
// answer to the former. ChatCompletionsParser and UIMessagesParser parse messages, whose content is
// the same as in OpenAI's API and in the Vercel AI SDK.

/// `POST /v1/chat/completions`
enum ChatCompletionFields: FieldTable {
    private static let tokens = 1...Int(Int32.max)

    static let model = RequiredField("model", .name, "The model; reported back.")
    static let parallelToolCalls = OptionalField(
        "parallel_tool_calls", .boolean, "Whether the model may make several calls in one reply.")
    static let maxTokens = OptionalField(
        "max_tokens", .integer(in: tokens), "The older name of max_completion_tokens.")
    static let maxCompletionTokens = OptionalField(
        "max_completion_tokens", .integer(in: tokens), "Maximum tokens of the reply.")
    static let stop = OptionalField(
        "stop", StopWordsRule(), "In front of which words the reply ends.")
    static let stream = DefaultedField(
        "stream", .boolean, default: false, "Whether the reply is streamed.")

    static var table: ObjectTable {
        ObjectTable(
            "ChatCompletionRequest",
            "As in OpenAI's API. Sampling parameters have no effect.",
            [
                model.entry,
                FieldEntry(
                    "messages",
                    .list(.anyObject, atLeast: 1, atMost: ClientEventLimits.maxInputItems),
                    "The conversation."),
                .optional(
                    "tools", .nullable(.list(.anyObject, atMost: ClientEventLimits.maxTools)),
                    "Functions that the model may call."),
                .optional("tool_choice", .any, "Whether the model must call one, and which."),
                parallelToolCalls.entry, maxTokens.entry, maxCompletionTokens.entry,
                stop.entry, stream.entry,
                .optional(
                    "stream_options", .nullable(.anyObject),
                    "If include_usage is true, the last piece has the usage."),
            ])
    }
}

/// One stop word, or a list of them.
struct StopWordsRule: ValueRule {
    private let list = NamesRule(maximum: StopWords.maxCount)

    var schema: ValueSchema { .oneOf([NameRule(mayBeEmpty: true).schema, list.schema]) }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> StopWords {
        guard value.kind == .string else { return StopWords(try list.read(value, at: path)) }
        return StopWords([try NameRule(mayBeEmpty: true).read(value, at: path)])
    }
}

/// `POST /api/chat`
enum UIChatFields: FieldTable {
    static let id = RequiredField("id", .name, "The chat.")
    static let model = OptionalField("model", .anyName, "The model.")
    static let system = OptionalField("system", .text, "Instructions for the model.")

    static var table: ObjectTable {
        ObjectTable(
            "UIChatRequest", "As useChat of the Vercel AI SDK sends it.",
            [
                id.entry,
                FieldEntry(
                    "messages", .list(.anyObject, atLeast: 1), "The chat as the page stores it."),
                model.entry, system.entry,
                .optional("tools", .nullable(.anyObject), "Functions by name."),
                .optional(
                    "trigger", .nullable(.choice(["submit-message", "regenerate-message"])),
                    "Whether the last message is new, or its answer is regenerated."),
                .optional("messageId", .nullable(.text()), "The message to regenerate."),
            ])
    }
}

/// The schemas of the bodies, for the generated documents.
package enum ChatTables {
    /// The request of `POST /v1/chat/completions`.
    package static var completionRequest: ValueSchema { .object(ChatCompletionFields.table) }

    /// The request of `POST /api/chat`.
    package static var uiRequest: ValueSchema { .object(UIChatFields.table) }

    /// The whole answer of `POST /v1/chat/completions`.
    package static var completion: ValueSchema {
        .object(
            ObjectTable(
                "ChatCompletion", "A reply, as in OpenAI's API.",
                [
                    FieldEntry("id", .text(), "The reply's id."),
                    FieldEntry("object", .constant("chat.completion"), "The type of this object."),
                    FieldEntry("created", .integer(), "When it was created, in Unix seconds."),
                    FieldEntry("model", .text(), "The model named in the request."),
                    FieldEntry("choices", .list(.anyObject, atLeast: 1, atMost: 1), "The reply."),
                    .optional("usage", .nullable(.anyObject), "Tokens used."),
                ]))
    }
}
