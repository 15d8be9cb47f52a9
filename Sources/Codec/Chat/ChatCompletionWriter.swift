// Writes a reply in the format of OpenAI's chat completions: `chat.completion.chunk` objects in
// server-sent events, or one `chat.completion` object. Agents/ChatCompletionsReply reads such a
// stream.
//
// Source: OpenAI API reference, "Create chat completion" and "Streaming".

/// Writes one streamed completion. Bytes are appended to the caller's writer.
public struct ChatCompletionWriter: Sendable {
    /// Fields that every object of one completion repeats.
    public struct Heading: Equatable, Sendable {
        /// `chatcmpl-…`
        public var id: String
        /// Seconds since 1970.
        public var created: Int
        /// The model, as the client named it.
        public var model: String

        /// Creates a heading.
        public init(id: String, created: Int, model: String) {
            self.id = id
            self.created = created
            self.model = model
        }
    }

    private let heading: Heading
    private let includesUsage: Bool
    private var hasBegun = false
    private var hasCalls = false

    /// Creates a writer at the start of a completion.
    /// - Parameter includesUsage: whether a chunk with the usage comes last.
    public init(_ heading: Heading, includesUsage: Bool) {
        self.heading = heading
        self.includesUsage = includesUsage
    }

    /// Writes the events of a part. A reply that fails ends with an error, without `[DONE]`.
    public mutating func write(_ part: ReplyPart, into bytes: inout ByteWriter) {
        if !hasBegun, !part.isFailure {
            hasBegun = true
            chunk(into: &bytes) { json in
                json.member("role", "assistant")
                json.member("content", "")
            }
        }
        switch part {
        case .text(_, let text): chunk(into: &bytes) { $0.member("content", text) }
        case .callStarted(let call, let callID, let name):
            hasCalls = true
            callChunk(call, id: callID, into: &bytes) { json in
                json.member("name", name)
                json.member("arguments", "")
            }
        case .callArguments(let call, let arguments):
            callChunk(call, into: &bytes) { $0.member("arguments", arguments) }
        case .callFinished: break
        case .finished(let ending, let usage):
            chunk(finishReason: Self.finishReason(ending, hasCalls: hasCalls), into: &bytes) { _ in
            }
            if includesUsage { usageChunk(usage, into: &bytes) }
            bytes.append("data: [DONE]\n\n")
        case .failed(let code, let message, let isRequestError, _):
            bytes.appendEvent { json in
                Self.writeError(
                    code: code, message: message, isRequestError: isRequestError, param: nil,
                    to: &json)
            }
        }
    }

    // MARK: A whole answer

    /// Writes a complete reply as one object.
    /// - Precondition: its last part is `finished`.
    public static func completion(
        _ parts: [ReplyPart], _ heading: Heading, into bytes: inout ByteWriter
    ) {
        let reply = WholeReply(parts)
        bytes.appendObject { json in
            write(heading, object: "chat.completion", to: &json)
            json.array("choices") { json in
                json.object { json in
                    json.member("index", 0)
                    json.object("message") { json in
                        json.member("role", "assistant")
                        json.member("content", reply.text)
                        json.key("refusal")
                        json.null()
                        if !reply.calls.isEmpty {
                            json.array("tool_calls") { json in
                                for call in reply.calls {
                                    json.object { json in
                                        json.member("id", call.callID)
                                        json.member("type", "function")
                                        json.object("function") { json in
                                            json.member("name", call.name)
                                            json.member("arguments", call.arguments)
                                        }
                                    }
                                }
                            }
                        }
                    }
                    json.key("logprobs")
                    json.null()
                    json.member(
                        "finish_reason", finishReason(reply.ending, hasCalls: !reply.calls.isEmpty))
                }
            }
            json.key("usage")
            write(reply.usage, to: &json)
        }
    }

    /// Writes an error in the format of OpenAI's API.
    public static func error(
        code: String, message: String, isRequestError: Bool, param: String?,
        into bytes: inout ByteWriter
    ) {
        bytes.appendObject { json in
            writeError(
                code: code, message: message, isRequestError: isRequestError, param: param,
                to: &json)
        }
    }

