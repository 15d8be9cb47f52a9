// The conversation of one session: its items in order, and the part of them that the model is
// shown. ConversationEntry stores an item, KeptAudio its audio. VoiceSession emits the events of
// items.
//
// Invariant: `contextStart` is at most the number of items, and only moves forward, but for items
// that come or go before it.

import Codec

/// Items in order, with unique ids, bounded in number and in text.
struct Conversation {
    /// Why an item cannot be added, found or cut; becomes an `error` event.
    enum Failure: Error, Equatable {
        case duplicateID, previousItemMissing, itemMissing, full
        /// `audio_end_ms` is past the item's audio, or the part is no spoken one.
        case notTruncatable(audioMilliseconds: Int)
    }

    /// How much of an assistant's transcript had been said when its audio reached a point.
    struct SpokenMark: Equatable {
        /// UTF-8 bytes of the transcript.
        var transcriptBytes: Int
        /// Milliseconds of the item's audio.
        var audioMilliseconds: Int
    }

    /// When an assistant's words were spoken, once the item is done.
    struct Speech: Equatable {
        /// Ends of the spoken clauses, in order.
        var marks: [SpokenMark] = []
        /// Milliseconds that were sent.
        var sentMilliseconds = 0
        /// The whole transcript, where the server has cut it: the client may know better.
        var wholeTranscript: String?
        /// Where the server has cut it, in milliseconds of its audio.
        var cutMilliseconds: Int?
        /// Whether the transcript was cut at what was heard, by the server or the client.
        var isCut = false
    }

    private var entries: [ConversationEntry] = []
    private var audio: KeptAudio
    private let maxItems: UInt32
    /// Texts that agents get back with later requests. Nil until an agent has given one.
    private var agents: AgentMemory?
    /// UTF-8 bytes of all items' text.
    private(set) var textBytes = 0
    /// Bytes of the entries on the heap, kept up to date as they come and go.
    private var entryBytes = 0
    private let maxBytes: Int
    /// `contextStart` in four bytes. It is the last property, so that the session's next small
    /// number lies beside it.
    private var shownFrom: UInt32 = 0

    /// - Parameter maxAudioBytes: of users' audio that is kept for clients who ask for an item.
    init(maxItems: Int, maxBytes: Int, maxAudioBytes: Int = 0) {
        self.maxItems = UInt32(clamping: maxItems)
        self.maxBytes = maxBytes
        audio = KeptAudio(maxBytes: maxAudioBytes)
    }

    /// The first item that a model is still shown; those before it have been truncated.
    private var contextStart: Int {
        get { Int(shownFrom) }
        set { shownFrom = UInt32(newValue) }
    }

    /// Whether another item, of this many bytes, would be within the limits.
    func hasRoom(forBytes bytes: Int) -> Bool {
        entries.count < maxItems && bytes <= maxBytes - min(textBytes, maxBytes)
            && textBytes < maxBytes
    }
    /// Whether the newest item is a turn of the user without words.
    var isNewestWithoutWords: Bool { entries.last?.item.isWithoutWords == true }
    /// Whether all that the user has said since the last item of another kind are turns without words.
    var endsWithoutWords: Bool {
        guard isNewestWithoutWords else { return false }
        for entry in entries.reversed() {
            guard case .message(role: .user, _) = entry.item.kind else { return true }
            guard entry.item.isWithoutWords else { return false }
        }
        return true
    }
    /// The newest item's id.
    var lastItemID: String? { entries.last?.id }

    /// Whether the newest item is a function call, or its result: the model goes on once it has the
    /// result.
    var endsInFunctionCall: Bool {
        switch entries.last?.item.kind {
        case .functionCall: entries.last?.item.status != .incomplete
        case .functionCallOutput: true
        case .mcp(.approvalRequest): true
        case .message, .mcp, .reference, nil: false
        }
    }

    /// All items, oldest first.
    var items: [ConversationItem] { entries.map(\.item) }

