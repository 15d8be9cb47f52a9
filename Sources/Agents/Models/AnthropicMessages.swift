// Anthropic's Messages API: writes a conversation in the form of that API. AnthropicMessagesReply
// reads the answers.
//
// Invariants, which the API demands: messages alternate between user and assistant. The first and
// the last are the user's. None is empty. The results of an assistant's calls begin the message
// after it. At most four blocks are marked for the cache.
//
// Source: Anthropic API reference, "Create a Message", "Streaming Messages", "Prompt caching",
// "Errors".

import Codec
import Session

/// Generates responses through `POST {baseURL}/messages`.
struct AnthropicMessages: ModelAPI {
    typealias Answer = AnthropicMessagesReply

    static let title = "Anthropic's Messages"
    static let path = "/messages"
    /// The version of the API that requests are written for (`anthropic-version`).
    private static let version = "2023-06-01"

    let endpoint: ModelEndpoint

    static func headers(key: String?) -> [UpstreamService.Header] {
        var headers = [(name: "anthropic-version", value: version)]
        if let key, !key.isEmpty { headers.append((name: "x-api-key", value: key)) }
        return headers
    }

    func encoded(_ request: ModelRequest, model: String, form: RequestForm) -> [UInt8] {
        AnthropicRequest(
            request, model: model, maxTokens: request.maxOutputTokens ?? service.maxTokens,
            isMarked: !form.contains(.noCacheControl)
        ).encoded()
    }
}

/// One request: the conversation as messages.
private struct AnthropicRequest {
    /// One block of a message.
    fileprivate enum Block {
        case text(String)
        case image(url: String)
        case toolUse(callID: String, name: String, input: String)
        case toolResult(callID: String, output: String)
    }

    fileprivate struct Message {
        let isUser: Bool
        var blocks: [Block]
    }

    /// Stands in as the user's first message where the assistant speaks first.
    private static let opening = "(The conversation begins.)"
    /// Stands in as the user's last message where the assistant continues after its own words.
    /// Without it, the API takes these words as the beginning of the answer.
    private static let continuation = "(Go on.)"
    /// How many of the user's last messages are marked for the cache. The count is 2: the previous
    /// request has stored everything up to the first of them, and this request stores everything up
    /// to the second.
    private static let markedUserMessages = 2

    private let request: ModelRequest
    private let model: String
    private let maxTokens: Int
    /// Whether blocks are marked for the cache.
    private let isMarked: Bool
    private let system: [String]
    private let messages: [Message]

    init(_ request: ModelRequest, model: String, maxTokens: Int, isMarked: Bool) {
        self.isMarked = isMarked
        self.request = request
        self.model = model
        self.maxTokens = maxTokens
        var system = request.instructions.isBlank ? [] : [request.instructions]
        var messages: [Message] = []
        for turn in request.messages.turns {
            switch turn {
            case .system(let text) where messages.isEmpty:
                if !text.isBlank { system.append(text) }
            case .system(let text):
                // The API has no system messages within a conversation.
                messages.append(.text("<system>\(text)</system>"), isUser: true)
            case .user(let parts):
                for part in parts { messages.append(Self.block(of: part), isUser: true) }
            case .assistant(let text, let calls):
                if let text { messages.append(.text(text), isUser: false) }
                for call in calls {
                    messages.append(
                        .toolUse(
                            callID: Self.identifier(call.callID), name: call.name,
                            input: call.arguments), isUser: false)
                }
                for call in calls {
                    messages.append(
                        .toolResult(callID: Self.identifier(call.callID), output: call.output),
                        isUser: true)
                }
            }
        }
        if messages.first?.isUser != true {
            messages.insert(Message(isUser: true, blocks: [.text(Self.opening)]), at: 0)
        }
        if messages.last?.isUser != true { messages.append(.text(Self.continuation), isUser: true) }
        self.system = system
        self.messages = messages
    }

    /// A part of a user's message; audio becomes an empty text, since the API takes none.
    private static func block(of part: UserPart) -> Block {
        switch part {
        case .text(let text): .text(text)
        case .image(let url, _): .image(url: url)
        case .audio: .text("")
        }
    }

