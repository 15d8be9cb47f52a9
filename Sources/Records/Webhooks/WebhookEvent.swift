// The events that webhooks tell, and their bodies. docs/records.md describes them.

import Codec
import Session

/// The types of events that the receiver of webhooks gets.
public enum WebhookEventType: String, CaseIterable, Sendable {
    /// A session has begun.
    case sessionStarted = "session.started"
    /// A response has ended.
    case turnCompleted = "turn.completed"
    /// A session has ended; the body has its record.
    case sessionEnded = "session.ended"
    /// The model has answered its agent's question about a session that is over, or could not.
    case sessionAfterCall = "session.after_call"
    /// An operator has deleted the data of a session.
    case sessionDeleted = "session.deleted"
}

/// The bodies of events.
enum WebhookEvent {
    /// Bytes of a record in an event. 1 MiB: receivers often refuse more. A longer record is left
    /// out, and `is_truncated` says so.
    static let maxRecordBytes = 1 << 20

    static func started(_ change: RecordChange, at time: Int) -> String {
        body(.sessionStarted, at: time) { json in
            json.member("session_id", change.sessionID)
            json.member("is_continued", change.fence > 1)
            json.member("session", RawJSON(RecordJSON.facts(change.summary)))
        }
    }

    /// - Parameter turn: JSON of the turn.
    static func completed(
        _ turn: RecordedTurn, _ text: String, of sessionID: String, at time: Int
    ) -> String {
        body(.turnCompleted, at: time) { json in
            json.member("session_id", sessionID)
            json.member("turn", RawJSON(text))
            json.array("output") { json in
                for item in turn.response.output { json.raw(RawJSON(RecordJSON.item(item))) }
            }
        }
    }

    static func ended(_ document: RecordDocument, at time: Int) -> String {
        let record = document.json
        let isTruncated = record.utf8.count > maxRecordBytes
        var head = document
        if isTruncated { (head.items, head.turns) = ([], []) }
        return body(.sessionEnded, at: time) { json in
            json.member("session_id", document.head.id)
            json.member("is_truncated", isTruncated)
            json.member("record", RawJSON(isTruncated ? head.json : record))
        }
    }

    /// - Parameter answer: JSON, as in a record.
    static func afterCall(
        _ answer: String, of sessionID: String, agent: String, at time: Int
    ) -> String {
        body(.sessionAfterCall, at: time) { json in
            json.member("session_id", sessionID)
            json.member("agent", agent)
            json.member("after_call", RawJSON(answer))
        }
    }

    static func deleted(_ sessionID: String, at time: Int) -> String {
        body(.sessionDeleted, at: time) { $0.member("session_id", sessionID) }
    }

    /// The envelope of Standard Webhooks: type, timestamp, data.
    private static func body(
        _ type: WebhookEventType, at time: Int, _ data: (inout JSONWriter) -> Void
    ) -> String {
        var json = JSONWriter(ByteWriter(capacity: 1_024))
        json.object { json in
            json.member("type", type.rawValue)
            json.member("timestamp", Timestamp.text(milliseconds: time))
            json.object("data", data)
        }
        return String(decoding: json.finish().copiedBytes, as: UTF8.self)
    }
}