    /// Calls of the client's functions that have no output yet.
    var unansweredCallIDs: [String] {
        var answered: Set<String> = []
        var open: [String] = []
        // From the end: an output answers the calls before it.
        for entry in entries.reversed() {
            if let callID = entry.answeredCallID { answered.insert(callID) }
            guard let callID = entry.callID, entry.isFinished, !answered.contains(callID)
            else { continue }
            open.append(callID)
        }
        return open.reversed()
    }

    /// Whether there is a function call with this id; searched from the end, where the open ones are.
    func hasCall(_ callID: String) -> Bool { entries.reversed().contains { $0.callID == callID } }

    /// The item with an id.
    func item(_ id: String) -> ConversationItem? { index(of: id).map { entries[$0].item } }

    /// Inserts an item after `previousItemID`; nil appends, `"root"` puts it first.
    /// - Returns: the id of the item before it, or nil when it is the first.
    @discardableResult
    mutating func insert(
        _ item: ConversationItem, after previousItemID: String?
    ) throws(Failure) -> String? {
        let bytes = item.textBytes
        guard hasRoom(forBytes: bytes) else { throw .full }
        if index(of: item.id) != nil { throw .duplicateID }
        var position = entries.count
        if previousItemID == "root" {
            position = 0
        } else if let previousItemID {
            guard let previous = index(of: previousItemID) else { throw .previousItemMissing }
            position = previous + 1
        }
        let entry = ConversationEntry(item)
        entries.insert(entry, at: position)
        noteEdit(at: position)
        if position < contextStart { contextStart += 1 }
        textBytes += bytes
        entryBytes += entry.heldBytes
        return position == 0 ? nil : entries[position - 1].id
    }

    /// Appends an item that the server made. The limits do not apply to it.
    /// - Returns: the id of the item before it, or nil when it is the first.
    mutating func append(_ item: ConversationItem) -> String? {
        defer {
            let entry = ConversationEntry(item)
            entries.append(entry)
            textBytes += item.textBytes
            entryBytes += entry.heldBytes
        }
        return entries.last?.id
    }

    /// Removes the oldest item; returns its id, or nil when there is none.
    mutating func removeOldest() -> String? {
        guard let oldest = entries.first?.id else { return nil }
        remove(at: 0)
        return oldest
    }

    /// Removes an item.
    mutating func remove(_ id: String) throws(Failure) {
        guard let index = index(of: id) else { throw .itemMissing }
        noteEdit(at: index)
        remove(at: index)
    }

    private mutating func remove(at index: Int) {
        audio.remove(entries[index].id)
        textBytes -= entries[index].textBytes
        entryBytes -= entries[index].heldBytes
        entries.remove(at: index)
        if index < contextStart { contextStart -= 1 }
    }

    /// Replaces an item that is still there with its final form. An item that the client deleted
    /// meanwhile stays deleted.
    mutating func update(_ item: ConversationItem, speech: Speech = Speech()) {
        guard let index = index(of: item.id) else { return }
        textBytes -= entries[index].textBytes
        entryBytes -= entries[index].heldBytes
        entries[index].set(item, speech: speech)
        textBytes += entries[index].textBytes
        entryBytes += entries[index].heldBytes
    }

    /// Sets the transcript of a user's audio item.
    mutating func setTranscript(_ transcript: String, of id: String) {
        guard let index = index(of: id),
            case .message(role: .user, content: var content) = entries[index].item.kind
        else { return }
        for (position, part) in content.enumerated() {
            if case .inputAudio = part {
                content[position] = .inputAudio(bytes: [], transcript: transcript)
            }
        }
        var item = entries[index].item
        item.kind = .message(role: .user, content: content)
        update(item)
    }

