// The mappings of a list in a configuration file, as the text that a flag would have: `name=value`
// pairs with blanks between. Which names count, and what they mean, is the option's.

/// Collects the mappings of one list.
struct ConfigurationRecords {
    /// The depth of a list's mappings: the file is 1, the list 2.
    private static let recordDepth = 3

    /// The mappings so far; nil once something else stood in the list.
    private(set) var texts: [String]? = []
    private var fields: [String] = []
    private var name: String?
    /// The values of a list that is a field's value.
    private var values: [String]?

    /// A list or a mapping opens.
    mutating func open(isMapping: Bool, depth: Int) {
        switch (isMapping, depth) {
        case (true, Self.recordDepth): fields = []
        case (false, Self.recordDepth + 1) where name != nil: values = []
        default: texts = nil
        }
    }

    /// A list or a mapping has closed.
    /// - Parameter depth: what remains open.
    mutating func close(depth: Int) {
        if depth == Self.recordDepth, let values {
            self.values = nil
            end(field: values.joined(separator: "|"))
        } else if depth == Self.recordDepth - 1 {
            texts?.append(fields.joined(separator: " "))
        }
    }

    /// A plain value.
    mutating func append(_ text: String, depth: Int) {
        // The text of a flag has no way to quote.
        if text.contains(where: { " ,|".contains($0) || $0.isWhitespace }) { texts = nil }
        if depth == Self.recordDepth + 1 {
            values?.append(text)
        } else if depth < Self.recordDepth {
            texts = nil
        } else if name == nil {
            name = text
        } else {
            end(field: text)
        }
    }

    private mutating func end(field value: String) {
        if let name { fields.append("\(name)=\(value)") }
        name = nil
    }
}
