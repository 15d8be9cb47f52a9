// The replies of a conversation as the user hears them, and what speech over them does: the reply is
// held, interrupted and cut at what was heard, or resumed. Which of these is InterruptionJudge's
// decision; what was heard is PlayoutTimeline's. Both are made and kept here, and so is the echo of
// the replies in the user's audio.
//
// A session has one from its first response in the conversation on, until no reply is heard and
// nothing is kept that the next reply needs (`isOver`).
//
// Invariant: a reply that speech holds is interrupted or resumed: by the speech, by its transcript,
// or by what takes either away. Speech is weighed exactly while it holds the reply. A reply that is
// held because the client is away goes on when the client is back.

import Codec

/// A response that the client has asked for while the one before is spoken to its end.
struct NextResponse {
    let parameters: ResponseParameters
    /// When the user stopped speaking, and when the client asked, for the turn's measurements.
    let speechEnd: Instant?, asked: Instant?
    /// How it ends as soon as it begins, where it was stopped before that.
    var end: ResponseDescription.Status?

    init(parameters: ResponseParameters, speechEnd: Instant?, asked: Instant?) {
        self.parameters = parameters
        self.speechEnd = speechEnd
        self.asked = asked
    }
}

/// How the replies of one conversation are heard.
final class ReplyPlayback {
    /// UTF-8 bytes of a reply before and after the point of its hearing that an echo may be of.
    private static let echoBytes = (before: 60, after: 40)
    /// UTF-8 bytes at the end of a question over which an assent answers it. 32: some 2 s.
    private static let answeredBytes = 32

    private unowned let core: any SessionCore
    private let context: SessionContext
    /// How much of the replies' audio was sent and heard; nil where all of it was heard long ago.
    private(set) var timeline: PlayoutTimeline?
    /// Recognises replies in the user's audio; nil until there are both.
    private(set) var echo: EchoCheck?
    private var judge = InterruptionJudge()
    /// The newest response, where the client has truncated the item that it was speaking.
    private(set) var truncatedResponseID: String?
    /// The response after the spoken one. It is nil until one is asked for. In a box: it is rare.
    private var next: Next?
    /// The reply that the client has not heard to its end at the hand-over. It is nil before that.
    private var handedOver: HandedOver?

    private final class Next {
        static let objectBytes = HeapBlock.object(Next.self)
        var response: NextResponse
        init(_ response: NextResponse) { self.response = response }
    }

    /// Apart, because nearly all playbacks have none.
    private final class HandedOver {
        let reply: UnheardReply?
        init(_ reply: UnheardReply?) { self.reply = reply }
    }

    init(core: any SessionCore) {
        self.core = core
        context = core.context
    }

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(ReplyPlayback.self)

    /// Whether nothing here is needed any more.
    var isOver: Bool {
        timeline == nil && echo == nil && !judge.hasHeardEcho && truncatedResponseID == nil
            && handedOver == nil && next == nil
    }

    // MARK: The next response

    /// Whether the client has asked for the response that follows.
    var hasNext: Bool { next != nil }

    /// Bytes of the client's request.
    var nextBytes: Int {
        next.map { Next.objectBytes + $0.response.parameters.heapBytes } ?? 0
    }

    /// Sets the response that follows, for which the client has asked.
    func setNext(_ response: NextResponse) { next = Next(response) }

    /// Takes the response that follows, if one was asked for.
    func takeNext() -> NextResponse? { next.take()?.response }

    /// Whether a hold without speech, or speech without a hold, breaks the invariant.
    var isBroken: Bool { (judge.speech != nil) != (timeline?.isHeldBySpeech == true) }

    /// A response in the conversation begins.
    /// - Parameters:
    ///   - isResumable: whether its audio may have to be sent again to a client that was away.
    ///   - isClientAway: whether its audio is held until the client is back.
    /// - Returns: the timeline that it is heard on, as all of them are, one after another.
    func beginResponse(
        isUserHeard: Bool, isResumable: Bool = false, isClientAway: Bool = false
    ) -> PlayoutTimeline {
        truncatedResponseID = nil
        let timeline =
            timeline
            ?? PlayoutTimeline(
                lead: lead, keepsAudio: core.parameters.turnDetection != nil,
                isResumable: isResumable, isClientAway: isClientAway,
                pauses: core.playbackControl == .pauses)
        timeline.isClientFull = core.isClientFull
        timeline.sendsAhead = false
        self.timeline = timeline
        timeline.played = core.recording?.agent
        if isUserHeard { listenForEcho() }
        return timeline
    }

