// The load harness's command line. The harness knows only a server's protocol and its /metrics; it
// never imports Server.

import ArgumentParser

/// `parley-load`: puts load on servers of voice sessions and measures them.
@main
struct ParleyLoad: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "parley-load",
        abstract: "Put load on Parley, or on another server of the same protocol.",
        discussion: """
            Needs .build/release/parley beside it (`make build`), and is run from the \
            repository's root. `parley-load help COMMAND` has each command's options, units and \
            defaults.

            EXAMPLES
              parley-load all                        every scenario, small, one table
              parley-load run idle --sessions 10000  one scenario
              parley-load run LoadTests/scenarios/evening.yaml --output .build/load/evening
              parley-load scale                      cost over 1,000 … 19,800 sessions
              parley-load far                        100,000 sessions over six servers
              parley-load claims --only streaming    Node, FastAPI, … beside Parley
              parley-load model --port 9300          the scripted model, for other servers
            """,
        subcommands: [
            AllCommand.self, RunCommand.self, ScaleCommand.self, FarCommand.self,
            ClaimsCommand.self, FieldsCommand.self, ModelCommand.self, EchoCommand.self,
            HandshakesCommand.self, ParseJSONCommand.self, VoiceWindowsCommand.self,
            IdleMemoryCommand.self, VoiceCommand.self, WorkerCommand.self,
            EchoGeneratorCommand.self, EchoMessagesCommand.self, BareVoiceCommand.self,
        ])
}
