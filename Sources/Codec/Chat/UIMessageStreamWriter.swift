// Writes a reply as a UI message stream of the Vercel AI SDK (v5 and v6): parts in server-sent
// events, each an object with a `type`. Only parts and fields that both versions know are written,
// because a client of v5 refuses any other.
//
//   start · start-step · (text-start · text-delta… · text-end | tool-input-start ·
//   tool-input-delta… · tool-input-available)… · finish-step · finish · [DONE]
//
// Source: vercel/ai, packages/ai/src/ui-message-stream/ui-message-chunks.

/// Writes one stream. Bytes are appended to the caller's writer.
public struct UIMessageStreamWriter: Sendable {
    /// The header field that identifies the stream format, beside its media type.
    public static let versionField = (name: "x-vercel-ai-ui-message-stream", value: "v1")

    private let messageID: String
    private var hasBegun = false
    private var hasCalls = false
    /// The message whose text is being written. It gives the text part its id.
    private var openText: Int?

    /// Creates a writer at the start of a stream.
    /// - Parameter messageID: id of the assistant's message; where the reply continues the chat's
    ///   last message, that one's id.
    public init(messageID: String) { self.messageID = messageID }

    /// Writes the start of a stream, which the client gets before the model has produced anything.
    public mutating func begin(into bytes: consuming ByteWriter) -> ByteWriter {
        hasBegun = true
        let id = messageID
        let bytes = Self.event("start", bytes) { (json: inout JSONWriter) in
            json.member("messageId", id)
        }
        return Self.event("start-step", bytes)
    }

    /// Writes the events of a part.
    public mutating func write(_ part: ReplyPart, into bytes: consuming ByteWriter) -> ByteWriter {
        var bytes = bytes
        if !hasBegun { bytes = begin(into: bytes) }
        if case .text(let message, let text) = part {
            if openText != message {
                bytes = endText(bytes)
                openText = message
                bytes = Self.textEvent("text-start", message, bytes)
            }
            return Self.textEvent("text-delta", message, delta: text, bytes)
        }
        bytes = endText(bytes)
        switch part {
        case .text: return bytes
        case .callStarted(_, let callID, let name):
            hasCalls = true
            openCalls.append(callID)
            return Self.event("tool-input-start", bytes) { (json: inout JSONWriter) in
                json.member("toolCallId", callID)
                json.member("toolName", name)
            }
        case .callArguments(let call, let arguments):
            guard openCalls.indices.contains(call) else { return bytes }
            let callID = openCalls[call]
            return Self.event("tool-input-delta", bytes) { (json: inout JSONWriter) in
                json.member("toolCallId", callID)
                json.member("inputTextDelta", arguments)
            }
        case .callFinished(_, let callID, let name, let arguments):
            return Self.inputAvailable(callID, name, arguments, bytes)
        case .finished(let ending, _): return end(ending, bytes)
        case .failed(_, let message, _):
            bytes = Self.event("error", bytes) { (json: inout JSONWriter) in
                json.member("errorText", message)
            }
            bytes.append("data: [DONE]\n\n")
            return bytes
        }
    }

    /// Ids of the calls so far, by their number.
    private var openCalls: [String] = []

    private mutating func endText(_ bytes: consuming ByteWriter) -> ByteWriter {
        guard let message = openText else { return bytes }
        openText = nil
        return Self.textEvent("text-end", message, bytes)
    }

    private func end(_ ending: ReplyPart.Ending, _ bytes: consuming ByteWriter) -> ByteWriter {
        var bytes = bytes
        let reason: String
        switch ending {
        case .cancelled:
            bytes = Self.event("abort", bytes)
            bytes.append("data: [DONE]\n\n")
            return bytes
        case .stop: reason = hasCalls ? "tool-calls" : "stop"
        case .length: reason = "length"
        case .contentFilter: reason = "content-filter"
        }
        bytes = Self.event("finish-step", bytes)
        bytes = Self.event("finish", bytes) { (json: inout JSONWriter) in
            json.member("finishReason", reason)
        }
        bytes.append("data: [DONE]\n\n")
        return bytes
    }

    /// Arguments that are not a JSON object are sent as an input error: the client cannot run the
    /// tool.
    private static func inputAvailable(
        _ callID: String, _ name: String, _ arguments: String, _ bytes: consuming ByteWriter
    ) -> ByteWriter {
        let text = arguments.isEmpty ? "{}" : arguments
        if (try? JSONParser().parse(text)) != nil {
            return event("tool-input-available", bytes) { (json: inout JSONWriter) in
                json.member("toolCallId", callID)
                json.member("toolName", name)
                json.member("input", RawJSON(text).onOneLine)
            }
        }
        return event("tool-input-error", bytes) { (json: inout JSONWriter) in
            json.member("toolCallId", callID)
            json.member("toolName", name)
            json.member("input", text)
            json.member("errorText", "The model's arguments are no JSON object.")
        }
    }

    private static func textEvent(
        _ type: String, _ message: Int, delta: String? = nil, _ bytes: consuming ByteWriter
    ) -> ByteWriter {
        event(type, bytes) { (json: inout JSONWriter) in
            json.key("id")
            json.beginString()
            json.continueString(decimal: UInt64(message))
            json.endString()
            if let delta { json.member("delta", delta) }
        }
    }

    private static func event(
        _ type: String, _ bytes: consuming ByteWriter,
        _ members: (inout JSONWriter) -> Void = { (_: inout JSONWriter) in }
    ) -> ByteWriter {
        var bytes = bytes
        bytes.append("data: ")
        var json = JSONWriter(bytes)
        json.beginObject()
        json.member("type", type)
        members(&json)
        json.endObject()
        bytes = json.finish()
        bytes.append("\n\n")
        return bytes
    }
}
