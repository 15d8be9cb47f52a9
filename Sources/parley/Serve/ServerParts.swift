// Makes the agents and models of a server from its settings. Models of hundreds of megabytes are
// not read here: the recogniser loads its own when it is first used.

import Agents
import CLinux
import Logging
import Records
import Server
import Session

/// The parts that `parley serve` hands to the server.
struct ServerParts {
    /// The language model, the recogniser and the synthesiser.
    let agents: AgentSet
    /// The weights of voice activity detection; nil when they are not installed.
    let voiceActivityModel: VoiceActivityModel?
    /// Keeps records of sessions. It is nil where there are none.
    let records: RecordWriter?
    /// Reads and deletes what is kept of sessions. Nil where no records are kept.
    let library: RecordShelf?
    /// Keeps recordings. It is nil where there is no folder for them.
    let recordings: RecordingArchive?

    /// Bytes of the weights of voice activity detection, at most. 64 MiB: they have 1 to 2 MB.
    private static let maxWeightBytes = 64 << 20

    /// Makes the parts. A missing model is a warning that names what will not work.
    /// - Parameter isCheck: whether nothing is to be served: no file of records is opened.
    /// - Throws: `CommandFailure` where a file that the settings name cannot be used.
    init(
        settings: ServeSettings, logger: Logger, isCheck: Bool = false
    ) throws(CommandFailure) {
        // Messages above 1 MiB get pages of their own, which return to the kernel when the message
        // is freed; no event of a call is that long. Without this call malloc raises the limit to
        // 32 MiB after the first, and keeps holes of hundreds of megabytes after clients have gone.
        mallopt(M_MMAP_THRESHOLD, 1 << 20)
        let signer = try Self.signer(settings.language)
        let models = ModelsFolder(named: settings.modelsDirectory)
        let voiceActivity = try Self.voiceActivityModel(settings, models, logger)
        voiceActivityModel = voiceActivity
        var agents = AgentSet(
            model: Self.model(settings, signer, logger),
            recognizer: try Self.recognizer(settings, models, voiceActivity, logger),
            synthesizer: Self.synthesizer(settings, models, logger),
            toolServers: try Self.toolServers(settings))
        agents.turnModel = try Self.turnModel(settings, models, logger)
        agents.page = Self.page(settings.language)
        agents.page.voices =
            if let embedded = agents.synthesizer as? EmbeddedSynthesizer {
                embedded.voices
            } else {
                settings.speech.speechVoice.map { [PageVoice(name: $0)] } ?? []
            }
        if settings.speech.transcriptionURL == nil {
            agents.page.languages = settings.recognizerLanguages.map(\.description)
        }
        Self.warn(ofLanguagesWithoutVoice: settings, agents, logger)
        if agents.page.kind == .guide, let others = agents.toolServers {
            agents.toolServers = GuideToolServers(beside: others)
        }
        let (options, policy) = (settings.agents, agents.toolServers?.policy)
        agents.profiles = try options.profiles(policy)
        if options.source != nil { agents.rereadProfiles = { try options.profiles(policy) } }
        if let signer {
            agents.publicKeys = { signer.publicKeys() }
            if let path = settings.language.signingKeyFile {
                agents.rereadKeys = { signer.replace(with: try Self.signingKeys(in: path)) }
            }
        }
        self.agents = agents
        let kept = try settings.records.recordSettings(settings.server)
        if kept == nil { Self.warn(of: agents.profiles, logger) }
        guard !isCheck else {
            (recordings, records, library) = (nil, nil, nil)
            return
        }
        recordings = try settings.recordings.keeper(settings.server, logger)
        records = try kept.map { kept throws(CommandFailure) in try Self.records(kept, logger) }
        library = settings.records.records.map { [recordings] in
            RecordShelf($0, recordings: recordings, kept)
        }
        // Return the work space of reading, checking and laying out the weights (1 MB) before the
        // tables of the shards, most of which stay untouched, are allocated in it. The budget of
        // memory counts the memory that is resident now as the server's own.
        AllocatorPages.giveBack()
    }

    /// Warns of languages that are heard but not spoken.
    private static func warn(
        ofLanguagesWithoutVoice settings: ServeSettings, _ agents: AgentSet, _ logger: Logger
    ) {
        guard let spoken = agents.synthesizer?.languages else { return }
        let mute = settings.recognizerLanguages.map(\.description).filter { !spoken.contains($0) }
        guard !mute.isEmpty else { return }
        logger.warning(
            """
            no voice speaks some of recognizer-languages: replies in them are text; a speech service \
            (tts-url) speaks them (docs/speech.md)
            """,
            metadata: ["languages": "\(mute.joined(separator: ", "))"])
    }

    /// Warns of agents whose `after-call` is not asked, because neither records nor webhooks are
    /// on.
    private static func warn(of agents: AgentProfiles, _ logger: Logger) {
        let asking = agents.names.filter { agents[$0]?.agent.afterCall != nil }
        guard !asking.isEmpty else { return }
        logger.warning(
            "after-call of agents is not asked: its answer needs --records or --webhook-url",
            metadata: ["agents": "\(asking.joined(separator: ", "))"])
    }

