// The output of a shard's connections: the queue of those to flush, the limits of queued output,
// and the backlogs of those whose client reads too slowly. The steps taken at a limit are in
// ShardBackpressure, writing is in ShardConnections.
//
// Invariant: a connection is in the queue exactly once while its `isDirty` is set.

import Session

/// The consequence of an amount of queued output.
enum OutputVerdict: Equatable {
    /// It is within the limits.
    case fits
    /// It is more than the soft limit: agents, or an echo's messages, are paused.
    case pauseSources
    /// It is more than the hard limit: the connection is closed.
    case cutOff
}

/// The output of one shard's connections.
struct OutputSchedule {
    private var queue = SlotQueue()
    private var backlogs = OutputBacklogPool()
    private let softLimit: Int
    private let hardLimit: Int
    private let firstLimit: Int

    /// - Parameters:
    ///   - softLimit: bytes from which on a connection's sources are paused.
    ///   - hardLimit: bytes from which on a connection is closed, an echo's aside.
    init(softLimit: Int, hardLimit: Int) {
        self.softLimit = softLimit
        self.hardLimit = hardLimit
        firstLimit = min(softLimit, hardLimit)
    }

    // MARK: The queue

    /// Whether a connection is to be flushed.
    var hasWork: Bool { !queue.isEmpty }

    /// Has a connection's output flushed in this tick, or in the next one where this tick's flush
    /// has begun.
    @inline(__always)
    mutating func schedule(_ connection: Connection) {
        guard connection.state != .closed, !connection.isDirty else { return }
        connection.isDirty = true
        queue.append(connection.token.index)
    }

    /// Begins to flush.
    /// - Returns: how many connections; `endRound()` must follow where it is not 0.
    @inline(__always)
    mutating func beginRound() -> Int { queue.beginRound() }

    /// A slot of the round in progress. Its connection may be gone, or be another that is not
    /// dirty.
    @inline(__always)
    func slot(at position: Int) -> Int { queue.slot(at: position) }

    /// Ends the flush.
    @inline(__always)
    mutating func endRound() { queue.endRound() }

    // MARK: Limits

    /// Whether a connection's output is beyond any limit; `verdict(on:)` has the consequence.
    @inline(__always)
    func isBeyondALimit(_ connection: Connection) -> Bool { connection.output.count > firstLimit }

    /// Judges a connection's queued output. An echo is not cut off, as it stops reading at the soft
    /// limit.
    func verdict(on connection: Connection) -> OutputVerdict {
        let count = connection.output.count
        if count > hardLimit, !connection.isEcho { return .cutOff }
        return count > softLimit && connection.state == .webSocket ? .pauseSources : .fits
    }

    /// Whether the output is within the soft limit.
    func isWithinSoftLimit(_ connection: Connection) -> Bool {
        connection.output.count <= softLimit
    }

    /// Whether so little waits that sources may go on: half the soft limit, so that a reader at
    /// the limit does not stop and start them every tick.
    func mayResumeSources(of connection: Connection) -> Bool {
        connection.output.count <= softLimit / 2
    }

    /// Whether dropping late audio is worth it. The rest is copied for it, so it is done only where
    /// a quarter goes, or the limit is near: then the copies cost no more than the messages did.
    /// - Parameter lateBytes: what would be dropped.
    func isWorthDropping(lateBytes: Int, of connection: Connection) -> Bool {
        let count = connection.output.count
        return lateBytes > 0 && (lateBytes >= count / 4 || count > hardLimit)
    }

    // MARK: Backlogs

    /// The connection's backlog, which it has from now on.
    mutating func backlog(of connection: Connection) -> OutputBacklog {
        if let backlog = connection.backlog { return backlog }
        let backlog = backlogs.take()
        connection.backlog = backlog
        return backlog
    }

    /// Removes a connection whose output no longer waits.
    @inline(__always)
    mutating func releaseBacklog(of connection: Connection) {
        guard let backlog = connection.backlog else { return }
        connection.backlog = nil
        backlogs.giveBack(backlog)
    }
}
