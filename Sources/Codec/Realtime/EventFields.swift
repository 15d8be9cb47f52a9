// Checked reading of a client event's fields: every way in which a field can be wrong becomes a
// `ClientEventError` that names the field and says what would have been right. Which fields an
// event has is in the tables of Fields/, and what is made of them in ClientEventParser and the
// parsers beside it.
//
// Rules for all fields: unknown ones are ignored; `null` reads as absent unless a reader says
// otherwise; a repeated key counts as its last.

/// What client events may hold before they are refused. Limits of their JSON are in `json`.
public struct ClientEventLimits: Equatable, Sendable {
    /// The limits of every message as JSON.
    public var json = JSONLimits()
    /// Decoded bytes of one `input_audio_buffer.append` or `input_audio` part: the protocol's 15
    /// MiB.
    public var maxAudioBytes = 15 << 20
    /// UTF-8 bytes of one image's URL. 4 MiB: a file of 3 MiB as base64, below the 5 MB that model
    /// services take.
    public var maxImageBytes = 4 << 20
    /// UTF-8 bytes of one text: instructions, an item's text, a tool's schema. Far more than a
    /// model reads, and the session may have to keep it.
    public var maxTextBytes = 1 << 20
    /// UTF-8 bytes of an id or a name, from the protocol's `event_id`.
    public var maxNameBytes = 512
    /// Tools of a session or response, as many as the protocol's upstream models take.
    public var maxTools = 128
    /// Names in one list: languages or keywords of a transcription.
    public var maxNames = 1_000
    /// Content parts of one item.
    public var maxContentParts = 128
    /// Items of one response's `input`.
    public var maxInputItems = 1_024
    /// Pairs of a response's `metadata`, as the protocol has it.
    public var maxMetadataPairs = 16
    /// The audio buffer shrinks again when it has grown for more than this.
    public var retainedAudioBytes = 256 << 10

    /// The defaults.
    public init() {}
}

/// The fields of one JSON object of a client event, and where it stands in the event.
struct EventFields {
    let object: JSONValue
    /// Path of the object, for example `session.audio`; empty for the event itself.
    let path: String
    let limits: ClientEventLimits

    /// The path of one field.
    func path(of key: StaticString) -> String {
        path.isEmpty ? "\(key)" : "\(path).\(key)"
    }

    /// The field, or nil where it is absent or null.
    func value(_ key: StaticString) -> JSONValue? {
        guard let value = object[key], !value.isNull else { return nil }
        return value
    }

    /// The field.
    /// - Throws: `missing_required_parameter`.
    func required(_ key: StaticString) throws(ClientEventError) -> JSONValue {
        guard let value = value(key) else { throw .missing(path(of: key)) }
        return value
    }

    // MARK: Fields by their key alone

    // For fields that are in no table yet: checked like any other, and in no document.

    /// The fields of a nested object.
    func fields(_ key: StaticString) throws(ClientEventError) -> EventFields? {
        guard let value = value(key) else { return nil }
        return try EventFields(value, path: path(of: key), limits: limits)
    }

    /// The fields of a nested object that must be there.
    func requiredFields(_ key: StaticString) throws(ClientEventError) -> EventFields {
        try EventFields(required(key), path: path(of: key), limits: limits)
    }

    /// What a field of an update says, read by `read` where it is present and not null.
    func patch<Value>(
        _ key: StaticString, _ read: (StaticString) throws(ClientEventError) -> Value?
    ) throws(ClientEventError) -> Patch<Value> {
        guard let value = object[key] else { return .absent }
        if value.isNull { return .null }
        guard let read = try read(key) else { return .null }
        return .value(read)
    }

    /// The elements of an array with their paths, read by `read`.
    func list<Element>(
        _ key: StaticString, atMost maximum: Int,
        _ read: (EventFields) throws(ClientEventError) -> Element
    ) throws(ClientEventError) -> [Element]? {
        try value(key)?.objects(at: place(of: key), atMost: maximum, limits, read)
    }

    /// A text of up to `maxTextBytes`.
    func text(_ key: StaticString) throws(ClientEventError) -> String? {
        try read(OptionalField(key, .text, ""))
    }

    /// A text that must be there.
    func requiredText(_ key: StaticString) throws(ClientEventError) -> String {
        try read(RequiredField(key, .text, ""))
    }

