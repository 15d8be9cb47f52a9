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
    public mutating func begin(into bytes: inout ByteWriter) {
        hasBegun = true
        Self.event("start", into: &bytes) { $0.member("messageId", messageID) }
        Self.event("start-step", into: &bytes)
    }

    /// Writes the events of a part.
    public mutating func write(_ part: ReplyPart, into bytes: inout ByteWriter) {
        if !hasBegun { begin(into: &bytes) }
        if case .text(let message, let text) = part {
            if openText != message {
                endText(into: &bytes)
                openText = message
                Self.textEvent("text-start", message, into: &bytes)
            }
            return Self.textEvent("text-delta", message, delta: text, into: &bytes)
        }
        endText(into: &bytes)
        switch part {
        case .text: break
        case .callStarted(_, let callID, let name):
            hasCalls = true
            openCalls.append(callID)
            Self.event("tool-input-start", into: &bytes) { json in
                json.member("toolCallId", callID)
                json.member("toolName", name)
            }
        case .callArguments(let call, let arguments):
            guard openCalls.indices.contains(call) else { return }
            let callID = openCalls[call]
            Self.event("tool-input-delta", into: &bytes) { json in
                json.member("toolCallId", callID)
                json.member("inputTextDelta", arguments)
            }
        case .callFinished(_, let callID, let name, let arguments):
            Self.inputAvailable(callID, name, arguments, into: &bytes)
        case .finished(let ending, _): end(ending, into: &bytes)
        case .failed(_, let message, _, _):
            Self.event("error", into: &bytes) { $0.member("errorText", message) }
            bytes.append("data: [DONE]\n\n")
        }
    }

    /// Ids of the calls so far, by their number.
    private var openCalls: [String] = []

    private mutating func endText(into bytes: inout ByteWriter) {
        guard let message = openText.take() else { return }
        Self.textEvent("text-end", message, into: &bytes)
    }

    private func end(_ ending: ReplyPart.Ending, into bytes: inout ByteWriter) {
        if ending == .cancelled {
            Self.event("abort", into: &bytes)
        } else {
            Self.event("finish-step", into: &bytes)
            Self.event("finish", into: &bytes) { $0.member("finishReason", reason(of: ending)) }
        }
        bytes.append("data: [DONE]\n\n")
    }

    private func reason(of ending: ReplyPart.Ending) -> String {
        switch ending {
        case .stop, .cancelled: hasCalls ? "tool-calls" : "stop"
        case .length: "length"
        case .contentFilter: "content-filter"
        }
    }

    /// The arguments of a finished call are a JSON object: the session ensures that.
    private static func inputAvailable(
        _ callID: String, _ name: String, _ arguments: String, into bytes: inout ByteWriter
    ) {
        event("tool-input-available", into: &bytes) { json in
            json.member("toolCallId", callID)
            json.member("toolName", name)
            json.member("input", RawJSON(arguments).onOneLine)
        }
    }

    private static func textEvent(
        _ type: String, _ message: Int, delta: String? = nil, into bytes: inout ByteWriter
    ) {
        event(type, into: &bytes) { json in
            json.key("id")
            json.beginString()
            json.continueString(decimal: UInt64(message))
            json.endString()
            if let delta { json.member("delta", delta) }
        }
    }

    private static func event(
        _ type: String, into bytes: inout ByteWriter,
        _ members: (inout JSONWriter) -> Void = { _ in }
    ) {
        bytes.appendEvent { json in
            json.member("type", type)
            members(&json)
        }
    }
}
