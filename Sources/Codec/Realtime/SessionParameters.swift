// The protocol's session object: the effective values (`SessionParameters`), and the changes of a
// `session.update` (`SessionUpdate`). SessionUpdateParser and ResponseParametersParser read it,
// SessionWriter writes it.

/// JSON text that is kept and forwarded as received, never re-encoded.
public struct RawJSON: Equatable, Sendable {
    /// Valid JSON.
    public var text: String

    /// Wraps text that a parser has accepted.
    public init(_ text: String) { self.text = text }

    /// The same value on one line. In valid JSON, line breaks occur only between tokens.
    public var onOneLine: RawJSON {
        guard text.utf8.contains(where: { $0 == 0x0A || $0 == 0x0D }) else { return self }
        let bytes = text.utf8.map { (byte: UInt8) -> UInt8 in
            byte == 0x0A || byte == 0x0D ? 0x20 : byte
        }
        return RawJSON(String(decoding: bytes, as: UTF8.self))
    }
}

/// A field of an update: absent (unchanged), `null` (cleared), or a new value.
public enum Patch<Value: Equatable & Sendable>: Equatable, Sendable {
    case absent
    case null
    case value(Value)
}

/// A function that the model may call.
public struct FunctionTool: Equatable, Sendable {
    /// The function's name.
    public var name: String
    /// The purpose of the function; passed to the model.
    public var description: String?
    /// JSON Schema of the arguments, as the client sent it.
    public var parameters: RawJSON?

    /// Creates a tool.
    public init(name: String, description: String? = nil, parameters: RawJSON? = nil) {
        self.name = name
        self.description = description
        self.parameters = parameters
    }
}

/// Whether the model must call a function, and which one.
public enum ToolChoice: Equatable, Sendable {
    case auto, none, required
    /// One named function.
    case function(name: String)
}

/// The modality of a response. The protocol allows one at a time; audio includes its transcript.
public enum OutputModality: String, CaseIterable, Sendable { case text, audio }

/// How reply audio is sent (an extension of Parley, `audio.output.transport`).
public enum AudioTransport: String, CaseIterable, Sendable {
    /// As base64 in `response.output_audio.delta` events, which stock clients expect.
    case json
    /// As binary messages with the header that PROTOCOL.md specifies.
    case binary
}

/// `audio.input.noise_reduction`.
public struct NoiseReduction: Equatable, Sendable {
    /// Where the microphone is, which determines how loud its noise is.
    public enum Place: String, CaseIterable, Sendable {
        /// Near the mouth: a headset.
        case nearField = "near_field"
        /// Across the room: a laptop, a conference room.
        case farField = "far_field"
    }

    /// Where the microphone is; nil if the client does not specify it.
    public var place: Place?
    /// How strongly noise is suppressed, 0…1. The default is the server's.
    public var strength: Double?

    /// Creates the parameters.
    public init(place: Place?, strength: Double? = nil) {
        self.place = place
        self.strength = strength
    }

    /// A headset.
    public static let nearField = NoiseReduction(place: .nearField)
    /// A laptop, a conference room.
    public static let farField = NoiseReduction(place: .farField)
}

/// `audio.input.transcription`.
public struct TranscriptionParameters: Equatable, Sendable {
    /// How long a streaming recogniser may wait before it reports words.
    public enum Delay: String, CaseIterable, Sendable { case minimal, low, medium, high, xhigh }

    /// The model that the client named; only reported back. Embedded recognition has one model.
    public var model: String?
    /// ISO-639-1 language hint.
    public var language: String?
    /// Text that guides the recogniser's vocabulary, where the recogniser supports it.
    public var prompt: String?
    /// Languages that may be spoken. A single one has the same effect as `language`.
    public var languages: [String] = []
    /// Words to expect; passed to the recogniser after `prompt`.
    public var keywords: [String] = []
    /// Only reported back: when words are reported depends on two recognitions agreeing.
    public var delay: Delay?

    /// Creates the parameters.
    public init(model: String? = nil, language: String? = nil, prompt: String? = nil) {
        self.model = model
        self.language = language
        self.prompt = prompt
    }

