// Functions that a sideband was named for, and what the model made of them: calls, and their
// outputs. The session's client and other sidebands must not see any of it. This part learns from
// the session's events which items these are; SidebandView leaves them out of events.
//
// Invariant: at most `maxItems` items and `maxNames` names are known, whatever a model does. A call
// is open from the end of its arguments until its output comes, and is handed out as an orphan at
// most once.

import Codec

/// The private functions of one session.
struct PrivateCalls {
    /// How far a private item has come.
    private enum Stage {
        /// The model writes its arguments.
        case written
        /// The arguments are complete; its response is not over.
        case complete
        /// Its output is awaited, and nothing else.
        case open
        /// It has been handed out as an orphan; its output is about to come.
        case orphaned
        /// It is answered, cut off, or an output itself.
        case over
    }

    /// A call, or the output of one.
    private struct Item {
        let id: String
        /// The function's name.
        let name: String
        let callID: String
        /// The response that it belongs to; empty for an output.
        let responseID: String
        /// Its place in the response.
        let outputIndex: Int
        /// The item before it in the conversation.
        var previousID: String?
        var stage: Stage
        /// Whether the conversation has it no more.
        var isDeleted = false
    }

    /// Private items that are remembered. 256: more than a conversation has calls; of more, the
    /// oldest are only names in later events.
    static let maxItems = 256
    /// Private names of one session. 128: four sidebands with 32 each.
    static let maxNames = 128

    /// Functions whose calls are private.
    private(set) var names: [String] = []
    private var items: [Item] = []

    /// Whether there is nothing to hide.
    var isEmpty: Bool { names.isEmpty && items.isEmpty }

    /// Heap bytes of it.
    var heldBytes: Int {
        let texts = items.reduce(items.heapBytes) {
            $0 + $1.id.heapBytes + $1.name.heapBytes + $1.callID.heapBytes
        }
        return names.reduce(texts + names.heapBytes) { $0 + $1.heapBytes }
    }

    // MARK: Names

    /// Calls of these functions are private from now on.
    mutating func add(_ added: [String]) {
        for name in added where !names.contains(name) { names.append(name) }
    }

    /// Calls of other functions than these are private no more. Items of the past stay private.
    mutating func keepNames(where isKept: (String) -> Bool) { names.removeAll { !isKept($0) } }

    // MARK: Learning

    /// Takes note of an event of the session, before anybody is shown it.
    mutating func note(_ event: ServerEvent) {
        switch event {
        case .responseOutputItemAdded(let responseID, let index, let item):
            noteCall(item, in: responseID, at: index)
        case .conversationItemAdded(let item, let previousID): noteAdded(item, after: previousID)
        case .conversationItemDeleted(let itemID):
            if let index = place(of: itemID) { items[index].isDeleted = true }
        case .responseOutputItemDone(_, _, let item):
            guard let index = place(of: item.id) else { return }
            items[index].stage = item.status == .completed ? .complete : .over
        case .responseDone(let response):
            for index in items.indices where items[index].responseID == response.id {
                if items[index].stage == .complete { items[index].stage = .open }
            }
        default: break
        }
    }

    private mutating func noteCall(_ item: ConversationItem, in responseID: String, at index: Int) {
        guard case .functionCall(let callID, let name, _) = item.kind, names.contains(name)
        else { return }
        insert(
            Item(
                id: item.id, name: name, callID: callID, responseID: responseID,
                outputIndex: index, stage: .written))
    }

    private mutating func noteAdded(_ item: ConversationItem, after previousID: String?) {
        if let index = place(of: item.id) { items[index].previousID = previousID }
        guard case .functionCallOutput(let callID, _) = item.kind,
            // Some models use the id of a call again.
            let call = items.lastIndex(where: { $0.callID == callID && $0.stage != .over })
        else { return }
        items[call].stage = .over
        insert(
            Item(
                id: item.id, name: items[call].name, callID: callID, responseID: "",
                outputIndex: 0, previousID: previousID, stage: .over))
    }

    private mutating func insert(_ item: Item) {
        if items.count >= Self.maxItems {
            items.remove(at: items.firstIndex { $0.stage == .over } ?? 0)
        }
        items.append(item)
    }

    private func place(of id: String) -> Int? { items.lastIndex { $0.id == id } }

    /// Whether an open call is of a function that nobody serves.
    func hasOrphans(_ isServed: (String) -> Bool) -> Bool {
        items.contains { $0.stage == .open && !isServed($0.name) }
    }

    /// The ids of open calls of functions that nobody serves; they count as answered from now on.
    mutating func takeOrphans(_ isServed: (String) -> Bool) -> [String] {
        var orphans: [String] = []
        for index in items.indices
        where items[index].stage == .open && !isServed(items[index].name) {
            items[index].stage = .orphaned
            orphans.append(items[index].callID)
        }
        return orphans
    }

    // MARK: What a viewer may know

    /// Whether an item is hidden from a viewer that serves these functions.
    func isHidden(_ itemID: String, from tools: [String]) -> Bool {
        items.contains { $0.id == itemID && !tools.contains($0.name) }
    }

    /// The item before another, as such a viewer knows the conversation.
    func visible(_ itemID: String?, to tools: [String]) -> String? {
        var shown = itemID
        // Each item stands before the next, so that this ends.
        for item in items.reversed() where item.id == shown && !tools.contains(item.name) {
            shown = item.previousID
        }
        return shown
    }

    /// The item behind which such a viewer means to put one: hidden items that follow the one that
    /// it names stay there, so that no call is parted from its output.
    func place(behind itemID: String, for tools: [String]) -> String {
        var place = itemID
        for item in items
        where item.previousID == place && !item.isDeleted && !tools.contains(item.name) {
            place = item.id
        }
        return place
    }

    /// The place of an output item among those that such a viewer sees.
    /// - Parameter responseID: nil: of the response in flight.
    func visibleIndex(_ index: Int, in responseID: String?, to tools: [String]) -> Int {
        index
            - items.count {
                let isSame =
                    responseID.map { [id = $0.responseID] in $0 == id }
                    ?? ($0.stage == .written || $0.stage == .complete)
                return isSame && !$0.responseID.isEmpty && $0.outputIndex < index
                    && !tools.contains($0.name)
            }
    }

    /// Whether a function is hidden from such a viewer.
    func hidesFunction(_ name: String, from tools: [String]) -> Bool {
        names.contains(name) && !tools.contains(name)
    }
}
