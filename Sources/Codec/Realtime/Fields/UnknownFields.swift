// Finds the fields of a client event that the protocol does not have: misspelt ones, those of the
// beta, and those at the wrong place. They would have no effect, and the client would get no error.
//
// The tables of the published documents decide, so that a field is known here exactly if it is
// documented. The settings of session.update and response.create are checked to their depth, other
// events at their top. Items are not checked: clients send back items as servers have written them.

/// A field that no table has.
struct UnknownField: Equatable {
    /// Its path, for example `session.turn_detection`.
    let path: String
    /// Its name.
    let name: String
    /// The fields that its object may have.
    let known: [String]
}

extension ClientEventType {
    /// Refuses a field that the protocol does not have.
    /// - Throws: `unknown_parameter`, which names where the field belongs, if it exists elsewhere.
    func checkNames(_ fields: EventFields) throws(ClientEventError) {
        try ValueSchema.object(table).checkNames(of: fields.object, at: "")
    }
}

extension ValueSchema {
    /// Items, whose fields are not checked.
    private static let items = ["item", "response.input"]
    /// Fields of a session that the server writes, and clients may send back.
    private static let serverFields = ["session.id", "session.object", "session.expires_at"]

    /// Refuses a field of a value, or of a part of it, that no table of this schema has.
    /// - Throws: `unknown_parameter`.
    func checkNames(of value: JSONValue, at path: String) throws(ClientEventError) {
        guard let unknown = unknownField(of: value, at: path) else { return }
        throw .unknownParameter(unknown, belongsAt: self.path(of: unknown.name, below: path))
    }

    /// The first field, in the order of writing, that no table has, or nil where all are known.
    func unknownField(of value: JSONValue, at path: String) -> UnknownField? {
        switch value.kind {
        case .object: return unknownMember(of: value, at: path)
        case .array:
            guard let element = elementSchema, let elements = value.elements else { return nil }
            for (index, value) in elements.enumerated() {
                if let unknown = element.unknownField(of: value, at: "\(path)[\(index)]") {
                    return unknown
                }
            }
            return nil
        case .null, .bool, .number, .string: return nil
        }
    }

    private func unknownMember(of value: JSONValue, at path: String) -> UnknownField? {
        let fields = tables.flatMap(\.fields)
        guard !fields.isEmpty, let members = value.members else { return nil }
        let schemas = Dictionary(grouping: fields) { "\($0.name)" }
        for (name, value) in members {
            let path = path.isEmpty ? name : "\(path).\(name)"
            guard let known = schemas[name]?.map(\.schema) else {
                if Self.serverFields.contains(path) { continue }
                return UnknownField(path: path, name: name, known: fields.names)
            }
            if Self.items.contains(path) { continue }
            if let unknown = ValueSchema.oneOf(known).unknownField(of: value, at: path) {
                return unknown
            }
        }
        return nil
    }

    /// The kinds of object that a value may be; empty: none, or any object.
    private var tables: [ObjectTable] {
        switch self {
        case .object(let table): [table]
        case .oneOf(let schemas): schemas.flatMap(\.tables)
        case .nullable(let schema): schema.tables
        case .any, .never, .anyObject, .text, .identifier, .pattern, .base64, .constant, .choice,
            .boolean, .integer, .number, .list, .map:
            []
        }
    }

    /// The schema of an array's elements. Nil means that the value may be no array.
    private var elementSchema: ValueSchema? {
        switch self {
        case .list(let element, _, _): element
        case .nullable(let schema): schema.elementSchema
        case .oneOf(let schemas): schemas.lazy.compactMap(\.elementSchema).first
        case .any, .never, .anyObject, .text, .identifier, .pattern, .base64, .constant, .choice,
            .boolean, .integer, .number, .map, .object:
            nil
        }
    }

    /// Where a field of this name belongs: the first place in the order of the tables.
    private func path(of name: String, below path: String) -> String? {
        for entry in tables.flatMap(\.fields) {
            let place = path.isEmpty ? "\(entry.name)" : "\(path).\(entry.name)"
            if "\(entry.name)" == name { return place }
            if let found = entry.schema.path(of: name, below: place) { return found }
        }
        return nil
    }
}

extension [FieldEntry] {
    /// The names, each once.
    fileprivate var names: [String] {
        reduce(into: []) { names, entry in
            if !names.contains("\(entry.name)") { names.append("\(entry.name)") }
        }
    }
}

extension ClientEventError {
    /// A field that the protocol does not have.
    /// - Parameter place: where a field of its name belongs, or nil where the protocol has no such
    ///   name.
    fileprivate static func unknownParameter(
        _ field: UnknownField, belongsAt place: String?
    ) -> ClientEventError {
        let similar = field.known.first { $0.contains(field.name) || field.name.contains($0) }
        let hint =
            place.map { "The field belongs at '\($0)'." }
            ?? similar.map { "Did you mean '\($0)'?" }
            ?? "Known parameters there are \(quotedList(field.known))."
        return ClientEventError(
            code: "unknown_parameter", message: "Unknown parameter: '\(field.path)'. \(hint)",
            param: field.path)
    }
}
