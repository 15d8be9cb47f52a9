// `parley serve`: from the effective configuration to a running server. Options are not named here:
// see ServeSettings.

import Agents
import ArgumentParser
import Glibc
import Logging
import Server
import Session

/// The server.
struct ServeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Serve voice sessions.",
        usage: "parley serve [--NAME VALUE ...] [--help-all] [--print-config] [--strict]",
        discussion: ServeText.introduction + ServeText.list([ServeSettings.common]))

    // ServeConfigurationLoader parses the options: they come from the declarations that also make
    // the configuration file, and not from swift-argument-parser.
    @Argument(parsing: .captureForPassthrough, help: .hidden)
    var arguments: [String] = []

    func run() throws {
        ServerSignals.deferStanding()
        try reportingFailure {
            let invocation = try ServeConfigurationLoader().load(
                arguments: arguments, environment: environmentValues())
            switch invocation.text {
            case nil: try serve(invocation)
            case .help: print(ParleyCommand.helpMessage(for: ServeCommand.self))
            case .effective:
                for warning in invocation.warnings { reportLine("warning: \(warning)") }
                print(ServeText.effective(invocation), terminator: "")
            case .fullHelp: print(ServeText.introduction + ServeText.list(ServeSettings.sections))
            case .example: print(ServeText.exampleFile(), terminator: "")
            case .reference: print(ServeText.referencePage(), terminator: "")
            }
        }
    }

    /// Prints the server's addresses on standard output, for the person who started it. Logs go to
    /// standard error.
    private func announce(_ configuration: ServerConfiguration, port: Int) {
        let host = configuration.listener.host
        let (http, webSocket) = configuration.tls.isOn ? ("https", "wss") : ("http", "ws")
        // A browser cannot open the addresses that mean "every interface".
        let reachable = ["0.0.0.0": "127.0.0.1", "::": "[::1]"][host]
        let address = reachable ?? (host.contains(":") ? "[\(host)]" : host)
        writeAll(
            """
            Parley is listening.
              web page   \(http)://\(address):\(port)/
              WebSocket  \(webSocket)://\(address):\(port)/v1/realtime
              metrics    \(http)://\(address):\(port)/metrics

            """, to: STDOUT_FILENO)
    }

    /// The log of a server with these settings. Called once.
    static func logger(of invocation: ServeInvocation) -> Logger {
        let settings = invocation.settings
        let folds = LogFolds { Double(MonotonicClock.now.nanoseconds) / 1e9 }
        LoggingSystem.bootstrap { _ in
            FoldingLogHandler(
                LineLogHandler(format: settings.logFormat, level: settings.logLevel.level),
                folds: folds)
        }
        let logger = Logger(label: "parley")
        for warning in invocation.warnings { logger.warning("\(warning)") }
        return logger
    }

    private func serve(_ invocation: ServeInvocation) throws(CommandFailure) {
        let settings = invocation.settings
        let logger = Self.logger(of: invocation)
        let parts = try ServerParts(settings: settings, logger: logger)
        let server = ParleyServer(
            configuration: settings.server, agents: parts.agents,
            voiceActivityModel: parts.voiceActivityModel, records: parts.records,
            library: parts.library, recordings: parts.recordings, logger: logger,
            beginning: ParleyCommand.beginning)
        do throws(ServerError) {
            try server.run { port in
                announce(settings.server, port: port)
                // The pages of the program that only a start needs are 6 of 21 MB.
                AllocatorPages.giveBack()
            }
        } catch {
            throw CommandFailure(description: "\(error)")
        }
    }
}