    /// Cuts an assistant's speech at what was heard; its transcript ends at a word.
    /// - Parameter isFinal: whether the words that are cut off are forgotten. Where the server only
    ///   estimates how much was heard, a later report of the client counts, even if it is more.
    /// - Returns: the rest of the transcript.
    @discardableResult
    mutating func truncate(
        _ id: String, contentIndex: Int, audioMilliseconds: Int, isFinal: Bool = true
    ) throws(Failure) -> String {
        guard let index = index(of: id) else { throw .itemMissing }
        guard case .message(role: .assistant, content: var content) = entries[index].item.kind,
            content.indices.contains(contentIndex),
            case .outputAudio(let newest) = content[contentIndex]
        else { throw .notTruncatable(audioMilliseconds: 0) }
        var speech = entries[index].speech
        let transcript = speech.wholeTranscript ?? newest
        guard audioMilliseconds <= speech.sentMilliseconds else {
            throw .notTruncatable(audioMilliseconds: speech.sentMilliseconds)
        }
        let heard = Self.heard(
            transcript, marks: speech.marks, audioMilliseconds: audioMilliseconds)
        content[contentIndex] = .outputAudio(transcript: heard)
        var item = entries[index].item
        item.kind = .message(role: .assistant, content: content)
        if isFinal {
            let cut = SpokenMark(
                transcriptBytes: heard.utf8.count, audioMilliseconds: audioMilliseconds)
            let before = speech.marks.filter { $0.audioMilliseconds < audioMilliseconds }
            speech = Speech(marks: before + [cut], sentMilliseconds: audioMilliseconds)
        } else {
            speech.wholeTranscript = transcript
            speech.cutMilliseconds = audioMilliseconds
        }
        speech.isCut = heard != transcript
        if speech.isCut { agents?.handleCut { isItem(at: index, after: $0) } }
        update(item, speech: speech)
        return heard
    }

    /// Cuts an assistant's speech at the estimate of what was heard. A later report of the client
    /// counts, even if it is more.
    /// - Returns: where the item ends now, and its words up to there. Nil means no change.
    mutating func cutAtHeard(
        _ id: String, milliseconds: Int
    ) -> (milliseconds: Int, transcript: String)? {
        guard let before = words(of: id), milliseconds < before.speech.cutMilliseconds ?? .max
        else { return nil }
        let end = min(milliseconds, before.speech.sentMilliseconds)
        guard
            let heard = try? truncate(
                id, contentIndex: 0, audioMilliseconds: end, isFinal: false),
            milliseconds < before.speech.sentMilliseconds || heard != before.text
        else { return nil }
        return (end, heard)
    }

    /// Cuts an assistant's text, which the client's carrier has spoken, at the words heard.
    /// - Parameter words: as the client reports them. Empty means that nothing was heard.
    /// - Returns: the rest of the text. Nil means that it is unchanged.
    mutating func cutText(of id: String, heard words: String) -> String? {
        guard let index = index(of: id),
            case .message(role: .assistant, content: let content) = entries[index].item.kind,
            content.count == 1, case .outputText(let text) = content[0],
            let heard = HeardWords.prefix(of: text, through: words), heard != text
        else { return nil }
        var item = entries[index].item
        item.kind = .message(role: .assistant, content: [.outputText(heard)])
        var speech = entries[index].speech
        speech.isCut = true
        agents?.handleCut { isItem(at: index, after: $0) }
        update(item, speech: speech)
        return heard
    }

    /// The text of the newest message of the assistant, as far as it was heard.
    var newestReply: String? {
        guard let entry = entries.last(where: \.isReply),
            case .message(_, let content) = entry.item.kind
        else { return nil }
        return content.lazy.compactMap { part in
            switch part {
            case .outputText(let text), .outputAudio(let text): text
            default: nil
            }
        }.first
    }

    /// The newest message of the assistant, or nil where the user has written or spoken since.
    var newestReplyID: String? {
        let newest = entries.last { $0.isReply || $0.isOfUser }
        return newest?.isReply == true ? newest?.id : nil
    }

    /// The words of an assistant's spoken item, and when they were spoken. Nil where there is no
    /// such item.
    func words(of id: String) -> (text: String, speech: Speech)? {
        guard let index = index(of: id),
            case .message(role: .assistant, content: let content) = entries[index].item.kind,
            case .outputAudio(let transcript)? = content.first
        else { return nil }
        let speech = entries[index].speech
        return (speech.wholeTranscript ?? transcript, speech)
    }

    /// The silence that a clause begins with, in milliseconds; a quarter of a short one. 200: the
    /// embedded voice's median (130…290). A voice that begins at once loses a word too many rather
    /// than keeping one that was not heard (LoadTests/RESULTS.md).
    private static let clauseSilence = 200

