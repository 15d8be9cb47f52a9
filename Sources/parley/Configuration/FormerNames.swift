// Options that had another name. The former one is still read, on the command line, in the environment
// and in the file, with a warning that has the new one.

import Session

/// The former names of options.
enum FormerNames {
    /// Today's names, by the former. One round of the event loop is a tick; a turn is the user's.
    private static let current = [
        "max-accepts-per-turn": "max-accepts-per-tick",
        "max-audio-per-turn-ms": "max-audio-per-tick-ms",
        "max-jobs-per-turn": "max-jobs-per-tick",
        "max-messages-per-turn": "max-messages-per-tick",
        "max-tls-handshakes-per-turn": "max-tls-handshakes-per-tick",
        "max-write-bytes-per-turn": "max-write-bytes-per-tick",
    ]

    /// The name of an option today. Nil means that the name is no former one.
    static func current(_ name: String) -> String? { current[name] }

    /// The variables of the former names, each with its option.
    static let variables = current.compactMap { former, name in
        ServeSettings.option(named: name).map {
            (variable: ServeOption.variable(of: former), option: $0)
        }
    }.sorted { $0.variable < $1.variable }

    /// Says that a name is a former one, as one clause.
    static func warning(_ former: String, is current: String) -> String {
        "\(former) is now \(current)"
    }
}
