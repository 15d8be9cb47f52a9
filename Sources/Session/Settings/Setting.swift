// One setting: its name, the texts that it allows, and the property that it sets. A setting is
// declared once, beside that property. The declaration makes its flag, its environment variable and
// its key in the configuration file. It also makes its place in the help, in `--print-config`, in
// the example file and in docs/configuration.md, and the check of its range when a server starts.
//
// Not here: which source of a value wins. That is decided by the `parley` command.

/// How a text is divided.
package enum SettingForm: Sendable {
    /// One value.
    case single
    /// `true` or `false`; the flag alone means `true`.
    case toggle
    /// Several values with commas between; a file may give them as a sequence.
    case list
    /// Several values of several fields each; a file may give them as a sequence of mappings.
    case records
    /// A path, whose content a file may have in its place. The value is then the file's own path,
    /// `#` and the option's name.
    case document
}

/// A value of several fields that says which of them is wrong.
package protocol ExplainedValue {
    /// The fault of one field of a text, as one clause. It is nil where the fault is another.
    static func problem(of text: String) -> String?
}

/// One setting that a person can change.
/// - Parameter Root: the type that has the property.
package struct Setting<Root>: Sendable {
    /// A property. Literal key paths are sendable; the type must say so.
    package typealias Place<Value> = WritableKeyPath<Root, Value> & Sendable

    /// The name in the configuration file, and after `--`; for example `max-message-bytes`.
    package let name: String
    /// One or two sentences: what the setting does, and why the default is what it is.
    package let summary: String
    /// The allowed texts, as they complete "must be …".
    package let allowed: String
    /// The unit of a number, for example `bytes`; empty for words and paths.
    package var unit = ""
    /// The numbers that are allowed; nil where the value is no number.
    package var range: ClosedRange<Int>?
    package var form = SettingForm.single
    /// Whether the value is masked when it is printed.
    package var isSecret = false
    /// The fault of a text that `set` refuses, as one clause. Nil where `allowed` says enough.
    package var problem: @Sendable (_ text: String) -> String? = { _ in nil }
    /// Puts a value given as text into its property; false when it is not allowed.
    package let set: @Sendable (_ text: String, _ root: inout Root) -> Bool
    /// The value as text that `set` would accept; empty when there is none.
    package let get: @Sendable (_ root: Root) -> String

    /// `--max-message-bytes`
    package var flag: String { "--\(name)" }
    /// `PARLEY_MAX_MESSAGE_BYTES`
    package var variable: String { Self.variable(of: name) }

    /// The environment variable of a setting with this name.
    package static func variable(of name: String) -> String {
        "PARLEY_" + name.uppercased().split(separator: "-").joined(separator: "_")
    }

    /// The same setting as one of a type that has a `Root`.
    package func within<Outer>(
        _ place: any Setting<Outer>.Place<Root>
    ) -> Setting<Outer> {
        Setting<Outer>(
            name: name, summary: summary, allowed: allowed, unit: unit, range: range,
            form: form, isSecret: isSecret, problem: problem,
            set: { [set] text, outer in set(text, &outer[keyPath: place]) },
            get: { [get] outer in get(outer[keyPath: place]) })
    }

    /// The error in the value of a property, as one line that names the setting; nil where there is
    /// none. Only numbers are checked: their properties take any value.
    package func objection(to root: Root) -> String? {
        guard let range, let value = Int(get(root)), !range.contains(value) else { return nil }
        return "\(name) must be from \(range.lowerBound) to \(range.upperBound), not \(value)"
    }
}

/// Settings that are shown under one heading.
package struct SettingGroup<Root>: Sendable {
    package let heading: SettingHeading
    package let settings: [Setting<Root>]

    package init(_ heading: SettingHeading, _ settings: [Setting<Root>]) {
        self.heading = heading
        self.settings = settings
    }

    /// The same settings, as settings of a type that contains a `Root`.
    package func within<Outer>(
        _ place: any Setting<Outer>.Place<Root>
    ) -> SettingGroup<Outer> {
        SettingGroup<Outer>(heading, settings.map { $0.within(place) })
    }
}

