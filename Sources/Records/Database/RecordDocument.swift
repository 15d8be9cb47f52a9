// One record as its rows, and as one JSON document. docs/records.md describes the document.

import Codec
import Session

/// The record of one session, in the order of the document.
struct RecordDocument: Equatable, Sendable {
    /// The form of the document.
    static let version = 1

    /// A session's own row.
    struct Head: Equatable, Sendable {
        var id: String
        /// Which of the session's owners wrote it; the last one's is the highest.
        var fence: Int
        /// Milliseconds since 1970.
        var startedAt: Int
        var endedAt: Int?
        var changedAt: Int
        var endReason: String?
        var closeCode: Int?
        var endMessage: String?
        /// JSON: the facts of the session.
        var facts: String
        var redaction: String
        /// JSON: the answer to the question about the session, or nil where none was asked.
        var afterCall: String?
    }

    /// `afterCall` while the answer is awaited: the `null` of the document.
    static let awaitedAnswer = "null"

    /// The session's use of the server, over all of its owners.
    struct Use: Equatable, Sendable {
        var turns = 0
        var usage = ResponseUsage()
        var samplesIn = 0
        var peakBytes = 0
    }

    /// An item's row.
    struct Item: Equatable, Sendable {
        /// JSON: the protocol's item.
        var item: String
        var addedAt: Int
        var deletedAt: Int?
        var isOutOfBand: Bool
        var written: String?
        var sentMilliseconds: Int?
        var heardMilliseconds: Int?
        var isCut: Bool
    }

    var head: Head
    var use = Use()
    var items: [Item] = []
    /// JSON: responses, in the order in which they ended.
    var turns: [String] = []

    // MARK: Writing

    /// The document.
    var json: String {
        var json = JSONWriter(ByteWriter(capacity: 4_096))
        json.object { json in
            json.member("object", "parley.conversation")
            json.member("version", Self.version)
            writeHead(into: &json)
            writeUse(into: &json)
            json.array("items") { json in
                for item in items { item.write(into: &json) }
            }
            json.array("turns") { json in
                for turn in turns { json.raw(RawJSON(turn)) }
            }
        }
        return String(decoding: json.finish().copiedBytes, as: UTF8.self)
    }

    private func writeHead(into json: inout JSONWriter) {
        json.member("id", head.id)
        json.member("started_at", Timestamp.text(milliseconds: head.startedAt))
        json.member("ended_at", head.endedAt.map { Timestamp.text(milliseconds: $0) })
        json.key("end")
        if let reason = head.endReason {
            json.object { json in
                json.member("reason", reason)
                json.member("close_code", head.closeCode)
                json.member("message", head.endMessage)
            }
        } else {
            json.null()
        }
        json.member("redaction", head.redaction)
        json.member("session", RawJSON(head.facts))
        if let afterCall = head.afterCall { json.member("after_call", RawJSON(afterCall)) }
    }

    private func writeUse(into json: inout JSONWriter) {
        json.key("usage")
        json.usage(use.usage)
        json.member("audio_in_seconds", number: Double(use.samplesIn) / 16_000)
        let sent = items.reduce(0) { $0 + ($1.sentMilliseconds ?? 0) }
        json.member("audio_out_seconds", number: Double(sent) / 1_000)
        json.member("response_count", use.turns)
        json.member("memory_peak_bytes", use.peakBytes)
    }
}

extension RecordDocument.Item {
    fileprivate func write(into json: inout JSONWriter) {
        json.object { json in
            json.member("added_at", Timestamp.text(milliseconds: addedAt))
            if let deletedAt {
                json.member("deleted_at", Timestamp.text(milliseconds: deletedAt))
            }
            if isOutOfBand { json.member("in_conversation", false) }
            json.member("item", RawJSON(item))
            guard let sentMilliseconds, let heardMilliseconds else { return }
            json.object("speech") { json in
                json.member("sent_ms", sentMilliseconds)
                json.member("heard_ms", heardMilliseconds)
                json.member("is_cut", isCut)
                if let written { json.member("written", written) }
            }
        }
    }
}
