// The state of a session that another process needs to go on with it, and its form in a store.
// Parts that change at different times are in different fields: the head, the settings, the order
// of the items, the texts that agents get back, and one field for each item. The head is small: how
// much was heard, and which response is to follow. VoiceSession+Saving makes the state,
// VoiceSession+Restoring uses it.
//
// Not in it: audio of the user that no turn has taken or that is being recognised, and the words of
// responses outside of the conversation. Questions about calls that the client has not answered are
// not in it either. Nor are the connections of MCP servers, which are made anew.
//
// Invariant: a state that was read has only values within their ranges. An item that is missing or
// cannot be read is left out: one strange item does not cost the conversation.

import Codec

/// A session between two processes.
public struct SavedSession: Equatable, Sendable {
    /// The form that this server writes, and the only one that it reads.
    static let version = 1
    /// The most bytes of a field that are read: settings and agents' states with room for escapes.
    static let maxFieldBytes = 16 << 20
    /// The most items that are read, the same number as `JSONLimits.maxValues`.
    private static let maxItems = 1 << 16
    /// The most responses in flight that are read.
    private static let maxResponses = 256
    private static let headName = "head"
    private static let settingsName = "settings"
    private static let orderName = "order"
    private static let memoryName = "memory"
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
    /// The name of its agent, if it has one.
    public internal(set) var agent: String?
    /// Whether any speech of a reply has come, which settles the voice.
    var hasSpoken = false
    /// The language that was heard, once it is settled.
    var language: String?
    /// Whether the session waits for the user after a reply.
    var isQuiet = false
    /// Whether the user's words, or results of tools, are not answered.
    var isTurnUnanswered = false
    /// Items whose words are being recognised.
    var awaitedIDs: [String] = []
    /// The texts that agents get back, the newest last.
    var memory: [AgentMemory.Kept] = []
    /// The response in flight in the conversation, which ends with this process.
    var responseID: String?
    /// Responses in flight outside of it, which end too.
    var otherResponseIDs: [String] = []
    /// The reply that the client has not heard to its end. Nil means that it has heard all.
    var reply: UnheardReply?
    /// Whether speech is sent or being sent that the client has not heard, so that `reply` changes
    /// with time alone.
    public var hasUnheardSpeech: Bool { reply?.parts.isEmpty == false }
    /// The items that this state has, by id. A state that was read has all of them.
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

    /// The parts that are written, because they have changed.
    public struct Parts: OptionSet, Sendable {
        /// A bit for each part.
        public let rawValue: UInt8
        /// The parts of these bits.
        public init(rawValue: UInt8) { self.rawValue = rawValue }

        /// The head: how much was heard, and which response is to follow. Some hundred bytes.
        public static let head = Parts(rawValue: 1)
        /// The settings, which `session.update` changes.
        public static let settings = Parts(rawValue: 2)
        /// The ids of the items, which change with each item that comes or goes.
        public static let order = Parts(rawValue: 4)
        /// The texts of agents, which change with the end of a response and when items go.
        public static let memory = Parts(rawValue: 8)
        /// Everything, as at the first time.
        public static let all: Parts = [.head, .settings, .order, .memory]
    }

    /// The fields of a record in a store.
    /// - Parameter parts: the parts that the caller needs. The items that this state has are always
    ///   among them.
    public func fields(_ parts: Parts = .all) -> [(name: String, value: [UInt8])] {
        var fields: [(name: String, value: [UInt8])] = []
        if parts.contains(.head) {
            fields.append((Self.headName, JSONWriter.saved { writeHead(into: &$0) }))
        }
        if parts.contains(.settings) {
            let settings = JSONWriter.saved { json in
                json.key("settings")
                json.savedSettings(parameters)
            }
            fields.append((Self.settingsName, settings))
        }
        if parts.contains(.order) {
            fields.append((Self.orderName, JSONWriter.saved { $0.texts("items", itemIDs) }))
        }
        if parts.contains(.memory) {
            let memory = JSONWriter.saved { json in
                json.array("memory") { json in
                    for kept in self.memory { kept.write(into: &json) }
                }
            }
            fields.append((Self.memoryName, memory))
        }
        for id in itemIDs {
            guard let item = items[id] else { continue }
            fields.append((Self.fieldName(ofItem: id), item.bytes))
        }
        return fields
    }

    private func writeHead(into json: inout JSONWriter) {
        json.member("version", Self.version)
        json.member("id", id)
        json.member("conversation_id", conversationID)
        json.member("hidden_items", hiddenItems)
        json.member("has_spoken", hasSpoken)
        json.member("is_quiet", isQuiet)
        json.member("is_turn_unanswered", isTurnUnanswered)
        json.texts("awaited", awaitedIDs)
        if let agent { json.member("agent", agent) }
        if let language { json.member("language", language) }
        if let responseID { json.member("response", responseID) }
        json.texts("other_responses", otherResponseIDs)
        guard let reply else { return }
        json.key("reply")
        reply.write(into: &json)
    }

    // MARK: Reading

    /// Reads a record. Fields that do not belong to a session are ignored.
    public init(fields: [String: [UInt8]]) throws(SavedSessionError) {
        let parser = JSONParser()
        let settings = try Self.settings(fields, parser)
        let order = try Self.read(Self.orderName, of: fields, parser)
            .ids("items", atMost: Self.maxItems)
        let memory = try Self.read(Self.memoryName, of: fields, parser)
            .list("memory", atMost: 2) { (value) throws(SavedSessionError) in
                try AgentMemory.Kept(try SavedFields(value, "memory"))
            }
        let head = try Self.read(Self.headName, of: fields, parser)
        try self.init(head: head, settings, order: order)
        self.memory = memory
        for id in order {
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

    private init(
        head fields: SavedFields, _ parameters: SessionParameters, order: [String]
    ) throws(SavedSessionError) {
        let version = fields.object["version"]?.int
        guard version == Self.version else { throw .version(version) }
        id = try fields.id("id")
        conversationID = try fields.id("conversation_id")
        self.parameters = parameters
        itemIDs = order
        // The order may be newer: items may have come or gone since this was written.
        hiddenItems = min(
            order.count, try fields.integer("hidden_items", in: 0...PlayedAudio.longest))
        hasSpoken = try fields.bool("has_spoken")
        isQuiet = try fields.bool("is_quiet")
        isTurnUnanswered = try fields.bool("is_turn_unanswered")
        awaitedIDs = try fields.ids("awaited", atMost: Self.maxItems)
        if fields.object["agent"] != nil { agent = try fields.id("agent") }
        if fields.object["language"] != nil { language = try fields.id("language") }
        if fields.object["response"] != nil { responseID = try fields.id("response") }
        otherResponseIDs = try fields.ids("other_responses", atMost: Self.maxResponses)
        if let reply = fields.object["reply"], !reply.isNull {
            self.reply = try UnheardReply(try SavedFields(reply, "reply"))
        }
    }

    private static func settings(
        _ fields: [String: [UInt8]], _ parser: JSONParser
    ) throws(SavedSessionError) -> SessionParameters {
        let value = try read(settingsName, of: fields, parser).required("settings")
        do throws(ClientEventError) { return try SessionParameters(saved: value) } catch {
            throw .settings(error)
        }
    }

    private static func read(
        _ name: String, of fields: [String: [UInt8]], _ parser: JSONParser
    ) throws(SavedSessionError) -> SavedFields {
        guard let bytes = fields[name] else { throw .missing(name) }
        guard bytes.count <= maxFieldBytes else { throw .tooLarge(bytes: bytes.count) }
        return try SavedFields(try parser.parse(saved: bytes), "a field of the record")
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
