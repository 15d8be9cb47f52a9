// Removes recordings: those that are too old, and those whose user has withdrawn the consent after they
// were complete. Walking a large folder takes time, so that no thread that writes does it.
//
// Invariant: only complete files of recordings are removed. A session that asks again and again costs
// one walk at a time.

import CLinux
import Logging
import Server
import Session

/// A thread that removes recordings from a folder. Any thread.
final class RecordingRemovals: @unchecked Sendable {
    /// Time between two looks for what is too old. An hour: the age counts in days.
    private static let interval = Duration.seconds(3_600)
    private static let secondsOfDay = 86_400

    /// Guards everything below; signalled for each session and for the end.
    private let lock = ConditionLock()
    private var unwanted: Set<String> = []
    private var isStopping = false
    private var thread: BackgroundThread?

    private let folder: RecordingFolder
    private let days: Int
    private let logger: Logger

    /// - Parameter days: how long recordings are kept after the day on which they began; 0: for ever.
    init(from folder: RecordingFolder, after days: Int, logger: Logger) {
        self.folder = folder
        self.days = days
        self.logger = logger
        thread = BackgroundThread("removals", niceness: BackgroundThread.addedNiceness) {
            [self] in run()
        }
    }

    /// Removes the complete recordings of a session, soon.
    func removeAll(of sessionID: String) {
        lock.withLock {
            unwanted.insert(sessionID)
            lock.signal()
        }
    }

    /// Removes what is unwanted, and ends.
    func shutdown() {
        lock.withLock {
            isStopping = true
            lock.broadcast()
        }
        thread?.join()
    }

    // MARK: The thread

    private func run() {
        var due = MonotonicClock.now
        while true {
            if due <= MonotonicClock.now {
                removeOld()
                due = MonotonicClock.now + Self.interval
            }
            let (sessions, isLast) = next(before: due)
            if !sessions.isEmpty { folder.removeRecordings(of: sessions) }
            if isLast { return }
        }
    }

    /// Waits for sessions, for a time, or for the end.
    private func next(before due: Instant) -> (sessions: Set<String>, isLast: Bool) {
        lock.withLock {
            while unwanted.isEmpty, !isStopping {
                let left = due - MonotonicClock.now
                guard left > .zero else { break }
                lock.wait(atMost: left)
            }
            defer { unwanted = [] }
            return (unwanted, isStopping)
        }
    }

    private func removeOld() {
        let now = WallClock.seconds
        if days > 0 {
            let first = RecordingFolder.day(now - days * Self.secondsOfDay)
            let count = folder.removeRecordings(before: first)
            if count > 0 {
                logger.info(
                    "old recordings removed", metadata: ["files": "\(count)", "before": "\(first)"])
            }
        }
        // A recording that has just begun may be of yesterday.
        folder.removeEmptyDays(before: RecordingFolder.day(now - Self.secondsOfDay))
    }
}
