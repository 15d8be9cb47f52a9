// One item of a saved conversation: the item, and when its words were spoken. It is written where
// the item changes, so it has nothing about the others.
//
// Invariant: numbers of speech are within a range in which no arithmetic overflows.

import Codec

/// An item as it is saved.
struct SavedItem: Equatable, Sendable {
    /// The most bytes of one that are read: an image as large as the protocol takes, with room for
    /// escapes.
    static let maxBytes = 2 * ClientEventLimits.maxImageBytes
    /// Ends of clauses that are read at most; more than the most words of a response.
    private static let maxMarks = 1 << 16

    var item: ConversationItem
    var speech = Conversation.Speech()

    /// The item as JSON.
    var bytes: [UInt8] {
        var written = item
        let isWordless = Self.fillWords(of: &written)
        return JSONWriter.saved { json in
            json.key("item")
            json.savedItem(written)
            if isWordless { json.member("is_wordless", true) }
            // The protocol's items about MCP have no status.
            if case .mcp = item.kind, item.status != .completed {
                json.member("status", item.status.rawValue)
            }
            if speech != Conversation.Speech() {
                json.key("speech")
                json.savedSpeech(speech)
            }
        }
    }

    init(item: ConversationItem, speech: Conversation.Speech = Conversation.Speech()) {
        self.item = item
        self.speech = speech
    }

    /// Reads an item.
    init(_ bytes: [UInt8], _ parser: JSONParser) throws(SavedSessionError) {
        guard bytes.count <= Self.maxBytes else { throw .tooLarge(bytes: bytes.count) }
        let fields = try SavedFields(try parser.parse(saved: bytes), "item")
        let value = try fields.required("item")
        do throws(ClientEventError) {
            item = try ConversationItem(saved: value)
        } catch { throw .malformed(error.param ?? "item") }
        if fields.object["is_wordless"]?.bool == true { Self.takeWords(of: &item) }
        if let status = fields.object["status"]?.string {
            guard let status = ConversationItem.Status(rawValue: status) else {
                throw .malformed("status")
            }
            item.status = status
        }
        guard let speech = fields.object["speech"], !speech.isNull else { return }
        self.speech = try Self.speech(try SavedFields(speech, "speech"))
    }

    private static func speech(
        _ fields: SavedFields
    ) throws(SavedSessionError) -> Conversation.Speech {
        var speech = Conversation.Speech()
        let limits = ClientEventLimits.maxTextBytes
        if fields.object["whole_transcript"]?.isNull == false {
            speech.wholeTranscript = try fields.text("whole_transcript", atMost: limits)
        }
        speech.marks = try fields.list("marks", atMost: maxMarks) {
            (value) throws(SavedSessionError) in
            let mark = try SavedFields(value, "marks")
            return Conversation.SpokenMark(
                transcriptBytes: try mark.integer("bytes", in: 0...PlayedAudio.longest),
                audioMilliseconds: try mark.integer("ms", in: SavedFields.milliseconds))
        }
        speech.sentMilliseconds = try fields.integer("sent_ms", in: SavedFields.milliseconds)
        if fields.object["cut_ms"]?.isNull == false {
            speech.cutMilliseconds = try fields.integer("cut_ms", in: SavedFields.milliseconds)
        }
        speech.isCut = fields.object["is_cut"]?.bool == true
        return speech
    }

    // MARK: Audio without words

    /// Gives audio without a transcript an empty one, because the protocol's items have audio or a
    /// transcript.
    /// - Returns: whether there was such audio.
    private static func fillWords(of item: inout ConversationItem) -> Bool {
        guard case .message(let role, var content) = item.kind else { return false }
        var isWordless = false
        for (index, part) in content.enumerated() {
            guard case .inputAudio(let bytes, nil) = part else { continue }
            content[index] = .inputAudio(bytes: bytes, transcript: "")
            isWordless = true
        }
        if isWordless { item.kind = .message(role: role, content: content) }
        return isWordless
    }

    private static func takeWords(of item: inout ConversationItem) {
        guard case .message(let role, var content) = item.kind else { return }
        for (index, part) in content.enumerated() {
            guard case .inputAudio(let bytes, let words?) = part, words.isEmpty else { continue }
            content[index] = .inputAudio(bytes: bytes, transcript: nil)
        }
        item.kind = .message(role: role, content: content)
    }
}

extension Conversation {
    /// An item as it is saved, or nil where there is no such item.
    func saved(_ id: String) -> SavedItem? {
        stored(id).map { SavedItem(item: $0.item, speech: $0.speech) }
    }
}

extension JSONWriter {
    fileprivate mutating func savedSpeech(_ speech: Conversation.Speech) {
        object { json in
            json.array("marks") { json in
                for mark in speech.marks {
                    json.object { json in
                        json.member("bytes", mark.transcriptBytes)
                        json.member("ms", mark.audioMilliseconds)
                    }
                }
            }
            json.member("sent_ms", speech.sentMilliseconds)
            if let whole = speech.wholeTranscript { json.member("whole_transcript", whole) }
            if let cut = speech.cutMilliseconds { json.member("cut_ms", cut) }
            if speech.isCut { json.member("is_cut", true) }
        }
    }
}