    // MARK: Pieces

    private func chunk(
        finishReason: String? = nil, into bytes: inout ByteWriter,
        _ delta: (inout JSONWriter) -> Void
    ) {
        bytes.appendEvent { json in
            Self.write(heading, object: "chat.completion.chunk", to: &json)
            json.array("choices") { json in
                json.object { json in
                    json.member("index", 0)
                    json.object("delta", delta)
                    json.key("logprobs")
                    json.null()
                    json.member("finish_reason", finishReason)
                }
            }
            if includesUsage {
                json.key("usage")
                json.null()
            }
        }
    }

    /// - Parameter id: the call's id, in its first chunk only.
    private func callChunk(
        _ call: Int, id: String? = nil, into bytes: inout ByteWriter,
        _ function: (inout JSONWriter) -> Void
    ) {
        chunk(into: &bytes) { json in
            json.array("tool_calls") { json in
                json.object { json in
                    json.member("index", call)
                    if let id {
                        json.member("id", id)
                        json.member("type", "function")
                    }
                    json.object("function", function)
                }
            }
        }
    }

    private func usageChunk(_ usage: ResponseUsage, into bytes: inout ByteWriter) {
        bytes.appendEvent { json in
            Self.write(heading, object: "chat.completion.chunk", to: &json)
            json.array("choices") { _ in }
            json.key("usage")
            Self.write(usage, to: &json)
        }
    }

    private static func writeError(
        code: String, message: String, isRequestError: Bool, param: String?,
        to json: inout JSONWriter
    ) {
        json.object("error") { json in
            json.member("message", message)
            json.member("type", isRequestError ? "invalid_request_error" : "server_error")
            json.member("code", code)
            json.member("param", param)
        }
    }

    private static func write(_ heading: Heading, object: String, to json: inout JSONWriter) {
        json.member("id", heading.id)
        json.member("object", object)
        json.member("created", heading.created)
        json.member("model", heading.model)
    }

    private static func write(_ usage: ResponseUsage, to json: inout JSONWriter) {
        // The counts come from a model's server: wrapping addition, because an absurd sum must not
        // trap.
        let input = usage.inputTextTokens &+ usage.inputAudioTokens
        let output = usage.outputTextTokens &+ usage.outputAudioTokens
        json.object { json in
            json.member("prompt_tokens", input)
            json.member("completion_tokens", output)
            json.member("total_tokens", input &+ output)
            json.object("prompt_tokens_details") { json in
                json.member("cached_tokens", usage.cachedTokens)
            }
        }
    }

    private static func finishReason(_ ending: ReplyPart.Ending, hasCalls: Bool) -> String {
        switch ending {
        case .stop, .cancelled: hasCalls ? "tool_calls" : "stop"
        case .length: "length"
        case .contentFilter: "content_filter"
        }
    }
}

/// A complete reply, assembled from its parts.
private struct WholeReply {
    /// Nil where the model only called functions.
    var text: String?
    var calls: [(callID: String, name: String, arguments: String)] = []
    var ending = ReplyPart.Ending.stop
    var usage = ResponseUsage()

    init(_ parts: [ReplyPart]) {
        for part in parts {
            switch part {
            case .text(_, let more): text = (text ?? "") + more
            case .callFinished(_, let callID, let name, let arguments):
                calls.append((callID, name, arguments))
            case .finished(let ending, let usage):
                self.ending = ending
                self.usage = usage
            case .callStarted, .callArguments, .failed: break
            }
        }
        if text == nil, calls.isEmpty { text = "" }
    }
}

extension ReplyPart {
    fileprivate var isFailure: Bool { if case .failed = self { true } else { false } }
}

extension ByteWriter {
    /// Appends a JSON object.
    fileprivate mutating func appendObject(_ members: (inout JSONWriter) -> Void) {
        var json = JSONWriter(self)
        json.object(members)
        self = json.finish()
    }

    /// Appends a server-sent event whose data is a JSON object.
    mutating func appendEvent(_ members: (inout JSONWriter) -> Void) {
        append("data: ")
        appendObject(members)
        append("\n\n")
    }
}
