// The errors that Codec reports to a client, one per broken rule: each code and message is written
// here once. Session has the errors about its own state.
//
// Clients key on `code` and `param`; the messages are for people.

extension ClientEventError {
    /// A client's message is not JSON.
    static func messageIsNotJSON(_ error: JSONError) -> ClientEventError {
        notJSON("message", error)
    }

    /// The body of an HTTP request is not JSON.
    static func bodyIsNotJSON(_ error: JSONError) -> ClientEventError {
        notJSON("body", error)
    }

    private static func notJSON(_ subject: String, _ error: JSONError) -> ClientEventError {
        ClientEventError(
            code: "invalid_json",
            message: "The \(subject) is not JSON that can be read: \(error.explanation).")
    }

    /// The body of an HTTP request is JSON, but not an object.
    static var bodyIsNotAnObject: ClientEventError {
        ClientEventError(code: "invalid_type", message: "The body must be a JSON object.")
    }

    /// The `type` of an event is not one of the protocol's.
    static func unknownEventType(_ name: String, in dialect: RealtimeDialect) -> ClientEventError {
        var names = ClientEventType.allCases.map(\.rawValue)
        if dialect == .beta { names.append(BetaClientEvents.transcriptionSessionUpdate.rawValue) }
        return ClientEventError(
            code: "unknown_event_type",
            message: "Unknown event type '\(name)'. Known types are \(quotedList(names)).",
            param: "type")
    }

    /// A required field is absent or null.
    static func missing(_ path: String) -> ClientEventError {
        ClientEventError(
            code: "missing_required_parameter",
            message: "Missing required parameter: '\(path)'.", param: path)
    }

    /// A field has the wrong JSON type. An empty path means the event itself.
    static func wrongType(
        _ path: String, expected: String, _ value: JSONValue
    ) -> ClientEventError {
        let subject = path.isEmpty ? "Invalid event" : "Invalid type for '\(path)'"
        return ClientEventError(
            code: "invalid_type",
            message: "\(subject): expected \(expected), got \(value.kind.phrase).",
            param: path.isEmpty ? nil : path)
    }

    /// A field has the right type and an invalid value.
    static func wrongValue(
        _ path: String, expected: String, _ value: JSONValue
    ) -> ClientEventError {
        invalid(path, "expected \(expected), got \(value.excerpt)")
    }

    /// A field has an invalid value, which is of the wrong type unless it is one of these kinds.
    static func mismatch(
        _ path: String, expected: String, _ value: JSONValue, of kinds: JSONValue.Kind...
    ) -> ClientEventError {
        kinds.contains(value.kind)
            ? wrongValue(path, expected: expected, value)
            : wrongType(path, expected: expected, value)
    }

    /// A field has too many bytes, elements or members.
    static func tooMany(
        _ path: String, _ unit: String, atMost maximum: Int, got count: Int
    ) -> ClientEventError {
        invalid(path, "expected at most \(maximum) \(unit), got \(count)")
    }

    /// More uncommitted audio than a session's input buffer holds.
    package static func inputBufferFull(maxSeconds: Int) -> ClientEventError {
        ClientEventError(
            code: "input_audio_buffer_full",
            message: "The input audio buffer holds at most \(maxSeconds) s: commit or clear it.",
            param: "audio")
    }

    /// More audio in an item than a session takes.
    package static func itemAudioTooLong(maxSeconds: Int) -> ClientEventError {
        ClientEventError(
            code: "audio_too_long", message: "An item's audio lasts at most \(maxSeconds) s.",
            param: "item.content.audio")
    }

    /// A binary message of a client that numbers its messages is too short for a number.
    static var messageWithoutNumber: Self {
        Self(
            code: "invalid_audio",
            message: "A message begins with its number, in two bytes.", param: "audio")
    }

    /// A binary message that is a JSON event.
    static var eventInBinaryMessage: Self {
        Self(
            code: "invalid_audio",
            message: "A binary message is audio, and this one is a JSON event: send events as text "
                + "messages. A relay must keep the type of each message.", param: "audio")
    }

    /// A field should be base64.
    static func notBase64(_ path: String) -> ClientEventError {
        invalid(path, "expected base64 (RFC 4648 section 4) with its padding")
    }

    /// A field is invalid; `what` completes the message.
    static func invalid(_ path: String, _ what: String) -> ClientEventError {
        ClientEventError(
            code: "invalid_value", message: "Invalid value for '\(path)': \(what).", param: path)
    }

    /// A field requests, validly, a feature that this server does not have.
    static func unsupported(
        _ code: String, _ path: String, _ what: String
    ) -> ClientEventError {
        ClientEventError(code: code, message: "\(what) is not supported.", param: path)
    }
}

extension JSONValue {
    /// The value as it was written, shortened for a message.
    fileprivate var excerpt: String {
        let bytes = rawBytes
        guard bytes.count > 64 else { return String(decoding: bytes, as: UTF8.self) }
        return String(decoding: bytes.prefix(61), as: UTF8.self) + "..."
    }
}

extension JSONValue.Kind {
    /// The kind with its article, for a message.
    fileprivate var phrase: String {
        switch self {
        case .null: "null"
        case .bool: "a boolean"
        case .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

/// Quoted names, for a message.
func quotedList(_ names: [String]) -> String {
    names.map { "'\($0)'" }.joined(separator: ", ")
}
