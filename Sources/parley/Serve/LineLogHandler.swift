// The two log handlers of the server: text for a person, JSON lines for a collector. Both write one
// line with one system call to standard error. The callers decide what is logged, and at which
// level; audio and text of conversations are only logged with `log-content`.

import Codec
import Glibc
import Logging

/// How log lines look.
enum LogFormat: String, CaseIterable, Sendable {
    /// `2026-01-31T12:00:00.123Z info  message key=value`
    case text
    /// `{"time":"…","level":"info","source":"Server","message":"…","key":"value"}`
    case json
}

/// A `LogHandler` that writes lines to a file descriptor.
struct LineLogHandler: LogHandler {
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]
    /// How lines look.
    let format: LogFormat
    /// Receives each finished line, its newline included.
    let sink: @Sendable (String) -> Void

    /// Creates a handler; the sink defaults to standard error.
    init(
        format: LogFormat, level: Logger.Level,
        sink: @escaping @Sendable (String) -> Void = { writeIfRoom($0, to: STDERR_FILENO) }
    ) {
        self.format = format
        self.logLevel = level
        self.sink = sink
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var fields = metadata
        if let own = event.metadata { fields.merge(own) { _, new in new } }
        // Sorted: dictionary order differs from process to process, and lines should compare.
        let sorted = fields.sorted { $0.key < $1.key }
        let time = UTCTimestamp(secondsSince1970: currentTime())
        switch format {
        case .text: sink(textLine(of: event, fields: sorted, time: time))
        case .json: sink(jsonLine(of: event, fields: sorted, time: time))
        }
    }

    private func textLine(
        of event: LogEvent, fields: [(key: String, value: Logger.MetadataValue)],
        time: UTCTimestamp
    ) -> String {
        let level = event.level.rawValue
        let padding = String(repeating: " ", count: max(1, 9 - level.utf8.count))
        var line = "\(time) \(level)\(padding)\(singleLine(event.message.description))"
        for (key, value) in fields {
            let text = value.description
            let needsQuotes = text.isEmpty || text.contains { $0 == " " || $0 == "\"" || $0 == "=" }
            line += needsQuotes ? " \(key)=\(jsonString(text))" : " \(key)=\(singleLine(text))"
        }
        if let error = event.error { line += " error=\(jsonString("\(error)"))" }
        return line + "\n"
    }

    private func jsonLine(
        of event: LogEvent, fields: [(key: String, value: Logger.MetadataValue)],
        time: UTCTimestamp
    ) -> String {
        var line = "{\"time\":\"\(time)\",\"level\":\"\(event.level.rawValue)\""
        line += ",\"source\":\(jsonString(event.source))"
        line += ",\"message\":\(jsonString(event.message.description))"
        if let error = event.error { line += ",\"error\":\(jsonString("\(error)"))" }
        for (key, value) in fields where !Self.reservedKeys.contains(key) {
            line += ",\(jsonString(key)):\(json(value))"
        }
        return line + "}\n"
    }

    /// Keys of the line itself; metadata of the same name would make the object ambiguous.
    private static let reservedKeys: Set = ["time", "level", "source", "message", "error"]

    private func json(_ value: Logger.MetadataValue) -> String {
        switch value {
        case .string(let text): jsonString(text)
        case .stringConvertible(let value): jsonString(value.description)
        case .array(let values): "[" + values.map(json).joined(separator: ",") + "]"
        case .dictionary(let members):
            "{"
                + members.sorted { $0.key < $1.key }
                .map { "\(jsonString($0.key)):\(json($0.value))" }.joined(separator: ",") + "}"
        }
    }

    /// Text with its invisible characters escaped as in JSON. One log event stays one line, text of
    /// a client cannot forge a second one, and it cannot control a terminal.
    private func singleLine(_ text: String) -> String {
        guard text.unicodeScalars.contains(where: \.isUnseen) else { return text }
        return String(jsonString(text).dropFirst().dropLast())
    }

    private func currentTime() -> Double {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return Double(now.tv_sec) + Double(now.tv_nsec) / 1e9
    }
}

/// A string as JSON (RFC 8259 §7), quotes included. All invisible characters are escaped, more than
/// JSON asks for: some log collectors split at line separators, and terminals obey controls.
func jsonString(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
        switch scalar {
        case "\"": result += "\\\""
        case "\\": result += "\\\\"
        case "\n": result += "\\n"
        case "\r": result += "\\r"
        case "\t": result += "\\t"
        case _ where scalar.isUnseen: result += scalar.jsonEscape
        default: result.unicodeScalars.append(scalar)
        }
    }
    return result + "\""
}

/// Wall time as RFC 3339 in UTC, to the millisecond.
struct UTCTimestamp: CustomStringConvertible {
    /// Seconds since 1970-01-01T00:00:00Z.
    var secondsSince1970: Double

    var description: String {
        Timestamp.text(milliseconds: Int((secondsSince1970 * 1_000).rounded(.down)))
    }
}