/// Headings in the order in which they are shown. Several groups may share one.
package enum SettingHeading: String, CaseIterable, Sendable {
    case listening = "Listening"
    case admission = "Who may connect"
    case credentials = "Credentials"
    case telephone = "Telephone"
    case tls = "TLS"
    case logging = "Logging"
    case agents = "Agents"
    case services = "Model and speech services"
    case limits = "Limits"
    case compression = "Compression"
    case time = "Time limits"
    case fairness = "Fairness between connections"
    case session = "Sessions"
    case recordings = "Recordings"
    case mcp = "MCP servers"
    case records = "Records and webhooks"
}

extension Setting {
    /// A whole number within a range.
    package static func integer(
        _ name: String, _ place: any Place<Int>, _ range: ClosedRange<Int>, unit: String = "",
        _ summary: String
    ) -> Setting {
        number(
            name, range, unit, summary, set: { $1[keyPath: place] = $0 },
            get: { $0[keyPath: place] })
    }

    /// A duration, given in whole milliseconds.
    package static func milliseconds(
        _ name: String, _ place: any Place<Duration>, _ range: ClosedRange<Int>, _ summary: String
    ) -> Setting {
        number(
            name, range, "milliseconds", summary,
            set: { $1[keyPath: place] = .milliseconds($0) },
            get: { $0[keyPath: place].wholeMilliseconds })
    }

    private static func number(
        _ name: String, _ range: ClosedRange<Int>, _ unit: String, _ summary: String,
        set: @escaping @Sendable (Int, inout Root) -> Void,
        get: @escaping @Sendable (Root) -> Int
    ) -> Setting {
        let ofUnit = unit.isEmpty ? "" : " (\(unit))"
        return Setting(
            name: name, summary: summary,
            allowed: "a whole number from \(range.lowerBound) to \(range.upperBound)\(ofUnit)",
            unit: unit, range: range,
            set: { text, root in
                guard let value = Int(text), range.contains(value) else { return false }
                set(value, &root)
                return true
            },
            get: { String(get($0)) })
    }

    /// `true` or `false`.
    package static func toggle(
        _ name: String, _ place: any Place<Bool>, _ summary: String
    ) -> Setting {
        Setting(
            name: name, summary: summary, allowed: "true or false", form: .toggle,
            set: { text, root in
                guard let value = Bool(text) else { return false }
                root[keyPath: place] = value
                return true
            },
            get: { String($0[keyPath: place]) })
    }

    /// One word of a fixed set.
    package static func choice<Word: RawRepresentable & CaseIterable & Sendable>(
        _ name: String, _ place: any Place<Word>, _ summary: String
    ) -> Setting where Word.RawValue == String {
        Setting(
            name: name, summary: summary,
            allowed: "one of " + Word.allCases.map(\.rawValue).joined(separator: ", "),
            set: { text, root in
                guard let value = Word(rawValue: text) else { return false }
                root[keyPath: place] = value
                return true
            },
            get: { $0[keyPath: place].rawValue })
    }

    /// Any number of values, with commas between them; empty text is none.
    package static func list<Element: LosslessStringConvertible & Sendable>(
        _ name: String, _ place: any Place<[Element]>, of elements: String, _ summary: String
    ) -> Setting {
        // After a comma people put a space; no value has one.
        several(name, place, .list, of: elements, summary) { Element($0.filter { $0 != " " }) }
    }

    /// Any number of words of an enumeration, with commas between; empty text is none.
    package static func list<Word>(
        _ name: String, _ place: any Place<[Word]>, of elements: String, _ summary: String
    ) -> Setting
    where
        Word: LosslessStringConvertible & CaseIterable & RawRepresentable<String> & Sendable
    {
        let words = Word.allCases.map(\.rawValue).joined(separator: ", ")
        return several(name, place, .list, of: "\(elements) (\(words))", summary) {
            Word(rawValue: $0.filter { $0 != " " })
        }
    }

