// The port to whatever answers a turn: a model behind HTTP, an embedded one, or plain Swift.

import Codec

/// One message of the context that a model answers.
public enum ModelMessage: Equatable, Sendable {
    case system(String)
    case user(String)
    /// What the user said, mono at 16 kHz; only for a model that hears audio.
    case userAudio(HeardAudio)
    case assistant(String)
    /// A call that the model made; `arguments` is JSON text.
    case functionCall(callID: String, name: String, arguments: String)
    /// What the client answered to it.
    case functionOutput(callID: String, output: String)
}

/// What a model is asked.
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
    /// Limit of the reply's tokens, or nil.
    public var maxOutputTokens: Int?

    /// Creates a request.
    public init(
        model: String, instructions: String = "", messages: [ModelMessage],
        tools: [FunctionTool] = [], toolChoice: ToolChoice = .auto, maxOutputTokens: Int? = nil
    ) {
        self.model = model
        self.instructions = instructions
        self.messages = messages
        self.tools = tools
        self.toolChoice = toolChoice
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
    /// What the reply took; may come once, at any time.
    case usage(inputTokens: Int, cachedTokens: Int, outputTokens: Int)
    /// The reply stopped at the token limit or a filter: `max_output_tokens`, `content_filter`.
    case incomplete(reason: String)
}

/// Answers turns. A turn in flight is one task on the session's own shard: write plain async code,
/// and give CPU-heavy work to `host.compute`.
public protocol LanguageModel: Sendable {
    /// Whether it is given the user's turns as they were said, instead of their words. The default
    /// is false.
    var hearsAudio: Bool { get }

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
}
