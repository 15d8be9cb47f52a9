// The texts that `parley serve` prints in place of a start. All are made from the list of options,
// so that none can lack one: the help, the effective configuration, the example file and the
// reference, which is docs/configuration.md.

import Codec

/// A text about the options.
enum ServeText: String, CaseIterable {
    /// The options that most people need.
    case help
    /// Every option.
    case fullHelp = "help-all"
    /// The values of every option, and where they come from.
    case effective = "print-config"
    /// A configuration file.
    case example = "example-config"
    /// A page of documentation.
    case reference = "configuration-reference"

    /// The text that a flag asks for; nil where it asks for none.
    init?(flag: String) {
        if flag == "-h" || flag == "-help" {
            self = .help
        } else {
            guard flag.hasPrefix("--") else { return nil }
            self.init(rawValue: String(flag.dropFirst(2)))
        }
    }

    // MARK: Help

    /// How options are given, and which flags are not options.
    static let introduction = """
        Every option is also an environment variable (--max-sessions is
        PARLEY_MAX_SESSIONS) and a key of the configuration file. A flag wins over the
        environment, the environment over the file, the file over the default.

          --config FILE
              A YAML file of options (PARLEY_CONFIG).
          --help-all
              List all \(ServeSettings.options.count) options.
          --print-config
              Print the effective values, their units and origins.
          --example-config
              Print a commented configuration file.
          --configuration-reference
              Print the page of documentation about all options.
          --strict
              Refuse to start where the configuration has a warning, such as an unknown
              variable PARLEY_...; unknown flags and keys are always refused.

        """

    /// Options with their defaults, for a terminal.
    static func list(_ sections: [ServeSettings.Section]) -> String {
        var lines: [String] = []
        for section in sections {
            lines += ["", "\(section.heading.uppercased()):"]
            for option in section.options {
                let value = option.get(ServeSettings())
                let unit = option.unit.isEmpty ? "VALUE" : option.unit.uppercased()
                lines.append(
                    "  \(option.flag) \(unit)   (default: \(value.isEmpty ? "none" : value))")
                lines += wrapped(option.summary, width: 72).map { "      \($0)" }
            }
        }
        return lines.joined(separator: "\n")
    }

    // MARK: The effective configuration

    /// Name, value, unit and origin of every option, one per line.
    static func effective(_ invocation: ServeInvocation) -> String {
        var rows = [["# option", "value", "unit", "from"]]
        for option in ServeSettings.options {
            let value = option.get(invocation.settings)
            let shown = value.isEmpty ? "-" : option.isSecret ? "********" : value.visible()
            let origin = invocation.origins[option.name] ?? .standard
            rows.append([option.name, shown, option.unit, origin.description])
        }
        return aligned(rows)
    }

    // MARK: Files

    /// A configuration file in which every option stands with its default, commented out.
    static func exampleFile() -> String {
        var lines = [
            "# Every option of `parley serve`, with its default. Take away the `#` before a name",
            "# to change it. A flag (--name) or an environment variable (PARLEY_NAME) overrides",
            "# this file. Use it with `parley serve --config FILE`; `--print-config` shows the",
            "# effective values. docs/configuration.md says the same on one page.",
        ]
        for section in ServeSettings.sections {
            lines += ["", "# ---- \(section.heading) ----"]
            for option in section.options {
                let value = option.get(.ofExampleMachine)
                lines += wrapped(option.summary, width: 96).map { "# \($0)" }
                lines.append("# Must be \(option.allowed). \(option.variable)")
                // A colon within is the end of a key, except in quotes.
                let needsQuotes = value.isEmpty || value.contains(": ")
                lines.append("#\(option.name): \(needsQuotes ? jsonString(value) : value)")
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// Every option as a page of documentation, in Markdown.
    static func referencePage() -> String {
        var lines = [
            "# Configuration", "",
            "Every option of `parley serve`. An option is a flag (`--max-sessions 100`), an",
            "environment variable (`PARLEY_MAX_SESSIONS=100`) and a key of the YAML file that",
            "`--config` names (`max-sessions: 100`). A flag wins over the environment, the",
            "environment over the file, the file over the default. `parley serve --print-config`",
            "shows the effective values and where they come from;",
            "[parley.example.yaml](../parley.example.yaml) is a file to begin with.", "",
            "White space at both ends of a value is no part of it, and a control character within",
            "is refused. Null in the file (`null`, `~`, nothing) means that the option is not set.",
            "",
            "Defaults that depend on the machine are shown for 4 cores and 4 GiB of memory. This",
            "page is made by `parley serve --configuration-reference`.",
        ]
        for section in ServeSettings.sections {
            lines += [
                "", "## \(section.heading)", "", "| option | | default | must be |",
                "|---|---|---|---|",
            ]
            for option in section.options {
                let value = option.get(.ofExampleMachine)
                let cells = [
                    "<a id=\"\(option.name)\"></a>`\(option.name)`",
                    option.summary.replacing("*", with: "\\*"),
                    value.isEmpty ? "none" : "`\(value)`",
                    option.allowed.replacing("*", with: "\\*"),
                ]
                lines.append(
                    "| \(cells.map { $0.replacing("|", with: "\\|") }.joined(separator: " | ")) |")
            }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    // MARK: Layout

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