    private static func records(
        _ wanted: RecordSettings, _ logger: Logger
    ) throws(CommandFailure) -> RecordWriter {
        do throws(RecordError) { return try RecordWriter(wanted, logger: logger) } catch {
            throw CommandFailure(description: "\(error)")
        }
    }

    private static func toolServers(
        _ settings: ServeSettings
    ) throws(CommandFailure) -> any ToolServers {
        var configured: [MCPServerConfiguration] = []
        if let path = settings.tools.configuration {
            do {
                configured = try MCPServerConfiguration.all(
                    in: Array(WholeFile.readText(path).utf8))
            } catch let error as WholeFileError {
                throw CommandFailure(description: "mcp-config: \(error.problem(of: path))")
            } catch {
                throw CommandFailure(description: "mcp-config cannot be used: \(path): \(error)")
            }
        }
        return MCPToolServers(
            configured: configured,
            clientURLs: settings.tools.clientURLs.policy(of: settings.server),
            timeouts: settings.tools.timeouts
        ) { _, command, environment in
            { handler in
                ChildProcess(command: command, environment: environment, handler: handler)
            }
        }
    }

    private static func recognizer(
        _ settings: ServeSettings, _ models: ModelsFolder, _ voiceActivity: VoiceActivityModel?,
        _ logger: Logger
    ) throws(CommandFailure) -> (any SpeechRecognizer)? {
        if let url = settings.speech.transcriptionURL {
            return OpenAITranscription(
                service: service("stt", url, settings.speech.transcriptionKey, settings),
                model: settings.speech.transcriptionModel,
                streams: settings.speech.streamsTranscription)
        }
        return try embeddedRecognizer(settings, models, voiceActivity, logger)
    }

    private static func turnModel(
        _ settings: ServeSettings, _ models: ModelsFolder, _ logger: Logger
    ) throws(CommandFailure) -> (any TurnEndModel)? {
        guard settings.turnModel == .smartTurn else { return nil }
        let model = SmartTurn(modelsDirectory: models.path) { reason in
            logger.warning(
                "no turn model: turns are judged without it; run `make smart-turn`",
                metadata: ["reason": "\(reason)"])
        }
        if let missing = model.missingFile {
            throw CommandFailure(
                description:
                    "turn-model: Smart Turn is not installed; run `make smart-turn` (\(missing))")
        }
        return model
    }

    private static func synthesizer(
        _ settings: ServeSettings, _ models: ModelsFolder, _ logger: Logger
    ) -> any SpeechSynthesizer {
        guard let url = settings.speech.speechURL else {
            @Sendable func warn(_ reason: String) {
                logger.warning(
                    "no natural voice: flite speaks; run `make voice`",
                    metadata: ["reason": "\(reason)"])
            }
            let synthesizer = EmbeddedSynthesizer(
                modelsDirectory: models.path, engine: settings.voiceEngine, report: warn)
            guard settings.voiceEngine == .natural, let missing = synthesizer.missingFile else {
                return synthesizer
            }
            warn(missing)
            return EmbeddedSynthesizer(modelsDirectory: models.path, engine: .flite)
        }
        return OpenAISpeech(
            service: service("tts", url, settings.speech.speechKey, settings),
            model: settings.speech.speechModel,
            voice: settings.speech.speechVoice, format: settings.speech.speechFormat)
    }

    private static func service(
        _ name: String, _ url: String, _ key: String?, _ settings: ServeSettings
    ) -> UpstreamService {
        UpstreamService(
            name: name, baseURL: url, apiKey: key, timeout: settings.speech.timeout,
            totalTimeout: settings.speech.totalTimeout, retries: retries(settings))
    }

    /// Each service has its own budget, so that the outage of one does not use up the others'.
    static func retries(_ settings: ServeSettings) -> RetryPolicy {
        RetryPolicy(
            maxRetries: settings.retry.retries,
            budget: RetryBudget(percent: settings.retry.percent))
    }

    private static func voiceActivityModel(
        _ settings: ServeSettings, _ models: ModelsFolder, _ logger: Logger
    ) throws(CommandFailure) -> VoiceActivityModel? {
        let kernel = settings.voiceActivityKernel.kernel
        guard kernel.isAvailable else {
            throw CommandFailure(
                description: "voice-activity-kernel: this processor has no \(kernel.rawValue)")
        }
        let path = "\(models.path)/\(ModelsFolder.weights)"
        guard let content = try? WholeFile.read(path, maxBytes: maxWeightBytes) else {
            logger.warning(
                """
                no voice activity model: turns must be committed by the client; run `make models`, or \
                name the folder with --models
                """,
                metadata: ["tried": "\(models.tried.joined(separator: ", "))"])
            return nil
        }
        do {
            return try VoiceActivityModel(weights: content, kernel: kernel)
        } catch {
            logger.warning(
                "the voice activity model cannot be used: turns must be committed by the client",
                metadata: ["path": "\(path)", "reason": "\(error)"])
            return nil
        }
    }
}
