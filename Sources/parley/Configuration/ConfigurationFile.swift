// A configuration file as what it may be: one YAML mapping from names to plain values, each with
// its line. libyaml reads the syntax; what the names mean is in ServeConfigurationLoader.
//
// What YAML has beyond that is refused rather than guessed at: repeated names, anchors and aliases,
// more than one document, and deep nesting, whose cost grows with its square in libyaml. Tags are
// ignored, since options know their own types. How long a file may be is WholeFile's.

import CYAML

/// One `name: value` of a file.
struct ConfigurationEntry: Equatable {
    let name: String
    /// The value as text; nil where a list or a mapping stands in its place.
    let value: String?
    /// The plain values of a list; nil where there is none, or something else stands in it.
    var items: [String]?
    /// The mappings of a list, each as `name=value` pairs with blanks between, and a list within as
    /// its values with `|` between; nil where there is none, or something else stands in it.
    var records: [String]?
    /// The name's line, 1 for the first.
    let line: Int
}

/// Why a text is not a configuration.
struct ConfigurationFileError: Error, Equatable {
    /// What is wrong, as one clause.
    let problem: String
    /// Where, 1 for the first; nil when it is the file as a whole.
    let line: Int?

    fileprivate init(_ problem: String, line: Int? = nil) {
        self.problem = problem
        self.line = line
    }
}

/// Reads the entries of a file in their order. An empty file has none.
func configurationEntries(
    in text: String
) throws(ConfigurationFileError) -> [ConfigurationEntry] {
    let bytes = Array(text.utf8)
    var collector = EntryCollector()
    // On the heap: libyaml keeps the parser's address inside the parser.
    let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
    defer { parser.deallocate() }
    guard yaml_parser_initialize(parser) == 1 else { throw ConfigurationFileError("no memory") }
    defer { yaml_parser_delete(parser) }
    return try bytes.withUnsafeBufferPointer { (bytes) throws(ConfigurationFileError) in
        // An empty array may have no address, and libyaml asks for one.
        guard let start = bytes.baseAddress, !bytes.isEmpty else { return [] }
        yaml_parser_set_input_string(parser, start, bytes.count)
        while !collector.isComplete {
            var event = yaml_event_t()
            guard yaml_parser_parse(parser, &event) == 1 else {
                throw ConfigurationFileError(parser.pointee)
            }
            defer { yaml_event_delete(&event) }
            try collector.handle(event)
        }
        return collector.entries
    }
}

extension ConfigurationFileError {
    /// What libyaml stumbled over.
    fileprivate init(_ parser: yaml_parser_t) {
        let problem = parser.problem.map { String(cString: $0) } ?? "no memory"
        // A reader's mistake, such as a control character, has an offset but no mark.
        let hasMark = parser.error == YAML_SCANNER_ERROR || parser.error == YAML_PARSER_ERROR
        let line = hasMark ? Int(clamping: parser.problem_mark.line) + 1 : nil
        self.init("not YAML: \(problem)", line: line)
    }
}

/// From libyaml's events to entries: what lies deeper than a value is skipped.
private struct EntryCollector {
    /// Lists and mappings within each other, the file's own mapping included. 16: no option needs
    /// more than 4 (a mapping of a list's mappings with a list in it).
    private static let maxDepth = 16

    private(set) var entries: [ConfigurationEntry] = []
    private(set) var isComplete = false
    /// The list that is open as an entry's value, as far as it has come.
    private var items: [String]?
    /// Likewise, where it is one of mappings.
    private var records: ConfigurationRecords?
    /// Lists and mappings that are open; the file's own mapping is the first.
    private var depth = 0
    private var documents = 0
    /// The name that waits for its value.
    private var pending: (name: String, line: Int)?
    private var names: Set<String> = []

    mutating func handle(_ event: yaml_event_t) throws(ConfigurationFileError) {
        let line = Int(clamping: event.start_mark.line) + 1
        switch event.type {
        case YAML_SCALAR_EVENT:
            let scalar = event.data.scalar
            try refuse(anchor: scalar.anchor, line: line)
            let bytes = UnsafeBufferPointer(start: scalar.value, count: scalar.length)
            try handle(scalar: String(decoding: bytes, as: UTF8.self), line: line)
        case YAML_MAPPING_START_EVENT:
            try refuse(anchor: event.data.mapping_start.anchor, line: line)
            try open(line: line)
            items = nil
            records?.open(isMapping: true, depth: depth)
        case YAML_SEQUENCE_START_EVENT:
            try refuse(anchor: event.data.sequence_start.anchor, line: line)
            if depth == 0 { throw .notAMapping }
            try open(line: line)
            items = depth == 2 ? [] : nil
            if depth == 2 {
                records = ConfigurationRecords()
            } else {
                records?.open(isMapping: false, depth: depth)
            }
        case YAML_MAPPING_END_EVENT:
            depth -= 1
            records?.close(depth: depth)
        case YAML_SEQUENCE_END_EVENT:
            depth -= 1
            records?.close(depth: depth)
            if depth == 1 {
                entries[entries.count - 1].items = items
                entries[entries.count - 1].records = records?.texts
                records = nil
            }
        case YAML_ALIAS_EVENT: try refuse(anchor: event.data.alias.anchor, line: line)
        case YAML_DOCUMENT_START_EVENT:
            documents += 1
            if documents > 1 {
                throw ConfigurationFileError("a second document is not allowed", line: line)
            }
        case YAML_STREAM_END_EVENT: isComplete = true
        default: break  // The begin of the stream and the end of a document say nothing.
        }
    }

    private mutating func handle(
        scalar text: String, line: Int
    ) throws(ConfigurationFileError) {
        if depth == 0 {
            // A document without anything in it counts as an empty scalar.
            guard text.isEmpty else { throw .notAMapping }
        } else if depth > 1 {
            items?.append(text)
            records?.append(text, depth: depth)
        } else if let (name, nameLine) = pending {
            entries.append(ConfigurationEntry(name: name, value: text, line: nameLine))
            pending = nil
        } else if names.insert(text).inserted {
            pending = (text, line)
        } else {
            throw ConfigurationFileError("\(text) is given twice", line: line)
        }
    }

    private mutating func open(line: Int) throws(ConfigurationFileError) {
        guard depth < Self.maxDepth else {
            throw ConfigurationFileError(
                "lists and mappings may be nested \(Self.maxDepth) deep at most", line: line)
        }
        if depth == 1 {
            guard let (name, nameLine) = pending else {
                throw ConfigurationFileError("a name must be one word", line: line)
            }
            entries.append(ConfigurationEntry(name: name, value: nil, line: nameLine))
            pending = nil
        }
        depth += 1
    }

    private func refuse(
        anchor: UnsafeMutablePointer<yaml_char_t>?, line: Int
    ) throws(ConfigurationFileError) {
        if anchor != nil {
            throw ConfigurationFileError("anchors and aliases are not allowed", line: line)
        }
    }
}

extension ConfigurationFileError {
    fileprivate static let notAMapping = ConfigurationFileError(
        "must be a list of `name: value` lines")
}