    /// The language hint for a recogniser, or nil.
    public var languageHint: String? {
        language ?? (languages.count == 1 ? languages.first : nil)
    }

    /// The vocabulary hint for a recogniser, or nil.
    public var vocabularyHint: String? {
        let hints = (prompt.map { [$0] } ?? []) + keywords
        return hints.isEmpty ? nil : hints.joined(separator: ", ")
    }
}

/// `audio.input.turn_detection`. Nil means that the client commits turns itself.
public struct TurnDetectionParameters: Equatable, Sendable {
    /// How the end of a turn is decided.
    public enum Mode: Equatable, Sendable {
        /// Silence after speech. `threshold` 0…1 (0.5), `silenceMilliseconds` (500).
        case serverVAD(threshold: Double, silenceMilliseconds: Int)
        /// Words and silence. `eagerness` limits the wait: low 8 s, medium and auto 4 s, high 2 s.
        case semanticVAD(eagerness: Eagerness)
    }

    /// How soon semantic detection ends a turn.
    public enum Eagerness: String, CaseIterable, Sendable { case low, medium, high, auto }

    /// What speech over a reply must say to interrupt it.
    public enum Interruption: String, CaseIterable, Sendable {
        /// Nothing: its duration counts.
        case any
        /// Words that are no assent.
        case words
        /// A command, or several words.
        case strict
    }

    /// How long semantic detection waits for the end of a turn.
    public enum PatienceChoice: String, CaseIterable, Sendable {
        /// As the agent's question asks for, and the words that are being said.
        case auto
        case brief, usual, long
    }

    /// How the end of a turn is decided.
    public var mode: Mode
    /// Audio kept from before speech was detected. Default 300 ms.
    public var prefixPaddingMilliseconds: Int
    /// Whether a turn's end creates a response. Default true.
    public var createResponse: Bool
    /// Whether speech cancels the active response. Default true.
    public var interruptResponse: Bool
    /// Whether the model is asked before the end of a turn is certain (an extension of Parley,
    /// `speculative_response`). Default false, because each pause may then cost a request.
    public var speculativeResponse = false
    /// How long speech over a reply must last to interrupt it, 0…10,000 ms (an extension of Parley,
    /// `min_interruption_ms`). The default is the server's setting. At 0 it interrupts at once, as
    /// in the protocol.
    public var minInterruptionMilliseconds: Int?
    /// What speech over a reply must say to interrupt it (an extension of Parley, `interruption`).
    /// The default is the server's setting.
    public var interruption: Interruption?
    /// How long semantic detection waits for the end of a turn (an extension of Parley, `patience`).
    /// The default is the server's setting.
    public var patience: PatienceChoice?
    /// Silence after a response before the session prompts again, 5,000…30,000 ms, or nil where it
    /// never does.
    public var idleTimeoutMilliseconds: Int?

    /// Creates the parameters with the protocol's defaults.
    public init(
        mode: Mode = .serverVAD(threshold: 0.5, silenceMilliseconds: 500),
        prefixPaddingMilliseconds: Int = 300, createResponse: Bool = true,
        interruptResponse: Bool = true, idleTimeoutMilliseconds: Int? = nil
    ) {
        self.mode = mode
        self.prefixPaddingMilliseconds = prefixPaddingMilliseconds
        self.createResponse = createResponse
        self.interruptResponse = interruptResponse
        self.idleTimeoutMilliseconds = idleTimeoutMilliseconds
    }
}

/// `truncation`: what happens to items that do not fit in a model's context.
public enum Truncation: Equatable, Sendable {
    /// The oldest items are omitted from the model's input.
    case auto
    /// A response that would need truncation fails.
    case disabled
    /// Like `auto`, but each truncation omits enough that only this part of the context is used
    /// (0…1), so that the start of the model's input stays the same for longer. The limit counts
    /// tokens after the instructions and tools. Its default is as many as the model's context has
    /// room for.
    case retentionRatio(Double, postInstructionTokens: Int?)
}

