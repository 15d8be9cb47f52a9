// Converts the checked fields of `session` in `session.update` to a `SessionUpdate`.
// Fields/SessionFields has the fields and their rules; SessionParameters applies the update.

extension SessionUpdate: ReadableObject {
    static var schema: ValueSchema { .object(SessionFields.table) }

    /// Reads the fields of `session`. The model is fixed by the URL.
    init(_ fields: EventFields) throws(ClientEventError) {
        self.init()
        kind = try fields.read(SessionFields.type)
        _ = try fields.read(SessionFields.model)
        instructions = try fields.patch(SessionFields.instructions)
        outputModality = try fields.patch(GenerationFields.outputModalities)
        tools = try fields.patch(GenerationFields.tools)
        mcpTools = try fields.patch(GenerationFields.mcpTools)
        toolChoice = try fields.patch(GenerationFields.toolChoice)
        mcpToolChoice = try fields.patch(GenerationFields.mcpToolChoice)
        parallelToolCalls = try fields.patch(GenerationFields.parallelToolCalls)
        maxOutputTokens = try fields.patch(GenerationFields.maxOutputTokens)
        tracing = try fields.patch(SessionFields.tracing)
        truncation = try fields.patch(SessionFields.truncation)
        reasoningEffort = try fields.patch(SessionFields.reasoning)
        prompt = try fields.patch(SessionFields.prompt)
        _ = try fields.read(SessionFields.include)
        guard let audio = try fields.read(SessionFields.audio) else { return }
        if let input = try audio.read(AudioFields.input) { try readInput(input) }
        if let output = try audio.read(AudioFields.output) { try readOutput(output) }
    }

    /// `audio.input`
    private mutating func readInput(_ fields: EventFields) throws(ClientEventError) {
        inputFormat = try fields.patch(InputAudioFields.format)
        inputIsNumbered = try fields.patch(InputAudioFields.numbering)
        transcription = try fields.patch(InputAudioFields.transcription)
        turnDetection = try fields.patch(InputAudioFields.turnDetection)
        noiseReduction = try fields.patch(InputAudioFields.noiseReduction)
    }

    /// `audio.output`
    private mutating func readOutput(_ fields: EventFields) throws(ClientEventError) {
        outputFormat = try fields.patch(ReplyAudioFields.format)
        outputOpus = try fields.patch(ReplyAudioFields.opus)
        outputTransport = try fields.patch(OutputAudioFields.transport)
        voice = try fields.patch(ReplyAudioFields.voice)
        speed = try fields.patch(OutputAudioFields.speed)
    }
}

/// The members of `session` that are no parameters of it: extensions of Parley, in both dialects.
/// The client's front handles them.
public struct ClientWishes: Equatable, Sendable {
    /// `resume`: whether the client can resume the session. Nil leaves it as it was.
    public var resume: Bool?
    /// `recording.consent`: whether the user agrees to be recorded. Nil leaves it as it was.
    public var recordingConsent: Bool?

    /// A client that mentions none of them.
    public init() {}

    /// Reads them from the fields of `session`.
    init(_ fields: EventFields) throws(ClientEventError) {
        resume = try fields.read(SessionFields.resume)
        recordingConsent = try fields.read(SessionFields.recording)?.read(RecordingFields.consent)
    }
}

/// `type` is required by the protocol. A client that omits it means the session's current type.
struct SessionTypeRule: ValueRule {
    var schema: ValueSchema { kinds.schema }
    private let kinds = ChoiceRule<SessionKind>()

    func read(_ type: JSONValue, at path: FieldPath) throws(ClientEventError) -> SessionKind {
        if type.isString("translation") {
            throw .unsupported(
                "unsupported_session_type", path.text, "A session of type 'translation'")
        }
        return try kinds.read(type, at: path)
    }
}

extension NoiseReduction: ReadableObject {
    static var schema: ValueSchema { .object(NoiseReductionFields.table) }

    /// Reads `audio.input.noise_reduction`.
    init(_ fields: EventFields) throws(ClientEventError) {
        self.init(
            place: try fields.read(NoiseReductionFields.type),
            strength: try fields.read(NoiseReductionFields.strength))
    }
}

extension TranscriptionParameters: ReadableObject {
    static var schema: ValueSchema { .object(TranscriptionFields.table) }

    /// Reads `audio.input.transcription`.
    init(_ fields: EventFields) throws(ClientEventError) {
        self.init(
            model: try fields.read(TranscriptionFields.model),
            language: try fields.read(TranscriptionFields.language),
            prompt: try fields.read(TranscriptionFields.prompt))
        languages = try fields.read(TranscriptionFields.languages) ?? []
        keywords = try fields.read(TranscriptionFields.keywords) ?? []
        delay = try fields.read(TranscriptionFields.delay)
    }
}

extension TurnDetectionParameters: ReadableObject {
    static var schema: ValueSchema { TurnDetectionFields.schema }

    /// Reads `audio.input.turn_detection`.
    init(_ fields: EventFields) throws(ClientEventError) {
        self.init()
        switch try fields.read(TurnDetectionFields.type) {
        case .serverVAD:
            mode = .serverVAD(
                threshold: try fields.read(TurnDetectionFields.threshold),
                silenceMilliseconds: try fields.read(TurnDetectionFields.silence))
            prefixPaddingMilliseconds = try fields.read(TurnDetectionFields.prefixPadding)
            idleTimeoutMilliseconds = try fields.read(TurnDetectionFields.idleTimeout)
        case .semanticVAD:
            mode = .semanticVAD(eagerness: try fields.read(TurnDetectionFields.eagerness))
            patience = try fields.read(TurnDetectionFields.patience)
        }
        createResponse = try fields.read(TurnDetectionFields.createResponse)
        interruptResponse = try fields.read(TurnDetectionFields.interruptResponse)
        speculativeResponse = try fields.read(TurnDetectionFields.speculativeResponse)
        minInterruptionMilliseconds = try fields.read(TurnDetectionFields.minInterruption)
        let needsWords = try fields.read(TurnDetectionFields.interruptionNeedsWords)
        interruption =
            try fields.read(TurnDetectionFields.interruption)
            ?? needsWords.map { $0 ? .words : .any }
    }
}
