// All settings of `parley serve`, and the list of its options. Each setting is declared beside the
// property that it sets: the server's in its folders (Server/Lifecycle/ServerConfiguration composes
// them), a session's in Session/Settings, those of models, speech and tools in Serve/.

import Agents
import Logging
import Server
import Session

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

/// The instructions that voice activity detection is computed by.
enum VoiceActivityKernel: String, CaseIterable, Sendable {
    case auto, baseline, avx2, avx512

    /// The kernel; `auto` is the widest that the processor has.
    var kernel: DenseKernel { DenseKernel(rawValue: rawValue) ?? .best }
}

/// A model that hears whether a turn is over.
enum TurnModelChoice: String, CaseIterable, Sendable {
    case none
    case smartTurn = "smart-turn"
}

/// The values that the options of `parley serve` set.
struct ServeSettings: Sendable {
    /// How log lines look.
    var logFormat = LogFormat.text
    /// The least severe level that is logged.
    var logLevel = LogLevel.info
    /// Folder of the speech models. Without one, `ModelsFolder` looks for it.
    var modelsDirectory: String?
    /// The languages that the embedded recognition tells apart, the most expected one first.
    var recognizerLanguages: [LanguageCode] = [.english]
    /// Which embedded voice speaks by default.
    var voiceEngine = VoiceEngine.natural
    /// What hears whether a turn is over.
    var turnModel = TurnModelChoice.none
    /// How voice activity detection is computed.
    var voiceActivityKernel = VoiceActivityKernel.auto
    /// Agents by their names.
    var agents = AgentOptions()
    /// Language models elsewhere.
    var language = LanguageModelSettings()
    /// Transcription and speech servers.
    var speech = SpeechServiceSettings()
    /// Retries of requests to either.
    var retry = ServiceRetrySettings()
    /// MCP servers.
    var tools = ToolServerSettings()
    /// Records and webhooks.
    var records = RecordOptions()
    /// Where recordings are kept.
    var recordings = RecordingOptions()
    /// The server's own settings and limits.
    var server = ServerConfiguration()

    private static let logging: [Setting<Self>] = [
        .choice(
            "log-format", \.logFormat,
            "Log lines for a person (text) or for a collector (json, one object per line)."),
        .choice("log-level", \.logLevel, "The least severe level that is logged."),
    ]

    private static let embedded: [Setting<Self>] = [
        .optionalText(
            "models", \.modelsDirectory, "a folder",
            """
            Folder of the speech models, which `make models` fills. Without it: models/ in the \
            working directory, beside the executable or in its checkout, or parley/models in the \
            data folders (XDG_DATA_HOME, XDG_DATA_DIRS, /usr/share …).
            """),
        .list(
            "recognizer-languages", \.recognizerLanguages, of: "codes such as en or fr",
            """
            The languages that the embedded speech recognition tells apart, the most expected \
            one first. Which one a user speaks is found out once in a session, unless the client \
            names it. Languages beside English need `make languages`, and 170 MB of memory for \
            all of them. English alone is the default: it costs nothing more, and no word is \
            taken for one of another language. docs/speech.md tells more.
            """),
        .choice(
            "voice-engine", \.voiceEngine,
            """
            What speaks the women's names of the protocol, and names that no voice has: the natural \
            voice, or flite. Where the natural voice is not installed, flite speaks. The other \
            names are always flite's. docs/speech.md has the names, and the licence of the natural \
            voice.
            """),
        .choice(
            "turn-model", \.turnModel,
            """
            A model that hears whether a turn is over, for semantic_vad in languages whose words \
            Parley does not know: none, or Smart Turn, which `make smart-turn` installs.
            """),
        .choice(
            "voice-activity-kernel", \.voiceActivityKernel,
            """
            The instructions that voice activity detection is computed by: those that every \
            processor has (baseline: SSE2 or NEON), AVX2, AVX-512, or the widest of them that this \
            processor has (auto). Another choice is for measurements.
            """),
    ]

    /// Every setting.
    private static let groups: [SettingGroup<Self>] =
        [
            SettingGroup(.logging, logging), SettingGroup(.agents, embedded),
            AgentOptions.settings.within(\.agents),
            LanguageModelSettings.settings.within(\.language),
            SpeechServiceSettings.settings.within(\.speech),
            ServiceRetrySettings.settings.within(\.retry),
            ToolServerSettings.settings.within(\.tools),
            RecordOptions.settings.within(\.records),
            RecordingOptions.settings.within(\.recordings),
        ] + ServerConfiguration.settings.map { $0.within(\.server) }

    /// The defaults.
    init() {}

    /// The defaults of a machine with 4 cores, 4 GiB and no limit of open files. Generated documents
    /// show these, so that they do not depend on the machine that generates them.
    static var ofExampleMachine: ServeSettings {
        var settings = ServeSettings()
        settings.server.shards = 4
        settings.server.workers.threads = 4
        settings.server.workers.maxQueuedJobs = 4 * 64
        settings.server.memory.maxBytes = 4 << 30
        settings.server.admission.maxConnections = 20_000
        return settings
    }
}

/// An option of `parley serve`.
typealias ServeOption = Setting<ServeSettings>

extension ServeSettings {
    /// Options under one heading.
    struct Section: Sendable {
        let heading: String
        let options: [ServeOption]
    }

    /// The options that most people need, in the order in which they need them.
    private static let commonNames = [
        "host", "port", "api-key", "allowed-origins", "tls-cert", "tls-key", "models", "llm-url",
        "llm-key", "model", "stt-url", "tts-url",
    ]

    /// The options that most people need.
    static let common = Section(
        heading: "What most people need", options: commonNames.compactMap { option(named: $0) })

    /// Every option once, in the order in which they are shown: the common ones, and then the others
    /// by their headings.
    static let sections: [Section] =
        [common]
        + SettingHeading.allCases.map { heading in
            let options = groups.filter { $0.heading == heading }.flatMap(\.settings)
            return Section(
                heading: heading.rawValue,
                options: options.filter { !commonNames.contains($0.name) })
        }

    /// Every option.
    static let options = sections.flatMap(\.options)

    /// Finds an option by its name.
    static func option(named name: String) -> ServeOption? { byName[name] }

    /// Finds an option by the name of its flag; `--llm` is short for `--llm-url`.
    static func option(flagged name: String) -> ServeOption? {
        byName[name == "llm" ? "llm-url" : name]
    }

    private static let byName = Dictionary(
        uniqueKeysWithValues: groups.flatMap(\.settings).map { ($0.name, $0) })
}

extension Setting {
    /// The base URL of a service.
    static func url(_ name: String, _ place: any Place<String?>, _ summary: String) -> Setting {
        .optionalText(name, place, "a URL that begins with http:// or https://", summary) {
            $0.hasPrefix("http://") || $0.hasPrefix("https://")
        }
    }

    /// The key for a service.
    static func serviceKey(
        _ name: String, _ place: any Place<String?>, _ summary: String
    ) -> Setting {
        .optionalText(
            name, place, "a key", isSecret: true,
            "\(summary) Prefer the variable or the file: flags are visible to every user of the "
                + "machine.")
    }
}
