// Values generated from a documented schema: some of every kind that it allows, and some that it
// forbids. Code that reads or checks such values must agree with the documents.

import Codec

extension ValueSchema {
    /// JSON texts that fit the schema: every alternative, every name, both ends of every range.
    package var examples: [String] {
        switch self {
        case .any, .anyObject: return ["{}"]
        case .never: return []
        case .text, .identifier: return [#""a""#]
        case .pattern(_, _, let example): return [#""\#(example)""#]
        case .base64: return [#""AAAA""#]
        case .constant(let text): return [#""\#(text)""#]
        case .choice(let names): return names.map { #""\#($0)""# }
        case .boolean: return ["true", "false"]
        case .integer(let range):
            return ["\(max(range.lowerBound, 0))", "\(min(range.upperBound, 1_000_000))"]
        case .number(let range):
            return range.upperBound.isFinite
                ? ["\(range.lowerBound)", "\(range.upperBound)"] : ["0.5"]
        case .list(_, _, atMost: 0): return ["[]"]
        case .list(let element, let minimum, _):
            return (minimum == 0 ? ["[]"] : []) + element.examples.map { "[\($0)]" }
        case .map(let value, _): return ["{}"] + value.examples.map { #"{"k":\#($0)}"# }
        case .object(let table): return table.examples
        case .oneOf(let alternatives): return alternatives.flatMap(\.examples)
        case .nullable(let schema): return ["null"] + schema.examples
        }
    }

    /// One of them, with all fields.
    fileprivate var example: String {
        switch self {
        // The first alternative is the usual one: a session of type realtime.
        case .choice(let names): #""\#(names[0])""#
        case .list(_, _, atMost: 0): "[]"
        case .list(let element, _, _): "[\(element.example)]"
        case .object(let table): table.example
        case .oneOf(let alternatives): alternatives.first?.example ?? "null"
        case .nullable(let schema): schema.example
        case .never: "null"
        default: examples.last ?? "null"
        }
    }

    /// JSON texts that do not fit the schema.
    package var counterexamples: [String] {
        switch self {
        case .any, .never: return []
        case .anyObject: return ["[]", "1"]
        case .text, .base64: return ["1", "{}"]
        case .identifier: return ["1", #""""#]
        case .pattern: return ["1", #""://""#]
        case .constant, .choice: return ["1", #""no such name""#]
        case .boolean: return ["1", #""true""#]
        case .integer(let range):
            return [#""1""#, "0.5"]
                + (range.lowerBound > .min ? ["\(range.lowerBound - 1)"] : [])
                + (range.upperBound < .max ? ["\(range.upperBound + 1)"] : [])
        case .number(let range):
            return [#""1""#]
                + (range.lowerBound.isFinite ? ["\(range.lowerBound - 0.5)"] : [])
                + (range.upperBound.isFinite ? ["\(range.upperBound + 0.5)"] : [])
        case .list(_, _, atMost: 0): return ["{}", "[1]"]
        case .list(let element, let minimum, _):
            return ["1"] + (minimum > 0 ? ["[]"] : []) + element.counterexamples.map { "[\($0)]" }
        case .map(let value, _): return ["[]"] + value.counterexamples.map { #"{"k":\#($0)}"# }
        case .object(let table): return table.counterexamples
        case .oneOf(let alternatives):
            // A value that is invalid for one object alternative is invalid for all, because each
            // has its own `type`.
            return ["true"]
                + alternatives.flatMap { alternative -> [String] in
                    guard case .object(let table) = alternative else { return [] }
                    return table.counterexamples
                }
        case .nullable(let schema): return schema.counterexamples
        }
    }
}

extension ObjectTable {
    /// Objects with the required fields only, with all fields, and with every kind of each field.
    package var examples: [String] {
        let members = fields.map { ($0, $0.schema.example) }
        var found = [object(members)]
        if oneNeeded.isEmpty { found.append(object(members.filter(\.0.isRequired))) }
        for (index, field) in fields.enumerated() {
            for example in field.schema.examples {
                found.append(object(members, with: example, at: index))
            }
        }
        return found
    }

    /// Objects with one invalid or one missing field.
    package var counterexamples: [String] {
        let members = fields.map { ($0, $0.schema.example) }
        var found: [String] = []
        for (index, field) in fields.enumerated() {
            for wrong in field.schema.counterexamples {
                found.append(object(members, with: wrong, at: index))
            }
            if field.isRequired {
                found.append(object(Array(members[..<index] + members[(index + 1)...])))
            }
        }
        return found
    }

    /// An object with all fields.
    fileprivate var example: String { object(fields.map { ($0, $0.schema.example) }) }

    private func object(
        _ members: [(FieldEntry, String)], with value: String, at index: Int
    ) -> String {
        var members = members
        members[index].1 = value
        return object(members)
    }

    private func object(_ members: [(FieldEntry, String)]) -> String {
        "{" + members.map { #""\#($0.0.name)":\#($0.1)"# }.joined(separator: ",") + "}"
    }
}
