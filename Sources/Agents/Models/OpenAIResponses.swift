// OpenAI's Responses API: writes the conversation as input items. OpenAIResponsesReply reads the
// answers.
//
// The service stores nothing (`store: false`): the session keeps the conversation, which is cut
// where the user interrupted.
//
// Source: OpenAI API reference, "Create a model response" and "Streaming events".

import Codec
import Session

/// Generates responses through `POST {baseURL}/responses`.
struct OpenAIResponses: ModelAPI {
    typealias Answer = OpenAIResponsesReply

    static let title = "OpenAI's Responses"
    static let path = "/responses"
    /// The smallest limit of an answer's tokens that the API accepts.
    private static let minOutputTokens = 16

    let service: ModelService
    let upstream: UpstreamService

    func encoded(_ request: ModelRequest, model: String) -> [UInt8] {
        encodedObject { json in
            json.member("model", model)
            json.member("stream", true)
            json.member("store", false)
            json.identity(of: request, for: service)
            if !request.instructions.isEmpty { json.member("instructions", request.instructions) }
            if let limit = request.maxOutputTokens {
                json.member("max_output_tokens", max(limit, Self.minOutputTokens))
            }
            writeTools(of: request, to: &json)
            json.array("input") { json in
                for turn in request.messages.turns { write(turn, to: &json) }
            }
        }
    }

    private func writeTools(of request: ModelRequest, to json: inout JSONWriter) {
        guard !request.tools.isEmpty else { return }
        json.array("tools") { json in
            for tool in request.tools { json.object { write(tool, to: &$0) } }
        }
        json.toolChoice(of: request) { json, name in
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
