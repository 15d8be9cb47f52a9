// The port to the model that answers a turn: behind HTTP, embedded, or plain Swift.

import Codec

/// A part of what the user says in one message.
public enum UserPart: Equatable, Sendable {
    case text(String)
    /// An `https:` URL, or a `data:` URL with base64; only for a model that sees.
    case image(url: String, detail: ImageDetail)
    /// Mono at 16 kHz; only for a model that hears audio.
    case audio(HeardAudio)
}

/// The kinds of content that a model understands beside text.
public struct ModelAbilities: Equatable, Sendable {
    /// Whether it is given the user's audio instead of its transcript.
    public var hearsAudio: Bool
    /// Whether it is given images; without, they are refused where a client sends them.
    public var seesImages: Bool

    /// Creates abilities; text is all by default.
    public init(hearsAudio: Bool = false, seesImages: Bool = false) {
        self.hearsAudio = hearsAudio
        self.seesImages = seesImages
    }
}

/// One message of the context that a model answers.
public enum ModelMessage: Equatable, Sendable {
    case system(String)
    case user(String)
    /// What the user said, mono at 16 kHz; only for a model that hears audio.
    case userAudio(HeardAudio)
    /// A message of several parts, or of an image, in their order.
    case userParts([UserPart])
    case assistant(String)
    /// A call that the model made; `arguments` is JSON text.
    case functionCall(callID: String, name: String, arguments: String)
    /// What the client answered to it.
    case functionOutput(callID: String, output: String)
}

/// A request to a model.
public struct ModelRequest: Equatable, Sendable {
    /// The model's name as the client gave it.
    public var model: String
    /// System instructions; may be empty.
    public var instructions: String
    /// The conversation, oldest first.
    public var messages: [ModelMessage]
    /// Functions that may be called.
    public var tools: [FunctionTool]
    /// Whether and which function must be called.
    public var toolChoice: ToolChoice
    /// Whether several calls may come in one reply; nil: the model's default.
    public var parallelToolCalls: Bool?
    /// Limit of the reply's tokens, or nil.
    public var maxOutputTokens: Int?

    /// Creates a request.
    public init(
        model: String, instructions: String = "", messages: [ModelMessage],
        tools: [FunctionTool] = [], toolChoice: ToolChoice = .auto,
        parallelToolCalls: Bool? = nil, maxOutputTokens: Int? = nil
    ) {
        self.model = model
        self.instructions = instructions
        self.messages = messages
        self.tools = tools
        self.toolChoice = toolChoice
        self.parallelToolCalls = parallelToolCalls
        self.maxOutputTokens = maxOutputTokens
    }
}

/// A piece of a model's reply, in the order in which the model makes them.
public enum ModelDelta: Equatable, Sendable {
    /// More of the reply's text.
    case text(String)
    /// A function call begins.
    case functionCallStarted(callID: String, name: String)
    /// More of the JSON arguments of the call that began last.
    case functionCallArguments(String)
    /// The tokens that the reply took; may come once, at any time.
    case usage(inputTokens: Int, cachedTokens: Int, outputTokens: Int)
    /// The reply stopped at the token limit or a filter: `max_output_tokens`, `content_filter`.
    case incomplete(reason: String)
}

/// Turns of one provider of models by outcome, since the start.
public struct ModelProviderCounts: Equatable, Sendable {
    /// The operator's name for it.
    public var name: String
    /// Turns that it answered to the end.
    public var completed = 0
    /// Turns that it failed, before or after its first word.
    public var failed = 0
    /// Turns that were stopped while it answered.
    public var cancelled = 0
    /// Turns that skipped it while it was suspended.
    public var skipped = 0
    /// Turns that it took over from another that had failed or was suspended.
    public var fallbacks = 0
    /// Whether it is left alone now.
    public var isPaused = false

    /// All zero.
    public init(name: String) { self.name = name }
}

/// Answers turns. A turn in flight is one task on the session's own shard: write plain async code,
/// and give CPU-heavy work to `host.compute`.
public protocol LanguageModel: Sendable {
    /// Whether it is given the user's turns as they were said, instead of their words. The default
    /// is false.
    var hearsAudio: Bool { get }

    /// Whether it is given images. The default is false: a service without vision fails every
    /// response of a conversation that has one.
    var seesImages: Bool { get }

    /// The abilities of the model that a client names; by default the same for all names.
    func abilities(of model: String) -> ModelAbilities

    /// Its turns by provider and outcome; none by default. Any thread may ask.
    var providers: [ModelProviderCounts] { get }

    /// Answers a request: calls `reply` for every piece, returns when the reply is complete.
    ///
    /// The task is cancelled when the user interrupts; `reply` then throws `CancellationError`.
    /// - Throws: an `AgentError`, or anything else: the response ends as failed and the session
    ///   lives on.
    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws
}

extension LanguageModel {
    /// It reads transcripts.
    public var hearsAudio: Bool { false }

    /// It sees nothing.
    public var seesImages: Bool { false }

    /// It counts nothing.
    public var providers: [ModelProviderCounts] { [] }

    /// All names are the same to it.
    public func abilities(of model: String) -> ModelAbilities {
        ModelAbilities(hearsAudio: hearsAudio, seesImages: seesImages)
    }
}