    /// The words of a transcript that had been spoken at a point of its audio. Whole clauses count
    /// by their marks. The clause in progress counts in proportion, back to its last whole word.
    static func heard(
        _ transcript: String, marks: [SpokenMark], audioMilliseconds: Int
    ) -> String {
        var before = SpokenMark(transcriptBytes: 0, audioMilliseconds: 0)
        for mark in marks {
            TextSteps.note()
            if mark.audioMilliseconds > audioMilliseconds {
                let whole = mark.audioMilliseconds - before.audioMilliseconds
                let silence = min(clauseSilence, whole / 4)
                let share = max(0, audioMilliseconds - before.audioMilliseconds - silence)
                let length = whole - silence
                let bytes = mark.transcriptBytes - before.transcriptBytes
                return prefix(
                    of: transcript, bytes: before.transcriptBytes + bytes * share / length)
            }
            before = mark
        }
        return prefix(of: transcript, bytes: before.transcriptBytes)
    }

    private static func prefix(of transcript: String, bytes: Int) -> String {
        let text = transcript.utf8
        guard bytes < text.count else { return transcript }
        var end = text.index(text.startIndex, offsetBy: bytes)
        while end > text.startIndex, text[end] > 32 {
            TextSteps.note()
            end = text.index(before: end)
        }
        while end > text.startIndex, text[text.index(before: end)] <= 32 {
            end = text.index(before: end)
        }
        return String(transcript[..<end])
    }

    // MARK: What a model is shown

    /// The conversation as messages to a model, oldest first. Left out are audio without a
    /// transcript, calls whose arguments are not complete, and outputs of calls that were truncated.
    func modelMessages() -> [ModelMessage] {
        // All items that were shown may have been deleted.
        contextStart < entries.count ? modelMessages(in: contextStart...entries.count - 1) : []
    }

    private func modelMessages(in range: ClosedRange<Int>) -> [ModelMessage] {
        let truncatedCalls = Set(entries[..<contextStart].compactMap(\.callID))
        let outcomes = approvalOutcomes
        return entries[range].flatMap { entry in
            if let callID = entry.answeredCallID, truncatedCalls.contains(callID) {
                return [ModelMessage]()
            }
            return messages(of: entry, outcomes)
        }
    }

    /// Outcomes of the calls whose question to the user is in the context, by the question's id.
    private var approvalOutcomes: [String: String] {
        var outcomes: [String: String] = [:]
        for entry in entries[contextStart...] {
            if let (id, item) = entry.mcpItem { item.note(id: id, in: &outcomes) }
        }
        return outcomes
    }

    /// Keeps the memento of an agent, with the last item of its reply.
    mutating func keep(memento text: String, of provider: String, upTo itemID: String) {
        guard text.utf8.count <= AgentMemory.maxBytes, index(of: itemID) != nil else { return }
        let kept = AgentMemory.Kept(provider: provider, text: text, lastItemID: itemID)
        if let agents { agents.keep(kept) } else { agents = AgentMemory(kept) }
    }

    /// Texts that agents get back, with how many of the messages to a model each of them knows.
    var mementos: [AgentMemento] {
        guard let agents else { return [] }
        return agents.all.map { kept in
            AgentMemento(
                provider: kept.provider, text: kept.text,
                knownMessages: kept.isHistoryKept ? messageCount(upTo: kept.lastItemID) : nil,
                wasHeard: kept.wasHeard)
        }
    }

    private func messageCount(upTo itemID: String) -> Int? {
        guard let last = index(of: itemID), last >= contextStart else { return nil }
        return modelMessages(in: contextStart...last).count
    }

    /// Notes that an item came or went. Items at the end change nothing that an agent knows.
    private func noteEdit(at index: Int) {
        agents?.handleEdit { isItem(at: index, after: $0) }
    }

    private func isItem(at index: Int, after itemID: String) -> Bool {
        self.index(of: itemID).map { index > $0 } ?? false
    }