    /// An id or a name.
    func name(_ key: StaticString) throws(ClientEventError) -> String? {
        try read(OptionalField(key, .anyName, ""))
    }

    /// An id or a name that must be there and not be empty.
    func requiredName(_ key: StaticString) throws(ClientEventError) -> String {
        try read(RequiredField(key, .name, ""))
    }

    /// A truth value.
    func bool(_ key: StaticString) throws(ClientEventError) -> Bool? {
        try read(OptionalField(key, .boolean, ""))
    }

    /// A whole number within a range.
    func integer(
        _ key: StaticString, in range: ClosedRange<Int>
    ) throws(ClientEventError) -> Int? {
        try read(OptionalField(key, .integer(in: range), ""))
    }

    /// A whole number that must be there.
    func requiredInteger(
        _ key: StaticString, in range: ClosedRange<Int>
    ) throws(ClientEventError) -> Int {
        try read(RequiredField(key, .integer(in: range), ""))
    }

    /// A number within a range.
    func number(
        _ key: StaticString, in range: ClosedRange<Double>
    ) throws(ClientEventError) -> Double? {
        try read(OptionalField(key, .number(in: range), ""))
    }

    /// One of the names of an enumeration.
    func choice<Choice: CaseIterable & RawRepresentable<String>>(
        _ key: StaticString, _ type: Choice.Type = Choice.self
    ) throws(ClientEventError) -> Choice? {
        try read(OptionalField(key, .choice(of: type), ""))
    }

    /// The exact text of an accepted value.
    func raw(_ value: JSONValue, _ path: String) throws(ClientEventError) -> RawJSON {
        guard value.rawBytes.count <= limits.maxTextBytes else {
            throw .invalid(
                path,
                "expected at most \(limits.maxTextBytes) bytes, got \(value.rawBytes.count)")
        }
        return value.raw
    }
}

extension EventFields {
    /// The fields of `value`.
    /// - Throws: `invalid_type` where it is not an object.
    init(
        _ value: JSONValue, path: String, limits: ClientEventLimits
    ) throws(ClientEventError) {
        guard value.kind == .object else {
            throw .wrongType(path, expected: "an object", value)
        }
        self.init(object: value, path: path, limits: limits)
    }
}

/// Names in quotes, for a sentence.
func quotedList(_ names: [String]) -> String {
    names.map { "'\($0)'" }.joined(separator: ", ")
}

// MARK: - Errors

extension ClientEventError {
    /// A field that must be there is absent or null.
    static func missing(_ path: String) -> ClientEventError {
        ClientEventError(
            code: "missing_required_parameter",
            message: "Missing required parameter: '\(path)'.", param: path)
    }

    /// A field has another JSON type than it must have. An empty path is the event itself.
    static func wrongType(
        _ path: String, expected: String, _ value: JSONValue
    ) -> ClientEventError {
        let subject = path.isEmpty ? "Invalid event" : "Invalid type for '\(path)'"
        return ClientEventError(
            code: "invalid_type",
            message: "\(subject): expected \(expected), got \(value.kind.phrase).",
            param: path.isEmpty ? nil : path)
    }

    /// A field has the right type and a wrong value.
    static func wrongValue(
        _ path: String, expected: String, _ value: JSONValue
    ) -> ClientEventError {
        invalid(path, "expected \(expected), got \(value.excerpt)")
    }

    /// A field is wrong in the way that `what` says.
    static func invalid(_ path: String, _ what: String) -> ClientEventError {
        ClientEventError(
            code: "invalid_value", message: "Invalid value for '\(path)': \(what).", param: path)
    }

    /// A field asks, validly, for something that this server does not do.
    static func unsupported(
        _ code: String, _ path: String, _ what: String
    ) -> ClientEventError {
        ClientEventError(code: code, message: "\(what) is not supported.", param: path)
    }
}

extension JSONValue {
    /// The value as it was written, cut to what fits a message.
    fileprivate var excerpt: String {
        let bytes = rawBytes
        guard bytes.count > 64 else { return String(decoding: bytes, as: UTF8.self) }
        return String(decoding: bytes.prefix(61), as: UTF8.self) + "..."
    }
}

extension JSONValue.Kind {
    /// The kind with its article, for a sentence.
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