    /// The client's microphone picks up the reply, too, unless the user wears headphones.
    func listenForEcho() {
        guard let timeline else { return }
        let echo = echo ?? EchoCheck(lead: lead)
        self.echo = echo
        timeline.echo = echo
    }

    private var lead: Duration { .milliseconds(context.limits.playoutLeadMilliseconds) }

    /// Frees the timeline of the replies once nothing is being played.
    func forgetPlayed(at now: Instant) {
        echo?.releaseIfOver(at: now)
        guard let timeline, !timeline.isHeldBySpeech, core.activeResponse == nil,
            !timeline.isPlaying(at: now)
        else { return }
        timeline.settlePlayed(at: now)
        self.timeline = nil
    }

    // MARK: A client that is away

    /// The client has lost its connection: nothing more is sent before it is back.
    func handleClientAway(at now: Instant) {
        guard let timeline else { return }
        if !timeline.isHeld { dropQueuedAudio(of: timeline) }
        timeline.hold(.clientAway, at: now)
    }

    /// Resumes the reply for a client that is back, from the end of what it has played, unless the
    /// user speaks over it.
    /// - Parameter played: the audio that the client reports as played. Without it, the estimate
    ///   made when it went away counts.
    func handleClientBack(_ played: PlayedAudio?, at now: Instant) {
        guard let timeline else { return }
        if let played { timeline.handleBack(played) }
        goOn(timeline, after: .clientAway, tellsPositions: true, at: now)
    }

    /// For a client that is back: the items that it has not heard, and how much of each, by its own
    /// report.
    func unheardParts(after played: PlayedAudio, at now: Instant) -> [UnheardReply.Part] {
        timeline?.handleBack(played)
        return core.unheardParts(timeline.map { parts(of: $0.unheard(at: now)) } ?? [], played)
    }

    private func parts(of items: [PlayoutTimeline.HeardItem]) -> [UnheardReply.Part] {
        items.map { UnheardReply.Part(itemID: $0.itemID, heard: $0.heard) }
    }

    // MARK: The end of the process

    /// The reply that is not heard yet, and the response that is to follow. Nil means that all was
    /// heard.
    func unheardReply(at now: Instant) -> UnheardReply? {
        if let handedOver { return handedOver.reply }
        var reply = UnheardReply()
        reply.parts = timeline.map { parts(of: $0.unheard(at: now)) } ?? []
        core.activeResponse?.describe(into: &reply)
        return reply == UnheardReply() ? nil : reply
    }

    /// The session goes on in another process: the response in flight ends here.
    /// - Parameter isDelivered: whether the client gets, and plays, all that was sent.
    func handOver(isDelivered: Bool, at now: Instant) {
        guard handedOver == nil else { return }
        let status = ResponseDescription.Status.incomplete(reason: "handed_over")
        guard isDelivered else {
            handedOver = HandedOver(unheardReply(at: now))
            return stop(status, at: now)
        }
        guard let active = core.activeResponse else {
            handedOver = HandedOver(nil)
            return
        }
        var reply = UnheardReply()
        active.describe(into: &reply)
        // Audio that is still to be sent again is not sent here.
        let again = timeline?.unsentAgain ?? []
        for (index, part) in reply.parts.enumerated() {
            guard let next = again.first(where: { $0.itemID == part.itemID }) else { continue }
            reply.parts[index].heard = next.heard
        }
        handedOver = HandedOver(reply)
        active.end(status, unheard: again, dropsUnsent: false)
    }

    // MARK: Speech over a reply

    /// The requirements of speech that interrupts, from the session's settings or the limits.
    private var rules: InterruptionJudge.Rules {
        let turnDetection = core.parameters.turnDetection
        return InterruptionJudge.Rules(
            minSamples: SampleRate.hz16000.samples(
                inMilliseconds: turnDetection?.minInterruptionMilliseconds
                    ?? context.limits.minInterruptionMilliseconds),
            rule: rule(turnDetection))
    }

    /// What speech must say to interrupt. Unless the session asks for it, it is the server's setting
    /// only where words are known while they are spoken, and no dialogue judges for itself.
    private func rule(
        _ turnDetection: TurnDetectionParameters?
    ) -> TurnDetectionParameters.Interruption {
        guard context.hasRecognizer else { return .any }
        if let asked = turnDetection?.interruption { return asked }
        let isAtOnce =
            (turnDetection?.minInterruptionMilliseconds
                ?? context.limits.minInterruptionMilliseconds) == 0
        return context.makesHypotheses && !core.answerer.isDialogue && !isAtOnce
            ? context.limits.interruption : .any
    }

    private var needsWords: Bool { rules.needsWords }

    /// Whether the words of the speech in progress decide about a reply.
    var needsWordsOfSpeech: Bool { judge.speech != nil && needsWords }

