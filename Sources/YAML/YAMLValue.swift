// YAML as a tree. libyaml reads the syntax; this file is the only one that calls it. The
// configuration file, the load harness's scenarios and the tests' conversations are read here.
//
// The parser accepts the part of YAML that these files need. It refuses repeated names, anchors and
// aliases, and a second document. It also refuses deep nesting, whose cost in libyaml grows with the
// square of the depth. Only the tags of text and of null count, because the reader of a value
// knows every other type. The caller limits the length of a text.

import CYAML

/// A node of a file.
package enum YAMLValue: Equatable, Sendable {
    /// Text. `isPlain` where neither quotes nor the tag of text stand with it, so that it may be a
    /// number or null.
    case scalar(String, isPlain: Bool)
    case list([YAMLValue])
    /// Members in the file's order.
    case map([Member])

    /// One `name: value`.
    package struct Member: Equatable, Sendable {
        package let key: String
        package let value: YAMLValue
        /// The line of the name, 1 for the first.
        package let line: Int
    }

    /// Reads a text; nil where it holds nothing but comments.
    package static func document(in text: String) throws(YAMLError) -> YAMLValue? {
        let bytes = Array(text.utf8)
        // On the heap: libyaml keeps the parser's address inside the parser.
        let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
        defer { parser.deallocate() }
        guard yaml_parser_initialize(parser) == 1 else { throw YAMLError(problem: "no memory") }
        defer { yaml_parser_delete(parser) }
        return try bytes.withUnsafeBufferPointer { (bytes) throws(YAMLError) in
            // An empty array may have no address, and libyaml asks for one.
            guard let start = bytes.baseAddress, !bytes.isEmpty else { return nil }
            yaml_parser_set_input_string(parser, start, bytes.count)
            var reader = YAMLReader(parser: parser)
            return try reader.document()
        }
    }

    /// The value of a map's member.
    package subscript(key: String) -> YAMLValue? {
        members.first { $0.key == key }?.value
    }

    /// Whether it is null: nothing at all, `~` or one of three spellings of the word (YAML 1.2.2
    /// §10.3.2). In quotes they are text.
    package var isNull: Bool {
        guard case .scalar(let text, isPlain: true) = self else { return false }
        return ["", "~", "null", "Null", "NULL"].contains(text)
    }

    /// The text of a scalar.
    package var text: String? { if case .scalar(let text, _) = self { text } else { nil } }
    /// The items of a list.
    package var items: [YAMLValue]? { if case .list(let items) = self { items } else { nil } }
    /// The members of a map; none where it is something else.
    package var members: [Member] { if case .map(let members) = self { members } else { [] } }
}

/// Why a text cannot be read.
package struct YAMLError: Error, Equatable {
    /// The error, as one clause.
    package let problem: String
    /// Where, 1 for the first; nil when it is the file as a whole.
    package let line: Int?

    package init(problem: String, line: Int? = nil) {
        self.problem = problem
        self.line = line
    }
}

/// Builds the tree from libyaml's events.
private struct YAMLReader {
    /// Lists and maps within each other. 16: no option needs more than 4 (a map of a list's maps
    /// with a list in it).
    private static let maxDepth = 16

    /// The tag `!!null`.
    private static let nullTag = "tag:yaml.org,2002:null"
    /// The tags `!!str` and `!`, which make a plain scalar text (YAML 1.2.2 §6.9.1).
    private static let textTags: [String?] = ["tag:yaml.org,2002:str", "!"]

    private struct Event {
        let type: yaml_event_type_t
        let line: Int
        var scalar: (text: String, isPlain: Bool)?
    }

    private let parser: UnsafeMutablePointer<yaml_parser_t>
    private var depth = 0

    init(parser: UnsafeMutablePointer<yaml_parser_t>) { self.parser = parser }

    mutating func document() throws(YAMLError) -> YAMLValue? {
        var root: YAMLValue?
        var documents = 0
        while true {
            let event = try next()
            switch event.type {
            case YAML_STREAM_END_EVENT:
                // A document without anything in it counts as an empty scalar.
                return root == .scalar("", isPlain: true) ? nil : root
            case YAML_DOCUMENT_START_EVENT:
                documents += 1
                if documents > 1 {
                    throw YAMLError(problem: "a second document is not allowed", line: event.line)
                }
            default: root = try value(event) ?? root
            }
        }
    }

    /// The node that an event begins; nil where it begins none.
    private mutating func value(_ event: Event) throws(YAMLError) -> YAMLValue? {
        if let (text, isPlain) = event.scalar { return .scalar(text, isPlain: isPlain) }
        let isMap = event.type == YAML_MAPPING_START_EVENT
        guard isMap || event.type == YAML_SEQUENCE_START_EVENT else { return nil }
        guard depth < Self.maxDepth else {
            throw YAMLError(
                problem: "lists and mappings may be nested \(Self.maxDepth) deep at most",
                line: event.line)
        }
        depth += 1
        defer { depth -= 1 }
        if isMap { return .map(try members()) }
        var items: [YAMLValue] = []
        while let item = try value(try next()) { items.append(item) }
        return .list(items)
    }

    private mutating func members() throws(YAMLError) -> [YAMLValue.Member] {
        var members: [YAMLValue.Member] = []
        var names: Set<String> = []
        while true {
            let event = try next()
            if event.type == YAML_MAPPING_END_EVENT { return members }
            guard let name = event.scalar?.text else {
                throw YAMLError(problem: "a name must be one word", line: event.line)
            }
            guard names.insert(name).inserted else {
                throw YAMLError(problem: "\(name) is given twice", line: event.line)
            }
            guard let value = try value(try next()) else { return members }
            members.append(YAMLValue.Member(key: name, value: value, line: event.line))
        }
    }

    private func next() throws(YAMLError) -> Event {
        var event = yaml_event_t()
        guard yaml_parser_parse(parser, &event) == 1 else { throw YAMLError(parser.pointee) }
        defer { yaml_event_delete(&event) }
        let line = Int(clamping: event.start_mark.line) + 1
        var scalar: (String, Bool)?
        var anchor: UnsafeMutablePointer<yaml_char_t>?
        switch event.type {
        case YAML_SCALAR_EVENT:
            let data = event.data.scalar
            let bytes = UnsafeBufferPointer(start: data.value, count: data.length)
            let tag = data.tag.map { String(cString: $0) }
            scalar =
                tag == Self.nullTag
                ? ("", true)
                : (
                    String(decoding: bytes, as: UTF8.self),
                    data.style == YAML_PLAIN_SCALAR_STYLE && !Self.textTags.contains(tag)
                )
            anchor = data.anchor
        case YAML_MAPPING_START_EVENT: anchor = event.data.mapping_start.anchor
        case YAML_SEQUENCE_START_EVENT: anchor = event.data.sequence_start.anchor
        case YAML_ALIAS_EVENT: anchor = event.data.alias.anchor
        default: break
        }
        if anchor != nil {
            throw YAMLError(problem: "anchors and aliases are not allowed", line: line)
        }
        return Event(type: event.type, line: line, scalar: scalar)
    }
}

extension YAMLError {
    /// The error that libyaml found.
    fileprivate init(_ parser: yaml_parser_t) {
        let problem = parser.problem.map { String(cString: $0) } ?? "no memory"
        // An error of libyaml's reader, such as a control character, has an offset but no mark.
        let hasMark = parser.error == YAML_SCANNER_ERROR || parser.error == YAML_PARSER_ERROR
        self.init(
            problem: "not YAML: \(problem)",
            line: hasMark ? Int(clamping: parser.problem_mark.line) + 1 : nil)
    }
}