/// `reasoning.effort`: how much a model reasons before it answers.
public enum ReasoningEffort: String, CaseIterable, Sendable {
    case minimal, low, medium, high, xhigh
}

/// `temperature` of the beta: kept and reported back; the protocol of today has no such field. Two
/// bytes, which lie in padding of `SessionParameters`.
public struct Temperature: Equatable, Sendable {
    /// The beta's range.
    public static let range = 0.6...1.2

    private let thousandths: Int16

    /// A temperature within `range`, to three decimals. The default is the beta's.
    /// - Precondition: it is within `range`.
    public init(_ value: Double = 0.8) {
        precondition(Self.range.contains(value))
        thousandths = Int16((value * 1_000).rounded())
    }

    /// The number, as the client wrote it.
    public var value: Double { Double(thousandths) / 1_000 }
}

/// The purpose of a session (`type`).
public enum SessionKind: String, CaseIterable, Sendable {
    /// Turns are answered.
    case realtime
    /// Turns are transcribed and not answered.
    case transcription
}

/// The whole effective session, defaults included. In a session of kind `transcription` only the
/// settings for the user's audio have an effect.
public struct SessionParameters: Equatable, Sendable {
    /// The purpose of the session.
    public private(set) var kind = SessionKind.realtime
    /// `temperature` of the beta, kept and reported back.
    public var temperature = Temperature()
    /// The model's name from the URL or the client.
    public var model: String
    /// System instructions for the model.
    public var instructions = ""
    /// The modality of responses.
    public var outputModality = OutputModality.audio
    /// Functions that the model may call.
    public var tools: [FunctionTool] = []
    /// MCP servers whose tools the model may call.
    public var mcpTools: [MCPTool] = []
    /// Whether the model must call a function, and which one.
    public var toolChoice = ToolChoice.auto
    /// The MCP tool that the model must call; `toolChoice` is then `auto`.
    public var mcpToolChoice: MCPToolChoice?
    /// Whether the model may make several calls in one response. The default is the model's.
    public var parallelToolCalls: Bool?
    /// Maximum tokens of a response, 1…4096, or nil for `"inf"`.
    public var maxOutputTokens: Int?
    /// Format of the user's audio.
    public var inputFormat = AudioFormat.pcm
    /// Noise suppression of the user's audio, before all other processing. Nil turns it off.
    public var noiseReduction: NoiseReduction?
    /// Whether each binary message begins with its number (an extension of Parley, `sequence`).
    public var inputIsNumbered = false
    /// Settings of transcription events, or nil where none are sent.
    public var transcription: TranscriptionParameters?
    /// How turns end, or nil where only `input_audio_buffer.commit` ends one.
    public var turnDetection: TurnDetectionParameters? = TurnDetectionParameters()
    /// Format of the reply's audio.
    public var outputFormat = AudioFormat.pcm
    /// Opus settings, used where Opus is the format.
    public var outputOpus = OpusSettings()
    /// How reply audio is sent.
    public var outputTransport = AudioTransport.json
    /// The voice's name from the client; the synthesiser maps it to one of its own.
    public var voice = "marin"
    /// Speaking rate, 0.25…1.5.
    public var speed = 1.0
    /// `tracing`, kept and reported back.
    public var tracing: RawJSON?
    /// The treatment of items that do not fit in the model's context.
    public var truncation = Truncation.auto
    /// Reasoning effort. Nil means the model's default.
    public var reasoningEffort: ReasoningEffort?
    /// `prompt`, kept and reported back.
    public var prompt: RawJSON?

    /// Creates a session with the protocol's defaults.
    public init(model: String) { self.model = model }

    /// Creates a transcription session with the protocol's defaults.
    /// - Parameter transcriptionModel: the model that the URL names, or nil.
    public static func transcription(model transcriptionModel: String?) -> SessionParameters {
        var parameters = SessionParameters(model: "")
        parameters.transcription = TranscriptionParameters(model: transcriptionModel)
        parameters.become(.transcription)
        return parameters
    }