    /// How much of the newest reply was heard, for an agent that has written more of it. Nil where
    /// no part of it was cut off.
    var heardReply: HeardReply? {
        guard let reply = entries.last(where: \.isReply), reply.isCut else { return nil }
        return HeardReply(itemID: reply.id, characters: reply.text.unicodeScalars.count)
    }

    /// One item as messages to a model, or nil where there is no such item.
    func modelMessages(of id: String) -> [ModelMessage]? {
        index(of: id).map { messages(of: entries[$0], approvalOutcomes) }
    }

    private func messages(
        of entry: ConversationEntry, _ outcomes: [String: String]
    ) -> [ModelMessage] {
        let item = entry.item
        if item.isUnfinishedCall { return [] }
        if case .mcp(let mcp) = item.kind {
            return mcp.modelMessages(id: item.id, outcomes: outcomes) { self.item($0) }
        }
        return item.modelMessages(heard: audio.heard(of: entry.id))
    }

    /// If the messages to a model take more than `limit` tokens, leaves the oldest items out until
    /// they take `target`. The newest item stays, and the call that it answers.
    /// - Returns: whether it takes no more than `limit` now.
    mutating func fitContext(limit: Int, target: Int) -> Bool {
        var tokens = contextTokens
        guard tokens > limit else { return true }
        let newest = newestExchange
        while contextStart < newest, tokens > target {
            let entry = entries[contextStart]
            tokens -= TokenEstimate.item(entry, heard: audio.heard(of: entry.id))
            contextStart += 1
        }
        return tokens <= limit
    }

    /// Estimated tokens of all that a model is shown.
    var contextTokens: Int {
        entries[contextStart...].reduce(0) {
            $0 + TokenEstimate.item($1, heard: audio.heard(of: $1.id))
        }
    }

    /// The position of the newest item, or of the first call that the newest items answer.
    private var newestExchange: Int {
        var calls: Set<String> = []
        for entry in entries.reversed() {
            guard let callID = entry.answeredCallID else { break }
            calls.insert(callID)
        }
        let first = entries.firstIndex { entry in entry.callID.map(calls.contains) ?? false }
        return first ?? entries.count - 1
    }

    // MARK: Audio

    /// Bytes of audio that is kept.
    var audioBytes: Int { audio.heldBytes }

    /// Bytes of the whole conversation: items, their words, and audio.
    var heldBytes: Int {
        entries.heapBytes + entryBytes + audio.heldBytes + (agents?.heldBytes ?? 0)
    }

    /// Whether the audio of a user's item is kept.
    func holdsAudio(of id: String) -> Bool { audio.holdsAudio(of: id) }

    /// The audio of a user's item, while it is kept.
    func audio(of id: String) -> HeardAudio? { audio.audio(of: id) }

    /// Keeps the audio of a user's newest item.
    /// - Parameter maxSamples: how much audio a model that hears is given, of this item and of
    ///   earlier ones without a transcript. Nil where it is given none.
    mutating func keep(_ heard: HeardAudio, of id: String, forModel maxSamples: Int?) {
        guard index(of: id) != nil else { return }
        audio.keep(heard, of: id, isForModel: maxSamples != nil)
        guard let maxSamples else { return }
        let entries = entries
        audio.forgetHeard(beyond: maxSamples) { id in
            entries.last { $0.id == id }?.item.isWithoutWords ?? false
        }
    }

    /// The audio of an item is not given to a model.
    mutating func forgetHeard(of id: String) { audio.forgetHeard(of: id) }

    // MARK: Saving

    /// The ids of all items, oldest first.
    var itemIDs: [String] { entries.map(\.id) }

    /// How many items at the front are not shown to a model any more.
    var hiddenItems: Int { contextStart }

    /// All that agents want back, the newest last.
    var memory: [AgentMemory.Kept] { agents?.kept ?? [] }

    /// An item with the times of its speech.
    func stored(_ id: String) -> (item: ConversationItem, speech: Speech)? {
        index(of: id).map { (entries[$0].item, entries[$0].speech) }
    }

