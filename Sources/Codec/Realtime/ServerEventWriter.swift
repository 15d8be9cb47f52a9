// Writes a `ServerEvent` as the JSON of its text message, exactly as client libraries expect it.
// Every event has an `event_id`, integers are written as integers, and a field that does not apply
// is `null` or absent, as the protocol defines for that field. SessionWriter,
// ConversationItemWriter and ResponseWriter write the larger objects. Session decides when an event
// is sent.

/// Writes the events of one session. It holds only the session's id, and writing a delta allocates
/// nothing.
public struct ServerEventWriter: Sendable {
    /// Part of the session's id that makes event ids unique across sessions.
    private let sessionID: String

    /// Creates a writer.
    /// - Parameter sessionID: `sess_…`.
    public init(sessionID: String) {
        self.sessionID = sessionID
    }

    /// Appends the event as one JSON object. Its `event_id` is `event_`, the session's id without
    /// `sess_`, and `number`: unique as long as no number is used twice in the session.
    /// - Parameter expiresAt: when the session ends, in seconds since 1970, for the events that
    ///   show the session. Nil where it has no end.
    /// - Parameter resume: the members of a resumable session's events, or nil where the session is
    ///   not resumable.
    /// - Precondition: the dialect has the event.
    public func write(
        _ event: ServerEvent, number: UInt64, in dialect: RealtimeDialect = .ga,
        expiresAt: Int? = nil, resume: ResumeNote? = nil, into bytes: inout ByteWriter
    ) {
        var json = JSONWriter(bytes)
        json.beginObject()
        json.member("type", dialect.name(of: event))
        json.eventID(sessionID: sessionID, number: number)
        if let resume { json.members(of: resume) }
        json.fields(of: event, in: dialect, expiresAt: expiresAt)
        json.endObject()
        bytes = json.finish()
    }
}

extension ServerEvent {
    /// The `type` of the event on the wire.
    public var wireName: String {
        switch self {
        case .error: "error"
        case .sessionCreated: "session.created"
        case .sessionUpdated: "session.updated"
        case .inputAudioBufferSpeechStarted: "input_audio_buffer.speech_started"
        case .inputAudioBufferSpeechStopped: "input_audio_buffer.speech_stopped"
        case .inputAudioBufferCommitted: "input_audio_buffer.committed"
        case .inputAudioBufferCleared: "input_audio_buffer.cleared"
        case .inputAudioBufferTimeoutTriggered: "input_audio_buffer.timeout_triggered"
        case .conversationItemAdded: "conversation.item.added"
        case .conversationItemDone: "conversation.item.done"
        case .conversationItemDeleted: "conversation.item.deleted"
        case .conversationItemRetrieved: "conversation.item.retrieved"
        case .conversationItemTruncated: "conversation.item.truncated"
        case .transcriptionDelta: "conversation.item.input_audio_transcription.delta"
        case .transcriptionCompleted: "conversation.item.input_audio_transcription.completed"
        case .transcriptionFailed: "conversation.item.input_audio_transcription.failed"
        case .responseCreated: "response.created"
        case .responseDone: "response.done"
        case .responseOutputItemAdded: "response.output_item.added"
        case .responseOutputItemDone: "response.output_item.done"
        case .responseContentPartAdded: "response.content_part.added"
        case .responseContentPartDone: "response.content_part.done"
        case .responseOutputTextDelta: "response.output_text.delta"
        case .responseOutputTextDone: "response.output_text.done"
        case .responseOutputAudioTranscriptDelta: "response.output_audio_transcript.delta"
        case .responseOutputAudioTranscriptDone: "response.output_audio_transcript.done"
        case .responseOutputAudioDelta: "response.output_audio.delta"
        case .responseOutputAudioDone: "response.output_audio.done"
        case .responseFunctionCallArgumentsDelta: "response.function_call_arguments.delta"
        case .responseFunctionCallArgumentsDone: "response.function_call_arguments.done"
        case .rateLimitsUpdated: "rate_limits.updated"
        case .outputAudioBufferCleared: "output_audio_buffer.cleared"
        case .agentEvent: "parley.agent.event"
        case .dtmfReceived: "parley.dtmf.received"
        case .resumed: "parley.resumed"
        case .resumeUpdated: "parley.resume.updated"
        case .goingAway: "parley.going_away"
        case .recordingUpdated: "parley.recording.updated"
        case .pong: "parley.pong"
        case .mcp(let event): event.wireName
        }
    }
}

