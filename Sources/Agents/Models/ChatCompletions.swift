// OpenAI's chat completions, which most servers of models speak: writes a conversation in the form of
// that API. ChatCompletionsReply reads the answers.
//
// Source: OpenAI API reference, "Create chat completion" and "Streaming"; differences of llama.cpp,
// vLLM, Ollama and others are noted where they are handled.

import Codec
import Session

/// Generates responses through `POST {baseURL}/chat/completions`.
struct ChatCompletions: ModelAPI {
    typealias Answer = ChatCompletionsReply

    static let title = "OpenAI's chat completions"
    static let path = "/chat/completions"
    static let takesAudio = true

    let endpoint: ModelEndpoint

    func encoded(_ request: ModelRequest, model: String, form: RequestForm) -> [UInt8] {
        encodedObject { json in
            json.member("model", model)
            json.member("stream", true)
            if !form.contains(.noStreamOptions) {
                json.object("stream_options") { $0.member("include_usage", true) }
            }
            if let limit = request.maxOutputTokens {
                let name: StaticString =
                    form.contains(.completionTokens) ? "max_completion_tokens" : "max_tokens"
                json.member(name, limit)
            }
            json.identity(of: request, for: service)
            writeTools(of: request, form, to: &json)
            json.array("messages") { writeMessages(of: request, to: &$0) }
        }
    }

    private func writeTools(
        of request: ModelRequest, _ form: RequestForm, to json: inout JSONWriter
    ) {
        // Services refuse `tool_choice` without tools.
        guard !request.tools.isEmpty else { return }
        json.array("tools") { json in
            for tool in request.tools {
                json.function { json in
                    json.member("name", tool.name)
                    if let text = tool.description { json.member("description", text) }
                    if let parameters = ToolSchema.completed(tool.parameters) {
                        json.member("parameters", parameters)
                    }
                }
            }
        }
        json.toolChoice(of: request, form) { json, name in json.function { $0.member("name", name) }
        }
    }

    private func writeMessages(of request: ModelRequest, to json: inout JSONWriter) {
        if !request.instructions.isEmpty { write("system", request.instructions, to: &json) }
        for turn in request.messages.turns {
            switch turn {
            case .system(let text): write("system", text, to: &json)
            case .user(let parts):
                json.object { json in
                    json.member("role", "user")
                    json.content(of: parts) { write($0, to: &$1) }
                }
            case .assistant(let text, let calls): writeAssistant(text, calls: calls, to: &json)
            }
        }
    }

    private func write(_ role: String, _ text: String, to json: inout JSONWriter) {
        json.object { json in
            json.member("role", role)
            json.member("content", text)
        }
    }

    /// A part of a user's message ("Create chat completion", content parts).
    private func write(_ part: UserPart, to json: inout JSONWriter) {
        switch part {
        case .text(let text):
            json.member("type", "text")
            json.member("text", text)
        case .image(let url, let detail):
            json.member("type", "image_url")
            json.object("image_url") { json in
                json.member("url", url)
                json.member("detail", detail.rawValue)
            }
        case .audio(let audio):
            json.member("type", "input_audio")
            json.object("input_audio") { json in
                json.key("data")
                json.wavFile(of: audio)
                json.member("format", "wav")
            }
        }
    }

    private func writeAssistant(
        _ text: String?, calls: [ConversationTurn.AnsweredCall], to json: inout JSONWriter
    ) {
        json.object { json in
            json.member("role", "assistant")
            json.member("content", text)
            guard !calls.isEmpty else { return }
            json.array("tool_calls") { json in
                for call in calls {
                    json.function(callID: call.callID) { json in
                        json.member("name", call.name)
                        json.member("arguments", call.arguments)
                    }
                }
            }
        }
        for call in calls {
            json.object { json in
                json.member("role", "tool")
                json.member("tool_call_id", call.callID)
                json.member("content", call.output)
            }
        }
    }
}

extension JSONWriter {
    /// Writes `parallel_tool_calls` and `tool_choice`, which both of OpenAI's APIs have.
    /// - Parameter function: writes the object that names one function.
    mutating func toolChoice(
        of request: ModelRequest, _ form: RequestForm,
        function: (inout JSONWriter, String) -> Void
    ) {
        if let parallel = request.parallelToolCalls, !form.contains(.noParallelToolCalls) {
            member("parallel_tool_calls", parallel)
        }
        if request.toolChoice == .auto, form.contains(.noAutomaticToolChoice) { return }
        key("tool_choice")
        switch request.toolChoice {
        case .auto: string("auto")
        case .none: string("none")
        case .required: string("required")
        case .function(let name): function(&self, name)
        }
    }

    /// Writes an object of the type `function`, the form of tools, calls and choices.
    fileprivate mutating func function(
        callID: String? = nil, _ members: (inout JSONWriter) -> Void
    ) {
        object { json in
            if let callID { json.member("id", callID) }
            json.member("type", "function")
            json.object("function", members)
        }
    }

    /// Writes the audio as a base64 string of a WAV file.
    fileprivate mutating func wavFile(of audio: HeardAudio) {
        // Where no decoder can be allocated, the recording is empty.
        let samples = (try? audio.samples()) ?? []
        let file = WAVFile(rate: .hz16000, samples: samples).encoded()
        base64(file.span.bytes)
    }
}
