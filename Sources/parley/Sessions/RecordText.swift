// A record as lines for a person: who said what and when, what of it was heard, and the figures.

import Codec
import Records

/// The lines of one record.
struct RecordText {
    /// The first line of a list.
    static let heading = columns("ID", "STARTED", "ENDED", "END")

    /// The lines.
    let lines: [String]

    /// Records are larger than messages.
    private static let limits: JSONLimits = {
        var limits = JSONLimits()
        limits.maxDocumentBytes = 1 << 30
        limits.maxValues = 1 << 24
        return limits
    }()

    /// - Parameter document: JSON.
    init(_ document: String) throws(CommandFailure) {
        let parser = JSONParser(limits: Self.limits)
        let record: JSONValue
        do throws(JSONError) { record = try parser.parse(document) } catch {
            throw CommandFailure(description: "the record is no JSON: \(error)")
        }
        var lines = Self.head(of: record)
        for entry in record["items"]?.elements.map(Array.init) ?? [] {
            lines.append(contentsOf: Self.lines(of: entry))
        }
        if let answer = record["after_call"] { lines.append(Self.words(ofAnswer: answer)) }
        lines.append(Self.figures(of: record))
        self.lines = lines.map { $0.visible() }
    }

    /// A line of a list.
    static func line(_ session: RecordBrowser.Listing) -> String {
        columns(
            session.id, seconds(session.startedAt), session.endedAt.map(seconds) ?? "-",
            session.endReason ?? "open"
        ).visible()
    }

    /// A session of a list as JSON.
    static func json(_ session: RecordBrowser.Listing) -> String {
        var json = JSONWriter(ByteWriter(capacity: 256))
        json.object { json in
            json.member("id", session.id)
            json.member("started_at", session.startedAt)
            json.member("ended_at", session.endedAt)
            json.member("end_reason", session.endReason)
        }
        return String(decoding: json.finish().copiedBytes, as: UTF8.self)
    }

    private static func columns(
        _ id: String, _ started: String, _ ended: String, _ end: String
    ) -> String {
        [(id, 30), (started, 20), (ended, 20)]
            .map { $0 + String(repeating: " ", count: max(1, $1 + 1 - $0.count)) }
            .joined() + end
    }

    /// The date and the time to the second: `2026-11-23 20:09:16`.
    private static func seconds(_ timestamp: String) -> String {
        String(timestamp.prefix(19).map { $0 == "T" ? " " : $0 })
    }

    // MARK: One record

    private static func head(of record: JSONValue) -> [String] {
        let started = seconds(record["started_at"]?.string ?? "")
        let ended = record["ended_at"]?.string.map(seconds) ?? "open"
        let end = record["end"]?["reason"]?.string.map { ", \($0)" } ?? ""
        let message = record["end"]?["message"]?.string.map { " (\($0))" } ?? ""
        let session = record["session"]
        let subject = session?["subject"]?.string.map { ", caller \($0)" } ?? ""
        return [
            "\(record["id"]?.string ?? "")  \(started) to \(ended)\(end)\(message)",
            "model \(session?["model"]?.string ?? ""), \(session?["output_modality"]?.string ?? "")"
                + subject,
        ]
    }

    private static func lines(of entry: JSONValue) -> [String] {
        let time = entry["added_at"]?.string.map { $0.dropFirst(11).prefix(8) } ?? ""
        let gone = entry["deleted_at"] == nil ? "" : "  (deleted)"
        guard let item = entry["item"] else { return [] }
        var lines = ["\(time)  \(words(of: item))\(gone)"]
        guard let speech = entry["speech"], speech["is_cut"]?.bool == true else { return lines }
        let heard = speech["heard_ms"]?.int ?? 0
        let sent = speech["sent_ms"]?.int ?? 0
        lines.append("          cut off: \(heard) of \(sent) ms were heard")
        if let written = speech["written"]?.string { lines.append("          it was: \(written)") }
        return lines
    }

    private static func words(of item: JSONValue) -> String {
        switch item["type"]?.string {
        case "message":
            let content = item["content"]?.elements.map(Array.init) ?? []
            let words = content.map {
                $0["text"]?.string ?? $0["transcript"]?.string
                    ?? "[\($0["type"]?.string ?? "")]"
            }
            let author = ["assistant": "agent", "user": "user "][item["role"]?.string ?? ""]
            return "\(author ?? "system") \(words.joined(separator: " "))"
        case "function_call", "mcp_call":
            let output = item["output"]?.string.map { " = \($0)" } ?? ""
            let arguments = item["arguments"]?.string ?? ""
            return "call  \(item["name"]?.string ?? "")(\(arguments))\(output)"
        case "function_call_output": return "      = \(item["output"]?.string ?? "")"
        case let type: return "[\(type ?? "")]"
        }
    }

    /// The answer to the question about the session, or its error, on one line.
    private static func words(ofAnswer answer: JSONValue) -> String {
        let words =
            if let text = answer["text"]?.string { text } else if let data = answer["data"] {
                data.raw.text
            } else if let message = answer["error"]?["message"]?.string {
                "no answer: \(message)"
            } else {
                "the model has not answered yet"
            }
        return "after the call: " + words.split(whereSeparator: \.isNewline).joined(separator: " ")
    }

    private static func figures(of record: JSONValue) -> String {
        let usage = record["usage"]
        return "\(record["response_count"]?.int ?? 0) responses, "
            + "\(usage?["input_tokens"]?.int ?? 0) tokens in, "
            + "\(usage?["output_tokens"]?.int ?? 0) out, "
            + "\(record["audio_in_seconds"]?.double ?? 0) s heard, "
            + "\(record["audio_out_seconds"]?.double ?? 0) s spoken, "
            + "\(record["memory_peak_bytes"]?.int ?? 0) bytes at most"
    }
}
