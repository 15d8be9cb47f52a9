// Fields of the protocol as values: a field's name, the rule for its value, and what its absence
// means. `EventFields.read` enforces the rule and the generated documents publish the same one, so
// that they cannot disagree.
//
// To add a field: declare it in its object's table (ClientEventTables, SessionFields,
// ConversationItemFields, …), list its `entry` in that table, and read it:
// ```
// static let speed = OptionalField("speed", .number(in: 0.25...1.5), "How fast the voice speaks.")
// static var table: ObjectTable { ObjectTable("OutputAudio", "…", [speed.entry, …]) }
// speed = try fields.patch(OutputAudioFields.speed)
// ```
// `read` returns a value, an optional or the default, depending on the declaration. ValueRules has
// the checks of values, ValueSchema their description in documents.

/// A rule for a value: checks it, converts it to a Swift value, and describes it in JSON Schema.
protocol ValueRule: Sendable {
    /// The type of an accepted value.
    associatedtype Value

    /// Describes the accepted values in a document; every value that `read` accepts fits it. It
    /// counts characters where `read` counts bytes, because JSON Schema does.
    var schema: ValueSchema { get }

    /// Reads a value that is present and not null.
    /// - Throws: `invalid_type`, `invalid_value`, or an `unsupported_…` code.
    func read(_ value: JSONValue, at path: FieldPath) throws(ClientEventError) -> Value
}

/// The place of a value in its event. The text is built only for an error.
struct FieldPath {
    /// Path of the enclosing object; empty for the event itself.
    let parent: String
    /// The key.
    let key: StaticString

    /// The path, for example `session.audio`.
    var text: String { parent.isEmpty ? "\(key)" : "\(parent).\(key)" }
}

// MARK: - Fields

/// A field that is required.
struct RequiredField<Rule: ValueRule>: Sendable {
    let name: StaticString
    let rule: Rule
    let meaning: StaticString

    init(_ name: StaticString, _ rule: Rule, _ meaning: StaticString) {
        self.name = name
        self.rule = rule
        self.meaning = meaning
    }

    /// The field in the generated documents.
    var entry: FieldEntry {
        FieldEntry(name, rule.schema, isRequired: true, meaning)
    }
}

/// A field that may be absent; `null` counts as absent.
struct OptionalField<Rule: ValueRule>: Sendable {
    let name: StaticString
    let rule: Rule
    let meaning: StaticString

    init(_ name: StaticString, _ rule: Rule, _ meaning: StaticString) {
        self.name = name
        self.rule = rule
        self.meaning = meaning
    }

    /// The field in the generated documents.
    var entry: FieldEntry {
        FieldEntry(name, rule.schema, isRequired: false, isNullable: true, meaning)
    }
}

/// A field with a default for an absent or null value.
struct DefaultedField<Rule: ValueRule>: Sendable where Rule.Value: DocumentedValue {
    let name: StaticString
    let rule: Rule
    let fallback: Rule.Value
    let meaning: StaticString

    init(
        _ name: StaticString, _ rule: Rule, default fallback: Rule.Value, _ meaning: StaticString
    ) {
        self.name = name
        self.rule = rule
        self.fallback = fallback
        self.meaning = meaning
    }

    /// The field in the generated documents.
    var entry: FieldEntry {
        FieldEntry(
            name, rule.schema, isRequired: false, isNullable: true,
            default: fallback.documentText, meaning)
    }
}

/// A value that can be a default and be written in a document.
protocol DocumentedValue: Sendable {
    /// The value as JSON.
    var documentText: RawJSON { get }
}

extension Int: DocumentedValue {
    var documentText: RawJSON { RawJSON("\(self)") }
}

extension Double: DocumentedValue {
    var documentText: RawJSON { RawJSON("\(self)") }
}

extension Bool: DocumentedValue {
    var documentText: RawJSON { RawJSON(self ? "true" : "false") }
}

/// Names of enumerations are the protocol's; they contain no character that JSON escapes.
extension DocumentedValue where Self: RawRepresentable<String> {
    var documentText: RawJSON { RawJSON("\"\(rawValue)\"") }
}

extension ConversationItem.Status: DocumentedValue {}
extension ImageDetail: DocumentedValue {}
extension TurnDetectionParameters.Eagerness: DocumentedValue {}

// MARK: - Reading

extension EventFields {
    /// The path of a field.
    func place(of key: StaticString) -> FieldPath { FieldPath(parent: path, key: key) }

    /// The unread value of a required field.
    /// - Throws: `missing_required_parameter`.
    func value<Rule>(of field: RequiredField<Rule>) throws(ClientEventError) -> JSONValue {
        guard let value = value(field.name) else { throw .missing(path(of: field.name)) }
        return value
    }

    /// Reads a required field.
    /// - Throws: `missing_required_parameter`, and what the rule throws.
    func read<Rule>(_ field: RequiredField<Rule>) throws(ClientEventError) -> Rule.Value {
        try field.rule.read(value(of: field), at: place(of: field.name))
    }

    /// Reads a field; nil where it is absent or null.
    func read<Rule>(_ field: OptionalField<Rule>) throws(ClientEventError) -> Rule.Value? {
        guard let value = value(field.name) else { return nil }
        return try field.rule.read(value, at: place(of: field.name))
    }

    /// Reads a field; its default where it is absent or null.
    func read<Rule>(_ field: DefaultedField<Rule>) throws(ClientEventError) -> Rule.Value {
        guard let value = value(field.name) else { return field.fallback }
        return try field.rule.read(value, at: place(of: field.name))
    }

    /// Reads a field of an update.
    func patch<Rule>(
        _ field: OptionalField<Rule>
    ) throws(ClientEventError) -> Patch<Rule.Value> where Rule.Value: Equatable & Sendable {
        guard let value = object[field.name] else { return .absent }
        if value.isNull { return .null }
        return .value(try field.rule.read(value, at: place(of: field.name)))
    }

    /// Reads a field of an update that has a value with the same meaning as `null`.
    func patch<Rule, Value>(
        _ field: OptionalField<Rule>
    ) throws(ClientEventError) -> Patch<Value>
    where Rule.Value == Value?, Value: Equatable & Sendable {
        guard let value = object[field.name] else { return .absent }
        if value.isNull { return .null }
        let read = try field.rule.read(value, at: place(of: field.name))
        return read.map(Patch.value) ?? .null
    }
}
