// `parley sessions`: reads what is kept of sessions. RecordText makes the lines for a person;
// ExportSessionCommand and DeleteSessionsCommand have files of their own.

import ArgumentParser
import Codec
import Glibc
import Records
import Server

/// Reads records of conversations.
struct SessionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sessions",
        abstract: "Read, and delete, what a server has kept of its sessions.",
        discussion: """
            The server keeps records where it is started with --records. They may be read while it \
            runs.
            """,
        subcommands: [
            ListSessionsCommand.self, ShowSessionCommand.self, ExportSessionCommand.self,
            DeleteSessionsCommand.self,
        ])
}

/// Where records are: an option, or otherwise the server's own setting, in a variable or its
/// configuration file.
struct RecordPlaceOptions: ParsableArguments {
    @Option(
        help: """
            The SQLite file, or the postgres:// URL, as the server has it. By default the variable \
            PARLEY_RECORDS, or what the configuration file says.
            """)
    var records: String?

    @Option(help: "The server's configuration file; by default the variable PARLEY_CONFIG.")
    var config: String?

    /// Whether the server's file is known, so that an option that is not set there has its default.
    var hasConfiguration: Bool {
        config != nil || environmentValue(ServeConfigurationLoader.configVariable) != nil
    }

    /// The settings of the server.
    /// - Parameter options: further ones that were given here, by their names.
    func settings(
        _ options: KeyValuePairs<String, String?> = [:]
    ) throws(CommandFailure) -> ServeSettings {
        let given = [("config", config), ("records", records)] + options.map { ($0.key, $0.value) }
        return try ServeConfigurationLoader().load(
            arguments: given.compactMap { name, value in value.map { "--\(name)=\($0)" } },
            environment: environmentValues(), isToServe: false
        ).settings
    }

    /// The place that was named.
    static func named(by settings: ServeSettings) throws(CommandFailure) -> String {
        guard let place = settings.records.records else {
            throw .usage("where are the records? Give --records or --config, or PARLEY_RECORDS")
        }
        return place
    }

    func open() throws(CommandFailure) -> RecordBrowser {
        let place = try Self.named(by: settings())
        do throws(RecordError) { return try RecordBrowser(place) } catch {
            throw CommandFailure(description: "\(error)")
        }
    }
}

/// Lists sessions.
struct ListSessionsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List sessions, the newest first.")

    @OptionGroup var place: RecordPlaceOptions

    @Option(help: "Only sessions that began within so many days.")
    var days: Int?

    @Option(help: "The most sessions that are listed, 1 to 100000.")
    var limit = 100

    @Flag(help: "One JSON object a line.")
    var json = false

    func validate() throws {
        guard (1...100_000).contains(limit) else { throw ValidationError("--limit is 1 to 100000") }
        guard (1...36_500).contains(days ?? 1) else {
            throw ValidationError("--days is 1 to 36500")
        }
    }

    func run() throws {
        try reportingFailure {
            let since = days.map { WallClock.milliseconds - $0 * 86_400_000 } ?? 0
            let sessions = try place.reading { browser throws(RecordError) in
                try browser.list(since: since, limit: limit)
            }
            if !json { print(RecordText.heading) }
            for session in sessions {
                print(json ? RecordText.json(session) : RecordText.line(session))
            }
        }
    }
}

extension RecordPlaceOptions {
    func reading<Value>(
        _ read: (RecordBrowser) throws(RecordError) -> Value
    ) throws(CommandFailure) -> Value {
        let browser = try open()
        do throws(RecordError) { return try read(browser) } catch {
            throw CommandFailure(description: "\(error)")
        }
    }

    /// The documents of a session, of which there is at least one.
    func documents(_ sessionID: String) throws(CommandFailure) -> [String] {
        let documents = try reading { browser throws(RecordError) in
            try browser.documents(sessionID)
        }
        guard !documents.isEmpty else {
            throw CommandFailure(description: "there is no record of \(sessionID)")
        }
        return documents
    }
}

/// Shows one conversation.
struct ShowSessionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show what was said in a session.")

    @Argument(help: "The session's id, sess_….")
    var id: String

    @OptionGroup var place: RecordPlaceOptions

    func run() throws {
        try reportingFailure {
            for document in try place.documents(id) {
                let text = try RecordText(document)
                print(text.lines.joined(separator: "\n"))
            }
        }
    }
}
