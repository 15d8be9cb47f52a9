// State that all sessions of one shard share: limits, the weights of voice activity detection,
// counters and work space.

/// Counts of one shard's sessions, read by its metrics. Only the shard's thread touches them.
public struct SessionCounters: Equatable, Sendable {
    /// Audio received, in samples at 16 kHz.
    public var samplesIn = 0
    /// Audio sent, in milliseconds.
    public var millisecondsOut = 0
    /// Packets or base64 payloads that did not decode.
    public var decodeErrors = 0
    /// Lost Opus packets that the next one had a copy of.
    public var packetsRecovered = 0
    /// Lost or corrupt Opus packets that were concealed, or lay in a gap.
    public var packetsConcealed = 0
    /// Numbered packets that came twice or too late.
    public var packetsLate = 0
    /// User turns committed.
    public var turns = 0
    /// Those in which no words were recognised.
    public var turnsWithoutWords = 0
    /// Replies that speech interrupted.
    public var interruptions = 0
    /// Replies that were held by speech and went on.
    public var falseInterruptions = 0
    /// Responses that ran to their end.
    public var responsesCompleted = 0
    /// Responses that the user or the client stopped.
    public var responsesCancelled = 0
    /// Responses that reached a limit.
    public var responsesIncomplete = 0
    /// Responses whose agent failed.
    public var responsesFailed = 0
    /// Apologies that are spoken in place of a model's reply.
    public var apologies = 0
    /// Calls of MCP tools that were answered.
    public var toolCallsCompleted = 0
    /// Calls of MCP tools that failed at their server or on the way.
    public var toolCallsFailed = 0

    /// All zero.
    public init() {}
}

/// Shared by the sessions of one shard; confined to the shard's thread.
public final class SessionContext {
    /// Limits of each session.
    public let limits: SessionLimits
    /// The voice activity model, or nil when it is not installed: sessions then refuse
    /// server-side turn detection.
    public let voiceActivityModel: VoiceActivityModel?
    /// Windows of audio that wait to be computed together; nil without the model. Closed unless the shard
    /// opens it.
    public let activityBatch: VoiceActivityBatch?
    /// Whether the server can transcribe. Without it, transcriptions fail.
    public let hasRecognizer: Bool
    /// Whether speech may be recognised before it is complete (`SpeechRecognizer.makesHypotheses`).
    public let makesHypotheses: Bool
    /// Whether the server can judge by the sound of a turn whether it is over (`TurnEndModel`).
    public let hasTurnModel: Bool
    /// The abilities of the model that a session names.
    let abilities: @Sendable (_ model: String) -> ModelAbilities
    /// Whether `semantic_vad` judges how speech sounds. Off only to measure the benefit of that.
    public let judgesProsody: Bool
    /// Whether the server can speak.
    public let hasSynthesizer: Bool
    /// The language that users most probably speak (`SpeechRecognizer.languages`). Nil: not known.
    let expectedLanguage: String?
    /// The languages that its voices speak (`SpeechSynthesizer.languages`). Nil means any.
    let voiceLanguages: [String]?
    /// The phrase for a user whose turn has no words.
    let notUnderstood: Phrase
    /// The phrase for a user whose turn cannot be answered.
    let apology: Phrase
    /// Which MCP servers sessions may name. Nil means that tools of that type are refused.
    public let toolServers: ToolServerPolicy?
    /// Counts of the shard's sessions so far.
    @exclusivity(unchecked) public var counters = SessionCounters()  // 204 instructions an echo.
    /// Audio received so far, in samples at 16 kHz. The shard reads it at every read of a socket;
    /// from its module, `counters` would be checked for overlapping accesses.
    public var samplesIn: Int { counters.samplesIn }
    /// How much audio this tick of the event loop has time for.
    @exclusivity(unchecked) var audioShares = AudioShares()  // 233 instructions an echo.
    /// Outputs of the latest input. They are taken before the next input, so that one queue serves
    /// all sessions and an idle session has none.
    var outputs = OutputQueue()
    /// Whether a broken invariant ends its session (`SessionOutput.failed`) and not the process.
    /// Set by a production server; without it a fault traps, as tests want it.
    public var reportsFaults = false
    /// The newest parameters with which a session began.
    var startingParameters = NewestParameters()
    /// The newest parameters after a client's update.
    var updatedParameters = NewestParameters()
    /// Shared by the sessions' codecs.
    let codecs: CodecSpace
    /// The recordings of those sessions that are recorded.
    var recordings: [ObjectIdentifier: SessionRecording] = [:]
    /// The state of the agents' phrases, for those sessions that have an agent.
    var conducts: [ObjectIdentifier: AgentConduct] = [:]

