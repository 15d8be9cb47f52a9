// The fields of the bodies of `POST /v1/chat/completions` and `POST /api/chat`, and of the whole
// answer to the former. What is inside a message is read in ChatCompletionsParser and
// UIMessagesParser: it is the same as in OpenAI's API and in the Vercel AI SDK.

/// `POST /v1/chat/completions`
enum ChatCompletionFields: FieldTable {
    private static let tokens = 1...Int(Int32.max)

    static let model = RequiredField("model", .name, "The model; reported back.")
    static let parallelToolCalls = OptionalField(
        "parallel_tool_calls", .boolean, "Whether the model may make several calls in one reply.")
    static let maxTokens = OptionalField(
        "max_tokens", .integer(in: tokens), "The older name of max_completion_tokens.")
    static let maxCompletionTokens = OptionalField(
        "max_completion_tokens", .integer(in: tokens), "The most tokens of the reply.")
    static let stream = DefaultedField(
        "stream", .boolean, default: false, "Whether the reply comes in pieces as it is made.")

    static var table: ObjectTable {
        let limits = ClientEventLimits()
        return ObjectTable(
            "ChatCompletionRequest",
            "As in OpenAI's API. Parameters of taste have no effect.",
            [
                model.entry,
                FieldEntry(
                    "messages", .list(.anyObject, atLeast: 1, atMost: limits.maxInputItems),
                    "The conversation."),
                .optional(
                    "tools", .nullable(.list(.anyObject, atMost: limits.maxTools)),
                    "Functions that the model may call."),
                .optional("tool_choice", .any, "Whether the model must call one, and which."),
                parallelToolCalls.entry, maxTokens.entry, maxCompletionTokens.entry,
                stream.entry,
                .optional(
                    "stream_options", .nullable(.anyObject),
                    "With include_usage true the last piece has the tokens."),
            ])
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
                    "messages", .list(.anyObject, atLeast: 1), "The chat as the page has it."),
                model.entry, system.entry,
                .optional("tools", .nullable(.anyObject), "Functions by name."),
                .optional(
                    "trigger", .nullable(.choice(["submit-message", "regenerate-message"])),
                    "Whether the last message is new or to be answered anew."),
                .optional("messageId", .nullable(.text()), "The message to be written anew."),
            ])
    }
}

/// The bodies, for the documents.
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
                    FieldEntry("object", .constant("chat.completion"), "What this object is."),
                    FieldEntry("created", .integer(), "When it was made, in Unix seconds."),
                    FieldEntry("model", .text(), "The model, as the request named it."),
                    FieldEntry("choices", .list(.anyObject, atLeast: 1, atMost: 1), "The reply."),
                    .optional("usage", .nullable(.anyObject), "The tokens that it took."),
                ]))
    }
}
