// Turns that come as text and count as spoken: keys that a caller presses, and words that were
// recognised elsewhere. Like speech, such a turn interrupts the reply, and is answered. Where the
// reply is spoken elsewhere, too, the client says how much of it was heard.

import Codec

extension VoiceSession {
    /// Takes a turn that the user has typed. A reply that is in flight, or is still heard, ends at
    /// the last audio that was heard. The words are answered at once, or with the words that are
    /// still being recognised.
    public func handleTypedTurn(_ text: String, at now: Instant) {
        begin(at: now)
        noteKindSettled()
        conduct?.noteUser()
        if activeResponse != nil || playback?.timeline?.isPlaying(at: now) == true {
            playback?.stop(.cancelled(reason: "turn_detected"), at: now)
        }
        let item = ConversationItem(
            id: "", kind: .message(role: .user, content: [.inputText(text)]))
        do {
            try create(item, after: nil, at: now)
            userTurn.handleWords(endingAt: now)
        } catch {
            emit(.error(error))
        }
        finish(at: now)
    }

    /// Handles speech of the user over a reply in text that the client speaks: the reply ends at
    /// the last words that were heard.
    /// - Parameter words: the last words that were heard, as the client spells them. Empty where
    ///   none were.
    public func handleInterruption(heard words: String, at now: Instant) {
        begin(at: now)
        if activeResponse != nil {
            context.counters.interruptions += 1
            playback?.stop(.cancelled(reason: "turn_detected"), at: now)
        }
        if let itemID = conversation.newestReplyID,
            let heard = conversation.cutText(of: itemID, heard: words)
        {
            emit(
                .conversationItemTruncated(
                    itemID: itemID, contentIndex: 0, audioEndMilliseconds: 0, transcript: heard))
        }
        finish(at: now)
    }
}
