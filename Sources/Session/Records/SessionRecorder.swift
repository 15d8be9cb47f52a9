// Notes the changes of a session, and hands them to a keeper once in a while. The shard passes it
// events and asks when the next change is due. VoiceSession+Records reads the session for it.
//
// Invariant: an item that was ever in the conversation is in a change before the session's end, and
// an item whose reply is still being heard is in the next change again. A change that the keeper
// did not take is made again, with the changes since.

import Codec

/// The recorder of one session. Confined to its shard's thread.
public final class SessionRecorder {
    /// Time in which changes gather. 500 ms: with the time of a write, a killed process loses less
    /// than a second of a conversation, and a typed turn is one change.
    public static let interval = Duration.milliseconds(500)

    private let keeper: any RecordKeeper
    private let fence: UInt64
    private var summary: SessionSummary
    private var isFirst = true
    /// Items that have changed, and when each was first noted.
    private var changed: [String: Instant] = [:]
    /// The item that changed last: the next delta of a reply is most likely of the same.
    private var lastChanged = ""
    private var outOfBand: [RecordedItem] = []
    private var deleted: [RecordChange.DeletedItem] = []
    private var turns: [RecordedTurn] = []
    /// Bytes of texts that only the next change holds: of `outOfBand`, `deleted` and `turns`.
    private var waitingBytes = 0
    /// When responses in flight began.
    private var begun: [String: Instant] = [:]
    /// When the next change is due, or nil where nothing has changed.
    public private(set) var deadline: Instant?
    /// Why the session ends, as far as it is known.
    private var end: SessionEnd?

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(SessionRecorder.self)
    /// Bytes of the whole recorder.
    package var heldBytes: Int {
        Self.objectBytes
            + HeapBlock.dictionary(
                capacity: changed.capacity, stride: MemoryLayout<(String, Instant)>.stride)
            + HeapBlock.dictionary(
                capacity: begun.capacity, stride: MemoryLayout<(String, Instant)>.stride)
            + outOfBand.heapBytes + deleted.heapBytes + turns.heapBytes + waitingBytes
    }

    /// - Parameters:
    ///   - fence: 1 for a new session, otherwise the fence of the claim.
    ///   - summary: the facts that are known at the start.
    public init(keeper: any RecordKeeper, fence: UInt64, _ summary: SessionSummary, at now: Instant)
    {
        (self.keeper, self.fence, self.summary) = (keeper, fence, summary)
        deadline = now + Self.interval
    }

    // MARK: What happens

    /// An event of the session, as it leaves.
    /// - Parameter hops: of the turn that a response answers, in milliseconds; read where the
    ///   response has ended.
    public func note(_ event: ServerEvent, hops: (TurnHop) -> Int?, at now: Instant) {
        switch event {
        case .conversationItemAdded(let item, _), .conversationItemDone(let item, _),
            .responseOutputItemAdded(_, _, let item), .responseOutputItemDone(_, _, let item):
            note(item.id, at: now)
        case .conversationItemTruncated(let itemID, _, _, _),
            .transcriptionCompleted(let itemID, _, _, _), .transcriptionFailed(let itemID, _, _, _):
            note(itemID, at: now)
        case .responseOutputTextDelta(let part, _),
            .responseOutputAudioTranscriptDelta(let part, _),
            .responseFunctionCallArgumentsDelta(let part, _, _):
            note(part.itemID, at: now)
        case .conversationItemDeleted(let itemID):
            changed[itemID] = nil
            lastChanged = ""
            deleted.append(RecordChange.DeletedItem(id: itemID, at: now))
            waitingBytes += itemID.heapBytes
            plan(now)
        case .responseCreated(let response):
            summary.turns += 1
            begun[response.id] = now
        case .responseDone(let response): noteEnd(of: response, hops: hops, at: now)
        case .sessionUpdated: plan(now)
        default: break
        }
    }

    /// Notes that an item has changed.
    public func note(_ itemID: String, at now: Instant) {
        guard itemID != lastChanged else { return }
        lastChanged = itemID
        if changed[itemID] == nil { changed[itemID] = now }
        plan(now)
    }

