// Parses conversation items that clients create, from checked fields to a `ConversationItem`.
// Fields/ConversationItemFields has the fields and their rules. Session decides where an item goes
// in the conversation.

extension ConversationItem: ReadableObject {
    static var schema: ValueSchema { NewItemFields.schema }

    init(_ fields: EventFields) throws(ClientEventError) { try self.init(fields, in: .ga) }

    /// Parses an item. A missing `id` or, for a function call, `call_id` becomes an empty string.
    init(_ fields: EventFields, in dialect: RealtimeDialect) throws(ClientEventError) {
        let kind = try Kind(fields, in: dialect)
        self.init(
            id: try fields.read(NewItemFields.id) ?? "",
            status: try fields.read(NewItemFields.status), kind: kind)
    }
}

/// An item of a response's `input`: a new one, or a reference to one of the conversation.
struct ResponseInputItem: ReadableObject {
    let item: ConversationItem

    static var schema: ValueSchema {
        .oneOf([ConversationItem.schema, .object(ItemReferenceFields.table)])
    }

    init(_ fields: EventFields) throws(ClientEventError) { try self.init(fields, in: .ga) }

    init(_ fields: EventFields, in dialect: RealtimeDialect) throws(ClientEventError) {
        if fields.value(NewItemFields.type.name)?.isString("item_reference") == true {
            item = ConversationItem(
                id: try fields.read(ItemReferenceFields.id), kind: .reference)
        } else {
            item = try ConversationItem(fields, in: dialect)
        }
    }
}

extension ConversationItem.Kind {
    private static let names = [
        "message", "function_call", "function_call_output", "mcp_approval_request",
        "mcp_approval_response", "mcp_call", "mcp_list_tools",
    ]
    private static let unsupportedNames = ["item_reference"]

    fileprivate init(
        _ fields: EventFields, in dialect: RealtimeDialect
    ) throws(ClientEventError) {
        let type = try fields.read(NewItemFields.type)
        switch type {
        case "message":
            let role = try fields.read(NewMessageFields.role)
            self = .message(
                role: role,
                content: try fields.read(NewMessageFields.content(of: role, in: dialect)))
        case "function_call":
            self = .functionCall(
                callID: try fields.read(NewFunctionCallFields.callID) ?? "",
                name: try fields.read(NewFunctionCallFields.name),
                arguments: try fields.read(NewFunctionCallFields.arguments))
        case "function_call_output":
            self = .functionCallOutput(
                callID: try fields.read(NewFunctionCallOutputFields.callID),
                output: try fields.read(NewFunctionCallOutputFields.output))
        case let type where type.hasPrefix("mcp_"):
            guard let item = try MCPItem(fields, type: type) else {
                throw Self.unknown(type, fields)
            }
            self = .mcp(item)
        case let name where Self.unsupportedNames.contains(name):
            throw .unsupported(
                "unsupported_item_type", fields.path(of: "type"), "An item of type '\(name)'")
        default:
            throw Self.unknown(type, fields)
        }
    }

    private static func unknown(_ type: String, _ fields: EventFields) -> ClientEventError {
        .invalid(fields.path(of: "type"), "expected one of \(quotedList(names)), got '\(type)'")
    }
}

extension ContentPart {
    /// Parses a part of a message. Each role has its own part types.
    init(
        _ fields: EventFields, of role: ConversationItem.Role, in dialect: RealtimeDialect
    ) throws(ClientEventError) {
        let type = try fields.read(NewPartFields.type)
        switch (role, type) {
        case (.system, "input_text"), (.user, "input_text"):
            self = .inputText(try fields.read(NewPartFields.text))
        case (.user, "input_audio"):
            self = try .inputAudio(fields)
        case (.assistant, let type) where NewPartFields.outputTexts(in: dialect).contains(type):
            self = .outputText(try fields.read(NewPartFields.text))
        case (.assistant, dialect.outputAudio):
            self = .outputAudio(transcript: try fields.read(NewPartFields.transcript))
        case (.user, "input_image"):
            self = .inputImage(
                url: try fields.read(NewPartFields.imageURL),
                detail: try fields.read(NewPartFields.detail))
        case (.system, _), (.user, _), (.assistant, _):
            throw .invalid(
                fields.path(of: "type"),
                "expected \(Self.expectedTypes(of: role, in: dialect)) in a "
                    + "\(role.rawValue) message, got '\(type)'")
        }
    }

    private static func expectedTypes(
        of role: ConversationItem.Role, in dialect: RealtimeDialect
    ) -> String {
        switch role {
        case .system: "'input_text'"
        case .user: "'input_text', 'input_audio' or 'input_image'"
        case .assistant: "'\(dialect.outputText)' or '\(dialect.outputAudio)'"
        }
    }

    /// Audio, its transcript, or both.
    private static func inputAudio(_ fields: EventFields) throws(ClientEventError) -> ContentPart {
        let transcript = try fields.read(NewPartFields.inputTranscript)
        let audio = try fields.read(NewPartFields.audio)
        guard audio != nil || transcript != nil else {
            throw .missing(fields.path(of: NewPartFields.audio.name))
        }
        return .inputAudio(bytes: audio ?? [], transcript: transcript)
    }
}