extension JSONWriter {
    /// Clients wait for the event, also where there are no quotas.
    fileprivate mutating func rateLimits(_ limits: [RateLimit]) {
        array("rate_limits") { json in
            for limit in limits {
                json.object { json in
                    json.member("name", limit.name.rawValue)
                    json.member("limit", limit.limit)
                    json.member("remaining", limit.remaining)
                    json.member("reset_seconds", number: Double(limit.resetMilliseconds) / 1_000)
                }
            }
        }
    }

    /// Writes all fields of an event except `type` and `event_id`.
    fileprivate mutating func fields(
        of event: ServerEvent, in dialect: RealtimeDialect, expiresAt: Int?
    ) {
        switch event {
        case .error(let error): errorMember(dialect.wording(of: error))
        case .sessionCreated(let id, let parameters), .sessionUpdated(let id, let parameters):
            sessionMember(id, parameters, in: dialect, expiresAt: expiresAt)
        case .inputAudioBufferSpeechStarted(let itemID, let start):
            audioRange(itemID, start: start)
        case .inputAudioBufferSpeechStopped(let itemID, let end):
            audioRange(itemID, end: end)
        case .inputAudioBufferTimeoutTriggered(let itemID, let start, let end):
            audioRange(itemID, start: start, end: end)
        case .inputAudioBufferCommitted(let itemID, let previousItemID):
            committed(itemID, after: previousItemID)
        case .inputAudioBufferCleared, .resumeUpdated, .pong: break
        case .conversationItemAdded(let item, let previousItemID),
            .conversationItemDone(let item, let previousItemID):
            member("previous_item_id", previousItemID)
            itemMember(item, in: dialect)
        case .conversationItemDeleted(let itemID): member("item_id", itemID)
        case .conversationItemRetrieved(let item): itemMember(item, in: dialect)
        case .conversationItemTruncated(let itemID, let contentIndex, let end, let transcript):
            part(of: itemID, contentIndex, "audio_end_ms", end)
            if let transcript { member("transcript", transcript) }
        case .transcriptionDelta(let itemID, let contentIndex, let delta):
            part(of: itemID, contentIndex, "delta", delta)
        case .transcriptionCompleted(let itemID, let contentIndex, let transcript, let seconds):
            part(of: itemID, contentIndex, "transcript", transcript)
            durationUsage(seconds)
        case .transcriptionFailed(let itemID, let contentIndex, let code, let message):
            transcriptionError(itemID, contentIndex, code: code, message)
        case .responseCreated(let response), .responseDone(let response):
            key("response")
            self.response(response, in: dialect)
        case .responseOutputItemAdded(let responseID, let outputIndex, let item),
            .responseOutputItemDone(let responseID, let outputIndex, let item):
            outputItem(item, outputIndex, of: responseID, in: dialect)
        case .responseContentPartAdded(let address, let modality):
            contentPart(address, modality, text: "")
        case .responseContentPartDone(let address, let modality, let text):
            contentPart(address, modality, text: text)
        case .responseOutputTextDelta(let address, let delta),
            .responseOutputAudioTranscriptDelta(let address, let delta):
            part(at: address, "delta", delta)
        case .responseOutputTextDone(let address, let text): part(at: address, "text", text)
        case .responseOutputAudioTranscriptDone(let address, let transcript):
            part(at: address, "transcript", transcript)
        case .responseOutputAudioDelta(let address, let audio, let start):
            audioDelta(audio, start: start, at: address)
        case .responseOutputAudioDone(let address): part(at: address)
        case .responseFunctionCallArgumentsDelta(let address, let callID, let delta):
            call(callID, at: address)
            member("delta", delta)
        case .responseFunctionCallArgumentsDone(let address, let callID, let name, let arguments):
            call(callID, at: address)
            member("name", name)
            member("arguments", arguments)
        case .rateLimitsUpdated(let limits): rateLimits(limits)
        case .outputAudioBufferCleared(let responseID): member("response_id", responseID)
        case .agentEvent(let id, let name, let value): agentEvent(name, value, of: id)
        case .dtmfReceived(let digit): member("digit", digit)
        case .resumed(let id, let parameters, let recovered):
            member("recovered", recovered)
            sessionMember(id, parameters, in: dialect, expiresAt: expiresAt)
        case .goingAway(let reason, let milliseconds): goingAway(reason, milliseconds)
        case .recordingUpdated(let isActive): member("active", isActive)
        case .mcp(let event): fields(of: event)
        }
    }
}