    private func noteEnd(
        of response: ResponseDescription, hops: (TurnHop) -> Int?, at now: Instant
    ) {
        if let usage = response.usage { summary.usage.add(usage) }
        var reached: [TurnHop: Int] = [:]
        for hop in TurnHop.allCases { reached[hop] = hops(hop) }
        turns.append(
            RecordedTurn(
                number: summary.turns, response: response,
                startedAt: begun.removeValue(forKey: response.id) ?? now, endedAt: now,
                hops: reached))
        waitingBytes += turns[turns.count - 1].heapBytes
        if response.conversationID == nil {
            for item in response.output {
                outOfBand.append(RecordedItem(item: item, addedAt: now, isOutOfBand: true))
            }
        }
        plan(now)
    }

    /// The user has sent audio.
    /// - Parameter samples: the audio's length, at 16 kHz.
    public func noteAudio(samples: Int) { summary.samplesIn += samples }

    /// Notes the session's ledger at the end of a tick.
    public func noteLedger(bytes: Int) { summary.peakBytes = max(summary.peakBytes, bytes) }

    /// Notes why the session ends. The end that is noted first counts: it causes the later ones.
    public func noteEnd(_ end: SessionEnd) { if self.end == nil { self.end = end } }

    private func plan(_ now: Instant) { deadline = deadline ?? now + Self.interval }

    // MARK: What is kept

    /// Hands the changes to the keeper.
    package func keepChange(of session: some RecordedSession, at now: Instant) {
        deadline = nil
        let change = takeChange(of: session, at: now)
        guard !keeper.keep(change) else {
            isFirst = false
            return
        }
        giveBack(change, at: now)
    }

    /// Whether the session, which ends here, goes on elsewhere.
    public var goesOnElsewhere: Bool { end?.reason == .continuedElsewhere }

    /// The session ends: hands over the rest of it.
    /// - Parameter awaitsAnswer: whether `keep` follows.
    package func keepEnd(
        of session: some RecordedSession, awaitsAnswer: Bool = false, at now: Instant
    ) {
        var change = takeChange(of: session, at: now)
        change.end = end ?? SessionEnd(.connectionLost)
        change.afterCall = awaitsAnswer ? .asked : nil
        for index in change.items.indices where change.items[index].item.status == .inProgress {
            change.items[index].item.status = .incomplete
        }
        // There is no later change that could bring it.
        _ = keeper.keep(change)
    }

    /// Hands over the answer to the question about the session.
    public func keep(_ answer: AfterCallAnswer, of sessionID: String, at now: Instant) {
        var change = RecordChange(
            sessionID: sessionID, fence: fence, takenAt: now, summary: summary)
        change.afterCall = .answered(answer)
        _ = keeper.keep(change)
    }

    private func takeChange(of session: some RecordedSession, at now: Instant) -> RecordChange {
        summary.note(session.parameters)
        let recorded = session.recorded(changed, at: now)
        let change = RecordChange(
            sessionID: session.id, fence: fence, takenAt: now, summary: summary,
            items: recorded.items + outOfBand, deleted: deleted, turns: turns, isFirst: isFirst)
        (outOfBand, deleted, turns, waitingBytes, lastChanged) = ([], [], [], 0, "")
        changed = changed.filter { recorded.unheard.contains($0.key) }
        if !changed.isEmpty { plan(now) }
        return change
    }

    /// The keeper did not take a change.
    private func giveBack(_ change: RecordChange, at now: Instant) {
        for item in change.items where !item.isOutOfBand { changed[item.item.id] = item.addedAt }
        outOfBand = change.items.filter(\.isOutOfBand) + outOfBand
        deleted = change.deleted + deleted
        turns = change.turns + turns
        waitingBytes += change.deleted.reduce(0) { $0 + $1.id.heapBytes }
        waitingBytes += change.turns.reduce(0) { $0 + $1.heapBytes }
        plan(now)
    }
}

/// A session as a recorder reads it.
package protocol RecordedSession {
    /// `sess_…`
    var id: String { get }
    /// The effective session.
    var parameters: SessionParameters { get }

    /// Items as a record keeps them, in the conversation's order.
    /// - Parameter wanted: ids, and when each item came.
    /// - Returns: the items, and which of them may still be heard further.
    func recorded(
        _ wanted: [String: Instant], at now: Instant
    ) -> (items: [RecordedItem], unheard: Set<String>)
}

extension SessionSummary {
    /// The session's settings may have changed.
    fileprivate mutating func note(_ parameters: SessionParameters) {
        model = parameters.model
        voice = parameters.voice
        outputModality = parameters.outputModality
        inputFormat = parameters.inputFormat
        outputFormat = parameters.outputFormat
    }
}