    /// Takes over stored items, in order, and what agents want back with them. The oldest of more
    /// than the limits allow are left out.
    mutating func restore(
        _ stored: [(item: ConversationItem, speech: Speech)], hiddenItems: Int,
        memory: [AgentMemory.Kept]
    ) {
        for (item, speech) in stored {
            _ = append(item)
            update(item, speech: speech)
        }
        contextStart = min(max(0, hiddenItems), entries.count)
        while entries.count > maxItems || textBytes > maxBytes { remove(at: 0) }
        for kept in memory {
            if let agents { agents.keep(kept) } else { agents = AgentMemory(kept) }
        }
    }

    /// Notes that at least this much of an item's audio was sent.
    mutating func noteSent(_ id: String, milliseconds: Int) {
        guard let (item, stored) = stored(id), stored.sentMilliseconds < milliseconds else {
            return
        }
        var speech = stored
        speech.sentMilliseconds = milliseconds
        update(item, speech: speech)
    }

    /// The assistant's spoken items, from the given one on, that were not cut, each with how much
    /// of its audio was sent. Nil means that there is no such item, or that the user has written or
    /// spoken since.
    func spokenItems(from id: String) -> [(id: String, sent: Int)]? {
        guard let first = index(of: id) else { return nil }
        var spoken: [(id: String, sent: Int)] = []
        for entry in entries[first...] {
            if entry.isOfUser { return nil }
            guard entry.isSpokenReply, !entry.speech.isCut else { continue }
            spoken.append((entry.id, entry.speech.sentMilliseconds))
        }
        return spoken
    }

    /// Whether an item comes after another.
    func isItem(_ id: String, after other: String) -> Bool {
        index(of: id).map { isItem(at: $0, after: other) } ?? false
    }

    /// The position of an item; searched from the end, where the items in use are.
    private func index(of id: String) -> Int? { entries.lastIndex { $0.id == id } }
}

extension ConversationItem {
    /// Whether it is a function call whose arguments are still being written, or were cut off.
    fileprivate var isUnfinishedCall: Bool {
        guard case .functionCall = kind else { return false }
        return status != .completed
    }

    /// UTF-8 bytes of the text in the item.
    public var textBytes: Int {
        switch kind {
        case .message(_, let content):
            content.reduce(0) { sum, part in
                switch part {
                case .inputText(let text), .outputText(let text), .outputAudio(let text):
                    sum + text.utf8.count
                case .inputImage(let url, _): sum + url.utf8.count
                case .inputAudio(let bytes, let transcript):
                    sum + bytes.count + (transcript?.utf8.count ?? 0)
                }
            }
        case .functionCall(let callID, let name, let arguments):
            callID.utf8.count + name.utf8.count + arguments.utf8.count
        case .functionCallOutput(let callID, let output): callID.utf8.count + output.utf8.count
        case .reference: 0
        case .mcp(let item): item.textBytes
        }
    }
}

extension Conversation.Failure {
    /// The error that the client receives.
    /// - Parameter action: the last word of the event's type: `create`, `delete`, `retrieve` or
    ///   `truncate`.
    func clientEventError(itemID: String, action: String) -> ClientEventError {
        switch self {
        case .duplicateID:
            ClientEventError(
                code: "item_create_duplicate_item_id",
                message: "An item with the id '\(itemID)' already exists.", param: "item.id")
        case .previousItemMissing:
            ClientEventError(
                code: "item_create_invalid_previous_item_id",
                message: "The previous_item_id does not name an item of this conversation.",
                param: "previous_item_id")
        case .itemMissing:
            ClientEventError(
                code: "item_\(action)_invalid_item_id",
                message: "Error \(action == "retrieve" ? "retrieving" : action) item: the item "
                    + "with id '\(itemID)' does not exist.", param: "item_id")
        case .full:
            ClientEventError(
                code: "conversation_full",
                message: "The conversation has reached its limit of items or text: delete items.",
                param: "item")
        case .notTruncatable(let milliseconds):
            ClientEventError(
                code: "invalid_value",
                message: "Only an assistant's spoken audio can be truncated, and only within it: "
                    + "this part has \(milliseconds) ms.", param: "audio_end_ms")
        }
    }
}
