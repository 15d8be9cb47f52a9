// The body of a chat completions request: a conversation in the form of that API. ChatCompletions
// sends it.

import Codec
import Session

/// Writes a `ModelRequest` as OpenAI's chat completions expect it.
struct ChatCompletionsRequest {
    private let request: ModelRequest
    private let model: String

    init(_ request: ModelRequest, model: String) {
        self.request = request
        self.model = model
    }

    /// The body.
    func encoded() -> [UInt8] { encodedJSON { write(to: &$0) } }

    private func write(to json: inout JSONWriter) {
        json.beginObject()
        json.member("model", model)
        json.member("stream", true)
        json.key("stream_options")
        json.beginObject()
        json.member("include_usage", true)
        json.endObject()
        if let limit = request.maxOutputTokens { json.member("max_tokens", limit) }
        writeTools(to: &json)
        json.key("messages")
        json.beginArray()
        writeMessages(to: &json)
        json.endArray()
        json.endObject()
    }

    private func writeTools(to json: inout JSONWriter) {
        // Services refuse `tool_choice` without tools.
        guard !request.tools.isEmpty else { return }
        json.key("tools")
        json.beginArray()
        for tool in request.tools {
            json.beginObject()
            json.member("type", "function")
            json.key("function")
            json.beginObject()
            json.member("name", tool.name)
            if let description = tool.description { json.member("description", description) }
            if let parameters = tool.parameters { json.member("parameters", parameters) }
            json.endObject()
            json.endObject()
        }
        json.endArray()
        if let parallel = request.parallelToolCalls {
            json.member("parallel_tool_calls", parallel)
        }
        json.key("tool_choice")
        switch request.toolChoice {
        case .auto: json.string("auto")
        case .none: json.string("none")
        case .required: json.string("required")
        case .function(let name):
            json.beginObject()
            json.member("type", "function")
            json.key("function")
            json.beginObject()
            json.member("name", name)
            json.endObject()
            json.endObject()
        }
    }

    private func writeMessages(to json: inout JSONWriter) {
        if !request.instructions.isEmpty { write("system", request.instructions, to: &json) }
        for turn in request.messages.turns {
            switch turn {
            case .system(let text): write("system", text, to: &json)
            case .user(let parts):
                if case .text(let text)? = parts.first, parts.count == 1 {
                    write("user", text, to: &json)
                } else {
                    writeParts(parts, to: &json)
                }
            case .assistant(let text, let calls): writeAssistant(text, calls: calls, to: &json)
            }
        }
    }

    private func write(_ role: String, _ text: String, to json: inout JSONWriter) {
        json.beginObject()
        json.member("role", role)
        json.member("content", text)
        json.endObject()
    }

    /// A user's message of several parts ("Create chat completion", content parts).
    private func writeParts(_ parts: [UserPart], to json: inout JSONWriter) {
        json.beginObject()
        json.member("role", "user")
        json.key("content")
        json.beginArray()
        for part in parts {
            json.beginObject()
            switch part {
            case .text(let text):
                json.member("type", "text")
                json.member("text", text)
            case .image(let url, let detail):
                json.member("type", "image_url")
                json.key("image_url")
                json.beginObject()
                json.member("url", url)
                json.member("detail", detail.rawValue)
                json.endObject()
            case .audio(let audio): writeAudio(audio, to: &json)
            }
            json.endObject()
        }
        json.endArray()
        json.endObject()
    }

    private func writeAudio(_ audio: HeardAudio, to json: inout JSONWriter) {
        json.member("type", "input_audio")
        json.key("input_audio")
        json.beginObject()
        json.key("data")
        json.wavFile(of: audio)
        json.member("format", "wav")
        json.endObject()
    }

    private func writeAssistant(
        _ text: String?, calls: [ConversationTurn.AnsweredCall], to json: inout JSONWriter
    ) {
        json.beginObject()
        json.member("role", "assistant")
        json.member("content", text)
        if !calls.isEmpty {
            json.key("tool_calls")
            json.beginArray()
            for call in calls { write(call, to: &json) }
            json.endArray()
        }
        json.endObject()
        for call in calls {
            json.beginObject()
            json.member("role", "tool")
            json.member("tool_call_id", call.callID)
            json.member("content", call.output)
            json.endObject()
        }
    }

    private func write(_ call: ConversationTurn.AnsweredCall, to json: inout JSONWriter) {
        json.beginObject()
        json.member("id", call.callID)
        json.member("type", "function")
        json.key("function")
        json.beginObject()
        json.member("name", call.name)
        json.member("arguments", call.arguments)
        json.endObject()
        json.endObject()
    }
}
