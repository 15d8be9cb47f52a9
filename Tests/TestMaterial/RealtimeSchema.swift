// Checks events against the protocol's tables: is this text a server event that every client
// library accepts? Tests pass in everything that a session or a server has sent. The checker reads
// Tests/Fixtures/realtime-events.json, a table of the names and types of every event. It is
// stricter than the table where real clients are: an unknown field is a violation, and so is a
// `null` inside an item or a part.
//
// It does not check the order of events.

import Codec
import Foundation

/// Checks events against the protocol's tables.
public struct RealtimeSchema: Sendable {
    /// A field of an object.
    struct Field: Sendable {
        let type: TypeExpression
        let isRequired: Bool
        let isNullable: Bool
    }

    /// The checker of the protocol.
    public static let shared = RealtimeSchema()
    /// The checker of the beta's dialect.
    public static let beta = RealtimeSchema(isBeta: true)

    /// The checker of a dialect.
    public static func of(_ dialect: RealtimeDialect) -> RealtimeSchema {
        dialect == .ga ? shared : beta
    }

    private let serverEvents: [String: [String: Field]]
    private let clientEvents: [String: [String: Field]]
    private let objects: [String: [String: Field]]
    /// The object of an item, by `type` (for messages by `type/role`).
    private let items: [String: String]

    private let isBeta: Bool
    /// Allowed fields that the table does not have.
    private let fieldsBesideTheTable: [String: Set<String>]

    /// Those of the protocol; the beta's are in its fixture.
    private static let fieldsBesideTheTable: [String: Set<String>] = [
        // The protocol's own server sends these; the table describes the request's class.
        "RealtimeSessionCreateRequest": ["id", "object", "expires_at"],
        "RealtimeTranscriptionSessionCreateRequest": ["id", "object", "expires_at"],
        // Extensions of Parley, sent only to a client that has requested them.
        "RealtimeAudioConfigOutput": ["transport"],
        "ServerVad": turnDetectionExtensions, "SemanticVad": turnDetectionExtensions,
        "response.output_audio.delta": ["audio_start_ms"],
        "conversation.item.truncated": ["transcript"],
    ]
    private static let turnDetectionExtensions: Set<String> = [
        "interruption", "min_interruption_ms", "patience", "speculative_response",
    ]
    /// Reasons of an ending that only a session has that can be resumed.
    private static let ownReasons: Set<String> = ["handed_over", "interrupted_by_restart"]
    /// Whether only Parley has an event, by its name; DocumentedEvents alone checks it.
    public static func isOwn(_ event: String) -> Bool { event.hasPrefix("parley.") }
    /// Fields of events that only Parley has, for a client that can resume its session.
    private static let ownEventFields: Set<String> = ["offset", "resume"]
    /// Rates of `audio/pcm` that are not in the table.
    private static let ownRates: Set<Int> = [8_000, 16_000, 48_000]
    /// The fields of `audio/opus`, a format that is not in the table.
    private static let opusFields: Set<String> = [
        "type", "sequence", "bitrate", "complexity", "dtx",
    ]

    /// Reads a fixture.
    /// - Precondition: the fixture exists and is complete; it is part of the repository.
    public init(isBeta: Bool = false) {
        self.isBeta = isBeta
        let name = isBeta ? "realtime-beta-events.json" : "realtime-events.json"
        let file = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../Fixtures/\(name)")
        guard let data = try? Data(contentsOf: file),
            let root = try? JSONSerialization.jsonObject(with: data) as? [String: Any]
        else { fatalError("Tests/Fixtures/\(name) cannot be read") }
        serverEvents = Self.fieldTables(root["server_events"])
        clientEvents = Self.fieldTables(root["client_events"])
        objects = Self.fieldTables(root["objects"])
        items = root["conversation_item_types"] as? [String: String] ?? [:]
        let beside = root["beside_the_table"] as? [String: [String]]
        fieldsBesideTheTable = beside?.mapValues { Set($0) } ?? Self.fieldsBesideTheTable
        let counts = [serverEvents.count, clientEvents.count, items.count]
        precondition(counts == (isBeta ? [35, 12, 0] : [46, 11, 9]))
    }

