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
    public mutating func write(_ part: ReplyPart, into bytes: consuming ByteWriter) -> ByteWriter {
        var bytes = bytes
        if !hasBegun, !part.isFailure {
            hasBegun = true
            bytes = chunk(bytes) { (json: inout JSONWriter) in
                json.member("role", "assistant")
                json.member("content", "")
            }
        }
        switch part {
        case .text(_, let text):
            return chunk(bytes) { (json: inout JSONWriter) in json.member("content", text) }
        case .callStarted(let call, let callID, let name):
            hasCalls = true
            return chunk(bytes) { (json: inout JSONWriter) in
                Self.writeCall(call, to: &json) { (json: inout JSONWriter) in
                    json.member("name", name)
                    json.member("arguments", "")
                } head: { (json: inout JSONWriter) in
                    json.member("id", callID)
                    json.member("type", "function")
                }
            }
        case .callArguments(let call, let arguments):
            return chunk(bytes) { (json: inout JSONWriter) in
                Self.writeCall(call, to: &json) { (json: inout JSONWriter) in
                    json.member("arguments", arguments)
                }
            }
        case .callFinished: return bytes
        case .finished(let ending, let usage):
            let reason = Self.finishReason(ending, hasCalls: hasCalls)
            bytes = chunk(bytes, finishReason: reason) { (_: inout JSONWriter) in }
            if includesUsage { bytes = usageChunk(usage, bytes) }
            bytes.append("data: [DONE]\n\n")
            return bytes
        case .failed(let code, let message, let isRequestError):
            bytes.append("data: ")
            bytes = Self.error(
                code: code, message: message, isRequestError: isRequestError, param: nil,
                into: bytes)
            bytes.append("\n\n")
            return bytes
        }
    }

    // MARK: A whole answer

    /// Writes a complete reply as one object.
    /// - Precondition: its last part is `finished`.
    public static func completion(
        _ parts: [ReplyPart], _ heading: Heading, into bytes: consuming ByteWriter
    ) -> ByteWriter {
        let reply = WholeReply(parts)
        var json = JSONWriter(bytes)
        json.object { json in
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
        return json.finish()
    }

    /// Writes an error in the format of OpenAI's API.
    public static func error(
        code: String, message: String, isRequestError: Bool, param: String?,
        into bytes: consuming ByteWriter
    ) -> ByteWriter {
        var json = JSONWriter(bytes)
        json.object { json in
            json.object("error") { json in
                json.member("message", message)
                json.member("type", isRequestError ? "invalid_request_error" : "server_error")
                json.member("code", code)
                json.member("param", param)
            }
        }
        return json.finish()
    }

    // MARK: Pieces

    private func chunk(
        _ bytes: consuming ByteWriter, finishReason: String? = nil,
        _ delta: (inout JSONWriter) -> Void
    ) -> ByteWriter {
        var bytes = bytes
        bytes.append("data: ")
        var json = JSONWriter(bytes)
        json.beginObject()
        Self.write(heading, object: "chat.completion.chunk", to: &json)
        json.key("choices")
        json.beginArray()
        json.beginObject()
        json.member("index", 0)
        json.key("delta")
        json.beginObject()
        delta(&json)
        json.endObject()
        json.key("logprobs")
        json.null()
        json.member("finish_reason", finishReason)
        json.endObject()
        json.endArray()
        if includesUsage {
            json.key("usage")
            json.null()
        }
        json.endObject()
        bytes = json.finish()
        bytes.append("\n\n")
        return bytes
    }

    private func usageChunk(_ usage: ResponseUsage, _ bytes: consuming ByteWriter) -> ByteWriter {
        var bytes = bytes
        bytes.append("data: ")
        var json = JSONWriter(bytes)
        json.object { json in
            Self.write(heading, object: "chat.completion.chunk", to: &json)
            json.array("choices") { _ in }
            json.key("usage")
            Self.write(usage, to: &json)
        }
        bytes = json.finish()
        bytes.append("\n\n")
        return bytes
    }

    private static func writeCall(
        _ call: Int, to json: inout JSONWriter, function: (inout JSONWriter) -> Void,
        head: (inout JSONWriter) -> Void = { (_: inout JSONWriter) in }
    ) {
        json.key("tool_calls")
        json.beginArray()
        json.beginObject()
        json.member("index", call)
        head(&json)
        json.key("function")
        json.beginObject()
        function(&json)
        json.endObject()
        json.endObject()
        json.endArray()
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