    /// Any number of secrets, with commas between; empty text is none.
    package static func secrets<Element: LosslessStringConvertible & Sendable>(
        _ name: String, _ place: any Place<[Element]>, of elements: String, _ summary: String
    ) -> Setting {
        var setting = list(name, place, of: elements, summary)
        setting.isSecret = true
        return setting
    }

    /// Any number of values of several fields each, with commas between them; empty text is none.
    package static func records<Element: LosslessStringConvertible & Sendable>(
        _ name: String, _ place: any Place<[Element]>, of elements: String, _ summary: String
    ) -> Setting {
        several(name, place, .records, of: elements, summary) { Element(String($0)) }
    }

    /// The same for values that can explain what is wrong with a text.
    package static func records<Element: LosslessStringConvertible & Sendable & ExplainedValue>(
        _ name: String, _ place: any Place<[Element]>, of elements: String, _ summary: String
    ) -> Setting {
        var setting = several(name, place, .records, of: elements, summary) {
            Element(String($0))
        }
        setting.problem = { text in
            text.split(separator: ",").lazy.compactMap { Element.problem(of: String($0)) }.first
        }
        return setting
    }

    private static func several<Element: LosslessStringConvertible & Sendable>(
        _ name: String, _ place: any Place<[Element]>, _ form: SettingForm, of elements: String,
        _ summary: String, parse: @escaping @Sendable (Substring) -> Element?
    ) -> Setting {
        Setting(
            name: name, summary: summary, allowed: "\(elements), with commas between", form: form,
            set: { text, root in
                let parts = text.split(separator: ",", omittingEmptySubsequences: text.isEmpty)
                let elements = parts.compactMap(parse)
                guard elements.count == parts.count else { return false }
                root[keyPath: place] = elements
                return true
            },
            get: { $0[keyPath: place].map(\.description).joined(separator: ",") })
    }

    /// A value that has one text.
    package static func value<Value: LosslessStringConvertible & Sendable>(
        _ name: String, _ place: any Place<Value>, _ allowed: String, isSecret: Bool = false,
        _ summary: String
    ) -> Setting {
        Setting(
            name: name, summary: summary, allowed: allowed, isSecret: isSecret,
            set: { text, root in
                guard let value = Value(text) else { return false }
                root[keyPath: place] = value
                return true
            },
            get: { $0[keyPath: place].description })
    }

    /// Text that must not be empty. `isAllowed` may ask for more.
    package static func text(
        _ name: String, _ place: any Place<String>, _ allowed: String, isSecret: Bool = false,
        _ summary: String, isAllowed: @escaping @Sendable (String) -> Bool = { _ in true }
    ) -> Setting {
        Setting(
            name: name, summary: summary, allowed: allowed, isSecret: isSecret,
            set: { text, root in
                guard !text.isEmpty, isAllowed(text) else { return false }
                root[keyPath: place] = text
                return true
            },
            get: { $0[keyPath: place] })
    }

    /// The path of a file of YAML, or nil; the configuration file may have its content.
    package static func document(
        _ name: String, _ place: any Place<String?>, _ summary: String
    ) -> Setting {
        var setting = optionalText(
            name, place, "a path, or in the configuration file the content", summary)
        setting.form = .document
        return setting
    }

    /// Text that may be absent; empty text makes it absent. `isAllowed` may ask for more.
    package static func optionalText(
        _ name: String, _ place: any Place<String?>, _ allowed: String, isSecret: Bool = false,
        _ summary: String, isAllowed: @escaping @Sendable (String) -> Bool = { _ in true }
    ) -> Setting {
        Setting(
            name: name, summary: summary, allowed: allowed, isSecret: isSecret,
            set: { text, root in
                guard text.isEmpty || isAllowed(text) else { return false }
                root[keyPath: place] = text.isEmpty ? nil : text
                return true
            },
            get: { $0[keyPath: place] ?? "" })
    }
}