    private static func fieldTables(_ section: Any?) -> [String: [String: Field]] {
        guard let section = section as? [String: [String: Any]] else { return [:] }
        return section.mapValues { description in
            let rows = description["fields"] as? [[String: Any]] ?? []
            let fields = rows.map { row in
                let field = Field(
                    type: TypeExpression(parsing: row["type"] as? String ?? ""),
                    isRequired: row["required"] as? Bool ?? true,
                    isNullable: row["nullable"] as? Bool ?? false)
                return (row["name"] as? String ?? "", field)
            }
            return Dictionary(uniqueKeysWithValues: fields)
        }
    }

    /// The names of all server events of the table.
    public var serverEventTypes: Set<String> { Set(serverEvents.keys) }

    /// The names of all client events of the table.
    public var clientEventTypes: Set<String> { Set(clientEvents.keys) }

    /// The violations in a server event, one sentence each.
    public func violations(inServerEvent text: String) -> [String] {
        violations(in: text, serverEvents, skipsOwn: true)
            + (isBeta ? [] : DocumentedEvents.violations(inServerEvent: text))
    }

    /// The violations in a client event, one sentence each.
    public func violations(inClientEvent text: String) -> [String] {
        violations(in: text, clientEvents)
    }

    private func violations(
        in text: String, _ events: [String: [String: Field]], skipsOwn: Bool = false
    ) -> [String] {
        let event: JSONValue
        do {
            event = try JSONParser().parse(text)
        } catch {
            return ["not JSON: \(error.explanation)"]
        }
        guard let type = event["type"]?.string else { return ["the event has no type"] }
        if skipsOwn, Self.isOwn(type) { return [] }
        guard let fields = events[type] else { return ["'\(type)' is not an event"] }
        return check(event, fields, named: type, at: type)
    }

    // MARK: Values

    private func check(_ value: JSONValue, _ type: TypeExpression, at path: String) -> [String] {
        func expect(_ isRight: Bool, _ what: String) -> [String] {
            isRight ? [] : ["\(path): \(what) expected, found \(value.raw.text.prefix(40))"]
        }
        switch type {
        case .any: return []
        case .null: return expect(value.isNull, "null")
        case .string: return expect(value.kind == .string, "a string")
        case .boolean: return expect(value.kind == .bool, "a boolean")
        case .number: return expect(value.kind == .number, "a number")
        case .integer:
            // As written: client libraries refuse 1.0 where they expect 1.
            let isInteger = value.kind == .number && !value.raw.text.contains { ".eE".contains($0) }
            return expect(isInteger, "an integer")
        case .choice(let names):
            let name = value.string ?? value.raw.text
            if path.hasSuffix(".status_details.reason"), Self.ownReasons.contains(name) {
                return []
            }
            return expect(names.contains(name), "one of \(names.joined(separator: "|"))")
        case .array(let element):
            guard let elements = value.elements else { return expect(false, "an array") }
            return elements.enumerated().flatMap { check($1, element, at: "\(path)[\($0)]") }
        case .map(let element):
            guard let members = value.members else { return expect(false, "an object") }
            return members.flatMap { check($0.value, element, at: "\(path).\($0.key)") }
        case .union(let alternatives): return check(value, oneOf: alternatives, at: path)
        case .object("ConversationItem") where !isBeta: return checkItem(value, at: path)
        case .object(let name):
            guard let fields = objects[name] else {
                return ["\(path): no object \(name) in the table"]
            }
            return check(value, fields, named: name, at: path)
        }
    }

    private func check(
        _ value: JSONValue, oneOf alternatives: [TypeExpression], at path: String
    ) -> [String] {
        if isFormatBesideTheTable(value, alternatives) { return [] }
        let results = alternatives.map { (type: $0, violations: check(value, $0, at: path)) }
        if results.contains(where: \.violations.isEmpty) { return [] }
        // The alternative with the same `type` gives the best message.
        let closest = results.first { hasTypeField($0.type, of: value) }
        return closest?.violations ?? ["\(path): none of the alternatives fits \(value.raw.text)"]
    }

    private func isFormatBesideTheTable(
        _ value: JSONValue, _ alternatives: [TypeExpression]
    ) -> Bool {
        guard alternatives.contains(.object("AudioPCMU")), let members = value.members else {
            return false
        }
        switch value["type"]?.string {
        case "audio/opus": return members.allSatisfy { Self.opusFields.contains($0.key) }
        case "audio/pcm":
            return members.allSatisfy { ["type", "rate"].contains($0.key) }
                && value["rate"]?.int.map(Self.ownRates.contains) == true
        default: return false
        }
    }

