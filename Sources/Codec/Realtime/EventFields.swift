// Checked reading of a client event's fields. Every invalid field becomes a `ClientEventError` that
// names the field and the values that are allowed. The tables in Fields/ have the fields of each
// event; ClientEventParser and the parsers beside it read them.
//
// Rules for all fields: unknown fields are not seen (UnknownFields finds them); `null` counts as absent unless a reader says
// otherwise; of a repeated key the last one counts.

/// Limits on the content of client events. They are part of the published schemas.
public enum ClientEventLimits {
    /// Decoded bytes of one `input_audio_buffer.append` or `input_audio` part: the protocol's 15
    /// MiB.
    public static let maxAudioBytes = 15 << 20
    /// UTF-8 bytes of one image's URL. 4 MiB: a file of 3 MiB as base64, below the 5 MB that model
    /// services accept.
    public static let maxImageBytes = 4 << 20
    /// UTF-8 bytes of one text: instructions, an item's text, a tool's schema. Far more than a
    /// model reads. The session may have to keep it.
    public static let maxTextBytes = 1 << 20
    /// UTF-8 bytes of an id or a name, from the protocol's `event_id`.
    public static let maxNameBytes = 512
    /// Tools of a session or response; the protocol's original service accepts the same number.
    public static let maxTools = 128
    /// Names in one list: languages or keywords of a transcription.
    public static let maxNames = 1_000
    /// Content parts of one item.
    public static let maxContentParts = 128
    /// Items of one response's `input`.
    public static let maxInputItems = 1_024
    /// Pairs of a response's `metadata`, as the protocol has it.
    public static let maxMetadataPairs = 16
}

/// The fields of one JSON object in a client event, and the object's path.
struct EventFields {
    let object: JSONValue
    /// Path of the object, for example `session.audio`; empty for the event itself.
    let path: String

    /// The path of one field.
    func path(of key: StaticString) -> String { place(of: key).text }

    /// The field's value, or nil if it is absent or null.
    func value(_ key: StaticString) -> JSONValue? {
        guard let value = object[key], !value.isNull else { return nil }
        return value
    }

    /// The field's value.
    /// - Throws: `missing_required_parameter`.
    func required(_ key: StaticString) throws(ClientEventError) -> JSONValue {
        guard let value = value(key) else { throw .missing(path(of: key)) }
        return value
    }

    /// The exact JSON text of a value.
    func raw(_ value: JSONValue, _ path: String) throws(ClientEventError) -> RawJSON {
        let count = value.rawBytes.count
        guard count <= ClientEventLimits.maxTextBytes else {
            throw .tooMany(path, "bytes", atMost: ClientEventLimits.maxTextBytes, got: count)
        }
        return value.raw
    }

    // MARK: Fields by their key alone

    // These read fields that are in no table: checked like the others, but absent from the
    // generated documents.

    /// The fields of a nested object.
    func fields(_ key: StaticString) throws(ClientEventError) -> EventFields? {
        guard let value = value(key) else { return nil }
        return try EventFields(value, path: path(of: key))
    }

    /// The fields of a nested object that is required.
    func requiredFields(_ key: StaticString) throws(ClientEventError) -> EventFields {
        try EventFields(required(key), path: path(of: key))
    }

    /// The elements of an array, converted by `read`, which also gets their paths.
    func list<Element>(
        _ key: StaticString, atMost maximum: Int,
        _ read: (EventFields) throws(ClientEventError) -> Element
    ) throws(ClientEventError) -> [Element]? {
        try value(key)?.objects(at: place(of: key), atMost: maximum, read)
    }

    /// A text of up to `maxTextBytes`.
    func text(_ key: StaticString) throws(ClientEventError) -> String? {
        try read(OptionalField(key, .text, ""))
    }

    /// A required text.
    func requiredText(_ key: StaticString) throws(ClientEventError) -> String {
        try read(RequiredField(key, .text, ""))
    }

    /// An id or a name.
    func name(_ key: StaticString) throws(ClientEventError) -> String? {
        try read(OptionalField(key, .anyName, ""))
    }

    /// A required id or name, not empty.
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

    /// A required whole number within a range.
    func requiredInteger(
        _ key: StaticString, in range: ClosedRange<Int>
    ) throws(ClientEventError) -> Int {
        try read(RequiredField(key, .integer(in: range), ""))
    }

    /// A case of an enumeration.
    func choice<Choice: CaseIterable & RawRepresentable<String>>(
        _ key: StaticString, _ type: Choice.Type = Choice.self
    ) throws(ClientEventError) -> Choice? {
        try read(OptionalField(key, .choice(of: type), ""))
    }
}

extension EventFields {
    /// The fields of `value`.
    /// - Throws: `invalid_type` where it is not an object.
    init(_ value: JSONValue, path: String) throws(ClientEventError) {
        guard value.kind == .object else { throw .wrongType(path, expected: "an object", value) }
        self.init(object: value, path: path)
    }
    /// The fields of the body of an HTTP request.
    /// - Throws: `invalid_json`, or `invalid_type` where it is not an object.
    init(body: [UInt8], _ parser: JSONParser) throws(ClientEventError) {
        let root: JSONValue
        do {
            root = try parser.parse(body)
        } catch {
            throw .bodyIsNotJSON(error)
        }
        guard root.kind == .object else { throw .bodyIsNotAnObject }
        self.init(object: root, path: "")
    }
}
