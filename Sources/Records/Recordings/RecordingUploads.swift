// The thread that takes complete files to another server, and deletes unwanted files there.
// UploadWork decides what comes next, UploadConnection makes the requests.

import CLinux
import Logging
import Server
import Session

/// A thread and its queue. Any thread.
final class RecordingUploads: @unchecked Sendable {
    /// Guards everything up to `thread`; signalled for each file and for the end.
    private let lock = ConditionLock()
    private var added: [UploadedFile] = []
    private var hasToLook = false
    private var isStopping = false
    private var published: RecordingCounts
    private var deadline: Instant
    private var thread: BackgroundThread?

    private let connection: UploadConnection
    /// The thread's own.
    private let work: UploadWork

    /// Starts with the files in the folder.
    /// - Returns: nil where libcurl cannot be used.
    init?(_ upload: RecordingUpload, of folder: RecordingFolder, logger: Logger) {
        guard let connection = UploadConnection(upload) else {
            logger.error("recordings are not uploaded: libcurl cannot be used")
            return nil
        }
        self.connection = connection
        work = UploadWork(folder, for: connection, logger: logger)
        published = work.counts
        deadline = work.deadline
        thread = BackgroundThread("uploads", niceness: BackgroundThread.addedNiceness) {
            [self] in run()
        }
    }

    /// The counts of uploads and deletions.
    var counts: RecordingCounts {
        lock.withLock {
            var counts = published
            counts.pendingUploads += added.count
            return counts
        }
    }

    /// Files are complete.
    func add(_ files: [UploadedFile]) {
        lock.withLock {
            added += files
            lock.signal()
        }
    }

    /// The folder has notes of deletions.
    func lookForErasures() {
        lock.withLock {
            hasToLook = true
            lock.signal()
        }
    }

    /// Ends after the request in progress has been broken off.
    func shutdown() {
        connection.breakOff()
        lock.withLock {
            isStopping = true
            lock.broadcast()
        }
        thread?.join()
    }

    // MARK: The thread

    private func run() {
        while let looks = takeAdded() {
            if looks { work.look() }
            work.step()
            lock.withLock {
                published = work.counts
                deadline = work.deadline
            }
        }
    }

    /// Waits for files, notes, or the next attempt.
    /// - Returns: whether there are notes, or nil where the server stops.
    private func takeAdded() -> Bool? {
        lock.withLock {
            while !isStopping {
                let left = deadline - MonotonicClock.now
                guard left > .zero, added.isEmpty, !hasToLook else {
                    for file in added { work.add(file) }
                    published = work.counts
                    added = []
                    defer { hasToLook = false }
                    return hasToLook
                }
                lock.wait(atMost: left)
            }
            return nil
        }
    }
}
