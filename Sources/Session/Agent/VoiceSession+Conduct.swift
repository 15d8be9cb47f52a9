// The phrases that the server itself speaks in an agent's session, and when:
//
//   start ──▶ greeting due ── the client has said how it will be heard, or half a second ──▶ greeted
//                  └── the user speaks or types, or a response begins ──▶ no greeting
//
//   silence after a reply ──▶ prompt ──▶ silence ──▶ prompt … ──▶ farewell ──▶ the session ends
//         ▲                                                └── the user speaks: from the beginning
//
// A client that returns is not greeted again: a session that goes on elsewhere begins with the greeting
// said.

import Codec

extension VoiceSession {
    /// The state of its agent's phrases. Nil means that it has no agent.
    var conduct: AgentConduct? { hasAgent ? context.conducts[ObjectIdentifier(self)] : nil }

    /// The phrase for a user whose turn cannot be answered. Nil means that there is none.
    var apology: String? {
        (conduct?.agent.settings.apology ?? context.apology).text(for: language)
    }

    /// The phrase for a user whose speech had no recognisable words. Nil means that there is none.
    var notUnderstoodPhrase: String? {
        (conduct?.agent.settings.notUnderstood ?? context.notUnderstood).text(for: language)
    }

    /// The session begins: its agent may speak first.
    /// - Parameter isSettled: whether the client has already said how it will be heard.
    func prepareGreeting(isSettled: Bool, at now: Instant) {
        guard let conduct, conduct.agent.greeting.text(for: language) != nil else { return }
        conduct.greetingDue = isSettled ? now : now + AgentConduct.settlingTime
    }

    /// The client has said how it will be heard.
    func settleGreeting(at now: Instant) {
        guard let conduct, conduct.greetingDue != nil else { return }
        conduct.greetingDue = now
    }

    /// Speaks the greeting once it is due, unless the user speaks or a response has begun.
    func greetIfDue(at now: Instant) {
        guard let conduct, let due = conduct.greetingDue, due <= now else { return }
        conduct.greetingDue = nil
        guard canRespond, speechInput?.speechItemID == nil,
            let greeting = conduct.agent.greeting.text(for: language)
        else { return }
        say(greeting, for: "greeting", conduct, at: now)
        if !conduct.agent.settings.isGreetingInterruptible {
            conduct.protectedResponseID = activeResponse?.id
        }
    }

    /// Whether speech may interrupt what is being said.
    var mayBeInterrupted: Bool {
        guard let protected = conduct?.protectedResponseID else { return true }
        return activeResponse?.id != protected
    }

    /// Handles a user who has been silent for as long as the agent waits.
    /// - Returns: false where the agent has no such rule.
    func handleAgentSilence(at now: Instant) -> Bool {
        guard let conduct, let silence = conduct.agent.settings.silence else { return false }
        _ = userTurn.endQuiet()
        if !conduct.isLeaving, conduct.prompts < silence.prompts,
            let prompt = silence.prompt.text(for: language)
        {
            conduct.prompts += 1
            say(prompt, for: "silence", conduct, at: now)
        } else if !conduct.isLeaving, let farewell = silence.farewell.text(for: language) {
            conduct.isLeaving = true
            say(farewell, for: "farewell", conduct, at: now)
        } else {
            context.outputs.append(.hangUp)
        }
        return true
    }

    /// Says a phrase in a response of its own, which names its occasion in its metadata.
    private func say(
        _ phrase: String, for occasion: StaticString, _ conduct: AgentConduct, at now: Instant
    ) {
        do {
            try makeRoom()
        } catch {
            return emit(.error(error))
        }
        var parameters = ResponseParameters()
        parameters.metadata = RawJSON(#"{"parley_phrase":"\#(occasion)"}"#)
        begin(parameters, speechEnd: nil)
        activeResponse?.say(phrase, incompleteReason: nil, at: now)
    }

    /// The phrase to speak while a slow model is awaited, and after how long, or nil where the
    /// agent has none.
    var filler: (after: Duration, phrase: String)? {
        guard let filler = conduct?.agent.settings.filler else { return nil }
        return filler.phrase.text(for: language).map { (filler.after, $0) }
    }
}
