// `parley check`: whether a server would start with these settings, before it is started or told to
// reload. Nothing listens, no service is asked, and no file of records is opened.

import ArgumentParser
import Server

/// Checks the settings, and the files that they name.
struct CheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Check the configuration as `parley serve` would, without serving.",
        usage: "parley check [--NAME VALUE ...] [--strict]",
        discussion: """
            It takes the options, the variables and the file of `parley serve`, and reads every file that \
            they name: certificates, keys, agents, MCP servers. The status is 0 where a server would \
            start, otherwise what its start would have, with the same line.
            """)

    @Argument(parsing: .captureForPassthrough, help: .hidden)
    var arguments: [String] = []

    func run() throws {
        if arguments.contains("--help") || arguments.contains("-h") {
            return print(ParleyCommand.helpMessage(for: CheckCommand.self))
        }
        try reportingFailure {
            let invocation = try ServeConfigurationLoader().load(
                arguments: arguments, environment: environmentValues())
            let settings = invocation.settings
            let logger = ServeCommand.logger(of: invocation)
            let parts = try ServerParts(settings: settings, logger: logger, isCheck: true)
            let server = ParleyServer(
                configuration: settings.server, agents: parts.agents,
                voiceActivityModel: parts.voiceActivityModel, logger: logger)
            do throws(ServerError) { try server.check() } catch {
                throw CommandFailure(description: "\(error)")
            }
            parts.agents.toolServers?.shutdown()
            print("parley: a server would start: " + Self.summary(of: parts, invocation))
        }
    }

    private static func summary(of parts: ServerParts, _ invocation: ServeInvocation) -> String {
        let agents = parts.agents.profiles.names
        let given = invocation.origins.count
        return "\(given) options are set"
            + (agents.isEmpty ? "" : ", the agents are " + agents.joined(separator: ", "))
    }
}
