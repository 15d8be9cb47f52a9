// The fields of items and content parts as clients write them. ConversationItemParser creates the
// items; ServerObjectTables has items as the server writes them.

/// Fields of every item.
enum NewItemFields {
    static let type = RequiredField("type", .name, "The type of the item.")
    static let id = OptionalField(
        "id", .anyName, "The item's id; default: the server creates one.")
    static let status = DefaultedField(
        "status", .choice(of: ConversationItem.Status.self), default: .completed,
        "The status of the item.")

    static func table(_ name: String, _ meaning: StaticString, _ type: String, _ own: [FieldEntry])
        -> ObjectTable
    {
        ObjectTable(
            name, meaning,
            [
                FieldEntry(Self.type.name, .constant(type), Self.type.meaning), id.entry,
                status.entry,
            ] + own)
    }

    /// Every item that a client may write.
    static var schema: ValueSchema {
        .oneOf(
            ConversationItem.Role.allCases.map { .object(NewMessageFields.table(of: $0)) } + [
                .object(NewFunctionCallFields.table), .object(NewFunctionCallOutputFields.table),
            ] + MCPToolFields.items.map { .object($0) })
    }
}

/// `message`
enum NewMessageFields {
    static let role = RequiredField(
        "role", .choice(of: ConversationItem.Role.self), "The author of the message.")

    static func content(
        of role: ConversationItem.Role, in dialect: RealtimeDialect = .ga
    ) -> RequiredField<ContentRule> {
        RequiredField("content", ContentRule(role: role, dialect: dialect), "Its parts.")
    }

    static func table(of role: ConversationItem.Role) -> ObjectTable {
        let name: String
        let meaning: StaticString
        switch role {
        case .system:
            (name, meaning) = ("NewSystemMessage", "Instructions within the conversation.")
        case .user: (name, meaning) = ("NewUserMessage", "A message of the user.")
        case .assistant: (name, meaning) = ("NewAssistantMessage", "A message of the agent.")
        }
        return NewItemFields.table(
            name, meaning, "message",
            [
                FieldEntry(Self.role.name, .constant(role.rawValue), Self.role.meaning),
                content(of: role).entry,
            ])
    }
}

/// `content`: the parts that a message of this role may have.
struct ContentRule: ValueRule {
    let role: ConversationItem.Role
    let dialect: RealtimeDialect

    var schema: ValueSchema {
        .list(
            .oneOf(NewPartFields.tables(of: role).map { .object($0) }),
            atMost: ClientEventLimits.maxContentParts)
    }

    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> [ContentPart] {
        try value.objects(at: path, atMost: ClientEventLimits.maxContentParts) {
            (part) throws(ClientEventError) in try ContentPart(part, of: role, in: dialect)
        }
    }
}

/// The parts of `content`.
enum NewPartFields {
    static let type = RequiredField("type", .name, "The type of the part.")
    static let text = RequiredField("text", .text, "The words.")
    static let transcript = RequiredField("transcript", .text, "The words that were spoken.")
    static let audio = OptionalField(
        "audio", .base64, "The audio in the input format; required without a transcript.")
    static let inputTranscript = OptionalField(
        "transcript", .text, "The words of the audio; required without audio.")
    static let imageURL = RequiredField(
        "image_url", ImageURLRule(), "The image's URL, or the image as a data: URL.")
    static let detail = DefaultedField(
        "detail", .choice(of: ImageDetail.self), default: .auto,
        "Resolution for the model; a lower one costs fewer tokens.")

    /// The types of text in a message of the agent's. Some clients of today's protocol still write
    /// "text", the beta's name.
    static func outputTexts(in dialect: RealtimeDialect) -> [String] {
        dialect == .ga ? ["output_text", "text"] : ["text"]
    }

    private static func table(
        _ name: String, _ meaning: StaticString, _ types: [String], _ own: [FieldEntry],
        oneNeeded: [StaticString] = []
    ) -> ObjectTable {
        ObjectTable(
            name, meaning, [FieldEntry(type.name, .choice(types), type.meaning)] + own,
            oneNeeded: oneNeeded)
    }

    static func tables(of role: ConversationItem.Role) -> [ObjectTable] {
        let inputText = table("NewInputText", "Text.", ["input_text"], [text.entry])
        switch role {
        case .system: return [inputText]
        case .user:
            return [
                inputText,
                table(
                    "NewInputAudio", "Audio, its transcript, or both.", ["input_audio"],
                    [inputTranscript.entry, audio.entry],
                    oneNeeded: [audio.name, inputTranscript.name]),
                table(
                    "NewInputImage", "An image, for models that see.", ["input_image"],
                    [imageURL.entry, detail.entry]),
            ]
        case .assistant:
            return [
                table("NewOutputText", "Text.", outputTexts(in: .ga), [text.entry]),
                table(
                    "NewOutputAudio", "What was spoken.", ["output_audio"], [transcript.entry]),
            ]
        }
    }
}

/// `function_call`
enum NewFunctionCallFields: FieldTable {
    static let callID = OptionalField("call_id", .anyName, "The call's id.")
    static let name = RequiredField("name", .name, "The function.")
    static let arguments = RequiredField("arguments", .text, "Its arguments as JSON text.")

    static var table: ObjectTable {
        NewItemFields.table(
            "NewFunctionCall", "A call that the agent has made.", "function_call",
            [callID.entry, name.entry, arguments.entry])
    }
}

/// `function_call_output`
enum NewFunctionCallOutputFields: FieldTable {
    static let callID = RequiredField("call_id", .name, "The call that is answered.")
    static let output = RequiredField("output", .text, "The output for the model.")

    static var table: ObjectTable {
        NewItemFields.table(
            "NewFunctionCallOutput", "The output of a function call.", "function_call_output",
            [callID.entry, output.entry])
    }
}

/// `item_reference`, in a response's `input`
enum ItemReferenceFields: FieldTable {
    static let id = RequiredField("id", .name, "The item of the conversation.")

    static var table: ObjectTable {
        ObjectTable(
            "ItemReference", "An item of the conversation.",
            [
                FieldEntry(
                    NewItemFields.type.name, .constant("item_reference"),
                    NewItemFields.type.meaning), id.entry,
            ])
    }
}
