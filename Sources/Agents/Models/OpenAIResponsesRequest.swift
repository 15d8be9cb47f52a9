// The body of a Responses request: the conversation as input items. OpenAIResponses sends it.
//
// The service stores nothing of it (`store: false`): the session keeps the conversation, which is
// cut where the user interrupted.

import Codec
import Session

/// Writes a `ModelRequest` as the Responses API expects it.
struct OpenAIResponsesRequest {
    /// The smallest limit of an answer's tokens that the API accepts.
    static let minOutputTokens = 16

    private let request: ModelRequest
    private let model: String

    init(_ request: ModelRequest, model: String) {
        self.request = request
        self.model = model
    }

    /// The body.
    func encoded() -> [UInt8] {
        encodedObject { json in
            json.member("model", model)
            json.member("stream", true)
            json.member("store", false)
            if !request.instructions.isEmpty { json.member("instructions", request.instructions) }
            if let limit = request.maxOutputTokens {
                json.member("max_output_tokens", max(limit, Self.minOutputTokens))
            }
            writeTools(to: &json)
            json.array("input") { json in
                for turn in request.messages.turns { write(turn, to: &json) }
            }
        }
    }

    private func writeTools(to json: inout JSONWriter) {
        guard !request.tools.isEmpty else { return }
        json.array("tools") { json in
            for tool in request.tools { json.object { write(tool, to: &$0) } }
        }
        if let parallel = request.parallelToolCalls {
            json.member("parallel_tool_calls", parallel)
        }
        json.key("tool_choice")
        switch request.toolChoice {
        case .auto: json.string("auto")
        case .none: json.string("none")
        case .required: json.string("required")
        case .function(let name):
            json.object { json in
                json.member("type", "function")
                json.member("name", name)
            }
        }
    }

    private func write(_ tool: FunctionTool, to json: inout JSONWriter) {
        json.member("type", "function")
        json.member("name", tool.name)
        if let description = tool.description { json.member("description", description) }
        json.member("parameters", tool.parameters ?? RawJSON(#"{"type":"object"}"#))
        // The strict form restricts schemas in ways that the Realtime protocol does not.
        json.member("strict", false)
    }

    private func write(_ turn: ConversationTurn, to json: inout JSONWriter) {
        switch turn {
        case .system(let text): writeMessage("system", text, to: &json)
        case .user(let parts):
            if case .text(let text)? = parts.first, parts.count == 1 {
                writeMessage("user", text, to: &json)
            } else {
                writeUser(parts, to: &json)
            }
        case .assistant(let text, let calls):
            if let text { writeMessage("assistant", text, to: &json) }
            for call in calls {
                json.object { json in
                    json.member("type", "function_call")
                    json.member("call_id", call.callID)
                    json.member("name", call.name)
                    json.member("arguments", call.arguments)
                }
            }
            for call in calls {
                json.object { json in
                    json.member("type", "function_call_output")
                    json.member("call_id", call.callID)
                    json.member("output", call.output)
                }
            }
        }
    }

    private func writeMessage(_ role: String, _ text: String, to json: inout JSONWriter) {
        json.object { json in
            json.member("type", "message")
            json.member("role", role)
            json.member("content", text)
        }
    }

    private func writeUser(_ parts: [UserPart], to json: inout JSONWriter) {
        json.object { json in
            json.member("type", "message")
            json.member("role", "user")
            json.array("content") { json in
                for part in parts { json.object { write(part, to: &$0) } }
            }
        }
    }

    private func write(_ part: UserPart, to json: inout JSONWriter) {
        switch part {
        case .text(let text):
            json.member("type", "input_text")
            json.member("text", text)
        case .image(let url, let detail):
            json.member("type", "input_image")
            json.member("image_url", url)
            json.member("detail", detail.rawValue)
        case .audio:  // This API takes no audio.
            json.member("type", "input_text")
            json.member("text", "")
        }
    }
}
