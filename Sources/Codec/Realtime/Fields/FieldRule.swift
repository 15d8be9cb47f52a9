// Fields of the protocol as values: what a field is called, what it may hold, what it means where
// it is left out. `EventFields.read` enforces a rule, and a document publishes it, so that it
// cannot promise what the server does not check.
//
// To add a field: declare it in the table of its object (ClientEventTables, SessionFields,
// ConversationItemFields, …), list its `entry` in that table, and read it:
// ```
// static let speed = OptionalField("speed", .number(in: 0.25...1.5), "How fast the voice speaks.")
// static var table: ObjectTable { ObjectTable("OutputAudio", "…", [speed.entry, …]) }
// speed = try fields.patch(OutputAudioFields.speed)
// ```
// `read` gives a value, an optional or the default, as the field is declared. How values are
// checked is in ValueRules, what can be said of them in a document in ValueSchema.

/// What a value must be: checks it and gives it as Swift has it, and says the same in JSON Schema.
protocol ValueRule: Sendable {
    /// What an accepted value is read as.
    associatedtype Value

    /// What a document says of the values. Whatever `read` accepts fits it. A limit in bytes is
    /// said in characters there, which JSON Schema counts.
    var schema: ValueSchema { get }

    /// Reads a value that is there and not null.
    /// - Throws: `invalid_type`, `invalid_value`, or an `unsupported_…` code.
    func read(
        _ value: JSONValue, at path: FieldPath, _ limits: ClientEventLimits
    ) throws(ClientEventError) -> Value
}

/// Where a value stands in its event; a text only once somebody has to be told.
struct FieldPath {
    /// Path of the object around it; empty for the event itself.
    let parent: String
    /// The key.
    let key: StaticString

    /// The path, for example `session.audio`.
    var text: String { parent.isEmpty ? "\(key)" : "\(parent).\(key)" }
}

// MARK: - Fields

/// A field that must be there.
struct RequiredField<Rule: ValueRule>: Sendable {
    let name: StaticString
    let rule: Rule
    let meaning: StaticString

    init(_ name: StaticString, _ rule: Rule, _ meaning: StaticString) {
        self.name = name
        self.rule = rule
        self.meaning = meaning
    }

    /// The field as the documents have it.
    var entry: FieldEntry {
        FieldEntry(name, rule.schema, isRequired: true, meaning)
    }
}

/// A field that may be absent; `null` reads as absent.
struct OptionalField<Rule: ValueRule>: Sendable {
    let name: StaticString
    let rule: Rule
    let meaning: StaticString

    init(_ name: StaticString, _ rule: Rule, _ meaning: StaticString) {
        self.name = name
        self.rule = rule
        self.meaning = meaning
    }

    /// The field as the documents have it.
    var entry: FieldEntry {
        FieldEntry(name, rule.schema, isRequired: false, isNullable: true, meaning)
    }
}

/// A field that has a value also where it is absent or null.
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

    /// The field as the documents have it.
    var entry: FieldEntry {
        FieldEntry(
            name, rule.schema, isRequired: false, isNullable: true,
            default: fallback.documentText, meaning)
    }
}

/// A value that can be a default, and be written in a document.
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

/// The names of an enumeration are the protocol's, which have nothing that JSON escapes.
extension DocumentedValue where Self: RawRepresentable<String> {
    var documentText: RawJSON { RawJSON("\"\(rawValue)\"") }
}

extension ConversationItem.Status: DocumentedValue {}
extension ImageDetail: DocumentedValue {}
extension TurnDetectionParameters.Eagerness: DocumentedValue {}

// MARK: - Reading

extension EventFields {
    /// The place of a field.
    func place(of key: StaticString) -> FieldPath { FieldPath(parent: path, key: key) }

    /// A field that must be there, unread.
    /// - Throws: `missing_required_parameter`.
    func value<Rule>(of field: RequiredField<Rule>) throws(ClientEventError) -> JSONValue {
        guard let value = value(field.name) else { throw .missing(path(of: field.name)) }
        return value
    }

    /// A field that must be there.
    /// - Throws: `missing_required_parameter`, and what the rule throws.
    func read<Rule>(_ field: RequiredField<Rule>) throws(ClientEventError) -> Rule.Value {
        try field.rule.read(value(of: field), at: place(of: field.name), limits)
    }

    /// A field, or nil where it is absent or null.
    func read<Rule>(_ field: OptionalField<Rule>) throws(ClientEventError) -> Rule.Value? {
        guard let value = value(field.name) else { return nil }
        return try field.rule.read(value, at: place(of: field.name), limits)
    }

    /// A field, or its default where it is absent or null.
    func read<Rule>(_ field: DefaultedField<Rule>) throws(ClientEventError) -> Rule.Value {
        guard let value = value(field.name) else { return field.fallback }
        return try field.rule.read(value, at: place(of: field.name), limits)
    }

    /// What a field of an update says.
    func patch<Rule>(
        _ field: OptionalField<Rule>
    ) throws(ClientEventError) -> Patch<Rule.Value> where Rule.Value: Equatable & Sendable {
        guard let value = object[field.name] else { return .absent }
        if value.isNull { return .null }
        return .value(try field.rule.read(value, at: place(of: field.name), limits))
    }

    /// What a field of an update says, where one of its values means the same as `null`.
    func patch<Rule, Value>(
        _ field: OptionalField<Rule>
    ) throws(ClientEventError) -> Patch<Value>
    where Rule.Value == Value?, Value: Equatable & Sendable {
        guard let value = object[field.name] else { return .absent }
        if value.isNull { return .null }
        let read = try field.rule.read(value, at: place(of: field.name), limits)
        return read.map(Patch.value) ?? .null
    }
}
