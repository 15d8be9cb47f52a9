// The client events and their fields. SessionFields, ItemFields and ResponseFields have the fields
// inside `session`, `item` and `response`; ClientEventParser creates the events.

/// The types of client events, in the order in which error messages list them.
package enum ClientEventType: String, CaseIterable, Sendable {
    case sessionUpdate = "session.update"
    case inputAudioBufferAppend = "input_audio_buffer.append"
    case inputAudioBufferCommit = "input_audio_buffer.commit"
    case inputAudioBufferClear = "input_audio_buffer.clear"
    case conversationItemCreate = "conversation.item.create"
    case conversationItemDelete = "conversation.item.delete"
    case conversationItemRetrieve = "conversation.item.retrieve"
    case conversationItemTruncate = "conversation.item.truncate"
    case responseCreate = "response.create"
    case responseCancel = "response.cancel"
    case outputAudioBufferClear = "output_audio_buffer.clear"
    case outputAudioBufferPlayed = "output_audio_buffer.played"
    case ping = "parley.ping"

    /// The fields of the event.
    package var table: ObjectTable {
        ObjectTable(
            rawValue, meaning,
            [
                FieldEntry(EventHeader.type.name, .constant(rawValue), EventHeader.type.meaning),
                EventHeader.eventID.entry,
            ] + fields)
    }

    private var meaning: StaticString {
        switch self {
        case .sessionUpdate: "Changes the session; omitted fields keep their values."
        case .inputAudioBufferAppend: "Audio of the user, in the session's input format."
        case .inputAudioBufferCommit: "Ends the user's turn where turn detection is off."
        case .inputAudioBufferClear: "Drops the audio that is not committed."
        case .conversationItemCreate: "Adds an item to the conversation."
        case .conversationItemDelete: "Removes an item from the conversation."
        case .conversationItemRetrieve: "Requests an item as the server stores it."
        case .conversationItemTruncate: "Cuts a spoken item to the part that the user has heard."
        case .responseCreate: "Asks for a response."
        case .responseCancel: "Ends a response."
        case .outputAudioBufferClear: "Stops the audio that is being played."
        case .outputAudioBufferPlayed:
            "Reports how much of an item has been played (an extension of Parley)."
        case .ping: "Asks for parley.pong, a sign of life (an extension of Parley)."
        }
    }

    private var fields: [FieldEntry] {
        switch self {
        case .sessionUpdate: [SessionUpdateFields.session.entry]
        case .inputAudioBufferAppend: [AppendFields.audio.entry, AppendFields.sequence.entry]
        case .inputAudioBufferCommit, .inputAudioBufferClear, .outputAudioBufferClear, .ping: []
        case .conversationItemCreate:
            [ItemCreateFields.item.entry, ItemCreateFields.previousItemID.entry]
        case .conversationItemDelete, .conversationItemRetrieve: [ItemFields.itemID.entry]
        case .conversationItemTruncate, .outputAudioBufferPlayed:
            [
                ItemAudioFields.itemID.entry, ItemAudioFields.contentIndex.entry,
                ItemAudioFields.audioEnd.entry,
            ]
        case .responseCreate: [ResponseCreateFields.response.entry]
        case .responseCancel: [ResponseCancelFields.responseID.entry]
        }
    }
}

/// Fields of every event.
enum EventHeader {
    static let type = RequiredField("type", .name, "The type of the event.")
    static let eventID = OptionalField(
        "event_id", .anyName, "Chosen by the client; an error about the event names it.")
}

/// `session.update`
enum SessionUpdateFields {
    static let session = RequiredField(
        "session", .object(SessionUpdate.self), "The changes.")
}

/// `input_audio_buffer.append`
enum AppendFields {
    static let audio = RequiredField(
        "audio", .base64, "The audio, at most 15 MiB; for Opus one packet.")
    static let sequence = OptionalField(
        "sequence", .integer(in: 0...Int(UInt16.max)),
        "The number of the Opus packet, one more than the last (an extension of Parley).")
}

/// `conversation.item.create`
enum ItemCreateFields {
    static let item = RequiredField("item", .object(ConversationItem.self), "The item.")
    static let previousItemID = OptionalField(
        "previous_item_id", .anyName,
        "The item before it, or root for the beginning; default: the end.")
}

/// `conversation.item.delete`, `conversation.item.retrieve`
enum ItemFields {
    static let itemID = RequiredField("item_id", .name, "The item.")
}

/// `conversation.item.truncate`, `output_audio_buffer.played`
enum ItemAudioFields {
    /// One day: longer than any session's audio, and far from overflow when converted to samples.
    private static let longestMilliseconds = 86_400_000

    static let itemID = RequiredField("item_id", .name, "The item.")
    static let contentIndex = RequiredField(
        "content_index", .integer(in: 0...Int.max), "The spoken part of the item, from 0.")
    static let audioEnd = RequiredField(
        "audio_end_ms", .integer(in: 0...longestMilliseconds),
        "How much of its audio was heard, in ms.")
}

/// `response.create`
enum ResponseCreateFields {
    static let response = OptionalField(
        "response", .object(ResponseParameters.self), "Settings that differ from the session's.")
}

/// `response.cancel`
enum ResponseCancelFields {
    static let responseID = OptionalField(
        "response_id", .anyName, "The response; default: the active one.")
}