    private func hasTypeField(_ alternative: TypeExpression, of value: JSONValue) -> Bool {
        guard case .object(let name) = alternative, let type = value["type"],
            let field = objects[name]?["type"]
        else { return false }
        return check(type, field.type, at: "").isEmpty
    }

    private func checkItem(_ item: JSONValue, at path: String) -> [String] {
        let type = item["type"]?.string ?? ""
        let role = item["role"]?.string ?? ""
        // Allowed only in a response's `input`; the table does not list it among the kinds of
        // items.
        let reference = type == "item_reference" ? "ResponseItemReferenceParam" : nil
        guard let name = reference ?? items[type] ?? items["\(type)/\(role)"],
            let fields = objects[name]
        else {
            return ["\(path): no item of type '\(type)' and role '\(role)'"]
        }
        return check(item, fields, named: name, at: path)
    }

    private func check(
        _ value: JSONValue, _ fields: [String: Field], named name: String, at path: String
    ) -> [String] {
        guard let members = value.members else { return ["\(path): an object expected"] }
        var found: [String] = []
        var seen: Set<String> = []
        let forbidsNull = name.hasPrefix("RealtimeConversationItem") || name.hasSuffix("Part")
        for (key, member) in members {
            let memberPath = "\(path).\(key)"
            if !seen.insert(key).inserted { found.append("\(memberPath): is there twice") }
            guard let field = fields[key] else {
                let isOwn = path == name && Self.ownEventFields.contains(key)
                if !isOwn, fieldsBesideTheTable[name]?.contains(key) != true {
                    found.append("\(memberPath): not a field of \(name)")
                }
                continue
            }
            if member.isNull && !field.isNullable {
                if field.isRequired || forbidsNull { found.append("\(memberPath): is null") }
            } else {
                found += check(member, field.type, at: memberPath)
            }
        }
        for (key, field) in fields.sorted(by: { $0.key < $1.key })
        where field.isRequired && !seen.contains(key) {
            found.append("\(path).\(key): is missing")
        }
        return found
    }
}

/// A type in the table's notation, for example `union(integer | enum(inf))`.
indirect enum TypeExpression: Equatable, Sendable {
    case any, null, string, integer, number, boolean
    case choice([String])
    case array(TypeExpression)
    case map(TypeExpression)
    case union([TypeExpression])
    case object(String)

    /// - Precondition: the text is one type; the table is part of the repository.
    init(parsing text: String) {
        var reader = TypeReader(rest: text[...])
        self = reader.alternatives()
        precondition(reader.rest.isEmpty, "cannot read the type \(text)")
    }
}

/// Parses a type expression from the front of a text.
private struct TypeReader {
    var rest: Substring

    mutating func skip(_ text: String) -> Bool {
        guard rest.hasPrefix(text) else { return false }
        rest.removeFirst(text.count)
        return true
    }

    /// One type, or several separated by bars.
    mutating func alternatives() -> TypeExpression {
        var types = [single()]
        while skip(" | ") || skip("|") { types.append(single()) }
        return types.count == 1 ? types[0] : .union(types)
    }

    mutating func single() -> TypeExpression {
        if skip("enum(") {
            let names = rest.prefix { $0 != ")" }
            rest.removeFirst(names.count + 1)
            return .choice(names.split(separator: "|").map(String.init))
        }
        if skip("array<") { return .array(nested(until: ">")) }
        if skip("map<string,") { return .map(nested(until: ">")) }
        if skip("union(") { return nested(until: ")") }
        let name = rest.prefix { $0.isLetter || $0.isNumber || $0 == "." || $0 == "_" }
        precondition(!name.isEmpty, "cannot read a type at \(rest)")
        rest.removeFirst(name.count)
        switch name {
        case "any": return .any
        case "null": return .null
        case "string": return .string
        case "integer": return .integer
        case "number": return .number
        case "boolean": return .boolean
        default: return .object(String(name))
        }
    }

    mutating func nested(until end: String) -> TypeExpression {
        let type = alternatives()
        precondition(skip(end), "'\(end)' expected at \(rest)")
        return type
    }
}

extension ClientEventParser {
    /// Parses a message from a string.
    package mutating func parse(
        _ text: String
    ) throws(ClientEventError) -> (event: ClientEvent, eventID: String?) {
        var bytes = ByteWriter(capacity: 64)
        bytes.append(text)
        return try bytes.withUnsafeBytes { bytes throws(ClientEventError) in try parse(bytes) }
    }
}
