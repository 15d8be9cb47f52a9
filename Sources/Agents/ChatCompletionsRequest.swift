// The body of a chat completions request. What a conversation looks like to the service is decided
// here; sending it is ChatCompletions'.
//
// Invariant: the service's rule for functions holds whatever the conversation looks like: the calls
// of one assistant message are followed by exactly one output each.

import Codec
import Session

/// Writes a `ModelRequest` as OpenAI's chat completions expect it.
struct ChatCompletionsRequest {
    private let request: ModelRequest
    private let model: String
    /// The first output of each call, by its id.
    private let outputs: [String: String]

    init(_ request: ModelRequest, model: String) {
        self.request = request
        self.model = model
        var outputs: [String: String] = [:]
        for case .functionOutput(let callID, let output) in request.messages
        where outputs[callID] == nil {
            outputs[callID] = output
        }
        self.outputs = outputs
    }

    /// Whether writing it takes long: audio has to be decoded.
    var hasAudio: Bool {
        request.messages.contains { message in
            switch message {
            case .userAudio: true
            case .userParts(let parts):
                parts.contains { if case .audio = $0 { true } else { false } }
            case .system, .user, .assistant, .functionCall, .functionOutput: false
            }
        }
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
        var rest = request.messages[...]
        while let message = rest.first {
            switch message {
            case .system(let text):
                write("system", text, to: &json)
                rest.removeFirst()
            case .user(let text):
                write("user", text, to: &json)
                rest.removeFirst()
            case .userAudio(let audio):
                writeParts([.audio(audio)], to: &json)
                rest.removeFirst()
            case .userParts(let parts):
                writeParts(parts, to: &json)
                rest.removeFirst()
            case .assistant(let text):
                rest.removeFirst()
                writeAssistant(text, calls: takeCalls(from: &rest), to: &json)
            case .functionCall:
                writeAssistant(nil, calls: takeCalls(from: &rest), to: &json)
            case .functionOutput:
                // Written after its call; one without a call answers nothing.
                rest.removeFirst()
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

    /// What was said, as a WAV file in base64.
    private func writeAudio(_ audio: HeardAudio, to json: inout JSONWriter) {
        // Without memory for a decoder the model hears nothing, which it will say.
        let samples = (try? audio.samples()) ?? []
        let wav = WAVFile(rate: .hz16000, samples: samples).encoded()
        json.member("type", "input_audio")
        json.key("input_audio")
        json.beginObject()
        json.key("data")
        json.base64(wav.span.bytes)
        json.member("format", "wav")
        json.endObject()
    }

    private struct Call {
        var callID: String
        var name: String
        var arguments: String
    }

    /// The calls at the front of the conversation, outputs between them skipped. A call without an
    /// output is left out: the user went on before there was one, and services refuse such a call.
    private func takeCalls(from rest: inout ArraySlice<ModelMessage>) -> [Call] {
        var calls: [Call] = []
        while let message = rest.first {
            switch message {
            case .functionCall(let callID, let name, let arguments):
                if outputs[callID] != nil {
                    calls.append(Call(callID: callID, name: name, arguments: arguments))
                }
                rest.removeFirst()
            case .functionOutput:
                // Calls after an output were made knowing it: they begin a message of their own.
                return calls
            case .system, .user, .userAudio, .userParts, .assistant:
                return calls
            }
        }
        return calls
    }

    private func writeAssistant(_ text: String?, calls: [Call], to json: inout JSONWriter) {
        guard text != nil || !calls.isEmpty else { return }
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
            json.member("content", outputs[call.callID])
            json.endObject()
        }
    }

    private func write(_ call: Call, to json: inout JSONWriter) {
        json.beginObject()
        json.member("id", call.callID)
        json.member("type", "function")
        json.key("function")
        json.beginObject()
        json.member("name", call.name)
        json.member("arguments", call.arguments.isEmpty ? "{}" : call.arguments)
        json.endObject()
        json.endObject()
    }
}
