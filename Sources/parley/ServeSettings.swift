// The values that the options of `parley serve` set: the server's own configuration, and what only
// the command needs. How they are given is in ServeOptionTable.

import Logging
import Server

/// A log level as options spell it.
enum LogLevel: String, CaseIterable, Sendable {
    case trace, debug, info, notice, warning, error, critical

    /// The same level of swift-log.
    var level: Logger.Level {
        switch self {
        case .trace: .trace
        case .debug: .debug
        case .info: .info
        case .notice: .notice
        case .warning: .warning
        case .error: .error
        case .critical: .critical
        }
    }
}

/// Everything that `parley serve` can be told.
struct ServeSettings: Sendable {
    /// How log lines look.
    var logFormat = LogFormat.text
    /// The least severe level that is logged.
    var logLevel = LogLevel.info
    /// Folder of the speech models.
    var modelsDirectory = "models"
    /// Base URL of a chat-completions server, or nil: the built-in demo agent answers.
    var modelURL: String?
    /// The model to ask that server for, or nil: what the client names.
    var modelName: String?
    /// The key for that server, or nil: none is sent.
    var modelKey: String?
    /// The server's own settings and limits.
    var server = ServerConfiguration()

    /// The defaults.
    init() {}

    /// The defaults, with 4 where they depend on the machine: what the example file shows must
    /// not.
    static var ofExampleMachine: ServeSettings {
        var settings = ServeSettings()
        settings.server.shards = 4
        settings.server.workerThreads = 4
        return settings
    }
}
