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
    /// The progress of a private item.
    fileprivate enum Stage {
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
    fileprivate struct Item {
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
        /// Whether the conversation has the item: it does not have items of out-of-band responses,
        /// nor deleted ones.
        var isInConversation = false
        /// Whether a call that is not private has its call ID now. Some models use one again.
        var hasLostCallID = false
    }

    /// Private items that are remembered. 256: more than a conversation has calls; of more, the
    /// oldest are only names in later events.
    static let maxItems = 256
    /// Private names of one session. 128: four sidebands with 32 each.
    static let maxNames = 128

    /// Functions whose calls are private.
    private(set) var names: [String] = []
    /// The private functions whose tools a sideband has put into the session.
    private var offered: [String] = []
    private var items: [Item] = []

    /// Whether there is nothing to hide.
    var isEmpty: Bool { names.isEmpty && items.isEmpty }

    /// Heap bytes of the private calls.
    var heldBytes: Int {
        let texts = items.reduce(items.heapBytes) {
            $0 + $1.id.heapBytes + $1.name.heapBytes + $1.callID.heapBytes
        }
        return (names + offered).reduce(texts + names.heapBytes + offered.heapBytes) {
            $0 + $1.heapBytes
        }
    }

    // MARK: Names

    /// Calls of these functions are private from now on.
    mutating func add(_ added: [String]) {
        for name in added where !names.contains(name) { names.append(name) }
    }

    /// Calls of other functions than these are private no more. Items of the past stay private.
    mutating func keepNames(where isKept: (String) -> Bool) { names.removeAll { !isKept($0) } }

    /// A sideband has updated the session's tools.
    /// - Parameters:
    ///   - update: the update that it has asked for.
    ///   - session: the session's tools after that.
    ///   - tools: the functions that the sideband serves.
    mutating func noteOffer(
        _ update: [FunctionTool], in session: [FunctionTool], by tools: [String]
    ) {
        for name in tools {
            let tool = session.first { $0.name == name }
            offered.removeAll { $0 == name && tool == nil }
            // A tool that is not the one of the update is still the client's: it was refused.
            guard let tool, update.contains(tool), !offered.contains(name) else { continue }
            offered.append(name)
        }
    }

    /// The functions that sidebands have put into the session, and whose sideband has left. They count
    /// as withdrawn from now on. The client's own tools are never among them.
    mutating func takeAbandonedOffers(_ isServed: (String) -> Bool) -> [String] {
        let abandoned = offered.filter { !isServed($0) }
        offered.removeAll { !isServed($0) }
        return abandoned
    }

    // MARK: Learning

    /// Takes note of an event of the session. Called before a viewer is shown it.
    mutating func note(_ event: ServerEvent) {
        switch event {
        case .responseOutputItemAdded(let responseID, let index, let item):
            noteCall(item, in: responseID, at: index)
        case .conversationItemAdded(let item, let previousID): noteAdded(item, after: previousID)
        case .conversationItemDeleted(let itemID):
            if let index = place(of: itemID) { items[index].isInConversation = false }
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
        if let index = place(of: item.id) {
            items[index].previousID = previousID
            items[index].isInConversation = true
            return
        }
        switch item.kind {
        case .functionCall(let callID, _, _):
            for index in items.indices where items[index].callID == callID {
                items[index].hasLostCallID = true
            }
        case .functionCallOutput(let callID, _): noteOutput(item.id, of: callID, after: previousID)
        default: break
        }
    }

    /// Hides an output with its call. That is a call that still waits for it, or otherwise the last
    /// call: its output is corrected, or comes after the call was answered for its sideband.
    private mutating func noteOutput(
        _ id: String, of callID: String, after previousID: String?
    ) {
        let waiting = items.lastIndex { $0.callID == callID && $0.stage != .over }
        let last = items.lastIndex { $0.callID == callID && !$0.hasLostCallID }
        guard let call = waiting ?? last else { return }
        items[call].stage = .over
        insert(
            Item(
                id: id, name: items[call].name, callID: callID, responseID: "", outputIndex: 0,
                previousID: previousID, stage: .over, isInConversation: true))
    }

    private mutating func insert(_ item: Item) {
        if items.count >= Self.maxItems {
            items.remove(at: items.firstIndex { $0.stage == .over } ?? 0)
        }
        items.append(item)
    }

    private func place(of id: String) -> Int? { items.lastIndex { $0.id == id } }

    /// Whether there is an open call whose sideband has left.
    func hasOrphans(_ isServed: (String) -> Bool) -> Bool {
        items.contains { isOrphan($0, isServed) }
    }

    /// The ids of open calls whose sideband has left. They count as answered from now on.
    mutating func takeOrphans(_ isServed: (String) -> Bool) -> [String] {
        var orphans: [String] = []
        for index in items.indices where isOrphan(items[index], isServed) {
            items[index].stage = .orphaned
            orphans.append(items[index].callID)
        }
        return orphans
    }

    /// A call that the conversation does not have is no orphan: nothing waits for its output.
    private func isOrphan(_ item: Item, _ isServed: (String) -> Bool) -> Bool {
        item.stage == .open && item.isInConversation && !isServed(item.name)
    }

    // MARK: What a viewer may know

    /// Whether an item is hidden from a viewer that serves these functions.
    func isHidden(_ itemID: String, from tools: [String]) -> Bool {
        items.contains { $0.id == itemID && !tools.contains($0.name) }
    }

    /// The item before another, as a viewer with these tools knows the conversation.
    func visible(_ itemID: String?, to tools: [String]) -> String? {
        var shown = itemID
        // Each item stands before the next, so that this ends.
        for item in items.reversed() where item.id == shown && !tools.contains(item.name) {
            shown = item.previousID
        }
        return shown
    }

    /// The item behind which such a viewer wants to insert one. Hidden items that follow the item
    /// that it names stay there, so that no call is parted from its output.
    func place(behind itemID: String, for tools: [String]) -> String {
        var place = itemID
        for item in items
        where item.previousID == place && item.isInConversation && !tools.contains(item.name) {
            place = item.id
        }
        return place
    }

    /// The place of an output item among those that such a viewer sees.
    /// - Parameter responseID: the response of the item, or nil for the response in flight.
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

    /// Whether a function is hidden from a viewer with these tools.
    func hidesFunction(_ name: String, from tools: [String]) -> Bool {
        names.contains(name) && !tools.contains(name)
    }
}

// MARK: - Another process

extension PrivateCalls {
    /// The field of a saved session.
    static let fieldName = "private"

    /// The facts that another process needs to hide the same calls. The responses in flight end
    /// with this process, so that only those of their calls are open whose arguments are complete.
    var field: [UInt8] {
        var json = JSONWriter(ByteWriter(capacity: 256))
        json.object { json in
            json.array("names") { json in for name in names { json.string(name) } }
            json.array("offered") { json in for name in offered { json.string(name) } }
            json.array("items") { json in for item in items { item.write(into: &json) } }
        }
        return json.finish().copiedBytes
    }

    /// Reads the field, or returns nil where it is not valid.
    init?(field: [UInt8], parser: JSONParser) {
        guard let value = try? parser.parse(field),
            let names = Self.texts(value["names"], atMost: Self.maxNames),
            let offered = Self.texts(value["offered"], atMost: Self.maxNames),
            let items = value["items"]?.elements, items.count <= Self.maxItems
        else { return nil }
        (self.names, self.offered) = (names, offered)
        for item in items {
            guard let item = Item(item) else { return nil }
            self.items.append(item)
        }
    }

    private static func texts(_ value: JSONValue?, atMost most: Int) -> [String]? {
        guard let elements = value?.elements, elements.count <= most else { return nil }
        let texts = elements.compactMap(\.string)
        return texts.count == elements.count ? texts : nil
    }
}

extension PrivateCalls.Item {
    fileprivate func write(into json: inout JSONWriter) {
        json.object { json in
            json.member("id", id)
            json.member("name", name)
            json.member("call_id", callID)
            if let previousID { json.member("previous", previousID) }
            json.member("is_open", stage == .complete || stage == .open || stage == .orphaned)
            json.member("is_in_conversation", isInConversation)
            json.member("has_lost_call_id", hasLostCallID)
        }
    }

    fileprivate init?(_ value: JSONValue) {
        guard let id = value["id"]?.string, let name = value["name"]?.string,
            let callID = value["call_id"]?.string, let isOpen = value["is_open"]?.bool,
            let isInConversation = value["is_in_conversation"]?.bool,
            let hasLostCallID = value["has_lost_call_id"]?.bool
        else { return nil }
        self.init(
            id: id, name: name, callID: callID, responseID: "", outputIndex: 0,
            previousID: value["previous"]?.string, stage: isOpen ? .open : .over,
            isInConversation: isInConversation, hasLostCallID: hasLostCallID)
    }
}