    /// Creates a context for one shard.
    public init(
        limits: SessionLimits = SessionLimits(), voiceActivityModel: VoiceActivityModel?,
        hasRecognizer: Bool, makesHypotheses: Bool = false, hasTurnModel: Bool = false,
        abilities: @escaping @Sendable (_ model: String) -> ModelAbilities = { _ in
            ModelAbilities()
        },
        hasSynthesizer: Bool, expectedLanguage: String? = nil, voiceLanguages: [String]? = nil,
        notUnderstood: Phrase = .none,
        apology: Phrase = .none,
        judgesProsody: Bool = true,
        toolServers: ToolServerPolicy? = nil, codecs: CodecSettings = CodecSettings()
    ) {
        self.notUnderstood = notUnderstood
        self.apology = apology
        self.toolServers = toolServers
        self.judgesProsody = judgesProsody
        self.limits = limits
        self.voiceActivityModel = voiceActivityModel
        activityBatch = voiceActivityModel.map { VoiceActivityBatch(model: $0) }
        self.hasRecognizer = hasRecognizer
        self.makesHypotheses = hasRecognizer && makesHypotheses
        self.hasTurnModel = hasTurnModel
        self.abilities = abilities
        self.hasSynthesizer = hasSynthesizer
        self.expectedLanguage = expectedLanguage
        self.voiceLanguages = voiceLanguages
        self.codecs = CodecSpace(codecs)
    }

    // MARK: Shares of a tick

    /// Begins a tick of the event loop, in which all sessions together hear about this many samples
    /// at 16 kHz.
    public func beginTick(samples: Int) {
        audioShares.beginTick(samples: samples, received: counters.samplesIn)
    }

    /// Begins the share of another connection, whose messages are handled next: the rest of the
    /// tick, or 100 ms. The rest of a message that lasts longer waits in its session
    /// (`VoiceSession.hasUnheardAudio`).
    public func beginShare() { audioShares.beginShare(received: counters.samplesIn) }

    /// Whether sessions have heard as much audio as the tick has time for.
    public var isTickSpent: Bool { counters.samplesIn >= audioShares.tickEnd }

    /// Whether the connection's share is used up.
    public var isShareSpent: Bool { counters.samplesIn >= audioShares.shareEnd }

    /// How many codecs this shard's sessions use, for its metrics.
    public var codecUse: CodecUse { codecs.use }

    /// By how much a busy shard lowers the complexity of Opus.
    public var encodingRelief: EncodingRelief {
        get { codecs.relief }
        set { codecs.relief = newValue }
    }
}

/// Outputs in order, in memory that is reused.
struct OutputQueue {
    private var outputs: [SessionOutput] = []
    private var head = 0

    /// Whether everything has been taken.
    var isEmpty: Bool { outputs.isEmpty }

    mutating func append(_ output: SessionOutput) { outputs.append(output) }

    mutating func next() -> SessionOutput? {
        guard head < outputs.count else {
            outputs.removeAll(keepingCapacity: true)
            head = 0
            return nil
        }
        defer { head += 1 }
        return outputs[head]
    }
}