// MARK: - Groups of fields that events share

extension JSONWriter {
    private mutating func sessionMember(
        _ id: String, _ parameters: SessionParameters, in dialect: RealtimeDialect, expiresAt: Int?
    ) {
        key("session")
        session(id: id, parameters, in: dialect, expiresAt: expiresAt)
    }

    private mutating func committed(_ itemID: String, after previousItemID: String?) {
        member("item_id", itemID)
        member("previous_item_id", previousItemID)
    }

    private mutating func goingAway(_ reason: GoingAwayReason, _ milliseconds: Int) {
        member("reason", reason.rawValue)
        member("milliseconds_left", milliseconds)
    }

    fileprivate mutating func agentEvent(_ name: String, _ value: RawJSON, of responseID: String) {
        member("response_id", responseID)
        member("name", name)
        member("value", value)
    }

    fileprivate mutating func eventID(sessionID: String, number: UInt64) {
        key("event_id")
        beginString()
        continueString("event_")
        continueString(sessionID, droppingPrefix: "sess_")
        continueString("_")
        continueString(decimal: number)
        endString()
    }

    private mutating func errorMember(_ error: ClientEventError) {
        object("error") { json in
            json.member("type", error.kind.rawValue)
            json.member("code", error.code)
            json.member("message", error.message)
            json.member("param", error.param)
            json.member("event_id", error.eventID)
        }
    }

    private mutating func audioDelta(_ audio: [UInt8], start: Int?, at address: PartAddress) {
        part(at: address)
        if let start { member("audio_start_ms", start) }
        key("delta")
        base64(audio.span.bytes)
    }

    /// The item that buffered audio will become, and where its audio starts and ends.
    private mutating func audioRange(_ itemID: String, start: Int? = nil, end: Int? = nil) {
        member("item_id", itemID)
        if let start { member("audio_start_ms", start) }
        if let end { member("audio_end_ms", end) }
    }

    private mutating func itemMember(
        _ conversationItem: ConversationItem, in dialect: RealtimeDialect
    ) {
        key("item")
        item(conversationItem, in: dialect)
    }

    private mutating func outputItem(
        _ item: ConversationItem, _ outputIndex: Int, of responseID: String,
        in dialect: RealtimeDialect
    ) {
        member("response_id", responseID)
        member("output_index", outputIndex)
        itemMember(item, in: dialect)
    }

    private mutating func part(of itemID: String, _ contentIndex: Int) {
        member("item_id", itemID)
        member("content_index", contentIndex)
    }

    private mutating func part(
        of itemID: String, _ contentIndex: Int, _ key: StaticString, _ value: String
    ) {
        part(of: itemID, contentIndex)
        member(key, value)
    }

    private mutating func part(
        of itemID: String, _ contentIndex: Int, _ key: StaticString, _ value: Int
    ) {
        part(of: itemID, contentIndex)
        member(key, value)
    }

    /// The form of `usage` in seconds of audio.
    private mutating func durationUsage(_ seconds: Double) {
        object("usage") { json in
            json.member("type", "duration")
            json.member("seconds", number: seconds)
        }
    }

    private mutating func transcriptionError(
        _ itemID: String, _ contentIndex: Int, code: String, _ message: String
    ) {
        part(of: itemID, contentIndex)
        object("error") { json in
            json.member("type", "transcription_error")
            json.member("code", code)
            json.member("message", message)
        }
    }

    mutating func output(_ address: PartAddress) {
        member("response_id", address.responseID)
        member("item_id", address.itemID)
        member("output_index", address.outputIndex)
    }

    private mutating func part(at address: PartAddress) {
        output(address)
        member("content_index", address.contentIndex)
    }

    private mutating func part(at address: PartAddress, _ key: StaticString, _ value: String) {
        part(at: address)
        member(key, value)
    }

    /// A part's own object has type `text` or `audio`, where an item's content has `output_text` or
    /// `output_audio`.
    private mutating func contentPart(
        _ address: PartAddress, _ modality: OutputModality, text: String
    ) {
        part(at: address)
        object("part") { json in
            json.member("type", modality.rawValue)
            switch modality {
            case .text: json.member("text", text)
            case .audio: json.member("transcript", text)
            }
        }
    }

    private mutating func call(_ callID: String, at address: PartAddress) {
        output(address)
        member("call_id", callID)
    }
}
