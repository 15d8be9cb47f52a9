// Folds equal warnings of the log: the first is written at once, and those of the next minute are
// counted and written as one line. A part that fails with every turn would otherwise fill the log
// with one sentence. LineLogHandler writes the lines.
//
// Lines are equal where their message and facts are, but for the ids of a session, a response and
// an item. The first line shows the ids of its case, and the line of the count shows those of the
// last. Errors are written each time: most are the answer to something that the operator has done.

import Logging
import Synchronization

/// A handler before a `LineLogHandler`.
struct FoldingLogHandler: LogHandler {
    private var lines: LineLogHandler
    private let folds: LogFolds

    /// - Parameters:
    ///   - lines: writes the lines.
    ///   - folds: shared by all handlers of the process.
    init(_ lines: LineLogHandler, folds: LogFolds) {
        self.lines = lines
        self.folds = folds
    }

    var logLevel: Logger.Level {
        get { lines.logLevel }
        set { lines.logLevel = newValue }
    }

    var metadata: Logger.Metadata {
        get { lines.metadata }
        set { lines.metadata = newValue }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { lines[metadataKey: key] }
        set { lines[metadataKey: key] = newValue }
    }

    func log(event: LogEvent) {
        for due in folds.takeDue() { lines.log(event: due) }
        guard event.level == .warning else { return lines.log(event: event) }
        if let due = folds.take(event) { lines.log(event: due) }
    }
}

/// The equal warnings of the last minute.
final class LogFolds: Sendable {
    /// Seconds from a line to the next one that equals it. 60.
    static let interval = 60.0
    /// Different lines that are remembered. 256; of more, those that come next are not folded until
    /// one is forgotten.
    static let maxLines = 256
    /// Facts that differ from case to case.
    private static let ids: Set = ["session", "response", "item"]

    private struct Fold {
        /// When a line was last written, in seconds of `now`.
        var written: Double
        /// Equal events since then, and the last of them.
        var count = 0
        var last: LogEvent
    }

    private struct State {
        var folds: [String: Fold] = [:]
        /// When `takeDue` looked last.
        var looked = 0.0
    }

    private let state = Mutex(State())
    private let now: @Sendable () -> Double

    /// - Parameter now: seconds on a clock that does not go back.
    init(now: @escaping @Sendable () -> Double) { self.now = now }

    /// Takes an event that is to be logged.
    /// - Returns: the event to write now, or nil where this one is only counted.
    func take(_ event: LogEvent) -> LogEvent? {
        let key = Self.key(of: event)
        let now = now()
        return state.withLock { state in
            guard var fold = state.folds[key] else {
                if state.folds.count < Self.maxLines {
                    state.folds[key] = Fold(written: now, last: event)
                }
                return event
            }
            fold.count += 1
            fold.last = event
            state.folds[key] = fold
            return nil
        }
    }

    /// The lines of counts that are due. Lines that nothing has equalled for a minute are
    /// forgotten.
    func takeDue() -> [LogEvent] {
        let now = now()
        return state.withLock { state in
            // Once a second: the table is gone through.
            guard now - state.looked >= 1, !state.folds.isEmpty else { return [] }
            state.looked = now
            var due: [LogEvent] = []
            for (key, fold) in state.folds where now - fold.written >= Self.interval {
                guard fold.count > 0 else {
                    state.folds[key] = nil
                    continue
                }
                due.append(Self.counted(fold))
                state.folds[key] = Fold(written: now, last: fold.last)
            }
            return due
        }
    }

    private static func counted(_ fold: Fold) -> LogEvent {
        var event = fold.last
        event.metadata = (event.metadata ?? [:]).merging(["repeated": "\(fold.count)"]) { $1 }
        return event
    }

    private static func key(of event: LogEvent) -> String {
        let facts = (event.metadata ?? [:]).filter { !ids.contains($0.key) }
            .map { "\($0.key)=\($0.value)" }.sorted()
        return ([event.message.description] + facts).joined(separator: "\u{1F}")
    }
}
