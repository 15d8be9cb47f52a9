// Descriptions of values for the generated documents, and the tables of fields that documents
// consist of. Codec and Server declare them; JSONSchemaWriter writes them.

/// The allowed values of a field, in the terms of JSON Schema.
package indirect enum ValueSchema: Sendable {
    /// Any value.
    case any
    /// No value: the field is known, and refused by name.
    case never
    /// Any object.
    case anyObject
    /// A string with a maximum number of characters.
    case text(atMost: Int? = nil)
    /// A non-empty string with a maximum number of characters.
    case identifier(atMost: Int)
    /// A string with a maximum number of characters that matches a regular expression.
    case pattern(String, atMost: Int, example: String = "a")
    /// Bytes as base64 (RFC 4648 §4).
    case base64
    /// One string.
    case constant(String)
    /// One of several strings.
    case choice([String])
    case boolean
    /// A whole number; `Int.min` and `Int.max` mean no limit.
    case integer(ClosedRange<Int> = Int.min...Int.max)
    /// A number; infinities mean no limit.
    case number(ClosedRange<Double> = -Double.infinity...Double.infinity)
    /// An array.
    case list(ValueSchema, atLeast: Int = 0, atMost: Int? = nil)
    /// An object whose keys the peer chooses.
    case map(ValueSchema, atMost: Int? = nil)
    /// An object of a table.
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
    /// Its allowed values.
    package let schema: ValueSchema
    /// Whether it is always present.
    package let isRequired: Bool
    /// The value, as JSON, that an absent field has.
    package let fallback: RawJSON?
    /// Its description: a sentence for people.
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

    /// A field that is omitted where it does not apply.
    package static func optional(
        _ name: StaticString, _ schema: ValueSchema, _ meaning: StaticString
    ) -> FieldEntry {
        FieldEntry(name, schema, isRequired: false, meaning)
    }
}

/// The fields of one kind of object.
package struct ObjectTable: Sendable {
    /// Its name; unique in a document.
    package let name: String
    /// Its description: a sentence for people.
    package let meaning: StaticString
    /// Its fields, in reading or writing order.
    package let fields: [FieldEntry]
    /// Optional fields of which at least one is required; empty: none is.
    package let oneNeeded: [StaticString]

    /// Its key among the schemas or messages of a document. Events have dots in their names, and
    /// some tools do not accept dots in a key.
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

/// The fields of an object that a client sends. Tables are created with a document and freed with
/// it, so a server that serves no document keeps none in memory.
protocol FieldTable {
    /// All fields that are read.
    static var table: ObjectTable { get }
}

/// A value that a client sends as an object, or as one of several kinds of object.
protocol ReadableObject {
    /// Its description for the documents.
    static var schema: ValueSchema { get }

    /// Reads the object.
    init(_ fields: EventFields) throws(ClientEventError)
}