    /// Whether the speech of an item holds the reply.
    func isWeighing(_ itemID: String?) -> Bool { judge.isWeighing(itemID) }

    /// Speech that may interrupt has begun at a position on the audio timeline.
    func handleOnset(of itemID: String, at position: Int, now: Instant) {
        guard let timeline, core.activeResponse != nil || timeline.isPlaying(at: now) else {
            return
        }
        switch judge.handleOnset(of: itemID, at: position, rules) {
        case .hold:
            timeline.hold(at: now)
            if timeline.pauses {
                tell(.pause)
            } else {
                dropQueuedAudio(of: timeline)
                tell(.drop)
            }
        case .interrupt: interrupt(at: now)
        case .wait, .resume, .endSpeech: break
        }
    }

    /// Judges the speech again, after more of it, or of its words, is known.
    /// - Returns: where on the audio timeline the speech has ended, or nil where it goes on.
    func weigh(_ speechInput: SpeechInput, at now: Instant) -> Int? {
        guard judge.isWeighing(speechInput.speechItemID),
            let end = speechInput.turnDetector?.lastSpeechEnd
        else { return nil }
        let decision = judge.weigh(
            speechEnd: end, analysedEnd: speechInput.analysedEnd, rules
        ) {
            speechInput.partial?.newest.map {
                let isWhole = $0.snapshot.isPause && $0.snapshot.speechEnd == end
                return InterruptionJudge.Heard(
                    words: judgement(of: $0.text, isWhole: isWhole, at: now),
                    end: $0.snapshot.end, isWhole: isWhole)
            }
        }
        switch decision {
        case .wait, .hold: return nil
        case .interrupt: interrupt(at: now)
        case .resume: forgetSpeech(at: now)
        case .endSpeech(let position): return position
        }
        return nil
    }

    /// Speech has ended without a decision about the reply.
    /// - Returns: whether it is not to be answered: a model that hears for itself is asked about
    ///   longer speech only.
    func handleUndecidedSpeech(_ itemID: String, at now: Instant) -> Bool {
        guard judge.handleSpeechEnd(of: itemID, rules) == .resume else { return false }
        let isIgnored = !context.hasRecognizer && core.activeResponse != nil
        if isIgnored { forget(itemID) }
        resume(at: now)
        return isIgnored
    }

    /// Takes the words of speech over a reply, or nil where they could not be recognised.
    /// - Parameter milliseconds: how long the speech lasted.
    /// - Returns: whether they are to be answered.
    func handleWords(
        _ words: String?, of itemID: String, lasting milliseconds: Int, at now: Instant
    ) -> Bool {
        let judgement = words.map { self.judgement(of: $0, at: now) } ?? .none
        let decision = judge.handleWords(
            judgement, of: itemID,
            lasting: SampleRate.hz16000.samples(inMilliseconds: milliseconds),
            isAnswer: mayBeAnswered(at: now), rules)
        if decision == .interrupt {
            interrupt(at: now)
            return true
        }
        if decision == .resume { resume(at: now) }
        forget(itemID)
        // The user did not say that: the model must not be shown it.
        if judgement == .echo, (try? core.conversation.remove(itemID)) != nil {
            core.emit(.conversationItemDeleted(itemID: itemID))
        }
        return false
    }

    /// Forgets the words of an item of the user, because they mean nothing.
    private func forget(_ itemID: String) {
        core.conversation.forgetHeard(of: itemID)
        core.answerer.delete(itemID)
    }

    /// Resumes a reply whose holding speech is gone without a decision.
    func forgetSpeech(at now: Instant) {
        if judge.speech != nil { resume(at: now) }
    }

    /// When a held reply is resumed although no more audio comes, or nil where it is not held.
    /// - Parameter lastAudio: when audio last came.
    func deadline(lastAudio: Instant?) -> Instant? {
        judge.deadline(
            lastAudio: lastAudio, gap: .milliseconds(context.limits.audioGapMilliseconds))
    }

    private func resume(at now: Instant) {
        guard let timeline else { return }
        context.counters.falseInterruptions += 1
        judge.endHold()
        goOn(timeline, after: .speech, tellsPositions: knowsExtensions, at: now)
    }

    private func goOn(
        _ timeline: PlayoutTimeline, after reason: PlayoutTimeline.Hold, tellsPositions: Bool,
        at now: Instant
    ) {
        let active = core.activeResponse
        let lost = timeline.resume(after: reason, at: now, tellsPositions: tellsPositions) { part in
            part.responseID != active?.id || active?.isOver(part.itemID) == true
        }
        for part in lost { handleLost(part.itemID, from: part.heard) }
        if timeline.pauses, !timeline.isHeld { tell(.goOn) }
        active?.advance(at: now)
    }

