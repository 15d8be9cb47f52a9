// What one option of `parley serve` is: one name, spelled as a flag, an environment variable and a
// key of the configuration file; how its text is checked; where its value lives. The options
// themselves are in ServeOptionTable, their precedence in ServeConfigurationLoader.

import Session

/// One setting of the server that a person can change.
struct ServeOption: Sendable {
    /// Headings under which options are listed.
    enum Group: String, CaseIterable, Sendable {
        case listening = "Listening"
        case admission = "Who may connect"
        case credentials = "Credentials"
        case tls = "TLS"
        case logging = "Logging"
        case agents = "Agents"
        case services = "Model and speech services"
        case limits = "Limits"
        case compression = "Compression"
        case time = "Time limits"
        case fairness = "Fairness between connections"
        case session = "Sessions"
        case mcp = "MCP servers"
    }

    /// The name in the configuration file, and after `--`; for example `max-message-bytes`.
    let name: String
    let group: Group
    /// What the value counts, for example `bytes`; empty for words and paths.
    let unit: String
    /// What is allowed, as it completes "must be …".
    let allowed: String
    /// One or two sentences: what it does, and why the default is what it is.
    let summary: String
    /// Whether the value is masked when it is printed.
    let isSecret: Bool
    /// Whether the value is several, joined by commas; a file may give them as a YAML sequence.
    var isList = false
    /// Whether its flag alone means `true`.
    var isToggle = false
    /// Whether each of them is several fields; a file may give them as a sequence of mappings.
    var hasRecords = false
    /// Puts a value given as text into the settings; false when it is not allowed.
    let set: @Sendable (_ text: String, _ settings: inout ServeSettings) -> Bool
    /// The value as text that `set` would accept; empty when there is none.
    let get: @Sendable (_ settings: ServeSettings) -> String

    /// `--max-message-bytes`
    var flag: String { "--\(name)" }
    /// `PARLEY_MAX_MESSAGE_BYTES`
    var variable: String {
        "PARLEY_" + name.uppercased().split(separator: "-").joined(separator: "_")
    }
}

extension ServeOption {
    /// A place in the settings. Literal key paths are sendable; the type must say so.
    typealias Place<Value> = WritableKeyPath<ServeSettings, Value> & Sendable

    /// A whole number within a range.
    static func integer(
        _ name: String, _ place: any Place<Int>, _ range: ClosedRange<Int>, unit: String = "",
        in group: Group, _ summary: String
    ) -> ServeOption {
        let ofUnit = unit.isEmpty ? "" : " (\(unit))"
        return ServeOption(
            name: name, group: group, unit: unit,
            allowed: "a whole number from \(range.lowerBound) to \(range.upperBound)\(ofUnit)",
            summary: summary, isSecret: false,
            set: { text, settings in
                guard let value = Int(text), range.contains(value) else { return false }
                settings[keyPath: place] = value
                return true
            },
            get: { String($0[keyPath: place]) })
    }

    /// A duration, given in whole milliseconds.
    static func milliseconds(
        _ name: String, _ place: any Place<Duration>, _ range: ClosedRange<Int>, in group: Group,
        _ summary: String
    ) -> ServeOption {
        ServeOption(
            name: name, group: group, unit: "milliseconds",
            allowed:
                "a whole number from \(range.lowerBound) to \(range.upperBound) (milliseconds)",
            summary: summary, isSecret: false,
            set: { text, settings in
                guard let value = Int(text), range.contains(value) else { return false }
                settings[keyPath: place] = .milliseconds(value)
                return true
            },
            get: { String($0[keyPath: place].wholeMilliseconds) })
    }

    /// `true` or `false`.
    static func toggle(
        _ name: String, _ place: any Place<Bool>, in group: Group, _ summary: String
    ) -> ServeOption {
        ServeOption(
            name: name, group: group, unit: "", allowed: "true or false", summary: summary,
            isSecret: false, isToggle: true,
            set: { text, settings in
                guard let value = Bool(text) else { return false }
                settings[keyPath: place] = value
                return true
            },
            get: { String($0[keyPath: place]) })
    }

    /// One word of a fixed set.
    static func choice<Word: RawRepresentable & CaseIterable & Sendable>(
        _ name: String, _ place: any Place<Word>, in group: Group, _ summary: String
    ) -> ServeOption where Word.RawValue == String {
        ServeOption(
            name: name, group: group, unit: "",
            allowed: "one of " + Word.allCases.map(\.rawValue).joined(separator: ", "),
            summary: summary, isSecret: false,
            set: { text, settings in
                guard let value = Word(rawValue: text) else { return false }
                settings[keyPath: place] = value
                return true
            },
            get: { $0[keyPath: place].rawValue })
    }

    /// Any number of values, with commas between them; empty text is none.
    static func list<Element: LosslessStringConvertible & Sendable>(
        _ name: String, _ place: any Place<[Element]>, of allowed: String, in group: Group,
        _ summary: String
    ) -> ServeOption {
        ServeOption(
            name: name, group: group, unit: "", allowed: "\(allowed), with commas between",
            summary: summary, isSecret: false, isList: true,
            set: { text, settings in
                let parts = text.split(separator: ",", omittingEmptySubsequences: text.isEmpty)
                // After a comma people put a space; no value has one.
                let elements = parts.compactMap { Element($0.filter { $0 != " " }) }
                guard elements.count == parts.count else { return false }
                settings[keyPath: place] = elements
                return true
            },
            get: { $0[keyPath: place].map(\.description).joined(separator: ",") })
    }

    /// Text that must not be empty; `isAllowed` may ask for more.
    static func text(
        _ name: String, _ place: any Place<String>, allowed: String, in group: Group,
        _ summary: String, isAllowed: @escaping @Sendable (String) -> Bool = { _ in true }
    ) -> ServeOption {
        ServeOption(
            name: name, group: group, unit: "", allowed: allowed, summary: summary, isSecret: false,
            set: { text, settings in
                guard !text.isEmpty, isAllowed(text) else { return false }
                settings[keyPath: place] = text
                return true
            },
            get: { $0[keyPath: place] })
    }

    /// Text that may be absent; giving it empty makes it absent.
    static func optionalText(
        _ name: String, _ place: any Place<String?>, allowed: String, isSecret: Bool = false,
        in group: Group, _ summary: String,
        isAllowed: @escaping @Sendable (String) -> Bool = { _ in true }
    ) -> ServeOption {
        ServeOption(
            name: name, group: group, unit: "", allowed: allowed, summary: summary,
            isSecret: isSecret,
            set: { text, settings in
                guard text.isEmpty || isAllowed(text) else { return false }
                settings[keyPath: place] = text.isEmpty ? nil : text
                return true
            },
            get: { $0[keyPath: place] ?? "" })
    }
}
