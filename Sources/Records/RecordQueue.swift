// Changes on their way from the shards to the writer: a queue with a limit in bytes. A shard appends
// under a lock that the writer holds only to take everything at once.

import Server
import Session

/// A bounded queue of changes. Any thread.
final class RecordQueue: @unchecked Sendable {
    /// Guards everything below; signalled for the first entry and for the end.
    private let lock = ConditionLock()
    private let maxBytes: Int
    private var entries: [RecordDatabase.Entry] = []
    /// Bytes of the entries, and of those that the writer has taken and not written yet.
    private var bytes = 0
    private var refused = 0
    private var isClosed = false

    /// - Parameter maxBytes: of all entries together.
    init(maxBytes: Int) { self.maxBytes = maxBytes }

    /// Adds a change.
    /// - Returns: false where the queue is full.
    func append(_ entry: RecordDatabase.Entry) -> Bool {
        let size = entry.change.heldBytes
        return lock.withLock {
            guard size <= maxBytes - bytes else {
                refused += 1
                return false
            }
            bytes += size
            entries.append(entry)
            if entries.count == 1 { lock.signal() }
            return true
        }
    }

    /// The entries that the writer is to write, and whether more may come.
    struct Work {
        let entries: [RecordDatabase.Entry]
        let isClosed: Bool
    }

    /// Takes all entries; waits for the first, for no longer than a time.
    func take(waiting limit: Duration) -> Work {
        lock.withLock {
            if entries.isEmpty, !isClosed { lock.wait(atMost: limit) }
            defer { entries = [] }
            return Work(entries: entries, isClosed: isClosed)
        }
    }

    /// Lets entries gather for a time, or until the end.
    func pause(_ time: Duration) {
        let end = MonotonicClock.now + time
        lock.withLock {
            while !isClosed, MonotonicClock.now < end {
                lock.wait(atMost: end - MonotonicClock.now)
            }
        }
    }

    /// Entries that were taken are written, or lost.
    func noteWritten(_ written: [RecordDatabase.Entry]) {
        let size = written.reduce(0) { $0 + $1.change.heldBytes }
        lock.withLock { bytes -= size }
    }

    /// Closes the queue: no more entries come.
    func close() {
        lock.withLock {
            isClosed = true
            lock.broadcast()
        }
    }

    /// Bytes that wait, and changes that were refused.
    var state: (bytes: Int, refused: Int) { lock.withLock { (bytes, refused) } }
}