    /// Whether the client has asked for any of this: others see no field that they do not know.
    private var knowsExtensions: Bool {
        timeline?.isAcknowledged == true || core.parameters.turnDetection?.interruption != nil
            || core.parameters.turnDetection?.minInterruptionMilliseconds != nil
    }

    private func judgement(
        of words: String, isWhole: Bool = true, at now: Instant
    ) -> InterruptionWords.Judgement {
        judge.judge(
            words, over: replyText(at: now), in: core.languageRules, isWhole: isWhole,
            isEchoKnown: echo?.delayMilliseconds != nil)
    }

    /// The item that is being heard: its text, and how many UTF-8 bytes of it were heard.
    private func heardItem(at now: Instant) -> (text: String, heard: Int)? {
        guard let position = timeline?.position(at: now),
            let (text, speech) = core.response(position.responseID)?.words(of: position.itemID)
                ?? core.conversation.words(of: position.itemID)
        else { return nil }
        let heard = Conversation.heard(
            text, marks: speech.marks, audioMilliseconds: position.heard)
        return (text, heard.utf8.count)
    }

    /// Whether short words may be more than a nod: there is no reply, nothing of it is heard yet, or
    /// its last words are being heard, and they ask something. A user who knows the question answers
    /// before it is over.
    private func mayBeAnswered(at now: Instant) -> Bool {
        guard core.activeResponse != nil, let (text, heard) = heardItem(at: now) else {
            return true
        }
        return text.utf8.count - heard <= Self.answeredBytes && TurnEndEstimator.asks(text)
    }

    /// The text of the reply around the point that is being heard.
    private func replyText(at now: Instant) -> String {
        guard let (text, heard) = heardItem(at: now) else { return "" }
        let bytes = text.utf8
        let first = max(0, heard - Self.echoBytes.before)
        let end = min(bytes.count, heard + Self.echoBytes.after)
        let near = bytes.dropFirst(first).prefix(end - first)
        return String(decoding: near, as: UTF8.self)
    }

    // MARK: The end of a reply

    /// The user speaks over the reply, and means it. Words that are still being recognised will be
    /// answered together with the words that are being spoken now.
    private func interrupt(at now: Instant) {
        guard core.activeResponse != nil || timeline?.isPlaying(at: now) == true else {
            // The reply, a text, has come to its end meanwhile.
            _ = silence(at: now)
            return
        }
        context.counters.interruptions += 1
        stop(.cancelled(reason: "turn_detected"), at: now)
    }

    /// Handles a client that stops playing: the response in flight ends, and its words that were
    /// not heard are forgotten. A response that was to follow ends as soon as it begins.
    /// - Parameter keepsNext: whether the response that was to follow goes on.
    func stop(
        _ status: ResponseDescription.Status, keepsNext: Bool = false, at now: Instant
    ) {
        if !keepsNext { next?.response.end = status }
        let unheard = stopPlaying(at: now)
        core.activeResponse?.end(status, unheard: unheard)
    }

    /// The client stops playing.
    /// - Parameter told: how much of an item the client itself says it has heard.
    /// - Returns: the items that it has not heard to their ends. Items of responses that are done
    ///   are cut.
    func stopPlaying(
        told: PlayoutTimeline.HeardItem? = nil, at now: Instant
    ) -> [PlayoutTimeline.HeardItem] {
        // A held reply has no queued audio any more: it was dropped at the hold, unless the client
        // pauses.
        if let timeline, !timeline.isHeld || timeline.pauses { dropQueuedAudio(of: timeline) }
        var unheard = silence(at: now)
        if let told {
            unheard.removeAll { $0.itemID == told.itemID }
            unheard.append(told)
        }
        for part in unheard where part.responseID != core.activeResponse?.id {
            cutAtHeard(part.itemID, milliseconds: part.heard)
        }
        return unheard
    }

    /// Ends the playing of all audio that was sent. No more speech is weighed against it.
    /// - Returns: the items that were not heard to their ends.
    private func silence(at now: Instant) -> [PlayoutTimeline.HeardItem] {
        judge.endHold()
        guard let timeline else { return [] }
        tell(.drop)
        return timeline.stop(at: now)
    }

    /// Gives a client that takes commands one.
    private func tell(_ command: PlaybackCommand) {
        guard core.playbackControl != .events else { return }
        context.outputs.append(.playback(command))
    }