    /// Changes the kind of the session. A transcription session always transcribes, and its turn
    /// detection creates no responses.
    private mutating func become(_ kind: SessionKind) {
        self.kind = kind
        guard kind == .transcription else { return }
        transcription = transcription ?? TranscriptionParameters()
        turnDetection?.createResponse = false
        turnDetection?.interruptResponse = false
        turnDetection?.speculativeResponse = false
        turnDetection?.minInterruptionMilliseconds = nil
        turnDetection?.interruption = nil
        turnDetection?.idleTimeoutMilliseconds = nil
    }

    /// Applies a client's update. Absent fields keep their value; `null` restores the default or
    /// disables the feature, as the protocol defines for each field.
    public mutating func apply(_ update: SessionUpdate) {
        func set<Value>(_ target: inout Value, _ patch: Patch<Value>, or fallback: Value) {
            switch patch {
            case .absent: break
            case .null: target = fallback
            case .value(let value): target = value
            }
        }
        func set<Value>(_ target: inout Value?, _ patch: Patch<Value>) {
            switch patch {
            case .absent: break
            case .null: target = nil
            case .value(let value): target = value
            }
        }
        let defaults = SessionParameters(model: model)
        // The protocol fixes the model at connect time. Updates that name another are accepted
        // without effect.
        set(&instructions, update.instructions, or: "")
        set(&outputModality, update.outputModality, or: .audio)
        set(&tools, update.tools, or: [])
        set(&mcpTools, update.mcpTools, or: [])
        set(&toolChoice, update.toolChoice, or: .auto)
        set(&mcpToolChoice, update.mcpToolChoice)
        set(&parallelToolCalls, update.parallelToolCalls)
        set(&temperature, update.temperature, or: Temperature())
        set(&maxOutputTokens, update.maxOutputTokens)
        set(&inputFormat, update.inputFormat, or: .pcm)
        set(&noiseReduction, update.noiseReduction)
        set(&inputIsNumbered, update.inputIsNumbered, or: false)
        set(&transcription, update.transcription)
        set(&turnDetection, update.turnDetection)
        set(&outputFormat, update.outputFormat, or: .pcm)
        set(&outputOpus, update.outputOpus, or: OpusSettings())
        set(&outputTransport, update.outputTransport, or: .json)
        set(&voice, update.voice, or: defaults.voice)
        set(&speed, update.speed, or: 1.0)
        set(&tracing, update.tracing)
        set(&truncation, update.truncation, or: .auto)
        set(&reasoningEffort, update.reasoningEffort)
        set(&prompt, update.prompt)
        become(update.kind ?? kind)
    }
}

/// The changes of one `session.update`.
public struct SessionUpdate: Equatable, Sendable {
    /// `type`; nil if the client omits it, which means the session's current type.
    public var kind: SessionKind?
    /// `instructions`
    public var instructions = Patch<String>.absent
    /// `output_modalities`
    public var outputModality = Patch<OutputModality>.absent
    /// `tools`
    public var tools = Patch<[FunctionTool]>.absent
    /// `tools` of type `mcp`
    public var mcpTools = Patch<[MCPTool]>.absent
    /// `tool_choice`
    public var toolChoice = Patch<ToolChoice>.absent
    /// `tool_choice` of type `mcp`; `.null` for any other choice.
    public var mcpToolChoice = Patch<MCPToolChoice>.absent
    /// `parallel_tool_calls`
    public var parallelToolCalls = Patch<Bool>.absent
    /// `temperature`, of the beta only.
    public var temperature = Patch<Temperature>.absent
    /// `max_output_tokens`; `"inf"` is `.null`.
    public var maxOutputTokens = Patch<Int>.absent
    /// `audio.input.format`
    public var inputFormat = Patch<AudioFormat>.absent
    /// `audio.input.noise_reduction`
    public var noiseReduction = Patch<NoiseReduction>.absent
    /// `audio.input.format.sequence` (an extension of Parley); false if a format omits it.
    public var inputIsNumbered = Patch<Bool>.absent
    /// `audio.input.transcription`
    public var transcription = Patch<TranscriptionParameters>.absent
    /// `audio.input.turn_detection`
    public var turnDetection = Patch<TurnDetectionParameters>.absent
    /// `audio.output.format`
    public var outputFormat = Patch<AudioFormat>.absent
    /// The settings of `audio.output.format` (an extension of Parley); a format replaces all of
    /// them.
    public var outputOpus = Patch<OpusSettings>.absent
    /// `audio.output.transport` (an extension of Parley)
    public var outputTransport = Patch<AudioTransport>.absent
    /// `audio.output.voice`
    public var voice = Patch<String>.absent
    /// `audio.output.speed`, 0.25…1.5
    public var speed = Patch<Double>.absent
    /// `tracing`
    public var tracing = Patch<RawJSON>.absent
    /// `truncation`
    public var truncation = Patch<Truncation>.absent
    /// `reasoning.effort`
    public var reasoningEffort = Patch<ReasoningEffort>.absent
    /// `prompt`
    public var prompt = Patch<RawJSON>.absent

