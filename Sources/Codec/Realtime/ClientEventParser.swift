// Parses one text message of a client into a `ClientEvent`, or into the error for the client.
// Larger objects have parsers of their own beside this file. Session acts on the events.
//
// Invariant: any bytes give an event or a `ClientEventError`, never a trap. The error carries the
// event's `event_id` if the message has one that can be read, even where it is no JSON.

/// Parses clients' messages, one after another, in buffers that it reuses. One parser serves all
/// sessions of a thread. `input_audio_buffer.append` without an `event_id` allocates nothing.
public struct ClientEventParser: ~Copyable {
    /// Whether a field that the protocol does not have is refused by name, or ignored. The beta's
    /// fields are never refused.
    public var refusesUnknownFields = true
    /// The extensions of Parley in the last `session.update`.
    public private(set) var wishes = ClientWishes()
    private let json: JSONParser
    private var decodedAudio: ByteWriter

    /// Initial bytes of the audio buffer: four times 20 ms of PCM at 24 kHz.
    private static let smallestAudioBuffer = 4_096

    /// Maximum bytes that the audio buffer keeps between events. 256 KiB: five seconds at 24 kHz.
    /// The largest event brings 15 MiB, which a thread must not hold permanently.
    private static let retainedAudioBytes = 256 << 10

    /// Creates a parser with room for ordinary audio events.
    public init() {
        json = JSONParser()
        decodedAudio = ByteWriter(capacity: Self.smallestAudioBuffer)
    }

    /// The audio of the last `.inputAudioBufferAppend`; empty after any other event. Valid until
    /// the next `parse`.
    public var audio: UnsafeRawBufferPointer { decodedAudio.withUnsafeBytes { $0 } }

    /// Allocated bytes of the audio buffer.
    package var audioBufferBytes: Int { decodedAudio.allocatedBytes }

    /// Parses one text message in the client's dialect.
    /// - Parameter limit: the session's limit of audio. Nil means the protocol's alone.
    /// - Throws: a `ClientEventError`. Its `code` is one of `invalid_json`, `invalid_type`,
    ///   `invalid_value`, `missing_required_parameter`, `unknown_event_type`, or an `unsupported_…`
    ///   code for a protocol feature that this server does not have. Beyond the limit it is
    ///   `input_audio_buffer_full` or `audio_too_long`.
    public mutating func parse(
        _ message: UnsafeRawBufferPointer, in dialect: RealtimeDialect = .ga,
        audioWithin limit: AudioLimit? = nil
    ) throws(ClientEventError) -> (event: ClientEvent, eventID: String?) {
        if decodedAudio.allocatedBytes > Self.retainedAudioBytes {
            decodedAudio = ByteWriter(capacity: Self.smallestAudioBuffer)
        } else {
            decodedAudio.removeAll()
        }
        let fields = try fields(of: message)
        let eventID = try fields.read(EventHeader.eventID)
        do {
            let event = try event(fields, in: dialect, limit)
            if case .sessionUpdate = event {
                wishes = try ClientWishes(fields.requiredFields("session"))
            }
            return (event, eventID)
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
            var refused = ClientEventError.messageIsNotJSON(error)
            refused.eventID = BrokenJSON.text(
                of: EventHeader.eventID.name, in: message, maxBytes: ClientEventLimits.maxNameBytes)
            throw refused
        }
        return try EventFields(root, path: "")
    }

    private mutating func event(
        _ fields: EventFields, in dialect: RealtimeDialect, _ limit: AudioLimit?
    ) throws(ClientEventError) -> ClientEvent {
        // Checked first, and without copying the name, because nearly all events of a call are
        // appends.
        if try fields.value(of: EventHeader.type).isString("input_audio_buffer.append") {
            try decodeAppendedAudio(fields, limit)
            let sequence = try fields.read(AppendFields.sequence)
            return .inputAudioBufferAppend(sequence: sequence.map(UInt16.init))
        }
        try limit?.check(itemsOf: fields.object)
        let name = try fields.read(EventHeader.type)
        if dialect == .beta, let type = BetaClientEvents(rawValue: name) {
            return try type.event(fields)
        }
        guard let type = ClientEventType(rawValue: name) else {
            if let foreign = Self.foreignTypes.first(where: { $0.name == name }) {
                throw .unsupported(
                    "unsupported_event_type", "type", "'\(name)', \(foreign.origin),")
            }
            throw .unknownEventType(name, in: dialect)
        }
        let event = try event(of: type, fields)
        if refusesUnknownFields, dialect == .ga { try type.checkNames(fields) }
        return event
    }

    private func event(
        of type: ClientEventType, _ fields: EventFields
    ) throws(ClientEventError) -> ClientEvent {
        switch type {
        case .inputAudioBufferAppend: preconditionFailure("an append is read before")
        case .inputAudioBufferCommit: return .inputAudioBufferCommit
        case .inputAudioBufferClear: return .inputAudioBufferClear
        case .outputAudioBufferClear: return .outputAudioBufferClear
        case .ping: return .ping
        case .outputAudioBufferPlayed:
            return .outputAudioBufferPlayed(
                itemID: try fields.read(ItemAudioFields.itemID),
                contentIndex: try fields.read(ItemAudioFields.contentIndex),
                audioEndMilliseconds: try fields.read(ItemAudioFields.audioEnd))
        case .sessionUpdate:
            return .sessionUpdate(try fields.read(SessionUpdateFields.session))
        case .conversationItemCreate:
            return .conversationItemCreate(
                item: try fields.read(ItemCreateFields.item),
                previousItemID: try fields.read(ItemCreateFields.previousItemID))
        case .conversationItemDelete:
            return .conversationItemDelete(itemID: try fields.read(ItemFields.itemID))
        case .conversationItemRetrieve:
            return .conversationItemRetrieve(itemID: try fields.read(ItemFields.itemID))
        case .conversationItemTruncate:
            return .conversationItemTruncate(
                itemID: try fields.read(ItemAudioFields.itemID),
                contentIndex: try fields.read(ItemAudioFields.contentIndex),
                audioEndMilliseconds: try fields.read(ItemAudioFields.audioEnd))
        case .responseCreate:
            return .responseCreate(
                try fields.read(ResponseCreateFields.response) ?? ResponseParameters())
        case .responseCancel:
            return .responseCancel(responseID: try fields.read(ResponseCancelFields.responseID))
        }
    }

    private mutating func decodeAppendedAudio(
        _ fields: EventFields, _ limit: AudioLimit?
    ) throws(ClientEventError) {
        let value = try fields.value(of: AppendFields.audio)
        try limit?.check(appended: value)
        try value.decodeBase64(
            at: fields.place(of: AppendFields.audio.name), into: &decodedAudio)
    }

    /// Events of related protocols that clients may send by mistake.
    private static let foreignTypes: [(name: String, origin: String)] = [
        (
            "transcription_session.update",
            "of the beta (session.update with session.type 'transcription' is its successor)"
        ),
        ("session.input_audio_buffer.append", "of translation sessions"),
        ("session.close", "of translation sessions"),
    ]
}
