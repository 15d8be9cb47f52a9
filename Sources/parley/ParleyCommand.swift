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
        subcommands: [
            ServeCommand.self, TalkCommand.self, CallCommand.self, TopCommand.self,
            SessionsCommand.self,
            AsyncAPICommand.self, OpenAPICommand.self,
        ])

    /// When the process began: set by the first line of `main`.
    static let beginning = MonotonicClock.now

    static func main() {
        _ = beginning
        // A reader that goes away is an error of a write, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        main(nil)
    }
}
