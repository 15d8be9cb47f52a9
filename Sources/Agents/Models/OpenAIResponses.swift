// OpenAI's Responses API: writes the conversation as input items. OpenAIResponsesReply reads the
// answers.
//
// A service stores nothing (`store: false`) unless it keeps the conversation (`keepsState`): the
// session has it, cut where the user interrupted. Where the service keeps it, a request goes on from
// an answer and has only what is new (ResponsesContinuation).
//
// Source: OpenAI API reference, "Create a model response" and "Streaming events"; Open Responses
// 2026-04-24.

import Codec
import Session

/// Generates responses through `POST {baseURL}/responses`.
struct OpenAIResponses: ModelAPI {
    typealias Answer = OpenAIResponsesReply

    static let title = "OpenAI's Responses"
    static let path = "/responses"
    /// The smallest limit of an answer's tokens that the API accepts.
    private static let minOutputTokens = 16

    let endpoint: ModelEndpoint

    func encoded(_ request: ModelRequest, model: String, form: RequestForm) -> [UInt8] {
        let past = continuation(of: request)
        return encodedObject { json in
            json.member("model", model)
            json.member("stream", true)
            json.member("store", service.keepsState)
            if let past { json.member("previous_response_id", past.responseID) }
            json.identity(of: request, for: service)
            // Neither instructions nor tools are inherited from the answer before.
            if !request.instructions.isEmpty { json.member("instructions", request.instructions) }
            if let limit = request.maxOutputTokens {
                json.member("max_output_tokens", max(limit, Self.minOutputTokens))
            }
            writeTools(of: request, form, to: &json)
            json.array("input") { json in
                for (callID, output) in past?.outputs ?? [] {
                    writeOutput(output, of: callID, to: &json)
                }
                for turn in past?.turns ?? request.messages.turns { write(turn, to: &json) }
            }
        }
    }

    func encodedWhole(
        _ request: ModelRequest, model: String, form: RequestForm
    ) -> [UInt8]? {
        guard continuation(of: request) != nil else { return nil }
        var whole = request
        whole.mementos = []
        return encoded(whole, model: model, form: form)
    }

    private func continuation(of request: ModelRequest) -> ResponsesContinuation? {
        service.keepsState ? ResponsesContinuation(request, provider: service.name) : nil
    }

    private func writeTools(
        of request: ModelRequest, _ form: RequestForm, to json: inout JSONWriter
    ) {
        guard !request.tools.isEmpty else { return }
        json.array("tools") { json in
            for tool in request.tools { json.object { write(tool, to: &$0) } }
        }
        json.toolChoice(of: request, form) { json, name in
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
        json.member("parameters", ToolSchema.completed(tool.parameters) ?? ToolSchema.none)
        // The strict form restricts schemas in ways that the Realtime protocol does not.
        json.member("strict", false)
    }

    private func write(_ turn: ConversationTurn, to json: inout JSONWriter) {
        switch turn {
        case .system(let text): writeMessage("system", text, to: &json)
        case .user(let parts):
            json.object { json in
                json.member("type", "message")
                json.member("role", "user")
                json.content(of: parts) { write($0, to: &$1) }
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
            for call in calls { writeOutput(call.output, of: call.callID, to: &json) }
        }
    }

    private func writeOutput(_ output: String, of callID: String, to json: inout JSONWriter) {
        json.object { json in
            json.member("type", "function_call_output")
            json.member("call_id", callID)
            json.member("output", output)
        }
    }

    private func writeMessage(_ role: String, _ text: String, to json: inout JSONWriter) {
        json.object { json in
            json.member("type", "message")
            json.member("role", role)
            json.member("content", text)
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
