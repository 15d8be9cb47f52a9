// The agents that a server hands to its sessions.

/// One agent of each kind. A missing recogniser or synthesiser limits sessions to what remains.
public struct AgentSet: Sendable {
    /// Answers turns.
    public var model: any LanguageModel
    /// Recognises words. Without it, audio is not understood.
    public var recognizer: (any SpeechRecognizer)?
    /// Speaks replies. Without it, replies are text.
    public var synthesizer: (any SpeechSynthesizer)?
    /// Hears whether a turn is over. Without it, silence, words and prosody tell.
    public var turnModel: (any TurnEndModel)?
    /// Reaches MCP servers. Without it, sessions have no such tools.
    public var toolServers: (any ToolServers)?
    /// The public keys (JWKS) of the signatures under requests to agents, or nil where these are
    /// not signed.
    public var publicKeys: (@Sendable () -> [UInt8])?
    /// How long agents may keep these keys, in seconds. 300: an agent seldom asks, and an operator
    /// need not wait long for a new key.
    public static let publicKeysAge = 300
    /// Reads the file of these keys anew, if there is one. Any thread. It throws an error whose
    /// description is one line for the operator, and the keys stay as they were.
    public var rereadKeys: (@Sendable () throws -> Void)?

    /// Agents by their names.
    public var profiles = AgentProfiles()
    /// Reads the file of these agents anew, if there is one. Any thread. It throws an error whose
    /// description is one line for the operator.
    public var rereadProfiles: (@Sendable () throws -> AgentProfiles)?

    /// Facts for the conversation page about the agents.
    public var page = PageAgents()

    /// Creates a set.
    public init(
        model: any LanguageModel, recognizer: (any SpeechRecognizer)? = nil,
        synthesizer: (any SpeechSynthesizer)? = nil, toolServers: (any ToolServers)? = nil
    ) {
        self.toolServers = toolServers
        self.model = model
        self.recognizer = recognizer
        self.synthesizer = synthesizer
    }
}

/// Facts for the conversation page about the agents that answer it.
public struct PageAgents: Equatable, Sendable {
    /// The kind of agent that answers.
    public enum Kind: String, Sendable {
        /// The demo agent that repeats what it hears.
        case echo
        /// The demo agent that explains the server.
        case guide
        /// A language model.
        case model
    }

    /// The kind of agent that answers.
    public var kind: Kind
    /// The name of the model that answers by default. Nil means that it has none, or that the
    /// client names it.
    public var model: String?
    /// The voices that a user may choose from, the standard one first; empty: they are not known.
    public var voices: [PageVoice] = []
    /// The languages that a user may choose from (ISO 639); empty: they are not known.
    public var languages: [String] = []
    /// Labels of the tool servers that the page is to offer to it.
    public var toolServers: [String]
    /// Base URL where a model of this machine may run. Nil means that the page knows of none.
    public var localModelURL: String?
    /// Whether that model answers here.
    public var usesLocalModel: Bool

    /// Creates a value; by default the page offers nothing.
    public init(
        kind: Kind = .echo, toolServers: [String] = [], localModelURL: String? = nil,
        usesLocalModel: Bool = false
    ) {
        self.kind = kind
        self.toolServers = toolServers
        self.localModelURL = localModelURL
        self.usesLocalModel = usesLocalModel
    }
}

/// A voice as the conversation page offers it.
public struct PageVoice: Equatable, Sendable {
    /// The protocol's name for it.
    public let name: String
    /// How it sounds, in a few words of English; empty: that is not known.
    public let description: String

    /// Creates a value.
    public init(name: String, description: String = "") {
        self.name = name
        self.description = description
    }
}