    /// Creates an update that changes nothing.
    public init() {}

    /// Whether the client says how it will be heard, as a client does that is about to send audio.
    public var announcesAudio: Bool {
        if case .value = inputFormat { return true }
        if case .value = transcription { return true }
        if case .value = turnDetection { return true }
        return false
    }

    /// Path below `session` of a field in this update that only sessions of kind `realtime` have;
    /// nil if there is none.
    public var realtimeField: StaticString? {
        func isSet<Value>(_ patch: Patch<Value>) -> Bool {
            if case .value = patch { true } else { false }
        }
        if isSet(instructions) { return "instructions" }
        if isSet(outputModality) { return "output_modalities" }
        if isSet(tools) { return "tools" }
        if isSet(toolChoice) { return "tool_choice" }
        if isSet(parallelToolCalls) { return "parallel_tool_calls" }
        if isSet(temperature) { return "temperature" }
        if isSet(maxOutputTokens) { return "max_output_tokens" }
        if isSet(tracing) { return "tracing" }
        if isSet(truncation) { return "truncation" }
        if isSet(reasoningEffort) { return "reasoning" }
        if isSet(prompt) { return "prompt" }
        if isSet(outputFormat) { return "audio.output.format" }
        if isSet(outputTransport) { return "audio.output.transport" }
        if isSet(voice) { return "audio.output.voice" }
        if isSet(speed) { return "audio.output.speed" }
        if case .value(let detection) = turnDetection, detection.idleTimeoutMilliseconds != nil {
            return "audio.input.turn_detection.idle_timeout_ms"
        }
        return nil
    }
}

/// The overrides that one `response.create` carries (`response` object).
public struct ResponseParameters: Equatable, Sendable {
    /// `instructions`
    public var instructions: String?
    /// `output_modalities`
    public var outputModality: OutputModality?
    /// `tools`
    public var tools: [FunctionTool]?
    /// `tools` of type `mcp`
    public var mcpTools: [MCPTool]?
    /// `tool_choice`
    public var toolChoice: ToolChoice?
    /// `tool_choice` of type `mcp`
    public var mcpToolChoice: MCPToolChoice?
    /// `parallel_tool_calls`
    public var parallelToolCalls: Bool?
    /// `temperature`, of the beta only.
    public var temperature: Temperature?
    /// Maximum tokens of this response; `.null` is `"inf"`.
    public var maxOutputTokens = Patch<Int>.absent
    /// `audio.output.voice`
    public var voice: String?
    /// `audio.output.format`
    public var outputFormat: AudioFormat?
    /// The settings of `audio.output.format` (an extension of Parley).
    public var outputOpus: OpusSettings?
    /// Items that replace the conversation as the model's input. An item may be a reference to one
    /// of the conversation (`ConversationItem.Kind.reference`).
    public var input: [ConversationItem]?
    /// False for `conversation: "none"`: the response stays out of the conversation.
    public var isInConversation = true
    /// `metadata`, echoed in `response.created` and `response.done`.
    public var metadata: RawJSON?

    /// Creates parameters that override nothing.
    public init() {}
}
