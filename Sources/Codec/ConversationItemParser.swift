// Conversation items as clients create them: from checked fields to a `ConversationItem`. Where an
// item goes in the conversation is decided in Session.

extension ConversationItem {
    /// Reads an item. Without an `id` or, for a function call, a `call_id`, that field is empty.
    init(_ fields: EventFields) throws(ClientEventError) {
        let kind = try Kind(fields)
        self.init(
            id: try fields.name("id") ?? "", status: try fields.choice("status") ?? .completed,
            kind: kind)
    }
}

extension ConversationItem.Kind {
    private static let names = ["message", "function_call", "function_call_output"]
    private static let unsupportedNames = [
        "mcp_approval_request", "mcp_approval_response", "mcp_call", "mcp_list_tools",
        "item_reference",
    ]

    fileprivate init(_ fields: EventFields) throws(ClientEventError) {
        let type = try fields.requiredName("type")
        switch type {
        case "message":
            guard let role = try fields.choice("role", ConversationItem.Role.self) else {
                throw .missing(fields.path(of: "role"))
            }
            let content = try fields.list("content", atMost: fields.limits.maxContentParts) {
                (part) throws(ClientEventError) in try ContentPart(part, of: role)
            }
            guard let content else { throw .missing(fields.path(of: "content")) }
            self = .message(role: role, content: content)
        case "function_call":
            self = .functionCall(
                callID: try fields.name("call_id") ?? "", name: try fields.requiredName("name"),
                arguments: try fields.requiredText("arguments"))
        case "function_call_output":
            self = .functionCallOutput(
                callID: try fields.requiredName("call_id"),
                output: try fields.requiredText("output"))
        case let name where Self.unsupportedNames.contains(name):
            throw .unsupported(
                "unsupported_item_type", fields.path(of: "type"), "An item of type '\(name)'")
        default:
            throw .invalid(
                fields.path(of: "type"), "expected one of \(quotedList(Self.names)), got '\(type)'")
        }
    }
}

extension ContentPart {
    /// Reads a part of a message; each role has its own part types.
    fileprivate init(
        _ fields: EventFields, of role: ConversationItem.Role
    ) throws(ClientEventError) {
        let type = try fields.requiredName("type")
        switch (role, type) {
        case (.system, "input_text"), (.user, "input_text"):
            self = .inputText(try fields.requiredText("text"))
        case (.user, "input_audio"):
            self = try .inputAudio(fields)
        // "text" is what some clients still write from before general availability.
        case (.assistant, "output_text"), (.assistant, "text"):
            self = .outputText(try fields.requiredText("text"))
        case (.assistant, "output_audio"):
            self = .outputAudio(transcript: try fields.requiredText("transcript"))
        case (.user, "input_image"):
            self = .inputImage(
                url: try fields.imageURL("image_url"),
                detail: try fields.choice("detail") ?? .auto)
        case (.system, _), (.user, _), (.assistant, _):
            throw .invalid(
                fields.path(of: "type"),
                "expected \(Self.expectedTypes(of: role)) in a \(role.rawValue) message, "
                    + "got '\(type)'")
        }
    }

    private static func expectedTypes(of role: ConversationItem.Role) -> String {
        switch role {
        case .system: "'input_text'"
        case .user: "'input_text', 'input_audio' or 'input_image'"
        case .assistant: "'output_text' or 'output_audio'"
        }
    }

    /// Audio, its transcript, or both.
    private static func inputAudio(_ fields: EventFields) throws(ClientEventError) -> ContentPart {
        let transcript = try fields.text("transcript")
        guard let audio = fields.value("audio") else {
            guard transcript != nil else { throw .missing(fields.path(of: "audio")) }
            return .inputAudio(bytes: [], transcript: transcript)
        }
        var decoded = ByteWriter(capacity: 4_096)
        try fields.decodeAudio(audio, "audio", into: &decoded)
        return .inputAudio(bytes: decoded.copiedBytes, transcript: transcript)
    }
}

extension EventFields {
    private static let imageTypes = ["png", "jpeg", "gif", "webp"]

    /// An image's URL, at most `maxImageBytes` long: `https:`, or `data:` with a file of a kind
    /// that models see. What cannot be one is refused here, as an item that no model takes would
    /// fail every response after it.
    fileprivate func imageURL(_ key: StaticString) throws(ClientEventError) -> String {
        let value = try required(key)
        let path = path(of: key)
        guard let bytes = value.utf8 else { throw .wrongType(path, expected: "a string", value) }
        guard bytes.count <= limits.maxImageBytes else {
            throw .invalid(
                path, "expected at most \(limits.maxImageBytes) bytes, got \(bytes.count)")
        }
        if bytes.starts(with: "https://".utf8) { return String(decoding: bytes, as: UTF8.self) }
        for type in Self.imageTypes {
            let head = "data:image/\(type);base64,".utf8
            guard bytes.starts(with: head) else { continue }
            var file = ByteWriter(capacity: 4_096)
            do {
                try Base64.decode(
                    UnsafeRawBufferPointer(rebasing: bytes.dropFirst(head.count)), into: &file)
            } catch {
                throw .invalid(path, "expected base64 (RFC 4648 section 4) with its padding")
            }
            guard file.count > 0 else { break }
            return String(decoding: bytes, as: UTF8.self)
        }
        let types = Self.imageTypes.joined(separator: ", ")
        throw .invalid(
            path, "expected an https: URL, or a data: URL with base64 of image/… (\(types))")
    }

    /// Appends the bytes of a base64 string, at most `maxAudioBytes`.
    func decodeAudio(
        _ value: JSONValue, _ key: StaticString, into audio: inout ByteWriter
    ) throws(ClientEventError) {
        guard let text = value.utf8 else {
            throw .wrongType(path(of: key), expected: "a string of base64", value)
        }
        // Whole groups of four, without the padding: exact for every valid text.
        let byteCount = text.count / 4 * 3 - text.suffix(2).count { $0 == UInt8(ascii: "=") }
        guard byteCount <= limits.maxAudioBytes else {
            throw .invalid(
                path(of: key), "expected at most \(limits.maxAudioBytes) bytes, got \(byteCount)")
        }
        do {
            try Base64.decode(text, into: &audio)
        } catch {
            throw .invalid(
                path(of: key), "expected base64 (RFC 4648 section 4) with its padding")
        }
    }
}
