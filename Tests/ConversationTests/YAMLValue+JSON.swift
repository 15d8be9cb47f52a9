// Typed scalars and JSON of a YAML value, for the files of conversations.

import Foundation
import YAML

extension YAMLValue {
    /// Reads a file that must hold something.
    init(parsing text: String) throws {
        guard let value = try YAMLValue.document(in: text) else {
            throw Fixtures.Failure(description: "an empty document")
        }
        self = value
    }

    var integer: Int? { text.flatMap { Int($0) } }
    var number: Double? { text.flatMap { Double($0) } }
    var flag: Bool? { text.flatMap { Bool($0) } }

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
