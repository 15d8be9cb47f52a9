// A logger that records its lines, for tests of log messages.

import Logging
import Synchronization

/// Collects log lines.
package final class LogRecord: Sendable {
    private let written = Mutex<[String]>([])

    package init() {}

    /// `level message key=value …`, the keys sorted.
    package var lines: [String] { written.withLock { $0 } }

    /// A logger of every level that writes here.
    package var logger: Logger {
        Logger(label: "record") { _ in Handler(record: self) }
    }

    private struct Handler: LogHandler {
        let record: LogRecord
        var logLevel = Logger.Level.trace
        var metadata: Logger.Metadata = [:]

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let fields = (event.metadata ?? [:]).sorted { $0.key < $1.key }
            let words = ["\(event.level)", "\(event.message)"] + fields.map { "\($0)=\($1)" }
            record.written.withLock { $0.append(words.joined(separator: " ")) }
        }
    }
}
