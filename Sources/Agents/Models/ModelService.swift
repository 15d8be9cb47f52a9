// The services of models: the list of the APIs that can be spoken to them, and the settings of one
// service. A type that conforms to ModelAPI implements one API.
//
// To add an API: write a ModelAPI and its StreamedAnswer, and add a case to ModelServiceKind. A service
// without an API of HTTP is a LanguageModel of its own, such as JobModel.

import Session

/// The API of a service of models. The raw value is its name in settings.
public enum ModelServiceKind: String, CaseIterable, Sendable {
    case chat
    case anthropic
    case responses
    case agUI = "ag-ui"
    case redisStream = "redis-stream"

    /// The API that it speaks, or nil where the service is not reached by HTTP.
    private var api: (any ModelAPI.Type)? {
        switch self {
        case .chat: ChatCompletions.self
        case .anthropic: AnthropicMessages.self
        case .responses: OpenAIResponses.self
        case .agUI: AGUI.self
        case .redisStream: nil
        }
    }

    private var title: String { api?.title ?? JobModel.title }

    /// Every API with its name in settings, for a sentence: "…, or OpenAI's Responses (responses)".
    public static var titles: String {
        let titles = allCases.map { "\($0.title) (\($0.rawValue))" }
        return titles.dropLast().joined(separator: ", ") + ", or " + titles.suffix(1).joined()
    }

    /// Whether the user's audio can be sent in it.
    public var takesAudio: Bool { api?.takesAudio ?? true }

    /// Whether the service may keep the conversation.
    public var keepsState: Bool { self == .responses }

    /// Whether turns are jobs of a stream, and the URL is that of a Redis server.
    public var usesRedis: Bool { self == .redisStream }

    /// A language model behind a service that speaks this API: one POST, or one job, per response.
    public func model(at service: ModelService) -> any LanguageModel {
        api?.init(service) ?? JobModel(service)
    }
}

/// The parameter of chat completions that limits an answer's tokens. The raw value is its name in
/// settings.
public enum TokenLimitParameter: String, CaseIterable, Sendable {
    /// `max_tokens`, until the service refuses it.
    case learnt = "auto"
    /// Deprecated, and refused by OpenAI's models that reason.
    case maxTokens = "max_tokens"
    /// OpenAI's current name.
    case maxCompletionTokens = "max_completion_tokens"

    /// The form of the first request.
    var form: RequestForm { self == .maxCompletionTokens ? .completionTokens : [] }
    /// The part of the form that is not learnt.
    var fixed: RequestForm { self == .learnt ? [] : .completionTokens }
}

/// Whether requests of chat completions have `stream_options`, which ask for the count of tokens. The
/// raw value is its name in settings.
public enum StreamOptionsUse: String, CaseIterable, Sendable {
    /// They have it until the service refuses it.
    case learnt = "auto"
    /// They have it, also where the service has refused it.
    case always
    /// They never have it, and turns have no count of tokens.
    case never

    /// The form of the first request.
    var form: RequestForm { self == .never ? .noStreamOptions : [] }
    /// The part of the form that is not learnt.
    var fixed: RequestForm { self == .learnt ? [] : .noStreamOptions }
}

/// A service of models, and how it is used.
public struct ModelService: Sendable {
    /// Most tokens of an answer where neither the client nor the operator sets a limit and the API
    /// requires one. 4,096: the protocol's own largest limit, many minutes of speech.
    public static let defaultMaxTokens = 4_096

    /// The operator's name for it, which mementos carry; "" where there is only one.
    public var name = ""
    /// Up to and including the version, for example `http://127.0.0.1:8000/v1`.
    public var baseURL: String
    /// The key; none is sent where it is nil or empty.
    public var apiKey: String?
    /// The model's name at the service; nil passes on the name that the client gave.
    public var model: String?
    /// Limit of an answer's tokens where the session sets none and the API requires one.
    public var maxTokens = ModelService.defaultMaxTokens
    /// The parameter that limits an answer's tokens (chat).
    public var tokenLimit = TokenLimitParameter.learnt
    /// Whether requests ask for the count of tokens (chat).
    public var streamOptions = StreamOptionsUse.learnt
    /// Whether answers begin within a thought, because the prompt's template has its opening tag (chat).
    public var thinksFirst = false
    /// Whether the user's speech is sent as audio instead of its transcript, if the API takes
    /// audio.
    public var hearsAudio = false
    /// Whether users' images are sent.
    public var seesImages = false
    /// Whether it keeps the conversation (responses): requests go on from its earlier answers and
    /// have only the new items. Not by default: services that store nothing refuse it.
    public var keepsState = false
    /// Whether requests name the caller and the turn in their bodies, as `user` and `metadata`
    /// (chat, responses). Not by default: services that check their parameters refuse them.
    public var namesUser = false
    /// Signs its requests. Where nil, they are not signed.
    public var signer: RequestSigner?
    /// The name by which the service knows itself in signatures (`aud`). The default is its base
    /// URL.
    public var audience: String?
    /// Longest wait for the answer, and for each further piece of it. 60 s: a model on a CPU reads a
    /// long conversation for tens of seconds before its first word.
    public var timeout = Duration.seconds(60)
    /// Time until the first word or function call of an answer, all retries included. Where nil,
    /// only `timeout` limits it.
    public var firstTokenTimeout: Duration?
    /// Time until the end of the answer to one request. Nil sets no limit. Time in which the
    /// session accepts no more of the answer does not count.
    public var totalTimeout: Duration?
    /// When a failed request is retried. Never by default.
    public var retries = RetryPolicy.never
    /// The stream of its jobs (redis-stream).
    public var jobs = JobQueue()

    /// Describes a service, with the defaults for its use.
    public init(baseURL: String, apiKey: String? = nil) {
        self.baseURL = baseURL
        self.apiKey = apiKey
    }
}
