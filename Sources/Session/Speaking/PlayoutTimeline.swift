// How much of its replies' audio one client was sent, and how much of that the user has heard.
// Truncation cuts at that point, and a reply is resumed from it after a false interruption. The
// timeline paces the sending (PlayoutPacer), keeps audio that may be sent again (ResendBuffer), and
// is held while the user speaks over the reply, and while the client is away. Whether that speech
// interrupts is InterruptionJudge's decision.
//
// The timeline counts samples at 48 kHz over all replies:
//
//      start of an item        heard           left       sent
//   ───────┴─────────────────────┴───────────────┴──────────┴──▶
//          │ position in the item │               │  waits   │
//
// Audio that waits for the socket has not been heard, and may be dropped before it leaves. Before
// an input the shell reports where it begins, and what was dropped because it would have come too
// late. Such a report makes no output. Before the next input it only changes what is saved.
//
// Audio after a gap is still sent and perhaps heard. But an item can only be cut, it cannot have a
// hole: it ends where the first audio was lost, so that no model is shown words as heard that were
// not.
//
// A client that can pause (`pauses`) keeps the audio of a held reply. Then nothing is dropped at the
// hold and nothing is sent again.
//
// Invariant: 0 ≤ heard ≤ left ≤ sent. `heard` only falls where the client itself reports less.
// While the reply is held, or the client is full, nothing is sent.

import Codec

/// The audio of the replies in a conversation, or of one response outside of it.
final class PlayoutTimeline {
    /// An item's audio and how much of it was heard.
    struct HeardItem: Equatable {
        let responseID: String
        let itemID: String
        /// Milliseconds of its audio.
        let heard: Int
    }

    /// Why nothing is sent. The reply goes on once no reason is left.
    struct Hold: OptionSet {
        let rawValue: UInt8
        /// The user speaks over the reply.
        static let speech = Hold(rawValue: 1)
        /// The client has lost its connection.
        static let clientAway = Hold(rawValue: 2)
    }

    private struct Item {
        let responseID: String
        let itemID: String
        /// Where its audio begins on the timeline.
        let start: Int
    }

    /// Audio kept behind the estimate of what was heard, as a multiple of the lead. 2 covers a
    /// client that reports to be a whole lead behind.
    private static let keptLeads = 2

    /// Milliseconds of sent audio that are kept where the client may come back. 10 s: a lost
    /// connection is noticed late, and the client may have heard nothing since.
    private static let resumableMilliseconds = 10_000

    /// The most by which a report of a client that adds up its chunks is too high: a frame.
    private static let roundingMilliseconds = 20

    /// Searches the user's audio for the reply. Nil means that there is no such audio.
    var echo: EchoCheck?
    /// Records what is heard. Nil means that the session is not recorded.
    var played: PlayedTrack?
    private var pacer: PlayoutPacer
    private let keepsAudio: Bool
    private let isResumable: Bool
    /// Whether the client keeps its queued audio while the reply is held.
    let pauses: Bool
    /// Whether the client takes no more audio for now. It plays what it has.
    var isClientFull = false
    /// Whether the client has reported how much it has played: it knows this extension. In the padding
    /// behind the pacer, as the flags before and after.
    private(set) var isAcknowledged = false
    /// Whether the client learns the position where audio that is sent again starts.
    private(set) var tellsPositions = false
    private var kept: ResendBuffer
    /// Runs that are to be sent again before anything else, the next one last.
    private var again: [SentRun] = []
    /// Items of which something may not have been heard, in order; the last one always stays.
    private var items: [Item] = []
    private var sent = 0
    /// Where the audio that had not left for the socket began at the latest input; while the reply
    /// is held, at the beginning of the hold.
    private var left = 0
    /// The same, as the shell has reported for the next input or for `saved`. Nil where no audio
    /// waits.
    private var firstUnsent: Int?
    /// Items of which audio was lost since the latest input, and where the first loss begins, in
    /// samples at 48 kHz.
    private var lost: [(itemID: String, position: Int)] = []
    /// The position that the client last reported, and when.
    private var acknowledged: (position: Int, at: Instant)?
    /// How much had been heard when the reply was held, or nil where it is not held.
    private var heldAt: Int?
    /// Why it is held; empty: it is not.
    private var holds: Hold = []
    /// Whether the rest of a reply is sent without its pace, so that the reply is done: then the
    /// client decides, while it plays, what follows. The flag is in the padding behind the holds.
    var sendsAhead = false {
        didSet {
            if sendsAhead { kept.keep(milliseconds: PlayoutPacer.mostAhead.wholeMilliseconds) }
        }
    }