    /// Drops audio that was sent and has not left: it will not be heard.
    private func dropQueuedAudio(of timeline: PlayoutTimeline) {
        for responseID in timeline.responseIDs {
            context.outputs.append(.dropAudio(responseID: responseID))
        }
    }

    /// Settles a held reply whose response is done, and so cannot go on: it ends at the last audio
    /// that was heard. Where only the client is away, a complete response may be heard to its end,
    /// from the audio that the client has.
    func settleHeldReply(at now: Instant) {
        guard let timeline, timeline.isHeld, let active = core.activeResponse,
            active.stage == .done
        else { return }
        if !timeline.isHeldBySpeech {
            guard active.description.status != .completed,
                timeline.responseIDs.contains(active.id)
            else { return }
        }
        active.noteUnheard(stopPlaying(at: now))
    }

    /// Handles a response in the conversation that is done: the conversation keeps the words that
    /// were heard.
    func handleDone(_ response: Response) {
        for (itemID, cut) in response.cuts {
            if cut.isByClient {
                // The client and the answerer have been told; an item that was deleted needs no cut.
                _ = try? core.conversation.truncate(
                    itemID, contentIndex: 0, audioMilliseconds: cut.milliseconds)
            } else {
                cutAtHeard(itemID, milliseconds: cut.milliseconds)
            }
        }
    }

    private func cutAtHeard(_ itemID: String, milliseconds: Int) {
        guard
            let cut = core.conversation.cutAtHeard(itemID, milliseconds: milliseconds)
        else { return }
        core.answerer.truncate(itemID, milliseconds: cut.milliseconds)
        core.emit(
            .conversationItemTruncated(
                itemID: itemID, contentIndex: 0, audioEndMilliseconds: cut.milliseconds,
                transcript: knowsExtensions ? cut.transcript : nil))
    }

    // MARK: What the client says

    /// `output_audio_buffer.played`
    func handlePlayed(_ itemID: String, milliseconds: Int, at now: Instant) throws(ClientEventError)
    {
        guard
            let most = timeline?.handleAcknowledged(itemID, milliseconds: milliseconds, at: now)
        else { return }
        throw .playedMoreThanSent(itemID, mostMilliseconds: most)
    }

    /// `conversation.item.truncate` of an item whose response is in flight.
    /// - Returns: false when there is no such item.
    func truncateOpenItem(
        _ itemID: String, _ contentIndex: Int, _ milliseconds: Int, at now: Instant
    ) throws(Conversation.Failure) -> Bool {
        // Audio that waits for the socket has not been heard.
        if let most = timeline?.leftMilliseconds(of: itemID), milliseconds > most {
            throw .notTruncatable(audioMilliseconds: most)
        }
        guard let active = core.activeResponse, let sent = active.sentMilliseconds(ofOpen: itemID)
        else { return false }
        guard contentIndex == 0, milliseconds <= sent else {
            throw .notTruncatable(audioMilliseconds: contentIndex == 0 ? sent : 0)
        }
        // Where speech holds the reply, the client has taken it for an interruption.
        core.answerer.truncate(itemID, milliseconds: milliseconds)
        let isHeld = judge.speech != nil
        let told = PlayoutTimeline.HeardItem(
            responseID: active.id, itemID: itemID, heard: milliseconds)
        _ = stopPlaying(told: told, at: now)
        if isHeld { context.counters.interruptions += 1 }
        active.cut(
            itemID, milliseconds: milliseconds,
            endingAs: isHeld ? .cancelled(reason: "turn_detected") : nil, at: now)
        truncatedResponseID = active.id
        return true
    }

    /// Handles the truncation of an item whose response is done: its audio that has not left is no
    /// longer wanted.
    func handleTruncated(_ itemID: String, at now: Instant) {
        if timeline?.isPlaying(at: now) == true {
            context.outputs.append(.dropItemAudio(itemID: itemID))
        }
        if core.activeResponse == nil { _ = silence(at: now) }
    }

    /// Takes the id of the response that the client has truncated, if it is the newest.
    func takeTruncatedResponseID() -> String? { truncatedResponseID.take() }

    // MARK: Audio that has not left

    /// Settles the shell's reports of audio that waits, or is lost, at the beginning of an input.
    func settleUnsent() {
        guard let timeline else { return }
        for (itemID, heard) in timeline.settleUnsent() { handleLost(itemID, from: heard) }
    }

    /// Notes from where on an item was not heard. Its response takes that into account when it is
    /// done.
    private func handleLost(_ itemID: String, from milliseconds: Int) {
        if let active = core.activeResponse, active.words(of: itemID) != nil {
            active.noteLost(itemID, from: milliseconds)
        } else {
            cutAtHeard(itemID, milliseconds: milliseconds)
        }
    }
}
