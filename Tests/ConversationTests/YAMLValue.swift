// YAML as a tree, for the conversations' files: libyaml reads the syntax. Anchors, aliases and tags
// are not read, since no fixture has them.

import CYAML
import Foundation

/// A node of a file.
indirect enum YAMLValue: Equatable {
    /// Text; `isPlain` where no quotes stand around it, so that it may be a number.
    case scalar(String, isPlain: Bool)
    case list([YAMLValue])
    /// Members in the file's order.
    case map([Member])

    struct Member: Equatable {
        let key: String
        let value: YAMLValue
    }

    /// Why a text is no tree.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    init(parsing text: String) throws {
        var reader = try YAMLReader(text)
        defer { reader.close() }
        self = try reader.document()
    }

    subscript(key: String) -> YAMLValue? {
        guard case .map(let members) = self else { return nil }
        return members.first { $0.key == key }?.value
    }

    var text: String? { if case .scalar(let text, _) = self { text } else { nil } }
    var integer: Int? { text.flatMap { Int($0) } }
    var number: Double? { text.flatMap { Double($0) } }
    var flag: Bool? { text.flatMap { Bool($0) } }
    var items: [YAMLValue]? { if case .list(let items) = self { items } else { nil } }
    var members: [Member] { if case .map(let members) = self { members } else { [] } }

    /// The tree as JSONSerialization takes it; names with a `$` are looked up in `variables`.
    func json(_ variables: [String: Any] = [:]) -> Any {
        switch self {
        case .list(let items): return items.map { $0.json(variables) }
        case .map(let members):
            return Dictionary(
                uniqueKeysWithValues: members.map { ($0.key, $0.value.json(variables)) })
        case .scalar(let text, let isPlain):
            if let value = variables[text] { return value }
            guard isPlain else { return text }
            if let flag = Bool(text) { return flag }
            if let integer = Int(text) { return integer }
            return Double(text) ?? (text == "null" ? NSNull() : text as Any)
        }
    }
}

/// From libyaml's events to the tree.
private struct YAMLReader {
    private let parser: UnsafeMutablePointer<yaml_parser_t>
    private let input: UnsafeMutableBufferPointer<UInt8>

    init(_ text: String) throws {
        // On the heap: libyaml keeps the addresses of both.
        parser = .allocate(capacity: 1)
        input = .allocate(capacity: text.utf8.count)
        _ = input.initialize(from: text.utf8)
        guard yaml_parser_initialize(parser) == 1 else {
            throw YAMLValue.Failure(description: "no memory")
        }
        yaml_parser_set_input_string(parser, input.baseAddress, input.count)
    }

    mutating func close() {
        yaml_parser_delete(parser)
        parser.deallocate()
        input.deallocate()
    }

    mutating func document() throws -> YAMLValue {
        while true {
            let event = try next()
            if event.type == YAML_STREAM_END_EVENT {
                throw YAMLValue.Failure(description: "an empty document")
            }
            if let value = try value(event) { return value }
        }
    }

    /// The node that an event begins; nil: it begins none.
    private mutating func value(_ event: Event) throws -> YAMLValue? {
        switch event.type {
        case YAML_SCALAR_EVENT: return .scalar(event.text, isPlain: event.isPlain)
        case YAML_SEQUENCE_START_EVENT:
            var items: [YAMLValue] = []
            while let item = try value(try next()) { items.append(item) }
            return .list(items)
        case YAML_MAPPING_START_EVENT:
            var members: [YAMLValue.Member] = []
            while case .scalar(let key, _)? = try value(try next()) {
                guard let member = try value(try next()) else { break }
                members.append(YAMLValue.Member(key: key, value: member))
            }
            return .map(members)
        default: return nil
        }
    }

    private struct Event {
        let type: yaml_event_type_t
        var text = ""
        var isPlain = false
    }

    private mutating func next() throws -> Event {
        var event = yaml_event_t()
        guard yaml_parser_parse(parser, &event) == 1 else {
            let problem = parser.pointee.problem.map { String(cString: $0) } ?? "no memory"
            let line = parser.pointee.problem_mark.line + 1
            throw YAMLValue.Failure(description: "line \(line): \(problem)")
        }
        defer { yaml_event_delete(&event) }
        guard event.type == YAML_SCALAR_EVENT else { return Event(type: event.type) }
        let scalar = event.data.scalar
        let bytes = UnsafeBufferPointer(start: scalar.value, count: scalar.length)
        return Event(
            type: event.type, text: String(decoding: bytes, as: UTF8.self),
            isPlain: scalar.style == YAML_PLAIN_SCALAR_STYLE)
    }
}
