// The three texts that the option table makes: the effective configuration, the commented example
// file, and the help. No option is named here, so none can be forgotten.

import Codec

/// Renders options for a person.
enum ServeConfigurationText {
    /// Name, value, unit and origin of every option, one per line.
    static func effective(_ invocation: ServeInvocation) -> String {
        var rows = [["# option", "value", "unit", "from"]]
        for option in ServeOptionTable.all {
            let value = option.get(invocation.settings)
            let shown = value.isEmpty ? "-" : option.isSecret ? "********" : value.visible()
            let origin = invocation.origins[option.name] ?? .standard
            rows.append([option.name, shown, option.unit, origin.description])
        }
        return aligned(rows)
    }

    /// A configuration file in which every option stands with its default, commented out.
    static func example() -> String {
        var lines = [
            "# Every option of `parley serve`, with its default. Take away the `#` before a name",
            "# to change it. A flag (--name) or an environment variable (PARLEY_NAME) overrides",
            "# this file. Use it with `parley serve --config FILE`; `--print-config` shows what",
            "# holds.",
        ]
        for group in ServeOption.Group.allCases {
            let options = ServeOptionTable.all.filter { $0.group == group }
            if options.isEmpty { continue }
            lines += ["", "# ---- \(group.rawValue) ----"]
            for option in options {
                let value = option.get(.ofExampleMachine)
                lines += wrapped(option.summary, width: 96).map { "# \($0)" }
                lines.append("# Must be \(option.allowed). \(option.variable)")
                lines.append("#\(option.name): \(value.isEmpty ? "\"\"" : value)")
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// The list of options for `--help`.
    static func help() -> String {
        var lines = [
            "Every option is also an environment variable (--max-sessions is",
            "PARLEY_MAX_SESSIONS) and a key of the configuration file. A flag wins over the",
            "environment, the environment over the file, the file over the default.", "",
            "  --config FILE", "      A YAML file of options (PARLEY_CONFIG).",
            "  --print-config",
            "      Print the effective values, their units and origins.",
            "  --example-config", "      Print a commented configuration file.",
            "  --strict",
            "      Refuse to start where there would be a warning about the configuration, such",
            "      as an unknown variable PARLEY_...; unknown flags and keys are always refused.",
        ]
        for group in ServeOption.Group.allCases {
            let options = ServeOptionTable.all.filter { $0.group == group }
            if options.isEmpty { continue }
            lines += ["", "\(group.rawValue.uppercased()):"]
            for option in options {
                let value = option.get(ServeSettings())
                let standard = value.isEmpty ? "none" : value
                let unit = option.unit.isEmpty ? "VALUE" : option.unit.uppercased()
                lines.append("  \(option.flag) \(unit)   (default: \(standard))")
                lines += wrapped(option.summary, width: 74).map { "      \($0)" }
            }
        }
        return lines.joined(separator: "\n")
    }

    private static func aligned(_ rows: [[String]]) -> String {
        let widths = rows[0].indices.map { column in
            rows.map { $0[column].count }.max() ?? 0
        }
        return rows.map { row in
            let cells = zip(row, widths).map { cell, width in
                cell + String(repeating: " ", count: width - cell.count)
            }
            let line = cells.joined(separator: "  ")
            return String(line.reversed().drop { $0 == " " }.reversed()) + "\n"
        }.joined()
    }

    private static func wrapped(_ text: String, width: Int) -> [String] {
        var lines: [String] = []
        var line = ""
        for word in text.split(separator: " ") {
            if !line.isEmpty && line.count + 1 + word.count > width {
                lines.append(line)
                line = ""
            }
            line += line.isEmpty ? String(word) : " \(word)"
        }
        return line.isEmpty ? lines : lines + [line]
    }
}
