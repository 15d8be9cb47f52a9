// A client that loses its connection and comes back. The session goes on meanwhile: words are
// recognised, the model writes, tools are called, and all events are emitted. Only audio is held.
//
//   here ── connection lost ──▶ away ── back ──▶ here
//                                 └── speech in progress ends after the usual silence
//
// Speech in progress is committed and not dropped: the user does not repeat it for a client that
// was gone for a moment. It ends by the silence that turn detection waits for, counted from the
// last audio, so a shorter break does not split an utterance. Without turn detection the audio
// stays in the buffer, and the client commits it when it is back.
//
// Invariant: while the client is away, no audio is sent, and the user is not prompted to speak.

import Codec

extension VoiceSession {
    /// The client has lost its connection and may come back. Before this input the shell names the
    /// audio that waits (`noteUnsent`). A client that is away already changes nothing.
    public func handleClientAway(at now: Instant) {
        begin(at: now)
        if !isClientAway {
            isClientAway = true
            playback?.handleClientAway(at: now)
            for response in responses where !response.isInConversation {
                response.handleClientAway(at: now)
            }
        }
        finish(at: now)
    }

    /// Resumes the session for a client that is back. Audio after the end of what it has is sent
    /// again. Audio of a response that is done cannot be sent again: a new response speaks those
    /// words.
    /// - Parameter played: the audio that the client has. The default is what it had probably
    ///   played when it went away. Audio of a response in flight that is not kept any more counts
    ///   as heard.
    public func handleClientBack(played: PlayedAudio?, at now: Instant) {
        begin(at: now)
        if isClientAway {
            isClientAway = false
            speechInput?.forgetOrder()
            let unheard = played.map { unheardParts(after: $0, at: now) } ?? []
            playback?.handleClientBack(played, at: now)
            sayUnheard(unheard, at: now)
            for response in responses where !response.isInConversation {
                response.handleClientBack(played, at: now)
            }
            userTurn.restartQuiet(at: now, position: speechInput?.buffer.end ?? 0)
        }
        finish(at: now)
    }

    /// The parts of the replies that the client has not heard, by its own report.
    private func unheardParts(after played: PlayedAudio, at now: Instant) -> [UnheardReply.Part] {
        playback?.unheardParts(after: played, at: now) ?? unheardParts([], played)
    }

    /// Speaks the words of finished responses that were not heard. The user's words have
    /// precedence, and so has a response in flight, whose audio goes on.
    private func sayUnheard(_ parts: [UnheardReply.Part], at now: Instant) {
        guard activeResponse == nil, !parts.isEmpty else { return }
        let rest = cut(parts, announces: true)
        guard canRespond, speechInput?.speechItemID == nil, !userTurn.isOwedAnswer else { return }
        say(rest, overrides: ResponseParameters(), incompleteReason: nil, at: now)
    }
}
