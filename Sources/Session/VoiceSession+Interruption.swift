// What follows from speech over a reply: the reply is held, interrupted and cut at what was heard,
// or resumed. Which of these is InterruptionJudge's decision; what was heard is PlayoutTimeline's.
//
// Invariant: a held reply is interrupted or resumed: by the speech, by its transcript, or by what
// takes either away.

import Codec

extension VoiceSession {
    /// UTF-8 bytes of a reply before and after the point of its hearing that an echo may be of.
    private static let echoBytes = (before: 60, after: 40)

    /// What the session's settings require of speech that interrupts.
    private var interruptionRules: InterruptionJudge.Rules {
        InterruptionJudge.Rules(
            minSamples: SampleRate.hz16000.samples(
                inMilliseconds: parameters.turnDetection?.minInterruptionMilliseconds
                    ?? context.limits.minInterruptionMilliseconds),
            needsWords: interruptionNeedsWords)
    }

    /// Whether speech must have words to interrupt.
    private var interruptionNeedsWords: Bool {
        parameters.turnDetection?.interruptionNeedsWords == true && context.hasRecognizer
    }

    /// Whether the words of the speech in progress decide about a reply.
    var needsWordsOfSpeech: Bool { interruptionNeedsWords && interruption.speech != nil }

    /// Speech has begun at a position on the audio timeline.
    func handleOnset(of itemID: String, at position: Int, now: Instant) {
        guard parameters.turnDetection?.interruptResponse == true, let playout,
            activeResponse != nil || playout.isPlaying(at: now)
        else { return }
        switch interruption.handleOnset(of: itemID, at: position, interruptionRules) {
        case .hold:
            playout.hold(at: now)
            dropQueuedAudio(of: playout)
        case .interrupt: interrupt(at: now)
        case .wait, .resume, .endSpeech: break
        }
    }

    /// More of the speech, or of its words, is known.
    func weighInterruption(_ speechInput: SpeechInput, at now: Instant) {
        guard interruption.speech != nil, interruption.isWeighing(speechInput.speechItemID),
            let end = speechInput.turnDetector?.lastSpeechEnd
        else { return }
        let decision = interruption.weigh(
            speechEnd: end, analysedEnd: speechInput.analysedEnd, interruptionRules
        ) { speechInput.partial?.newest.map { judge($0.wholeWords, at: now) } }
        switch decision {
        case .wait, .hold: break
        case .interrupt: interrupt(at: now)
        case .resume: forgetInterruption(at: now)
        case .endSpeech(let position): handleSpeechStopped(at: position, speechInput, at: now)
        }
    }

    /// Speech has ended without a decision about the reply.
    func handleUndecidedSpeech(_ itemID: String, at now: Instant) {
        guard interruption.handleSpeechEnd(of: itemID, interruptionRules) == .resume
        else { return }
        if !context.hasRecognizer, activeResponse != nil {
            // A model that hears for itself is asked about longer speech only.
            conversation.forgetHeard(of: itemID)
            userTurn.forgetWords()
        }
        resumeReply(at: now)
    }

    /// The words of speech over a reply are known; nil: they could not be recognised.
    /// - Returns: whether they are to be answered.
    func settleInterruption(by words: String?, of itemID: String, at now: Instant) -> Bool {
        let judgement = words.map { judge($0, at: now) } ?? .none
        let decision = interruption.handleWords(
            judgement, of: itemID, isReplyInFlight: activeResponse != nil)
        if decision == .interrupt {
            interrupt(at: now)
            return true
        }
        if decision == .resume { resumeReply(at: now) }
        conversation.forgetHeard(of: itemID)
        if judgement == .echo { removeEcho(itemID) }
        return false
    }

    /// The user did not say that: the model must not be shown it.
    private func removeEcho(_ itemID: String) {
        guard (try? conversation.remove(itemID)) != nil else { return }
        emit(.conversationItemDeleted(itemID: itemID))
    }

    /// The speech that held the reply is gone without a decision.
    func forgetInterruption(at now: Instant) {
        guard interruption.speech != nil else { return }
        resumeReply(at: now)
    }

    private func resumeReply(at now: Instant) {
        guard let playout else { return }
        context.counters.falseInterruptions += 1
        interruption.endHold()
        let active = activeResponse
        let lost = playout.resume(at: now, tellsPositions: knowsExtensions) { part in
            part.responseID != active?.id || active?.isOver(part.itemID) == true
        }
        for part in lost { handleLost(part.itemID, from: part.heard) }
        active?.handleDeadline(at: now)
    }

    /// Whether the client has asked for any of this: others see no field that they do not know.
    private var knowsExtensions: Bool {
        playout?.isAcknowledged == true || interruptionNeedsWords
            || parameters.turnDetection?.minInterruptionMilliseconds != nil
    }

    // MARK: The end of a reply

    /// The user speaks over the reply, and means it. Words that are still being recognised will be
    /// answered together with what is being said now.
    private func interrupt(at now: Instant) {
        guard activeResponse != nil || playout?.isPlaying(at: now) == true else {
            // The reply, a text, has come to its end meanwhile.
            _ = silencePlayout(at: now)
            return
        }
        context.counters.interruptions += 1
        stopReplies(.cancelled(reason: "turn_detected"), at: now)
    }

    /// The client stops playing: the response in flight ends, and what was not heard is forgotten.
    /// - Parameter told: what the client itself says it has heard of an item.
    func stopReplies(
        _ status: ResponseDescription.Status, told: PlayoutTimeline.HeardItem? = nil,
        at now: Instant
    ) {
        let unheard = stopPlayout(told: told, at: now)
        activeResponse?.end(status, unheard: unheard)
    }