    /// - Parameters:
    ///   - lead: how far audio is sent ahead of its playing.
    ///   - keepsAudio: whether it may have to be sent again.
    ///   - isResumable: whether even audio that was probably heard is kept, because the client may
    ///     lose its connection.
    ///   - isClientAway: whether nothing may be sent yet, because the client is away.
    ///   - pauses: whether the client keeps its queued audio while the reply is held, so that
    ///     nothing has to be sent again.
    init(
        lead: Duration, keepsAudio: Bool, isResumable: Bool = false, isClientAway: Bool = false,
        pauses: Bool = false
    ) {
        pacer = PlayoutPacer(lead: lead)
        self.pauses = pauses
        self.keepsAudio = (keepsAudio && !pauses) || isResumable
        self.isResumable = isResumable
        if isClientAway {
            holds = .clientAway
            heldAt = 0
        }
        let leads = Self.keptLeads * pacer.lead.wholeMilliseconds
        kept = ResendBuffer(
            maxMilliseconds: isResumable ? max(leads, Self.resumableMilliseconds) : leads)
    }

    /// When a client that plays at once will have played everything sent so far.
    var playedOut: Instant? { pacer.playedOut }
    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(PlayoutTimeline.self)
    /// Bytes of all of it, most of them audio that is kept.
    var heldBytes: Int {
        again.reduce(Self.objectBytes + kept.heldBytes + again.heapBytes + items.heapBytes) {
            $0 + $1.payload.heapBytes
        }
    }
    /// Whether the reply is held.
    var isHeld: Bool { heldAt != nil }
    /// Whether speech holds it.
    var isHeldBySpeech: Bool { holds.contains(.speech) }
    /// Responses whose audio may not have been heard to its end.
    var responseIDs: [String] {
        items.reduce(into: []) { if $0.last != $1.responseID { $0.append($1.responseID) } }
    }

    // MARK: Sending

    /// How much audio may be sent now, in whole milliseconds.
    func allowance(at now: Instant) -> Int {
        isHeld || isClientFull ? 0 : pacer.allowance(at: now, sendsAhead: sendsAhead)
    }

    /// When audio that waits may be sent, always after `now`, or nil where that depends on another
    /// event.
    func nextSend(after now: Instant) -> Instant? {
        isHeld || isClientFull ? nil : pacer.nextSend(after: now, sendsAhead: sendsAhead)
    }

    /// Takes the samples of the run that is sent next, for the first time.
    func handleSamples(_ samples: UnsafeBufferPointer<Int16>, rate: SampleRate, at now: Instant) {
        echo?.handleReply(samples, rate: rate, playedFrom: max(pacer.playedOut ?? now, now))
    }

    /// A run has been sent.
    func handleSent(_ run: SentRun, at now: Instant) {
        let heard = heard(at: now)
        if let played { record(run, with: played, heard: heard, at: now) }
        if items.last?.itemID != run.part.itemID {
            items.append(
                Item(
                    responseID: run.part.responseID, itemID: run.part.itemID,
                    start: sent - run.position))
        }
        sent += run.length
        pacer.handleSent(milliseconds: run.milliseconds, at: now)
        if keepsAudio { kept.append(run) }
        let needed = isResumable ? min(heard, sent - kept.length) : heard
        while items.count > 1, items[1].start <= needed { items.removeFirst() }
        if keepsAudio { kept.forget(allBut: sent - needed) }
    }

    /// Whether runs wait to be sent again.
    var hasRunsAgain: Bool { !again.isEmpty }

    /// Takes the next run that is to be sent again, if it lasts no longer than the allowance.
    func takeRunAgain(within milliseconds: Int) -> SentRun? {
        guard let next = again.last, next.milliseconds <= milliseconds else { return nil }
        return again.removeLast()
    }

    // MARK: Hearing

    /// The client's position of playing on the timeline. It is the position that the client last
    /// reported and the time since, but no more than a client that plays at once would have played.
    /// Without a report it is that limit.
    private func heard(at now: Instant) -> Int {
        if let heldAt { return heldAt }
        guard let playedOut else { return 0 }
        let ahead = max(0, (playedOut - now).wholeNanoseconds)
        let estimate = min(firstUnsent ?? left, max(0, sent - Int(ahead * 48 / 1_000_000)))
        guard let acknowledged else { return estimate }
        let since = max(0, (now - acknowledged.at).wholeNanoseconds)
        let (grown, isFar) = since.multipliedReportingOverflow(by: 48)
        let told = isFar ? sent : acknowledged.position + Int(grown / 1_000_000)
        return max(acknowledged.position, min(estimate, told))
    }

    /// Whether something was sent that has not been heard.
    func isPlaying(at now: Instant) -> Bool { heard(at: now) < sent }

    /// The item that is being heard, and how much of it has been; nil before there is one.
    func position(at now: Instant) -> HeardItem? {
        let heard = heard(at: now)
        guard let item = items.last(where: { $0.start <= heard }) else { return nil }
        return HeardItem(
            responseID: item.responseID, itemID: item.itemID,
            heard: SampleRate.hz48000.milliseconds(ofSamples: heard - item.start))
    }

