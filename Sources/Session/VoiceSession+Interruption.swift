// Speech over a reply: the reply is held at its onset, and then either it is interrupted and cut at
// what was heard, or it goes on from there. Which words mean an interruption is InterruptionWords',
// what was heard is PlayoutTimeline's.
//
//   playing ── onset ──▶ held ── lasted long enough (and has words, where asked) ──▶ interrupted
//      ▲                  └── over too soon, or without words ──▶ false interruption ──┐
//      └───────────────────────────────────────────────────────────────────────────────┘
// Speech that was over too soon may still turn out to say something: then it interrupts the reply
// that has gone on, at what was heard by then.
//
// Invariant: a held reply ends or goes on: with the speech, its transcript, or whatever takes
// either away.

import Codec

/// Speech over a reply, while it is not known whether it interrupts.
struct Interruption: Equatable {
    /// The item that the speech will become.
    let itemID: String
    /// Where it began on the audio timeline, padding not included.
    let onset: Int
}

extension VoiceSession {
    /// Silence after which short speech over a reply is over, whatever a turn's end would wait for:
    /// 500 ms at 16 kHz, the protocol's own silence. The reply waits so long, and no longer.
    private static let longestPause = 8_000
    /// The longest that speech holds a reply before words are found in it, where they are asked
    /// for: 5 s at 16 kHz. Music and other voices go on for longer; people say a word by then.
    private static let longestHold = 80_000
    /// How long no audio may come before a held reply goes on: people mute themselves, or let go of
    /// a button. 1 s: longer than the gaps of a connection that is still of use.
    private static let longestSilence = Duration.seconds(1)
    /// UTF-8 bytes of a reply before and after the point of its hearing that an echo may be of.
    private static let echoBytes = (before: 60, after: 40)

    /// How long speech must last to interrupt, in samples at 16 kHz.
    private var minInterruption: Int {
        SampleRate.hz16000.samples(
            inMilliseconds: parameters.turnDetection?.minInterruptionMilliseconds
                ?? context.limits.minInterruptionMilliseconds)
    }

    /// Whether length is not enough.
    private var interruptionNeedsWords: Bool {
        parameters.turnDetection?.interruptionNeedsWords == true && context.hasRecognizer
    }

    /// Whether the words of the speech in progress decide about a reply.
    var needsWordsOfSpeech: Bool { interruptionNeedsWords && playout?.interruption != nil }

    /// Speech has begun at a position on the audio timeline.
    func handleOnset(of itemID: String, at position: Int, now: Instant) {
        guard parameters.turnDetection?.interruptResponse == true, let playout,
            activeResponse != nil || playout.isPlaying(at: now)
        else { return }
        guard minInterruption > 0 || interruptionNeedsWords else { return interrupt(at: now) }
        playout.hold(at: now)
        playout.interruption = Interruption(itemID: itemID, onset: position)
        dropQueuedAudio(of: playout)
    }

    /// More of the speech, or of its words, is known.
    func weighInterruption(_ speechInput: SpeechInput, at now: Instant) {
        guard let speech = playout?.interruption, speech.itemID == speechInput.speechItemID,
            let end = speechInput.turnDetector?.lastSpeechEnd
        else { return }
        guard end - speech.onset >= minInterruption else {
            if speechInput.analysedEnd - end >= Self.longestPause {
                handleSpeechStopped(at: end, speechInput, at: now)
            }
            return
        }
        if interruptionNeedsWords {
            guard let newest = speechInput.partial?.newest,
                judge(newest.wholeWords, at: now) == .words
            else {
                if speechInput.analysedEnd - speech.onset >= Self.longestHold {
                    forgetInterruption(at: now)
                }
                return
            }
        }
        interrupt(at: now)
    }

    /// The speech is over and too short, or nobody knows yet whether it has words.
    func handleUndecidedSpeech(_ itemID: String, at now: Instant) {
        guard playout?.interruption?.itemID == itemID, !interruptionNeedsWords else { return }
        if !context.hasRecognizer, activeResponse != nil {
            // A model that hears for itself is asked about longer speech only.
            conversation.forgetHeard(of: itemID)
            unansweredSince = nil
        }
        resumeReply(at: now)
    }

    /// The words of speech over a reply are known; nil: nobody could read them.
    /// - Returns: whether they are to be answered.
    func settleInterruption(by words: String?, of itemID: String, at now: Instant) -> Bool {
        let judgement = words.map { judge($0, at: now) } ?? .none
        // Once the reply is over, "yes" is an answer to it.
        if judgement == .words || (judgement == .backchannel && activeResponse == nil) {
            interrupt(at: now)
            return true
        }
        if playout?.interruption?.itemID == itemID { resumeReply(at: now) }
        conversation.forgetHeard(of: itemID)
        if judgement == .echo { removeEcho(itemID) }
        return false
    }

    /// Nobody said that: the model must not be shown it.
    private func removeEcho(_ itemID: String) {
        hasHeardItself = true
        guard (try? conversation.remove(itemID)) != nil else { return }
        emit(.conversationItemDeleted(itemID: itemID))
    }

    /// When a held reply goes on though nothing more is heard.
    var holdDeadline: Instant? {
        guard playout?.interruption != nil, let last = speechInput?.lastAudio else { return nil }
        return last + Self.longestSilence
    }

    /// What held the reply is gone without a decision.
    func forgetInterruption(at now: Instant) {
        guard playout?.interruption != nil else { return }
        resumeReply(at: now)
    }

    private func resumeReply(at now: Instant) {
        guard let playout else { return }
        context.counters.falseInterruptions += 1
        let active = activeResponse
        let lost = playout.goOn(at: now, tellsPositions: knowsExtensions) { part in
            part.responseID != active?.id || active?.isOver(part.itemID) == true
        }
        for part in lost { handleLost(part.itemID, from: part.heard) }
        active?.handleDeadline(&conversation, at: now)
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
            _ = playout?.stop(at: now)
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
        activeResponse?.end(status, unheard: unheard, &conversation)
    }

    /// The client stops playing.
    /// - Returns: what it has not heard to its end. Items of responses that are done are cut.
    func stopPlayout(
        told: PlayoutTimeline.HeardItem? = nil, at now: Instant
    ) -> [PlayoutTimeline.HeardItem] {
        var unheard: [PlayoutTimeline.HeardItem] = []
        if let playout {
            // Of a reply that is held nothing waits any more.
            if !playout.isHeld { dropQueuedAudio(of: playout) }
            unheard = playout.stop(at: now)
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
            endingAs: isHeld ? .cancelled(reason: "turn_detected") : nil, &conversation, at: now)
        truncatedResponseID = active.id
        return true
    }

    // MARK: Words

    private func judge(_ words: String, at now: Instant) -> InterruptionWords.Judgement {
        // Where a microphone has picked up a reply before its echo is known, it will again.
        let isEchoLikely = hasHeardItself && echo?.delayMilliseconds == nil
        return InterruptionWords.judge(
            words, over: replyText(at: now), run: isEchoLikely ? 1 : InterruptionWords.minEchoRun)
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
