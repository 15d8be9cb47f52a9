// Turns that come as text and count as spoken: keys that a caller presses, and words that were
// recognised elsewhere. As speech does, such a turn interrupts the reply, and is answered. Where the
// reply is spoken elsewhere, too, the client says how much of it was heard.

import Codec

extension VoiceSession {
    /// The user has said this, in text. A reply that is in flight, or is still heard, ends at what
    /// was heard. The words are answered at once, or with the words that are still being
    /// recognised.
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

    /// The user has spoken over a reply in text that the client speaks: it ends at what was heard.
    /// - Parameter words: the last words that were heard, as the client spells them; empty: none.
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
