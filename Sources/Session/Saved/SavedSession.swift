// The state of a session that another process needs to go on with it, and its form in a store: one
// field for the head, and one for each item, so that an item is written once and not with every
// change. VoiceSession+Saving makes it, VoiceSession+Restoring uses it.
//
// Not in it: audio of the user that no turn has taken or that is being recognised, responses outside
// of the conversation, and the connections of MCP servers, which are made anew.
//
// Invariant: a state that was read has only values within their ranges. An item that is missing or
// cannot be read is left out: one strange item does not cost the conversation.

import Codec

/// A session between two processes.
public struct SavedSession: Equatable, Sendable {
    /// The form that this server writes, and the only one that it reads.
    static let version = 1
    /// The most bytes of a head that are read: settings and agents' states with room for escapes.
    static let maxHeadBytes = 16 << 20
    /// The most items that are read; `JSONLimits.maxValues` is as many.
    private static let maxItems = 1 << 16
    private static let headName = "head"
    private static let itemPrefix = "item:"

    /// `sess_…`
    public let id: String
    let conversationID: String
    /// The settings in force.
    public internal(set) var parameters: SessionParameters
    /// All items of the conversation, in order.
    public internal(set) var itemIDs: [String]
    /// How many items at the front are not shown to a model any more.
    var hiddenItems = 0
    /// Whether any speech of a reply has come, which settles the voice.
    var hasSpoken = false
    /// Whether the session waits for the user after a reply.
    var isQuiet = false
    /// Whether the user's words, or results of tools, are not answered.
    var isTurnUnanswered = false
    /// Items whose words are being recognised.
    var awaitedIDs: [String] = []
    /// What agents want back, the newest last.
    var memory: [AgentMemory.Kept] = []
    /// What the client has not heard; nil: it has heard all.
    var reply: UnheardReply?
    /// The items that this state has, by id. Of a state that was read these are all.
    var items: [String: SavedItem] = [:]

    init(
        id: String, conversationID: String, parameters: SessionParameters, itemIDs: [String]
    ) {
        self.id = id
        self.conversationID = conversationID
        self.parameters = parameters
        self.itemIDs = itemIDs
    }

    /// The name of an item's field.
    public static func fieldName(ofItem id: String) -> String { itemPrefix + id }

    // MARK: Writing

    /// The fields of a record in a store: the head, and the items that this state has.
    public func fields() -> [(name: String, value: [UInt8])] {
        let head = JSONWriter.saved { writeHead(into: &$0) }
        let items = itemIDs.compactMap { id in
            self.items[id].map { (name: Self.fieldName(ofItem: id), value: $0.bytes) }
        }
        return [(name: Self.headName, value: head)] + items
    }

    private func writeHead(into json: inout JSONWriter) {
        json.member("version", Self.version)
        json.member("id", id)
        json.member("conversation_id", conversationID)
        json.key("settings")
        json.savedSettings(parameters)
        json.texts("items", itemIDs)
        json.member("hidden_items", hiddenItems)
        json.member("has_spoken", hasSpoken)
        json.member("is_quiet", isQuiet)
        json.member("is_turn_unanswered", isTurnUnanswered)
        json.texts("awaited", awaitedIDs)
        json.array("memory") { json in
            for kept in memory { kept.write(into: &json) }
        }
        guard let reply else { return }
        json.key("reply")
        reply.write(into: &json)
    }

    // MARK: Reading

    /// Reads a record. Fields that are none of a session's are ignored.
    public init(fields: [String: [UInt8]]) throws(SavedSessionError) {
        guard let head = fields[Self.headName] else { throw .headMissing }
        guard head.count <= Self.maxHeadBytes else { throw .tooLarge(bytes: head.count) }
        let parser = JSONParser()
        try self.init(head: try SavedFields(try parser.parse(saved: head), "head"))
        for id in itemIDs {
            guard let bytes = fields[Self.fieldName(ofItem: id)],
                let saved = try? SavedItem(bytes, parser), saved.item.id == id
            else { continue }
            items[id] = saved
        }
        var seen: Set<String> = []
        let hidden = itemIDs.prefix(hiddenItems)
        hiddenItems = Set(hidden).intersection(items.keys).count
        itemIDs.removeAll { items[$0] == nil || !seen.insert($0).inserted }
    }

    private init(head fields: SavedFields) throws(SavedSessionError) {
        let version = fields.object["version"]?.int
        guard version == Self.version else { throw .version(version) }
        id = try fields.id("id")
        conversationID = try fields.id("conversation_id")
        let settings = try fields.required("settings")
        do throws(ClientEventError) {
            parameters = try SessionParameters(saved: settings)
        } catch { throw .settings(error) }
        itemIDs = try fields.ids("items", atMost: Self.maxItems)
        hiddenItems = try fields.integer("hidden_items", in: 0...itemIDs.count)
        hasSpoken = try fields.bool("has_spoken")
        isQuiet = try fields.bool("is_quiet")
        isTurnUnanswered = try fields.bool("is_turn_unanswered")
        awaitedIDs = try fields.ids("awaited", atMost: Self.maxItems)
        memory = try fields.list("memory", atMost: 2) { (value) throws(SavedSessionError) in
            try AgentMemory.Kept(try SavedFields(value, "memory"))
        }
        if let reply = fields.object["reply"], !reply.isNull {
            self.reply = try UnheardReply(try SavedFields(reply, "reply"))
        }
    }
}

extension AgentMemory.Kept {
    fileprivate func write(into json: inout JSONWriter) {
        json.object { json in
            json.member("provider", provider)
            json.member("text", text)
            json.member("last_item_id", lastItemID)
            json.member("is_history_kept", isHistoryKept)
            json.member("was_heard", wasHeard)
        }
    }

    fileprivate init(_ fields: SavedFields) throws(SavedSessionError) {
        self.init(
            provider: try fields.text("provider"),
            text: try fields.text("text", atMost: AgentMemory.maxBytes),
            lastItemID: try fields.id("last_item_id"),
            isHistoryKept: try fields.bool("is_history_kept"),
            wasHeard: try fields.bool("was_heard"))
    }
}
