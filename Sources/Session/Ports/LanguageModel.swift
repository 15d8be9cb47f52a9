// The port to the model that answers a turn: behind HTTP, embedded, or plain Swift.

import Codec

/// A part of one message of the user.
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
    /// The user's speech, mono at 16 kHz; only for a model that hears audio.
    case userAudio(HeardAudio)
    /// A message of several parts, or of an image, in their order.
    case userParts([UserPart])
    case assistant(String)
    /// A call that the model made; `arguments` is JSON text.
    case functionCall(callID: String, name: String, arguments: String)
    /// The client's answer to the call.
    case functionOutput(callID: String, output: String)
}

/// The turn that a request asks for, for an agent that keeps memory or checks who calls.
public struct TurnIdentity: Equatable, Sendable {
    /// The session, `sess_…`.
    public var sessionID: String
    /// The response that the request generates, `resp_…`. A retry of the request has the same.
    public var responseID: String
    /// The caller: the name of a key, the subject of a token; nil without credentials. The server
    /// knows it, the session does not.
    public var subject: String?
    /// The telephone call of the session, if it has one. The server sets it: the session does not
    /// know it.
    public var call: TelephoneCall?

    /// Creates the identity of a turn.
    public init(sessionID: String, responseID: String, subject: String? = nil) {
        self.sessionID = sessionID
        self.responseID = responseID
        self.subject = subject
    }
}

/// How much of the newest reply the user heard, where an interruption cut it.
public struct HeardReply: Equatable, Sendable {
    /// The item of the reply.
    public var itemID: String
    /// Characters (Unicode scalars) of its text that were heard; the rest is in no request.
    public var characters: Int

    /// Creates a value.
    public init(itemID: String, characters: Int) {
        self.itemID = itemID
        self.characters = characters
    }
}

/// What an agent has asked to get back with a later request of the same session: the id of its
/// stored answer, or its state. The session keeps it and does not read it.
public struct AgentMemento: Equatable, Sendable {
    /// The provider that gave it; only that provider understands it.
    public var provider: String
    /// Its own text.
    public var text: String
    /// How many of the request's messages its agent knows: those that it answered and its reply.
    /// Nil where an item among them was added, changed or deleted since.
    public var knownMessages: Int?
    /// Whether the user heard the whole reply that it came with.
    public var wasHeard: Bool

    /// Creates a memento.
    public init(provider: String, text: String, knownMessages: Int?, wasHeard: Bool = true) {
        self.provider = provider
        self.text = text
        self.knownMessages = knownMessages
        self.wasHeard = wasHeard
    }
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
    /// Whether several calls may come in one reply. The default is the model's.
    public var parallelToolCalls: Bool?
    /// Limit of the reply's tokens, or nil.
    public var maxOutputTokens: Int?
    /// The turn; nil where no session asks, as for a text request.
    public var turn: TurnIdentity?
    /// The part of the newest reply that was heard. It is nil where the reply was not cut.
    public var heard: HeardReply?
    /// Mementos of the conversation: the newest one, last, and the newest one whose reply was heard
    /// completely. There is one where they are the same, and none where no agent gave any.
    public var mementos: [AgentMemento] = []

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
    /// More of the JSON arguments of the call that began last. For a call without any, or with
    /// `null`, the session makes an empty object (CallArguments).
    case functionCallArguments(String)
    /// The tokens that the reply took; may come once, at any time.
    case usage(inputTokens: Int, cachedTokens: Int, outputTokens: Int)
    /// The reply stopped at the token limit or a filter: `max_output_tokens`, `content_filter`.
    case incomplete(reason: String)
    /// A message of the reply is complete, though the reply goes on: words for the time in which
    /// the agent's tools run. Its text is spoken at once, and text that follows is another item.
    case messageEnded
    /// A text that the agent gets back with the next request; may come once, at any time.
    case memento(provider: String, text: String)
    /// An event of the agent for the client, as it came.
    case agentEvent(type: String, value: RawJSON)
}

extension ModelDelta {
    /// UTF-8 bytes of text that a session is given at once. 2 KiB: at most 0.2 ms of work, and a tick
    /// takes 16 such pieces of a response.
    package static let maxTextBytes = 2 << 10

    /// Takes a piece of a text that is too long to be given at once, or returns nil where it is
    /// not.
    package mutating func takePiece() -> ModelDelta? {
        guard case .text(let text) = self, text.utf8.count > Self.maxTextBytes else { return nil }
        var end = text.utf8.index(text.startIndex, offsetBy: Self.maxTextBytes)
        // Not within a character (RFC 3629 §3).
        while text.utf8[end] & 0xC0 == 0x80 { end = text.utf8.index(before: end) }
        self = .text(String(text[end...]))
        return .text(String(text[..<end]))
    }
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
    /// Turns that it answers now.
    public var inFlight = 0
    /// Turns that wait for it now.
    public var waiting = 0
    /// Turns that it was not asked for, because too many waited.
    public var refused = 0
    /// Turns that were run again because their worker had died (redis-stream).
    public var repeats = 0
    /// Turns that failed because their worker had died (redis-stream).
    public var lost = 0

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

    /// Checks whether its services can be used, when the server starts. Faults are reported to the
    /// host. By default nothing is checked.
    func checkServices(on host: any AgentHost) async

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
    /// By default it reads transcripts.
    public var hearsAudio: Bool { false }

    /// By default it sees no images.
    public var seesImages: Bool { false }

    /// By default there is no service to check.
    public func checkServices(on host: any AgentHost) async {}

    /// By default nothing is counted.
    public var providers: [ModelProviderCounts] { [] }

    /// All names are the same to it.
    public func abilities(of model: String) -> ModelAbilities {
        ModelAbilities(hearsAudio: hearsAudio, seesImages: seesImages)
    }
}