    /// The client stops playing.
    /// - Returns: what it has not heard to its end. Items of responses that are done are cut.
    func stopPlayout(
        told: PlayoutTimeline.HeardItem? = nil, at now: Instant
    ) -> [PlayoutTimeline.HeardItem] {
        var unheard: [PlayoutTimeline.HeardItem] = []
        if let playout {
            // Of a held reply nothing waits any more: it was dropped at the hold.
            if !playout.isHeld { dropQueuedAudio(of: playout) }
            unheard = silencePlayout(at: now)
        }
        if let told {
            unheard.removeAll { $0.itemID == told.itemID }
            unheard.append(told)
        }
        for part in unheard where part.responseID != activeResponse?.id {
            cutAtHeard(part.itemID, milliseconds: part.heard)
        }
        return unheard
    }

    /// Nothing more is heard of what was sent, and no speech is weighed against it.
    /// - Returns: what was not heard to its end.
    func silencePlayout(at now: Instant) -> [PlayoutTimeline.HeardItem] {
        interruption.endHold()
        return playout?.stop(at: now) ?? []
    }

    /// What was sent and has not left will not be heard.
    private func dropQueuedAudio(of playout: PlayoutTimeline) {
        for responseID in playout.responseIDs {
            context.outputs.append(.dropAudio(responseID: responseID))
        }
    }

    /// A response that is done cannot go on: where it was held it ends at what was heard.
    func settleHeldReply(at now: Instant) {
        guard let active = activeResponse, active.stage == .done, playout?.isHeld == true
        else { return }
        active.noteUnheard(stopPlayout(at: now))
    }

    /// A response is done: the conversation keeps what was heard of it.
    func cutAtHeard(_ response: Response) {
        guard response.isInConversation else { return }
        for (itemID, cut) in response.cuts {
            if cut.isByClient {
                // The client has been told; an item that it deleted needs no cut.
                _ = try? conversation.truncate(
                    itemID, contentIndex: 0, audioMilliseconds: cut.milliseconds)
            } else {
                cutAtHeard(itemID, milliseconds: cut.milliseconds)
            }
        }
    }

    func cutAtHeard(_ itemID: String, milliseconds: Int) {
        guard let before = conversation.words(of: itemID),
            milliseconds < before.speech.cutMilliseconds ?? .max,
            let heard = try? conversation.truncate(
                itemID, contentIndex: 0,
                audioMilliseconds: min(milliseconds, before.speech.sentMilliseconds),
                isFinal: false),
            milliseconds < before.speech.sentMilliseconds || heard != before.text
        else { return }
        emit(
            .conversationItemTruncated(
                itemID: itemID, contentIndex: 0,
                audioEndMilliseconds: min(milliseconds, before.speech.sentMilliseconds),
                transcript: knowsExtensions ? heard : nil))
    }

    // MARK: What the client says

    /// `output_audio_buffer.played`
    func handlePlayed(
        _ itemID: String, _ contentIndex: Int, milliseconds: Int, at now: Instant
    ) throws(ClientEventError) {
        guard contentIndex == 0 else { throw .notTheSpokenPart }
        if let most = playout?.handleAcknowledged(itemID, milliseconds: milliseconds, at: now) {
            throw .playedMoreThanSent(itemID, mostMilliseconds: most)
        }
        let isKnown =
            conversation.item(itemID) != nil
            || responses.contains { $0.words(of: itemID) != nil }
        guard !isKnown else { return }
        throw .playedItemMissing(itemID)
    }

    /// `conversation.item.truncate` of an item whose response is in flight.
    /// - Returns: false when there is no such item.
    func truncateOpenItem(
        _ itemID: String, _ contentIndex: Int, _ milliseconds: Int, at now: Instant
    ) throws(Conversation.Failure) -> Bool {
        guard let active = activeResponse, let sent = active.sentMilliseconds(ofOpen: itemID)
        else { return false }
        guard contentIndex == 0, milliseconds <= sent else {
            throw .notTruncatable(audioMilliseconds: contentIndex == 0 ? sent : 0)
        }
        // Where speech holds the reply, the client has taken it for an interruption.
        let isHeld = playout?.isHeld == true
        let told = PlayoutTimeline.HeardItem(
            responseID: active.id, itemID: itemID, heard: milliseconds)
        _ = stopPlayout(told: told, at: now)
        if isHeld { context.counters.interruptions += 1 }
        active.cut(
            itemID, milliseconds: milliseconds,
            endingAs: isHeld ? .cancelled(reason: "turn_detected") : nil, at: now)
        truncatedResponseID = active.id
        return true
    }

    // MARK: Words

    private func judge(_ words: String, at now: Instant) -> InterruptionWords.Judgement {
        interruption.judge(
            words, over: replyText(at: now), isEchoKnown: echo?.delayMilliseconds != nil)
    }

    /// What the reply says about the point of its hearing.
    private func replyText(at now: Instant) -> String {
        guard let position = playout?.position(at: now),
            let (text, speech) = response(position.responseID)?.words(of: position.itemID)
                ?? conversation.words(of: position.itemID)
        else { return "" }
        let heard = Conversation.heard(
            text, marks: speech.marks, audioMilliseconds: position.heard
        ).utf8.count
        let bytes = Array(text.utf8)
        let range =
            max(0, heard - Self.echoBytes.before)..<min(bytes.count, heard + Self.echoBytes.after)
        return String(decoding: bytes[range], as: UTF8.self)
    }
}
