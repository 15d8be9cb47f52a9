// Removes recordings: those that are too old, and those whose user has withdrawn the consent after they
// were complete. Walking a large folder takes time, so that no thread that writes does it.
//
// The limit of age removes files in the folder. A withdrawn consent, and an operator's deletion,
// also reach uploaded files (RecordingErasures).
//
// Invariant: only complete files of recordings are removed. A session that asks again and again costs
// one walk at a time.

import CLinux
import Logging
import Server
import Session

/// A thread that removes recordings from a folder. Any thread.
final class RecordingRemovals: @unchecked Sendable {
    /// Time between two looks for files that are too old. An hour: the age counts in days.
    private static let interval = Duration.seconds(3_600)
    /// Time after which what could not be removed is tried again. A minute: a disk has failed.
    private static let pause = Duration.seconds(60)
    private static let secondsOfDay = 86_400

    /// Guards everything below; signalled for each session and for the end.
    private let lock = ConditionLock()
    private var unwanted: Set<String> = []
    private var isStopping = false
    private var thread: BackgroundThread?

    private let folder: RecordingFolder
    private let uploads: RecordingUploads?
    private let days: Int
    private let logger: Logger

    /// - Parameters:
    ///   - uploads: deletes uploaded files, or nil where nothing is uploaded.
    ///   - days: how long recordings are kept after the day on which they began. At 0 they are kept
    ///     for ever.
    init(
        from folder: RecordingFolder, _ uploads: RecordingUploads?, after days: Int, logger: Logger
    ) {
        self.folder = folder
        self.uploads = uploads
        self.days = days
        self.logger = logger
        warn(ofErasures: folder.notedErasures().count)
        thread = BackgroundThread("removals", niceness: BackgroundThread.addedNiceness) {
            [self] in run()
        }
    }

    /// Deletes the complete recordings of a session, soon.
    func eraseSoon(_ sessionID: String) {
        lock.withLock {
            unwanted.insert(sessionID)
            lock.signal()
        }
    }

    /// Deletes the complete recordings of sessions, now: in the folder, and by notes where they were
    /// uploaded.
    func erase(_ sessions: Set<String>) throws(RecordingFolderError) {
        let count = try folder.erase(sessions)
        guard count > 0 else { return }
        uploads?.lookForErasures()
        warn(ofErasures: count)
    }

    private func warn(ofErasures count: Int) {
        guard uploads == nil, count > 0 else { return }
        logger.warning(
            "uploaded recordings wait to be deleted: recordings-url is not set",
            metadata: ["files": "\(count)"])
    }

    /// Removes the unwanted files, and ends.
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
        var left: Set<String> = []
        while true {
            if due <= MonotonicClock.now {
                removeOld()
                left = eraseOrKeep(left)
                due = MonotonicClock.now + (left.isEmpty ? Self.interval : Self.pause)
            }
            let (sessions, isLast) = next(before: due)
            left.formUnion(eraseOrKeep(sessions))
            if isLast { return }
            if !left.isEmpty { due = min(due, MonotonicClock.now + Self.pause) }
        }
    }

    /// - Returns: the sessions that are to be tried again.
    private func eraseOrKeep(_ sessions: Set<String>) -> Set<String> {
        guard !sessions.isEmpty else { return [] }
        do throws(RecordingFolderError) {
            try erase(sessions)
            return []
        } catch {
            logger.error(
                "recordings whose consent was withdrawn are not deleted, and will be tried again",
                metadata: [
                    "sessions": "\(sessions.sorted().joined(separator: ", "))",
                    "reason": "\(error)",
                ])
            return sessions
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
