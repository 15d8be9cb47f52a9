// The values that the options of `parley serve` set: the server's own configuration, and what only
// the command needs. How they are given is in ServeOptionTable.

import Agents
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
    /// Whether that model is given what users say as audio.
    var modelHearsAudio = false
    /// Whether that model is given the images that users send.
    var modelSeesImages = false
    /// What that server speaks.
    var modelKind = ModelServiceKind.chat
    /// The provider that takes over where that server fails, or nil.
    var modelFallback: String?
    /// Servers of models by their names.
    var providers: [ModelProviderSetting] = []
    /// Tokens of one answer where the session sets no limit and the server wants one. 4,096.
    var modelMaxTokens = AnthropicMessages.defaultMaxTokens
    /// Time until a model's first word. 60 s, as long as it may be silent.
    var firstTokenTimeout = Duration.seconds(60)
    /// Time for a model's whole answer. 10 min: 4,096 tokens of a model on a CPU.
    var modelTotalTimeout = Duration.seconds(600)
    /// Failures of a provider in a row before it is left alone. 3: two may be chance.
    var failuresBeforePause = 3
    /// How long it is. 30 s: about a restart of a model server.
    var providerPause = Duration.seconds(30)
    /// Base URL of a transcription server, or nil: the embedded recogniser.
    var transcriptionURL: String?
    /// The model to ask that server for.
    var transcriptionModel = "whisper-1"
    /// The key for that server, or nil: none is sent.
    var transcriptionKey: String?
    /// Whether that server is asked to send the text while it makes it.
    var streamsTranscription = false
    /// Base URL of a speech server, or nil: the embedded synthesiser.
    var speechURL: String?
    /// The model to ask that server for.
    var speechModel = "tts-1"
    /// The voice to ask that server for, or nil: what the client names.
    var speechVoice: String?
    /// The key for that server, or nil: none is sent.
    var speechKey: String?
    /// What that server is asked to answer in.
    var speechFormat = SpeechServiceFormat.pcm
    /// Silence of a speech service after which it is given up. 10 s.
    var serviceTimeout = Duration.seconds(10)
    /// Time for a whole answer of a speech service. 60 s.
    var serviceTotalTimeout = Duration.seconds(60)
    /// Retries of one request to any service. 2.
    var serviceRetries = 2
    /// Retries of all requests to one service, per hundred. 10.
    var serviceRetryPercent = 10
    /// The file that names the operator's MCP servers, or nil: there are none.
    var mcpConfiguration: String?
    /// Which MCP servers clients may name by their URL.
    var mcpClientURLs = MCPClientURLs.auto
    /// How long MCP servers may take.
    var mcpTimeouts = MCPTimeouts()
    /// The server's own settings and limits.
    var server = ServerConfiguration()

    /// The defaults.
    init() {}

    /// The defaults, with 4 cores and 4 GiB where they depend on the machine: what the example file
    /// shows must not.
    static var ofExampleMachine: ServeSettings {
        var settings = ServeSettings()
        settings.server.shards = 4
        settings.server.workerThreads = 4
        settings.server.maxMemoryBytes = 4 << 30
        return settings
    }
}
