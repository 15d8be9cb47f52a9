// The part of an operator's agent beyond the parameters of a session: the phrases that the server
// itself speaks in its sessions, and the settings that their clients may change.
//
// Not here: which session has which agent (Server/AgentProfiles), and the file (the `parley` command).

import Codec

/// The operator's settings for the sessions of one agent. Shared by all of them.
public final class SessionAgent: Sendable {
    /// The phrases for a user who stays silent.
    public struct Silence: Sendable {
        /// Times of `after`, as of `idle_timeout_ms` but longer: a caller may look for a card.
        public static let range = 1_000...3_600_000

        /// Silence of the user, after a reply was heard, that brings the next phrase. 15 s.
        public var after = Duration.seconds(15)
        /// The prompt. Where it is empty, the first silence brings the farewell and the end.
        public var prompt = Phrase.none
        /// Prompts in a row before the session ends. 2: one may be missed.
        public var prompts = 2
        /// The phrase before the session ends. Where it is empty, the session ends without one.
        public var farewell = Phrase.none

        /// The defaults.
        public init() {}
    }

    /// The phrase for a model that is slow.
    public struct Filler: Sendable {
        /// Times of `after`. A filler of less than 100 ms would precede every answer.
        public static let range = 100...60_000

        /// Time that the model has for its first word before the phrase is spoken. 1.5 s: a longer
        /// silence sounds like a fault.
        public var after = Duration.milliseconds(1_500)
        /// The phrase.
        public var phrase = Phrase.none

        /// The defaults.
        public init() {}
    }

    /// Its name.
    public let name: String
    /// The phrase that begins the session. Where it is empty, the user speaks first.
    public var greeting: Phrase { settings.greeting }
    /// The question about a session that is over. Nil means that there is none.
    public var afterCall: AfterCall? { settings.afterCall }
    /// The settings.
    let settings: Settings

    /// The settings of an agent that are no parameters of the protocol's session.
    public struct Settings: Sendable {
        /// The phrase that begins the session. Where it is empty, the user speaks first.
        public var greeting = Phrase.none
        /// Whether speech interrupts the greeting. True by default. False for a greeting that must
        /// be heard, such as a notice that the call is recorded.
        public var isGreetingInterruptible = true
        /// The phrases for a user who stays silent. Nil means that there are none.
        public var silence: Silence?
        /// The phrase for a model that is slow. Nil means that there is none.
        public var filler: Filler?
        /// The phrase for a turn that cannot be answered. Nil means the server's phrase.
        public var apology: Phrase?
        /// The phrase for a turn without recognised words. Nil means the server's phrase.
        public var notUnderstood: Phrase?
        /// The question about a session that is over. Nil means that there is none.
        public var afterCall: AfterCall?
        /// The fields that clients may change.
        public var clientFields = ClientField.ofTheUser

        /// The defaults.
        public init() {}
    }

    /// Creates an agent.
    public init(name: String, _ settings: Settings = Settings()) {
        self.name = name
        self.settings = settings
    }
}

/// A field of an agent's session that clients may be allowed to change. Formats and the transport
/// of audio, the modality of replies, transcripts and tracing are always the client's. The raw
/// value is the name in settings.
public enum ClientField: String, CaseIterable, Sendable {
    case instructions, tools, voice, language
    case turnDetection = "turn-detection"
    case noiseReduction = "noise-reduction"
    /// `max_output_tokens`, `truncation` and `reasoning`.
    case limits

    /// The fields that depend on the user's ears, mouth and room, and on the client's buttons. The
    /// instructions, the tools and the limits are the operator's.
    public static let ofTheUser: Set<ClientField> = [
        .voice, .language, .turnDetection, .noiseReduction,
    ]
}

extension SessionAgent {
    /// A response to a request that brings its own conversation, as far as the agent allows it. The
    /// system's messages are the request's instructions: they take the place of the agent's, or do not
    /// count.
    public func limit(_ asked: ResponseParameters) -> ResponseParameters {
        var parameters = asked.limited(to: settings.clientFields)
        if !settings.clientFields.contains(.instructions) {
            parameters.input?.removeAll(where: \.isOfSystem)
        } else if parameters.input?.contains(where: \.isOfSystem) == true {
            parameters.instructions = parameters.instructions ?? ""
        }
        return parameters
    }
}

extension ConversationItem {
    /// Whether it is a message of the system.
    fileprivate var isOfSystem: Bool {
        if case .message(role: .system, _) = kind { true } else { false }
    }
}

extension SessionUpdate {
    /// The update without the settings that its client may not change. The client sees what counts
    /// in `session.updated`; an error would end many a client that always sends its instructions.
    func limited(to fields: Set<ClientField>, of before: SessionParameters) -> SessionUpdate {
        var update = self
        if !fields.contains(.instructions) {
            update.instructions = .absent
            update.prompt = .absent
        }
        if !fields.contains(.tools) {
            (update.tools, update.mcpTools) = (.absent, .absent)
            (update.toolChoice, update.mcpToolChoice) = (.absent, .absent)
            update.parallelToolCalls = .absent
        }
        if !fields.contains(.voice) { (update.voice, update.speed) = (.absent, .absent) }
        if !fields.contains(.turnDetection) { update.turnDetection = .absent }
        if !fields.contains(.noiseReduction) { update.noiseReduction = .absent }
        if !fields.contains(.limits) {
            (update.maxOutputTokens, update.truncation) = (.absent, .absent)
            (update.reasoningEffort, update.temperature) = (.absent, .absent)
        }
        if !fields.contains(.language), case .value(var transcription) = update.transcription {
            transcription.language = before.transcription?.language
            transcription.languages = before.transcription?.languages ?? []
            update.transcription = .value(transcription)
        }
        return update
    }
}

extension ResponseParameters {
    /// The same for one response.
    func limited(to fields: Set<ClientField>) -> ResponseParameters {
        var parameters = self
        if !fields.contains(.instructions) { parameters.instructions = nil }
        if !fields.contains(.tools) {
            (parameters.tools, parameters.mcpTools) = (nil, nil)
            (parameters.toolChoice, parameters.mcpToolChoice) = (nil, nil)
            parameters.parallelToolCalls = nil
        }
        if !fields.contains(.voice) { parameters.voice = nil }
        if !fields.contains(.limits) {
            parameters.maxOutputTokens = .absent
            parameters.temperature = nil
        }
        return parameters
    }
}
