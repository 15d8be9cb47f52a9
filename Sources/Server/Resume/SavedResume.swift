// The fields of a record that are the server's own: where the session's events are, whose it is,
// what it has used, and by what it may be claimed. SavedSession has the others. They are read back
// from a store, so that nothing in them is believed beyond its form.

import Codec
import Session

/// How a saved session is resumed.
struct SavedResume: Equatable {
    /// The field with the members below.
    static let name = "resume"
    /// The field with the events that the client may have missed, one a line.
    static let logName = "events"
    static let proofName = "proof"
    static let oldProofName = "proof.old"

    /// The count of the offsets.
    var epoch: UInt32
    /// The offset of the first event in the log, or of the next where there is none.
    var first: UInt64
    /// The session's principal, as hexadecimal digits of a digest. Where nil, the handle is enough
    /// to claim the session.
    var principal: String?
    var dialect = RealtimeDialect.ga
    /// When the session must end, in seconds since 1970. Nil means never.
    var end: Int?
    /// Whether it is recorded because its user has agreed.
    var isRecorded = false
    /// Its use of its limits.
    var use = SavedUse()

    /// The field.
    var bytes: [UInt8] {
        var json = JSONWriter(ByteWriter(capacity: 128))
        json.beginObject()
        json.member("epoch", Int(epoch))
        json.member("first", Int(clamping: first))
        if let principal { json.member("principal", principal) }
        json.member("beta", dialect == .beta)
        if let end { json.member("end", end) }
        if isRecorded { json.member("recording", true) }
        json.key("use")
        use.write(into: &json)
        json.endObject()
        return json.finish().copiedBytes
    }

    init(
        epoch: UInt32, first: UInt64, principal: String?, dialect: RealtimeDialect, end: Int?
    ) {
        (self.epoch, self.first) = (epoch, first)
        (self.principal, self.dialect, self.end) = (principal, dialect, end)
    }

    /// Reads the field, or returns nil where it is not valid.
    init?(_ bytes: [UInt8]?) {
        guard let bytes, bytes.count < 4_096,
            let object = try? JSONParser().parse(String(decoding: bytes, as: UTF8.self)),
            let epoch = object["epoch"]?.int, let first = object["first"]?.int,
            (1...Int(UInt32.max)).contains(epoch), first >= 1
        else { return nil }
        self.epoch = UInt32(epoch)
        self.first = UInt64(first)
        principal = object["principal"]?.string
        end = object["end"]?.int
        isRecorded = object["recording"]?.bool == true
        use = SavedUse(object["use"])
        dialect = object["beta"]?.bool == true ? .beta : .ga
    }
}

extension ResumeLog {
    /// The events as one field: a JSON text has no line break.
    var lines: [UInt8] {
        var lines: [UInt8] = []
        forEach(after: first - 1) { text in
            lines.append(contentsOf: text)
            lines.append(UInt8(ascii: "\n"))
        }
        return lines
    }

    /// Reads such a field. Where its lines are no text, it is not read.
    init(lines: [UInt8], first: UInt64, limit: Int) {
        self.init(first: first)
        guard lines.withUnsafeBytes({ UTF8Validator.isValid($0) }) else { return }
        for line in lines.split(separator: UInt8(ascii: "\n")) {
            line.withUnsafeBytes { append($0, limit: limit) }
        }
    }
}
