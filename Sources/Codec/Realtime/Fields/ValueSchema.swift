// What the documents can say of a value, and the tables of fields that they are made of. Codec and
// Server declare; JSONSchemaWriter writes.

/// What a value may be, in the words that JSON Schema has for it.
package indirect enum ValueSchema: Sendable {
    /// Anything.
    case any
    /// Nothing: the field is known, and refused by name.
    case never
    /// Anything that is an object.
    case anyObject
    /// A string of at most so many characters.
    case text(atMost: Int? = nil)
    /// A string that is not empty, of at most so many characters.
    case identifier(atMost: Int)
    /// A string of at most so many characters that matches a regular expression.
    case pattern(String, atMost: Int, example: String = "a")
    /// Bytes as base64 (RFC 4648 §4).
    case base64
    /// One string.
    case constant(String)
    /// One of several strings.
    case choice([String])
    case boolean
    /// A whole number; `Int.min` and `Int.max` are no limit.
    case integer(ClosedRange<Int> = Int.min...Int.max)
    /// A number; infinities are no limit.
    case number(ClosedRange<Double> = -Double.infinity...Double.infinity)
    /// An array.
    case list(ValueSchema, atLeast: Int = 0, atMost: Int? = nil)
    /// An object with keys of the peer's choice.
    case map(ValueSchema, atMost: Int? = nil)
    /// The object of a table.
    case object(ObjectTable)
    /// A value of any of these.
    case oneOf([ValueSchema])
    /// The value or null.
    case nullable(ValueSchema)
}

/// One field of an object.
package struct FieldEntry: Sendable {
    /// The key.
    package let name: StaticString
    /// What it may hold.
    package let schema: ValueSchema
    /// Whether it is always there.
    package let isRequired: Bool
    /// What absence means, as JSON.
    package let fallback: RawJSON?
    /// A sentence for a person.
    package let meaning: StaticString

    /// Creates an entry.
    package init(
        _ name: StaticString, _ schema: ValueSchema, isRequired: Bool = true,
        isNullable: Bool = false, default fallback: RawJSON? = nil, _ meaning: StaticString
    ) {
        self.name = name
        self.schema = isNullable ? .nullable(schema) : schema
        self.isRequired = isRequired
        self.fallback = fallback
        self.meaning = meaning
    }

    /// A field that is left out where it does not apply.
    package static func optional(
        _ name: StaticString, _ schema: ValueSchema, _ meaning: StaticString
    ) -> FieldEntry {
        FieldEntry(name, schema, isRequired: false, meaning)
    }
}

/// The fields of one kind of object.
package struct ObjectTable: Sendable {
    /// What it is called; unique in a document.
    package let name: String
    /// A sentence for a person.
    package let meaning: StaticString
    /// Its fields, in the order in which they are read or written.
    package let fields: [FieldEntry]
    /// Optional fields of which at least one must be there; empty: none need be.
    package let oneNeeded: [StaticString]

    /// Its key among the schemas or messages of a document. Events have dots in their names, which
    /// not every tool takes in a key.
    package var key: String { String(name.map { $0 == "." ? "_" : $0 }) }

    /// Creates a table.
    package init(
        _ name: String, _ meaning: StaticString, _ fields: [FieldEntry],
        oneNeeded: [StaticString] = []
    ) {
        self.oneNeeded = oneNeeded
        self.name = name
        self.meaning = meaning
        self.fields = fields
    }
}

/// The fields of an object that a client sends. Tables are made when a document is, and go with it:
/// a server that nobody asks has none in its memory.
protocol FieldTable {
    /// All fields that are read.
    static var table: ObjectTable { get }
}

/// A value that a client sends as an object, or as one of several kinds of object.
protocol ReadableObject {
    /// What the documents say of it.
    static var schema: ValueSchema { get }

    /// Reads it.
    init(_ fields: EventFields) throws(ClientEventError)
}
