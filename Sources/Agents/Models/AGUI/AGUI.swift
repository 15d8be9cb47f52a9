// An agent behind AG-UI, the Agent User Interaction Protocol: one run for each response, posted to
// the agent's own address; AGUIReply reads its events. AGUIRun decides what a run sends.
//
// The agent chooses its own model and token limit, so requests have neither. Every member of
// RunAgentInput is written: agents of AG-UI 0.1 require them all.
//
// Source: AG-UI 1.0, `RunAgentInput`, and what ag-ui-protocol 1.0.0, pydantic-ai 2.68.0 and
// ag-ui-langgraph 0.0.47 accept and send.

import Codec
import Session

/// Generates responses through `POST {baseURL}`.
struct AGUI: ModelAPI {
    typealias Answer = AGUIReply

    static let title = "AG-UI"
    /// The base URL is the agent's address.
    static let path = ""
    /// The version of the protocol that runs are written for. Agents send `cancelled` outcomes and
    /// `pendingToolCallIds` only to clients of 1.0.
    private static let version = "1.0"

    let endpoint: ModelEndpoint

    func encoded(_ request: ModelRequest, model: String, form: RequestForm) -> [UInt8] {
        let run = AGUIRun(request, provider: service.name)
        return encodedObject { json in
            json.member("threadId", run.threadID)
            json.member("runId", run.runID)
            json.member("protocolVersion", Self.version)
            json.member("state", run.state ?? RawJSON("{}"))
            json.array("messages") { json in
                for message in run.messages { json.object { write(message, to: &$0) } }
            }
            json.array("tools") { json in
                guard request.toolChoice != .none else { return }
                for tool in request.tools { json.object { write(tool, to: &$0) } }
            }
            json.array("context") { json in
                if let heard = request.heard { json.object { write(heard, of: request, to: &$0) } }
            }
            json.object("forwardedProps") { json in
                // LangGraph's form, for an interrupt that came without an id.
                guard let answer = run.answers.first, answer.interruptID == nil else { return }
                json.object("command") { $0.member("resume", answer.json) }
            }
            let named = run.answers.filter { $0.interruptID != nil }
            if !named.isEmpty {
                json.array("resume") { json in
                    for answer in named {
                        json.object { json in
                            json.member("interruptId", answer.interruptID)
                            json.member("status", "resolved")
                            json.member("payload", answer.json)
                        }
                    }
                }
            }
        }
    }

    private func write(_ message: AGUIRun.Message, to json: inout JSONWriter) {
        json.member("id", message.id)
        switch message.entry {
        case .system(let text):
            json.member("role", "system")
            json.member("content", text)
        case .user(let parts):
            json.member("role", "user")
            json.content(of: parts) { write($0, to: &$1) }
        case .assistant(let text, let calls):
            json.member("role", "assistant")
            if let text { json.member("content", text) }
            guard !calls.isEmpty else { return }
            json.array("toolCalls") { json in
                for call in calls {
                    json.object { json in
                        json.member("id", call.id)
                        json.member("type", "function")
                        json.object("function") { json in
                            json.member("name", call.name)
                            json.member("arguments", call.arguments.isEmpty ? "{}" : call.arguments)
                        }
                    }
                }
            }
        case .result(let callID, let content):
            json.member("role", "tool")
            json.member("toolCallId", callID)
            json.member("content", content)
        }
    }

    private func write(_ part: UserPart, to json: inout JSONWriter) {
        switch part {
        case .text(let text):
            json.member("type", "text")
            json.member("text", text)
        case .image(let url, _):
            json.member("type", "image")
            json.object("source") { json in
                // `data:image/png;base64,…`; the session has checked the form.
                let head = url.prefix { $0 != "," }
                if url.hasPrefix("data:"), head.endIndex < url.endIndex {
                    json.member("type", "data")
                    json.member("value", String(url[url.index(after: head.endIndex)...]))
                    json.member("mimeType", String(head.dropFirst(5).prefix { $0 != ";" }))
                } else {
                    json.member("type", "url")
                    json.member("value", url)
                }
            }
        case .audio:  // Agents are given the words.
            json.member("type", "text")
            json.member("text", "")
        }
    }

    private func write(_ tool: FunctionTool, to json: inout JSONWriter) {
        json.member("name", tool.name)
        json.member("description", tool.description ?? "")
        json.member("parameters", ToolSchema.completed(tool.parameters) ?? ToolSchema.none)
    }

    /// Writes the part of the last reply that the user heard, for agents that keep the conversation
    /// themselves and so do not read the shorter message.
    private func write(
        _ heard: HeardReply, of request: ModelRequest, to json: inout JSONWriter
    ) {
        var text = ""
        if heard.characters > 0 {
            for case .assistant(let said) in request.messages { text = said }
        }
        json.member(
            "description",
            "The user interrupted the last reply and heard only this beginning of it.")
        json.member("value", text)
    }
}