    // MARK: Recording

    private func record(
        _ run: SentRun, with played: PlayedTrack, heard: Int, at now: Instant
    ) {
        played.settle(heard: heard, at: now, time)
        played.noteSent(run, at: sent)
    }

    /// Records the audio that was heard.
    /// - Parameter isCut: whether the rest of the sent audio is never heard.
    func settlePlayed(isCut: Bool = false, at now: Instant) {
        played?.settle(heard: heard(at: now), isCut: isCut, at: now, time)
    }

    /// When a position was played, by the pace of sending and by the client's last report.
    private func time(of position: Int) -> Instant {
        let estimate = pacer.playedOut.map { $0 + .samples(position - sent) }
        let told = acknowledged.map { $0.at + .samples(position - $0.position) }
        guard let estimate else { return told ?? Instant(nanoseconds: 0) }
        return told.map { max(estimate, $0) } ?? estimate
    }

    // MARK: Waiting for the socket

    /// Notes, before an input, where the audio begins that waits.
    /// - Parameter position: where in its item it starts, in samples at 48 kHz.
    /// - Returns: false when the item is none of this client's replies.
    func noteUnsent(_ itemID: String, position: Int) -> Bool {
        guard let item = items.last(where: { $0.itemID == itemID }) else { return false }
        firstUnsent = min(sent, item.start + position)
        return true
    }

    /// Notes that no audio waits.
    func noteAllSent() { firstUnsent = sent }

    /// Reply audio was dropped, unasked, before any of it had left.
    /// - Parameter position: where in its item it starts, in samples at 48 kHz.
    func noteLost(_ itemID: String, position: Int) {
        // Later losses in the same item make no difference.
        guard !lost.contains(where: { $0.itemID == itemID }) else { return }
        lost.append((itemID, position))
    }

    /// An input comes: all audio that the shell did not report as waiting or lost has left.
    /// - Returns: the items of which audio was lost, and the milliseconds before the first loss.
    func settleUnsent() -> [(itemID: String, heard: Int)] {
        let first = firstUnsent.take()
        // No audio of a held reply waits: it was dropped at the hold, unless the client pauses.
        if heldAt == nil || pauses { left = first ?? sent }
        guard !lost.isEmpty else { return [] }
        defer { lost = [] }
        return lost.map {
            ($0.itemID, SampleRate.hz48000.milliseconds(ofSamples: max(0, $0.position)))
        }
    }

    /// How much of an item has left, in milliseconds. Nil where no audio waits, so that all of it
    /// that was sent has left.
    func leftMilliseconds(of itemID: String) -> Int? {
        guard left < sent, let item = items.last(where: { $0.itemID == itemID }) else {
            return nil
        }
        return SampleRate.hz48000.milliseconds(ofSamples: max(0, left - item.start))
    }

    /// Items of which something was sent after a position on the timeline, in order, each with how
    /// much of it lies before.
    private func items(after position: Int) -> [HeardItem] {
        items.enumerated().compactMap { index, item in
            let end = index + 1 < items.count ? items[index + 1].start : sent
            guard position < end else { return nil }
            return HeardItem(
                responseID: item.responseID, itemID: item.itemID,
                heard: SampleRate.hz48000.milliseconds(ofSamples: max(0, position - item.start)))
        }
    }

    /// Items whose audio, sent or to be sent again, was not heard to its end, each with how much
    /// was heard.
    func unheard(at now: Instant) -> [HeardItem] { withRunsAgain(items(after: heard(at: now))) }

    /// The same for a client that plays all that was sent.
    var unsentAgain: [HeardItem] { withRunsAgain([]) }

    private func withRunsAgain(_ unheard: [HeardItem]) -> [HeardItem] {
        again.reversed().reduce(into: unheard) { unheard, run in
            guard !unheard.contains(where: { $0.itemID == run.part.itemID }) else { return }
            unheard.append(
                HeardItem(
                    responseID: run.part.responseID, itemID: run.part.itemID,
                    heard: SampleRate.hz48000.milliseconds(ofSamples: run.position)))
        }
    }

    /// Ends the newest response, which has failed: the client plays the part that has left, and no
    /// more comes.
    /// - Returns: its items of which audio waited, or was to be sent again.
    func dropUnsent(of responseID: String) -> [HeardItem] {
        guard heldAt == nil else { return [] }
        var unsent = items(after: left).filter { $0.responseID == responseID }
        if let first = items.firstIndex(where: { $0.responseID == responseID }) {
            sent = min(sent, max(left, items[first].start))
            items.removeAll { $0.responseID == responseID && $0.start > sent }
            played?.rewind(to: sent)
        }
        for run in again.reversed() where run.part.responseID == responseID {
            guard !unsent.contains(where: { $0.itemID == run.part.itemID }) else { continue }
            unsent.append(
                HeardItem(
                    responseID: responseID, itemID: run.part.itemID,
                    heard: SampleRate.hz48000.milliseconds(ofSamples: run.position)))
        }
        again.removeAll { $0.part.responseID == responseID }
        return unsent
    }

