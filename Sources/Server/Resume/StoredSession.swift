// The state of one session in the store, and its changes since. Pure: the shard tells it of events,
// and asks what to write and when.
//
// Items and turns are written at once. Everything else is written at most every second: how much
// was heard, and the words of a reply in progress. A change is under way until its outcome is
// known; meanwhile others gather.
//
// Invariant: a field that has changed is written, or the next change is whole.

import Codec
import Session

/// The record of one session. Confined to its shard's thread.
final class StoredSession {
    /// Time between two changes that are no boundary of an item or a turn.
    static let interval = Duration.seconds(1)
    /// Time in which changes at a boundary gather. 20 ms: the events of one turn are one change.
    static let gathering = Duration.milliseconds(20)

    /// Time after which a change that has failed is made again. 5 s: all of the state is then written.
    static let retryPause = Duration.seconds(5)
    /// Bytes of a change that is written. 4 MiB: half of what may wait on the way to the store. A
    /// session with more is not stored any more.
    static let maxBytes = 4 << 20
    /// The least time in which all records are checked after the store was away. 5 s.
    static let shortestReview = Duration.seconds(5)
    /// The least time for each session of a shard. 2 ms: 500 whole records a second and shard, of
    /// which one Redis writes some 20,000 a second.
    static let reviewPause = Duration.milliseconds(2)

    /// The fence of its owner, which is this server.
    let fence: UInt64
    /// The digest of the key or subject whose session it is, as hexadecimal digits. Where nil, the
    /// handle is enough to claim it.
    let principal: String?
    /// Whether the record has private functions.
    var isPrivate = false
    private var parts = SavedSession.Parts.all
    private var items: Set<String> = []
    private var removed: Set<String> = []
    private var isWhole = true
    private var hasNewHandle = true
    /// When the next change is due, or nil where nothing has changed.
    private var due: Instant?
    private var isUnderWay = false

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(StoredSession.self)
    /// Bytes of the whole object.
    var heldBytes: Int { Self.objectBytes + principal.heapBytes }

    /// - Parameter fence: 1 for a new session, otherwise the fence of the claim.
    init(fence: UInt64, principal: String?, at now: Instant) {
        (self.fence, self.principal) = (fence, principal)
        due = now + Self.gathering
    }

    // MARK: Changes

    /// Notes an event of the session, as its client sees it.
    func note(_ event: ServerEvent, at now: Instant) {
        switch event {
        case .sessionCreated, .sessionUpdated: note(.settings, at: now)
        case .conversationItemAdded(let item, _): note([.head, .order], item.id, at: now)
        case .conversationItemDone(let item, _): note(.head, item.id, at: now)
        case .responseOutputItemAdded(_, _, let item), .responseOutputItemDone(_, _, let item):
            note(.head, item.id, at: now)
        case .conversationItemTruncated(let itemID, _, _, _),
            .transcriptionCompleted(let itemID, _, _, _), .transcriptionFailed(let itemID, _, _, _):
            note(.head, itemID, at: now)
        case .conversationItemDeleted(let itemID):
            items.remove(itemID)
            removed.insert(itemID)
            note([.head, .order, .memory], at: now)
        case .responseCreated, .inputAudioBufferCommitted, .recordingUpdated:
            note(.head, at: now)
        case .responseDone: note([.head, .memory], at: now)
        case .responseOutputTextDelta(let part, _),
            .responseOutputAudioTranscriptDelta(let part, _),
            .responseFunctionCallArgumentsDelta(let part, _, _):
            noteProgress(part.itemID, at: now)
        default: noteProgress(nil, at: now)
        }
    }

    /// Notes a boundary of an item or a turn.
    private func note(_ parts: SavedSession.Parts, _ itemID: String? = nil, at now: Instant) {
        self.parts.formUnion(parts)
        if let itemID {
            items.insert(itemID)
            removed.remove(itemID)
        }
        plan(now + Self.gathering)
    }

    /// Notes that more of a reply was written, sent or heard.
    func noteProgress(_ itemID: String?, at now: Instant) {
        parts.insert(.head)
        if let itemID { items.insert(itemID) }
        plan(now + Self.interval)
    }

    /// The handle was renewed.
    func noteNewHandle(at now: Instant) {
        hasNewHandle = true
        parts.insert(.head)
        plan(now)
    }

    /// The store was away, and may have lost the record.
    func noteStoreIsBack(at time: Instant) {
        parts.insert(.head)
        plan(time)
    }

    private func plan(_ time: Instant) { due = due.map { min($0, time) } ?? time }

    // MARK: Writing

    /// When the next change is to be made, or nil where nothing has changed, or a change is under
    /// way.
    var deadline: Instant? { isUnderWay ? nil : due }

    /// A change of the record.
    struct Step {
        let isWhole: Bool
        let parts: SavedSession.Parts
        /// The items that are written. The default is all.
        let items: Set<String>?
        let removed: [String]
        let hasHandle: Bool
    }

    /// Takes the changes.
    /// - Parameter whole: whether everything is written, changed or not.
    func takeStep(whole: Bool = false) -> Step {
        let isWhole = whole || isWhole
        let step = Step(
            isWhole: isWhole, parts: isWhole ? .all : parts, items: isWhole ? nil : items,
            removed: isWhole ? [] : removed.map(SavedSession.fieldName(ofItem:)),
            hasHandle: isWhole || hasNewHandle)
        (parts, items, removed) = ([], [], [])
        (self.isWhole, hasNewHandle, due, isUnderWay) = (false, false, nil, true)
        return step
    }

    /// The outcome of a change is known.
    /// - Returns: whether the session still is this server's.
    func handle(_ outcome: StoreWriteOutcome, at now: Instant) -> Bool {
        isUnderWay = false
        switch outcome {
        case .written: break
        case .fenced: return false
        case .missing:
            isWhole = true
            plan(now + Self.interval)
        case .failed:
            isWhole = true
            plan(now + Self.retryPause)
        }
        return true
    }

    /// Postpones changes until `noteStoreIsBack`, because the store is away.
    func postpone() { due = nil }
}
