// Checks events against the generated documents: is this text one of the server's documented
// events? It reads the tables that /asyncapi.json is written from, and is stricter than a client: a
// field in no table is a violation. RealtimeSchema compares events with the protocol's own tables.

import Codec

/// Checks events against the tables behind the documents.
public enum DocumentedEvents {
    private static let serverEvents = Dictionary(
        uniqueKeysWithValues: ServerEventTables.all.map { ($0.name, $0) })

    /// The differences between a server event and the documents, one sentence each.
    public static func violations(inServerEvent text: String) -> [String] {
        guard let event = try? JSONParser().parse(text) else { return ["not JSON"] }
        let type = event["type"]?.string ?? ""
        guard let table = serverEvents[type] else { return ["'\(type)' is in no document"] }
        return violations(in: event, .object(table), at: "documented \(type)")
    }

    /// The differences between a value and a schema, one sentence each; empty if it fits.
    package static func violations(
        in value: JSONValue, _ schema: ValueSchema, at path: String
    ) -> [String] {
        switch schema {
        case .object(let table): return violations(in: value, table, at: path)
        case .nullable(let schema):
            return value.isNull ? [] : violations(in: value, schema, at: path)
        case .oneOf(let alternatives):
            let found = alternatives.map { violations(in: value, $0, at: path) }
            return found.contains([]) ? [] : found.min { $0.count < $1.count } ?? []
        case .list(let element, let minimum, let maximum):
            guard let elements = value.elements, elements.count >= minimum,
                elements.count <= maximum ?? .max
            else { return ["\(path): another array expected"] }
            return elements.enumerated()
                .flatMap { violations(in: $1, element, at: "\(path)[\($0)]") }
        case .map(let member, let maximum):
            guard let members = value.members, value.count <= maximum ?? .max else {
                return ["\(path): a map expected"]
            }
            return members.flatMap { violations(in: $0.value, member, at: "\(path).\($0.key)") }
        default:
            return fits(value, schema) ? [] : ["\(path): \(value.raw.text.prefix(40))"]
        }
    }

    /// Whether a value that is not a container fits.
    private static func fits(_ value: JSONValue, _ schema: ValueSchema) -> Bool {
        switch schema {
        case .any: true
        case .never: false
        case .anyObject: value.kind == .object
        case .text(let maximum): value.string.map { $0.count <= maximum ?? .max } ?? false
        case .identifier(let maximum): value.string.map { (1...maximum) ~= $0.count } ?? false
        case .pattern(let expression, let maximum, _):
            value.string.map { text in
                guard text.count <= maximum, let regex = try? Regex(expression) else {
                    return false
                }
                return text.firstMatch(of: regex) != nil
            } ?? false
        case .base64: value.string.map { $0.utf8.count % 4 == 0 } ?? false
        case .constant(let text): value.string == text
        case .choice(let names): value.string.map(names.contains) ?? false
        case .boolean: value.kind == .bool
        // As written: client libraries refuse 1.0 where they expect 1.
        case .integer(let range):
            !value.raw.text.contains { ".eE".contains($0) }
                && value.int.map(range.contains) ?? false
        case .number(let range): value.double.map(range.contains) ?? false
        case .list, .map, .object, .oneOf, .nullable: preconditionFailure("a value with parts")
        }
    }

    private static func violations(
        in value: JSONValue, _ table: ObjectTable, at path: String
    ) -> [String] {
        guard let members = value.members else { return ["\(path): an object expected"] }
        var found: [String] = []
        var seen: Set<String> = []
        for (key, member) in members {
            seen.insert(key)
            guard let field = table.fields.first(where: { "\($0.name)" == key }) else {
                found.append("\(path).\(key): \(table.name) has no such field")
                continue
            }
            found += violations(in: member, field.schema, at: "\(path).\(key)")
        }
        for field in table.fields where field.isRequired && !seen.contains("\(field.name)") {
            found.append("\(path).\(field.name): is missing")
        }
        return found
    }
}
