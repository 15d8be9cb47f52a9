// The thread that writes changes of sessions into the file, in batches. It is the RecordKeeper of a
// server; PostgreSQLForwarder and WebhookSender carry on from the file.
//
//   shards ──▶ RecordQueue ──▶ RecordWriter ──▶ file ──▶ PostgreSQLForwarder ──▶ database
//                                                   └──▶ WebhookSender ──▶ receiver
//
// Invariant: a change leaves memory when it is in the file, or at the end. Where the file cannot be
// written, changes wait up to the queue's limit.

import CLinux
import Glibc
import Logging
import Server
import Session
import Synchronization

/// Keeps records in a file, and passes them on.
public final class RecordWriter: RecordKeeper, @unchecked Sendable {
    /// Time between two writes while changes come. 100 ms: a killed process loses
    /// little more than the recorder's own half second.
    private static let pause = Duration.milliseconds(100)
    /// Time after which a write that has failed is tried again. 500 ms.
    private static let retryPause = Duration.milliseconds(500)
    /// How long the end waits for a file that cannot be written. 5 s.
    private static let patience = Duration.seconds(5)
    /// Time between two looks after the file. 2 s.
    private static let careInterval = Duration.seconds(2)
    /// Time between two deletions of old records, in milliseconds. 1 h.
    private static let retentionInterval = 3_600_000
    private static let dayMilliseconds = 86_400_000

    private let settings: RecordSettings
    private let logger: Logger
    private let queue: RecordQueue
    private let file: RecordDatabase
    private let forwarder: PostgreSQLForwarder?
    private let webhooks: WebhookSender?
    private let tally = Mutex(Tally())
    private var thread: BackgroundThread?
    // Only the writer's thread uses it.
    private var lastCare = MonotonicClock.now
    private var lastRetention = 0
    private var isFull = false
    private var isFailing = false

    private struct Tally {
        var written = 0
        var lost = 0
        var failures = 0
        var spoolBytes = 0
        var webhooksLeftOut = 0
    }

    /// Opens the file and starts the threads.
    /// - Throws: `RecordError` where the file cannot be used.
    public init(_ settings: RecordSettings, logger: Logger) throws(RecordError) {
        self.settings = settings
        self.logger = logger
        queue = RecordQueue(maxBytes: settings.maxQueuedBytes)
        let process = "process_" + String(UInt64.random(in: .min ... .max), radix: 36)
        do throws(SQLiteError) {
            file = try RecordDatabase(
                path: settings.path, process: process, redaction: settings.redaction,
                webhooks: settings.webhooks.map { WebhookWriter(types: $0.types) },
                forgetsEnded: settings.destination == .none)
            try file.noteAlive(at: WallClock.milliseconds)
            try file.endLostSessions(at: WallClock.milliseconds)
            forwarder =
                if case .postgreSQL(let url) = settings.destination {
                    try PostgreSQLForwarder(
                        url: url, path: settings.path, days: settings.days, logger: logger)
                } else { nil }
            webhooks = try settings.webhooks.map { receiver throws(SQLiteError) in
                try WebhookSender(receiver, path: settings.path, logger: logger)
            }
        } catch {
            throw RecordError("the file of records cannot be used: \(settings.path): \(error)")
        }
        thread = BackgroundThread("records") { [self] in write() }
    }

    // MARK: RecordKeeper

    /// Takes a change.
    public func keep(_ change: RecordChange) -> Bool {
        queue.append(RecordDatabase.Entry(change: change, takenAt: WallClock.milliseconds))
    }

    /// Its counts now.
    public var counts: RecordCounts {
        var counts = RecordCounts()
        let (bytes, refused) = queue.state
        let tally = tally.withLock { $0 }
        counts.written = tally.written
        counts.failures = tally.failures
        counts.queuedBytes = bytes
        counts.refused = refused + tally.lost
        counts.spoolBytes = tally.spoolBytes
        forwarder?.add(to: &counts)
        webhooks?.add(to: &counts)
        counts.lostWebhooks += tally.webhooksLeftOut
        return counts
    }

    /// Whether the receiver of webhooks may have other secrets, or may want events again.
    public var isReloadable: Bool { webhooks != nil }

    /// Reads the secrets of webhooks anew; a receiver that wanted no more events is asked again.
    public func reload() throws { try webhooks?.reload() }

    /// Writes the entries that wait and ends the threads. Entries that a database or a receiver has
    /// not taken wait in the file for the next start.
    public func shutdown() {
        queue.close()
        thread?.join()
        forwarder?.shutdown()
        webhooks?.shutdown()
    }

    // MARK: The thread

    private func write() {
        var waiting: [RecordDatabase.Entry] = []
        var closing: Instant?
        while true {
            let work = queue.take(waiting: waiting.isEmpty ? Self.careInterval : .zero)
            waiting += work.entries
            if work.isClosed { closing = closing ?? MonotonicClock.now }
            let isWritten = waiting.isEmpty || write(waiting)
            if isWritten {
                if !waiting.isEmpty { queue.noteWritten(waiting) }
                waiting = []
            }
            if let closing, isWritten || MonotonicClock.now - closing > Self.patience {
                return end(giving: waiting)
            }
            if isWritten { lookAfter() }
            queue.pause(isWritten ? Self.pause : Self.retryPause)
        }
    }

    private func write(_ entries: [RecordDatabase.Entry]) -> Bool {
        do throws(SQLiteError) {
            let leftOut = try file.write(entries, takesNewSessions: !isFull)
            tally.withLock {
                $0.written += entries.count - leftOut
                $0.lost += leftOut
                $0.webhooksLeftOut = file.webhooksLeftOut
            }
            if isFailing { logger.info("records are written again") }
            isFailing = false
            if entries.contains(where: \.isComplete) { forwarder?.wake() }
            webhooks?.wake()
            return true
        } catch {
            note(error)
            return false
        }
    }

    /// Failures in a row make one line.
    private func note(_ error: SQLiteError) {
        tally.withLock { $0.failures += 1 }
        guard !isFailing else { return }
        isFailing = true
        logger.error(
            "records cannot be written: they wait in memory",
            metadata: ["path": "\(settings.path)", "reason": "\(error)"])
    }

    private func lookAfter() {
        let now = MonotonicClock.now
        guard now - lastCare >= Self.careInterval else { return }
        lastCare = now
        let time = WallClock.milliseconds
        do throws(SQLiteError) {
            try file.noteAlive(at: time)
            try file.endLostSessions(at: time)
            if let days = settings.days, time - lastRetention >= Self.retentionInterval {
                lastRetention = time
                try file.deleteRecords(endedBefore: time - days * Self.dayMilliseconds)
            }
            let bytes = try file.usedBytes()
            isFailing = false
            tally.withLock { $0.spoolBytes = bytes }
            guard settings.destination != .file else { return }
            if bytes > settings.maxSpoolBytes, !isFull {
                logger.error(
                    "the spool of records is full: new sessions are not recorded",
                    metadata: ["bytes": "\(bytes)"])
            }
            isFull = bytes > settings.maxSpoolBytes
        } catch {
            note(error)
        }
    }

    private func end(giving lost: [RecordDatabase.Entry]) {
        if !lost.isEmpty {
            tally.withLock { $0.lost += lost.count }
            logger.error("changes of records are lost", metadata: ["count": "\(lost.count)"])
            queue.noteWritten(lost)
        }
        try? file.noteEnd()
    }
}

/// Why records cannot be kept.
public struct RecordError: Error, CustomStringConvertible {
    /// One line that says what to do.
    public let description: String

    init(_ description: String) { self.description = description }
}
