// Moves records of ended sessions from the spool into a PostgreSQL database, on a thread of its own.
//
// Invariant: a record is deleted from the spool after the database has committed it. So a record may be
// written twice, which makes no difference, and is never lost.

import CLinux
import Glibc
import Logging
import Server
import Session
import Synchronization

/// The way from the spool to the database.
final class PostgreSQLForwarder: @unchecked Sendable {
    /// Records of one transaction. 50: few enough that a statement stays far below its timeout.
    private static let batch = 50
    /// Time between two looks into the spool, where no session's end wakes the thread. 2 s.
    private static let interval = Duration.seconds(2)
    /// Time after which a database that is away is tried again; doubled up to the second.
    private static let retryPauses = (first: Duration.milliseconds(500), last: Duration.seconds(10))
    /// Time between two deletions of old records. 1 h.
    private static let retentionInterval = Duration.seconds(3_600)

    private let url: String
    private let days: Int?
    private let logger: Logger
    private let lock = ConditionLock()
    private var isAwake = true
    private var isStopping = false
    private let tally = Mutex((delivered: 0, waiting: 0))
    private var thread: BackgroundThread?
    // Only the forwarder's thread uses it.
    private let spool: SQLiteDatabase
    private var records: PostgreSQLRecords?
    private var pause = retryPauses.first
    private var lastRetention: Instant?
    /// Records that the database has refused. They stay in the spool until the next start.
    private var refused: Set<String> = []

    /// - Parameter path: of the spool.
    init(
        url: String, path: String, days: Int?, logger: Logger
    ) throws(SQLiteError) {
        (self.url, self.days, self.logger) = (url, days, logger)
        spool = try SQLiteDatabase(path: path)
        thread = BackgroundThread("postgresql") { [self] in forward() }
    }

    /// A session has ended.
    func wake() {
        lock.withLock {
            isAwake = true
            lock.signal()
        }
    }

    /// Delivers the records that the database takes at once, and ends. The rest waits in the spool.
    func shutdown() {
        lock.withLock {
            isStopping = true
            lock.signal()
        }
        thread?.join()
    }

    func add(to counts: inout RecordCounts) {
        let tally = tally.withLock { $0 }
        counts.deliveredSessions = tally.delivered
        counts.spooledSessions = tally.waiting
    }

    // MARK: The thread

    private func forward() {
        while true {
            let isStopping = lock.withLock { self.isStopping }
            let isIdle = deliverAll()
            if isStopping { return }
            lock.withLock {
                if !isAwake, !self.isStopping { lock.wait(atMost: isIdle ? Self.interval : pause) }
                // While the database is away, the ends of sessions do not shorten the pause.
                if !isIdle, !self.isStopping, isAwake { lock.wait(atMost: pause) }
                isAwake = false
            }
        }
    }

    /// - Returns: whether nothing is left that the database would take.
    private func deliverAll() -> Bool {
        do {
            while true {
                let reader = RecordReader(spool)
                let ids = try reader.complete(limit: Self.batch + refused.count)
                    .filter { !refused.contains($0) }
                let documents = try ids.compactMap { try reader.document($0) }
                if !documents.isEmpty || records == nil { try deliver(documents) }
                for id in ids { try spool.run("DELETE FROM sessions WHERE id = ?", .text(id)) }
                try note(delivered: ids.count)
                if ids.count < Self.batch { break }
            }
            try deleteOld()
            return true
        } catch {
            note(error)
            return false
        }
    }

    private func deliver(_ documents: [RecordDocument]) throws {
        let records = try self.records ?? PostgreSQLRecords(url: url)
        if self.records == nil {
            try records.migrate()
            self.records = records
            logger.info("the database of records is reached")
        }
        pause = Self.retryPauses.first
        do throws(PostgreSQLError) {
            try records.write(documents)
        } catch {
            guard error.isRefusal, let first = documents.first else { throw error }
            if documents.count > 1 {
                for document in documents { try deliver([document]) }
                return
            }
            refused.insert(first.head.id)
            logger.error(
                "the database refuses a record, which stays in the spool",
                metadata: ["session": "\(first.head.id)", "reason": "\(error)"])
            throw error
        }
    }

    private func deleteOld() throws(PostgreSQLError) {
        guard let days, let records else { return }
        let now = MonotonicClock.now
        if let lastRetention, now - lastRetention < Self.retentionInterval { return }
        lastRetention = now
        try records.deleteRecords(olderThanDays: days)
    }

    private func note(delivered: Int) throws(SQLiteError) {
        let waiting = try RecordReader(spool).endedCount()
        tally.withLock {
            $0.delivered += delivered
            $0.waiting = waiting
        }
    }

    /// Failures in a row make one line.
    private func note(_ error: any Error) {
        if records != nil || pause == Self.retryPauses.first {
            logger.error(
                "records wait in the spool for their database", metadata: ["reason": "\(error)"])
        }
        records = nil
        pause = min(pause * 2, Self.retryPauses.last)
        if let waiting = try? RecordReader(spool).endedCount() {
            tally.withLock { $0.waiting = waiting }
        }
    }
}
