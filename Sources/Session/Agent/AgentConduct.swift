// The state of the phrases that the server itself speaks in a session with an agent.
// VoiceSession+Conduct has their rules.

import Codec

/// The state of the phrases that the server itself speaks in an agent's session.
final class AgentConduct {
    /// How long a client may take to say how it will be heard. 500 ms: clients do so in their first
    /// message, a way to the server and back after `session.created`.
    static let settlingTime = Duration.milliseconds(500)

    /// The agent.
    let agent: SessionAgent
    /// When the greeting is spoken at the latest. Nil means that it was spoken or is not wanted.
    var greetingDue: Instant?
    /// Prompts since the user last spoke.
    var prompts = 0
    /// Whether the farewell was spoken. The session ends after it, unless the user speaks.
    var isLeaving = false
    /// The response that speech does not interrupt. Nil means that there is none.
    var protectedResponseID: String?

    init(_ agent: SessionAgent) { self.agent = agent }

    /// Bytes of the object.
    static let objectBytes = HeapBlock.object(AgentConduct.self)

    /// How long the user may be silent. Nil means that the agent sets no limit.
    var silenceMilliseconds: Int? {
        guard let silence = agent.settings.silence else { return nil }
        return isLeaving ? 0 : silence.after.wholeMilliseconds
    }

    /// The user speaks, or types.
    func noteUser() {
        greetingDue = nil
        prompts = 0
        isLeaving = false
    }
}
