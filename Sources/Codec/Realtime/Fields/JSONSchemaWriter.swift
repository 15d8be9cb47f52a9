// Writes the tables of fields as JSON schemas, in the vocabulary that JSON Schema 2020-12 (OpenAPI
// 3.1) and the Schema Object of AsyncAPI 3.0 share. Server writes the documents around them
// (AsyncAPIDocument, OpenAPIDocument).

/// Writes the schemas of one document, and records the objects that they refer to.
package struct JSONSchemaWriter: ~Copyable {
    /// The document so far.
    package var json: JSONWriter
    /// Objects that schemas refer to, in the order of the first reference.
    private var tables: [ObjectTable] = []

    /// Starts a document.
    package init(_ json: consuming JSONWriter) { self.json = json }

    /// Returns the document.
    package consuming func finish() -> JSONWriter { json }

    // MARK: Schemas

    /// Writes the schema of a value.
    package mutating func schema(_ schema: ValueSchema) {
        json.beginObject()
        members(of: schema)
        json.endObject()
    }

    /// Writes the members `type`, `properties` and `required` of an object's schema, and its
    /// description.
    package mutating func object(_ table: ObjectTable) {
        json.beginObject()
        json.member("type", "object")
        json.member("description", "\(table.meaning)")
        json.key("properties")
        json.beginObject()
        for field in table.fields {
            json.key(field.name)
            self.field(field)
        }
        json.endObject()
        let required = table.fields.filter(\.isRequired)
        if !required.isEmpty {
            json.array("required") { json in
                for field in required { json.string("\(field.name)") }
            }
        }
        if !table.oneNeeded.isEmpty {
            json.array("anyOf") { json in
                for name in table.oneNeeded {
                    json.object { json in json.array("required") { $0.string("\(name)") } }
                }
            }
        }
        json.endObject()
    }

    /// Writes `"schemas": {…}` with every object that is referred to, directly or by another.
    package mutating func components() {
        json.key("schemas")
        json.beginObject()
        var index = 0
        while index < tables.count {
            let table = tables[index]
            json.key(text: table.key)
            object(table)
            index += 1
        }
        json.endObject()
    }

    private mutating func field(_ field: FieldEntry) {
        json.beginObject()
        if let target = field.schema.table {
            // AsyncAPI ignores members beside `$ref`, including the description.
            json.key("allOf")
            json.beginArray()
            schema(.object(target))
            json.endArray()
        } else {
            members(of: field.schema)
        }
        if let fallback = field.fallback { json.member("default", fallback) }
        json.member("description", "\(field.meaning)")
        json.endObject()
    }

    private mutating func members(of schema: ValueSchema) {
        switch schema {
        case .any: break
        case .never: json.object("not") { _ in }
        case .object(let table): reference(to: table)
        case .oneOf(let alternatives): anyOf(alternatives)
        case .nullable(let schema): nullable(schema)
        case .constant(let text):
            json.member("type", "string")
            json.member("const", text)
        case .choice(let names):
            json.member("type", "string")
            json.array("enum") { json in
                for name in names { json.string(name) }
            }
        case .anyObject, .text, .identifier, .pattern, .base64, .boolean, .integer, .number, .list,
            .map:
            json.member("type", schema.typeName)
            bounds(of: schema)
        }
    }

    private mutating func nullable(_ schema: ValueSchema) {
        switch schema {
        case .any, .nullable: members(of: schema)
        case .oneOf(let alternatives): anyOf(alternatives, orNull: true)
        case .never, .object, .constant, .choice: anyOf([schema], orNull: true)
        case .anyObject, .text, .identifier, .pattern, .base64, .boolean, .integer, .number, .list,
            .map:
            json.array("type") { json in
                json.string(schema.typeName)
                json.string("null")
            }
            bounds(of: schema)
        }
    }

    private mutating func bounds(of schema: ValueSchema) {
        switch schema {
        case .text(let maximum):
            if let maximum { json.member("maxLength", maximum) }
        case .identifier(let maximum):
            json.member("minLength", 1)
            json.member("maxLength", maximum)
        case .pattern(let expression, let maximum, _):
            json.member("maxLength", maximum)
            json.member("pattern", expression)
        case .base64: json.member("contentEncoding", "base64")
        case .integer(let range):
            if range.lowerBound != .min { json.member("minimum", range.lowerBound) }
            if range.upperBound != .max { json.member("maximum", range.upperBound) }
        case .number(let range):
            if range.lowerBound.isFinite { json.member("minimum", number: range.lowerBound) }
            if range.upperBound.isFinite { json.member("maximum", number: range.upperBound) }
        case .list(let element, let minimum, let maximum):
            if minimum > 0 { json.member("minItems", minimum) }
            if let maximum { json.member("maxItems", maximum) }
            json.key("items")
            self.schema(element)
        case .map(let value, let maximum):
            if let maximum { json.member("maxProperties", maximum) }
            json.key("additionalProperties")
            self.schema(value)
        case .any, .never, .anyObject, .boolean, .constant, .choice, .object, .oneOf, .nullable:
            break
        }
    }

    private mutating func anyOf(_ alternatives: [ValueSchema], orNull: Bool = false) {
        json.key("anyOf")
        json.beginArray()
        for alternative in alternatives { schema(alternative) }
        if orNull { json.object { $0.member("type", "null") } }
        json.endArray()
    }

    private mutating func reference(to table: ObjectTable) {
        if !tables.contains(where: { $0.name == table.name }) { tables.append(table) }
        json.member("$ref", "#/components/schemas/\(table.key)")
    }
}

extension ValueSchema {
    /// The object's table, if the value must be one particular object.
    fileprivate var table: ObjectTable? {
        guard case .object(let table) = self else { return nil }
        return table
    }

    /// The `type` of JSON Schema.
    fileprivate var typeName: String {
        switch self {
        case .text, .identifier, .pattern, .base64, .constant, .choice: "string"
        case .boolean: "boolean"
        case .integer: "integer"
        case .number: "number"
        case .list: "array"
        case .anyObject, .map, .object: "object"
        case .any, .never, .oneOf, .nullable:
            preconditionFailure("a schema without a type of its own")
        }
    }
}
