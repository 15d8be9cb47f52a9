// The command line's root. Each subcommand has a file of its own; nothing else happens here.

import ArgumentParser
import Glibc
import Server
import Session

/// `parley`: serves voice sessions, talks to a server that does, and watches it.
@main
struct ParleyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "parley",
        abstract: "A voice session server for the OpenAI Realtime protocol, and its client.",
        version: "parley \(version)",
        subcommands: [
            ServeCommand.self, CheckCommand.self, TalkCommand.self, CallCommand.self,
            TopCommand.self, SessionsCommand.self,
            AsyncAPICommand.self, OpenAPICommand.self,
        ])

    /// The newest heading of CHANGELOG.md: a release's number, or "unreleased".
    static let version = "0.1.0"

    /// When the process began: set by the first line of `main`.
    static let beginning = MonotonicClock.now

    static func main() {
        _ = beginning
        // A reader that goes away is an error of a write, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        if let problem = problem(ofSubcommand: CommandLine.arguments.dropFirst().first) {
            reportLine(problem)
            Self.exit(withError: ExitCode(64))
        }
        main(nil)
    }

    /// The fault of the name of a subcommand. It is nil where the name is one, or a flag, or
    /// missing.
    static func problem(ofSubcommand name: String?) -> String? {
        let names = configuration.subcommands.compactMap { $0.configuration.commandName } + ["help"]
        guard let name, !name.hasPrefix("-"), !names.contains(name) else { return nil }
        let near = nearestName(to: name, among: names).map { "did you mean \($0)? It" } ?? "it"
        return "there is no subcommand \(shortened(name)); \(near) must be one of "
            + names.joined(separator: ", ")
    }
}
