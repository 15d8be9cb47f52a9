// The state of a session for another process: as it is at any moment, and at the planned end of this
// process. VoiceSession+Restoring goes on with it there.
//
//   planned:   (turns end) ── canBeHandedOver ──▶ handOver ──▶ saved ──▶ another process
//   unplanned: saved, at the boundaries of items and turns ──▶ another process
//
// Invariant: after a hand-over no response begins here.

import Codec

extension VoiceSession {
    /// The state that another process needs to resume the session. It changes nothing and makes no
    /// output. Audio that `noteUnsent` has named since the last input counts as not heard. Without
    /// such a note, this is the audio that waited at that input.
    /// - Parameter wanted: the items to include. The default is all. The rest of the state is
    ///   always included.
    public func saved(items wanted: Set<String>?, at now: Instant) -> SavedSession {
        var saved = SavedSession(
            id: id, conversationID: conversationID, parameters: parameters,
            itemIDs: conversation.itemIDs)
        saved.hiddenItems = conversation.hiddenItems
        saved.agent = conduct?.agent.name
        saved.hasSpoken = hasSpoken
        saved.language = heardLanguage.settled
        saved.isQuiet = userTurn.quietSince != nil
        saved.isTurnUnanswered = userTurn.hasUnansweredWords || tools?.isBusy == true
        saved.awaitedIDs = userTurn.awaited.map(\.itemID)
        saved.memory = conversation.memory
        for response in responses where response.stage != .done {
            if response.isInConversation {
                saved.responseID = response.id
            } else {
                saved.otherResponseIDs.append(response.id)
            }
        }
        saved.reply = playback == nil ? activeReply : playback?.unheardReply(at: now)
        for itemID in saved.itemIDs where wanted?.contains(itemID) ?? true {
            saved.items[itemID] =
                activeResponse?.saved(itemID) ?? conversation.saved(itemID)
        }
        return saved
    }

    /// The response in flight, where nothing of it is played yet.
    private var activeReply: UnheardReply? {
        guard let activeResponse else { return nil }
        var reply = UnheardReply()
        activeResponse.describe(into: &reply)
        return reply
    }

    /// Whether a hand-over now loses nothing: the user is silent, no words are being recognised,
    /// and no model and no tool is at work. A reply that is written and has only to be spoken is
    /// finished elsewhere.
    public var canBeHandedOver: Bool {
        speechInput?.speechItemID == nil && !hasUncommittedSpeech && !hasUnheardAudio
            && !userTurn.isRecognising && retrievals.isEmpty && tools?.isBusy != true
            && playback?.hasNext != true
            && responses.allSatisfy { response in
                response.isInConversation && response.stage == .speaking
                    && !response.outputs.contains(where: \.awaitsTool)
            }
    }

    /// Prepares the session to go on in another process. The connection is closed once its output
    /// has left. Responses in flight end as incomplete (`handed_over`). The one in the conversation
    /// ends with the audio that was sent, which the client plays to its end. While the client is
    /// away or the user speaks, it ends where it was heard. `saved` then has the rest. No input may
    /// follow.
    public func handOver(at now: Instant) {
        begin(at: now)
        if !isHandedOver {
            isHandedOver = true
            for response in responses where !response.isInConversation {
                response.end(.incomplete(reason: "handed_over"), dropsUnsent: false)
            }
            let isSpokenOver = playback?.timeline?.isHeldBySpeech == true
            playback?.handOver(isDelivered: !isClientAway && !isSpokenOver, at: now)
        }
        finish(at: now)
    }
}