    /// A call's id in the characters that the API allows; clients may use others in their ids.
    private static func identifier(_ callID: String) -> String {
        let bytes = callID.utf8.map { byte in
            byte.isASCIIAlphanumeric || byte == UInt8(ascii: "-") ? byte : UInt8(ascii: "_")
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: Writing

    /// The body.
    func encoded() -> [UInt8] {
        encodedObject { json in
            json.member("model", model)
            json.member("max_tokens", maxTokens)
            json.member("stream", true)
            if !system.isEmpty {
                json.array("system") { json in
                    for (index, text) in system.enumerated() {
                        write(.text(text), isMarked: index == system.count - 1, to: &json)
                    }
                }
            }
            writeTools(to: &json)
            json.array("messages") { writeMessages(to: &$0) }
        }
    }

    private func writeMessages(to json: inout JSONWriter) {
        var userMessagesLeft = messages.count { $0.isUser }
        for message in messages {
            let isMarked = message.isUser && userMessagesLeft <= Self.markedUserMessages
            if message.isUser { userMessagesLeft -= 1 }
            json.object { json in
                json.member("role", message.isUser ? "user" : "assistant")
                json.array("content") { json in
                    let last = message.blocks.count - 1
                    for (index, block) in message.blocks.enumerated() {
                        write(block, isMarked: isMarked && index == last, to: &json)
                    }
                }
            }
        }
    }

    private func writeTools(to json: inout JSONWriter) {
        guard !request.tools.isEmpty else { return }
        json.array("tools") { json in
            for (index, tool) in request.tools.enumerated() {
                json.object { json in
                    json.member("name", tool.name)
                    if let text = tool.description { json.member("description", text) }
                    json.member(
                        "input_schema", ToolSchema.completed(tool.parameters) ?? ToolSchema.none)
                    if isMarked, index == request.tools.count - 1 { json.cacheMark() }
                }
            }
        }
        json.object("tool_choice") { json in
            switch request.toolChoice {
            case .auto: json.member("type", "auto")
            case .none: json.member("type", "none")
            case .required: json.member("type", "any")
            case .function(let name):
                json.member("type", "tool")
                json.member("name", name)
            }
            if let parallel = request.parallelToolCalls, request.toolChoice != .none {
                json.member("disable_parallel_tool_use", !parallel)
            }
        }
    }

    private func write(_ block: Block, isMarked: Bool, to json: inout JSONWriter) {
        json.object { json in
            switch block {
            case .text(let text):
                json.member("type", "text")
                json.member("text", text)
            case .image(let url):
                json.member("type", "image")
                json.object("source") { writeSource(url, to: &$0) }
            case .toolUse(let callID, let name, let input):
                json.member("type", "tool_use")
                json.member("id", callID)
                json.member("name", name)
                json.member("input", Self.object(input))
            case .toolResult(let callID, let output):
                json.member("type", "tool_result")
                json.member("tool_use_id", callID)
                json.member("content", output)
            }
            if isMarked, self.isMarked { json.cacheMark() }
        }
    }

    private func writeSource(_ url: String, to json: inout JSONWriter) {
        // `data:image/png;base64,…`; the session has checked the form.
        let head = url.prefix { $0 != "," }
        if url.hasPrefix("data:"), head.endIndex < url.endIndex {
            json.member("type", "base64")
            json.member("media_type", String(head.dropFirst(5).prefix { $0 != ";" }))
            json.member("data", String(url[url.index(after: head.endIndex)...]))
        } else {
            json.member("type", "url")
            json.member("url", url)
        }
    }

    /// A call's arguments as the object that the API requires; an empty one where they are not an
    /// object.
    private static func object(_ arguments: String) -> RawJSON {
        let value = try? JSONParser(limits: .ofAnAnswer).parse(arguments)
        return value?.kind == .object ? RawJSON(arguments) : RawJSON("{}")
    }
}

extension [AnthropicRequest.Message] {
    /// Adds a block to the last message, or to a new one where the role changes. Blank text is left
    /// out: the API refuses it.
    fileprivate mutating func append(_ block: AnthropicRequest.Block, isUser: Bool) {
        if case .text(let text) = block, text.isBlank { return }
        if last?.isUser == isUser {
            self[count - 1].blocks.append(block)
        } else {
            append(.init(isUser: isUser, blocks: [block]))
        }
    }
}

extension String {
    fileprivate var isBlank: Bool { allSatisfy(\.isWhitespace) }
}

extension JSONWriter {
    /// Lets the API cache the request up to and including this block.
    fileprivate mutating func cacheMark() {
        object("cache_control") { $0.member("type", "ephemeral") }
    }
}
