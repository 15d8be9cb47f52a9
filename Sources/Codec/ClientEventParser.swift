// One text message of a client to one `ClientEvent`, or to the error that the client is told. The
// larger objects have parsers of their own beside this file; what the events do is in Session.
//
// Invariant: any bytes give an event or a `ClientEventError`, never a trap, and the error carries
// the event's `event_id` wherever the message is JSON and has one.

/// Parses the messages of clients, one after another, in buffers that it keeps: one parser serves
/// all sessions of a thread. `input_audio_buffer.append` without an `event_id` allocates nothing.
public struct ClientEventParser: ~Copyable {
    private let limits: ClientEventLimits
    private let json: JSONParser
    private var decodedAudio: ByteWriter

    /// The audio buffer's first size: 20 ms of PCM at 24 kHz, four times over.
    private static let smallestAudioBuffer = 4_096

    /// What an audio buffer may keep from one event to the next. 256 KiB: five seconds at 24 kHz.
    /// The largest event brings 15 MiB, which a thread must not hold for ever after.
    private static let retainedAudioBytes = 256 << 10

    /// One day: beyond any session's audio, and far from overflow once it is counted in samples.
    private static let longestMilliseconds = 86_400_000

    /// Creates a parser with room for ordinary audio events.
    public init(limits: ClientEventLimits = ClientEventLimits()) {
        self.limits = limits
        json = JSONParser(limits: limits.json)
        decodedAudio = ByteWriter(capacity: Self.smallestAudioBuffer)
    }

    /// The audio of the last `.inputAudioBufferAppend`; empty after any other event. Valid until
    /// the next `parse`.
    public var audio: UnsafeRawBufferPointer { decodedAudio.withUnsafeBytes { $0 } }

    /// Bytes that the buffer of decoded audio holds.
    package var audioBufferBytes: Int { decodedAudio.allocatedBytes }

    /// Parses one text message.
    /// - Throws: a `ClientEventError` whose `code` is one of `invalid_json`, `invalid_type`,
    ///   `invalid_value`, `missing_required_parameter`, `unknown_event_type` and the
    ///   `unsupported_…` codes for what the protocol knows and this server does not do.
    public mutating func parse(
        _ message: UnsafeRawBufferPointer
    ) throws(ClientEventError) -> (event: ClientEvent, eventID: String?) {
        if decodedAudio.allocatedBytes > Self.retainedAudioBytes {
            decodedAudio = ByteWriter(capacity: Self.smallestAudioBuffer)
        } else {
            decodedAudio.removeAll()
        }
        let fields = try fields(of: message)
        let eventID = try fields.name("event_id")
        do {
            return (try event(fields), eventID)
        } catch {
            var error = error
            error.eventID = eventID
            throw error
        }
    }

    private func fields(
        of message: UnsafeRawBufferPointer
    ) throws(ClientEventError) -> EventFields {
        let root: JSONValue
        do {
            root = try json.parse(message)
        } catch {
            throw ClientEventError(
                code: "invalid_json",
                message: "The message is not JSON that can be read: \(error.explanation).")
        }
        return try EventFields(root, path: "", limits: limits)
    }

    private mutating func event(_ fields: EventFields) throws(ClientEventError) -> ClientEvent {
        let type = try fields.required("type")
        // First, and without a copy of the name: nearly all events of a call are this one.
        if type.isString("input_audio_buffer.append") {
            try decodeAppendedAudio(fields)
            let sequence = try fields.integer("sequence", in: 0...Int(UInt16.max))
            return .inputAudioBufferAppend(sequence: sequence.map(UInt16.init))
        }
        switch try fields.requiredName("type") {
        case "input_audio_buffer.commit": return .inputAudioBufferCommit
        case "input_audio_buffer.clear": return .inputAudioBufferClear
        case "output_audio_buffer.clear": return .outputAudioBufferClear
        case "output_audio_buffer.played":
            return .outputAudioBufferPlayed(
                itemID: try fields.requiredName("item_id"),
                contentIndex: try fields.requiredInteger("content_index", in: 0...Int.max),
                audioEndMilliseconds: try fields.requiredInteger(
                    "audio_end_ms", in: 0...Self.longestMilliseconds))
        case "session.update":
            return .sessionUpdate(try SessionUpdate(fields.requiredFields("session")))
        case "conversation.item.create":
            return .conversationItemCreate(
                item: try ConversationItem(fields.requiredFields("item")),
                previousItemID: try fields.name("previous_item_id"))
        case "conversation.item.delete":
            return .conversationItemDelete(itemID: try fields.requiredName("item_id"))
        case "conversation.item.retrieve":
            return .conversationItemRetrieve(itemID: try fields.requiredName("item_id"))
        case "conversation.item.truncate":
            return .conversationItemTruncate(
                itemID: try fields.requiredName("item_id"),
                contentIndex: try fields.requiredInteger("content_index", in: 0...Int.max),
                audioEndMilliseconds: try fields.requiredInteger(
                    "audio_end_ms", in: 0...Self.longestMilliseconds))
        case "response.create":
            guard let response = try fields.fields("response") else {
                return .responseCreate(ResponseParameters())
            }
            return .responseCreate(try ResponseParameters(response))
        case "response.cancel":
            return .responseCancel(responseID: try fields.name("response_id"))
        case let unknown:
            throw ClientEventError(
                code: "unknown_event_type",
                message: "Unknown event type '\(unknown)'. Known types are "
                    + "\(quotedList(Self.knownTypes)).", param: "type")
        }
    }

    private mutating func decodeAppendedAudio(
        _ fields: EventFields
    ) throws(ClientEventError) {
        let value = try fields.required("audio")
        // A rare huge event must not keep its memory for ever after.
        if decodedAudio.capacity > limits.retainedAudioBytes,
            value.rawBytes.count <= limits.retainedAudioBytes
        {
            decodedAudio = ByteWriter(capacity: Self.smallestAudioBuffer)
        }
        try fields.decodeAudio(value, "audio", into: &decodedAudio)
    }

    private static let knownTypes = [
        "session.update", "input_audio_buffer.append", "input_audio_buffer.commit",
        "input_audio_buffer.clear", "conversation.item.create", "conversation.item.delete",
        "conversation.item.retrieve", "conversation.item.truncate", "response.create",
        "response.cancel", "output_audio_buffer.clear", "output_audio_buffer.played",
    ]
}