    // MARK: What the client says

    /// Takes the client's report of how much of an item it has played.
    /// - Returns: the most that it can have heard, in milliseconds, where it reports more. Nil
    ///   where the report is accepted, or the item was heard long ago.
    func handleAcknowledged(_ itemID: String, milliseconds: Int, at now: Instant) -> Int? {
        guard let index = items.lastIndex(where: { $0.itemID == itemID }) else { return nil }
        let start = items[index].start
        let end = max(start, min(left, index + 1 < items.count ? items[index + 1].start : sent))
        let most = SampleRate.hz48000.milliseconds(ofSamples: end - start)
        guard milliseconds <= most + Self.roundingMilliseconds else { return most }
        isAcknowledged = true
        let position = min(
            end, start + SampleRate.hz48000.samples(inMilliseconds: milliseconds))
        if heldAt != nil {
            heldAt = position
        } else {
            acknowledged = (position, now)
        }
        return nil
    }

    /// Takes the report of a client that is back: how much of an item it has played, or keeps to
    /// play. A report of more than has left counts as all that has left. An item that was heard
    /// long ago changes nothing.
    func handleBack(_ played: PlayedAudio) {
        guard heldAt != nil, let index = items.lastIndex(where: { $0.itemID == played.itemID })
        else { return }
        isAcknowledged = true
        let start = items[index].start
        let end = max(start, min(left, index + 1 < items.count ? items[index + 1].start : sent))
        heldAt = min(end, start + SampleRate.hz48000.samples(inMilliseconds: played.milliseconds))
    }

    // MARK: Holding

    /// Nothing more is sent. Audio that waits is to be dropped, unless the client pauses. While speech
    /// holds the reply, the client stops playing.
    func hold(_ reason: Hold = .speech, at now: Instant) {
        holds.insert(reason)
        guard heldAt == nil else { return }
        heldAt = heard(at: now)
        echo?.hold(at: now)
    }

    /// Removes a reason to hold the reply. Without another one it is resumed where it was heard:
    /// audio sent after that is sent again, unless its item is over.
    /// - Parameter tellsPositions: whether the client is told where that starts. Once true, it
    ///   stays true.
    /// - Returns: items of which audio was dropped at the hold and is not sent again.
    func resume(
        after reason: Hold = .speech, at now: Instant, tellsPositions: Bool,
        unlessOver isOver: (PartAddress) -> Bool
    ) -> [HeardItem] {
        if tellsPositions { self.tellsPositions = true }
        holds.remove(reason)
        guard holds.isEmpty else { return [] }
        settlePlayed(at: now)
        guard let heard = heldAt.take() else { return [] }
        let unheard = sent - heard
        if pauses {
            echo?.goOn(with: unheard, at: now)
            acknowledged = nil
            pacer.handleContinued(samples: unheard, at: now)
            return []
        }
        let unsent = again.reversed()
        var runs = kept.take(last: sent - heard)
        runs.append(contentsOf: unsent)
        if let last = runs.lastIndex(where: { isOver($0.part) }) { runs.removeFirst(last + 1) }
        // Audio of items that are over, or that was not kept, counts as heard if it has left.
        let resent = runs.dropLast(unsent.count).reduce(0) { $0 + $1.length }
        sent -= resent
        played?.rewind(to: sent)
        let lost = items(after: left)
        items.removeAll { $0.start > sent || ($0.start == sent && resent > 0) }
        again = runs.reversed()
        echo?.goOn(with: runs.reduce(0) { $0 + $1.length }, at: now)
        // A client that was away has played on.
        if reason == .clientAway { pacer.handleRewound(samples: unheard) }
        restart(at: now, isSilent: reason != .clientAway)
        return lost
    }

    /// Ends the reply where it was heard: it was interrupted, or its audio cleared. While the
    /// client is away, the next reply is held, too.
    /// - Returns: the items whose sent audio was not heard to its end, in order.
    func stop(at now: Instant) -> [HeardItem] {
        let heard = heard(at: now)
        let cut = items(after: heard)
        settlePlayed(isCut: true, at: now)
        holds.remove(.speech)
        heldAt = holds.isEmpty ? nil : heard
        sent = heard
        again = []
        kept.removeAll()
        items = []
        echo?.stop(at: now)
        restart(at: now)
        return cut
    }

    private func restart(at now: Instant, isSilent: Bool = true) {
        acknowledged = nil
        left = sent
        firstUnsent = nil
        if isSilent { pacer.handleSilenced(at: now) }
    }
}
