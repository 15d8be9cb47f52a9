// The record of the bytes that wait for one connection's socket: the audio among them, the time
// since when they are too many, and the pong that is due. A connection has one only while it has
// such output. The shard keeps a few for reuse, so that audio which leaves in the tick of its
// queueing costs no allocation. ShardBackpressure acts on it.
//
// Invariant: a backlog that is put back is empty. No pong waits unless another is queued before it.

import Codec
import Session

/// The state of one connection's waiting output.
final class OutputBacklog {
    /// Reply audio that waits.
    var audio = QueuedAudio()
    /// Since when more than the soft limit has waited, by the peers' clock; nil while it does not.
    var overSoftLimitSince: Instant?
    /// Offset in the stream of the end of the last pong that was queued behind other output.
    private var pongEnd = 0
    /// The payload of the newest ping, which is answered when that pong has left.
    private var duePong: [UInt8] = []
    private var isPongDue = false

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(OutputBacklog.self)
    /// Bytes of the whole backlog.
    var heldBytes: Int { Self.objectBytes + audio.heldBytes + duePong.heapBytes }

    /// Whether a pong waits in the queue.
    var hasQueuedPong: Bool { pongEnd > audio.removed }

    /// A pong ends at this offset in the stream.
    func handlePongQueued(end: Int) { pongEnd = end }

    /// Another ping came while a pong waits: of several, only the newest needs an answer
    /// (RFC 6455 §5.5.3).
    func postponePong(_ payload: UnsafeRawBufferPointer) {
        duePong.removeAll(keepingCapacity: true)
        duePong.append(contentsOf: payload)
        isPongDue = true
    }

    /// The payload of the pong that is due now that the one before it has left.
    func takeDuePong() -> [UInt8]? {
        guard isPongDue, !hasQueuedPong else { return nil }
        isPongDue = false
        return duePong
    }

    /// Takes audio out of the queue; returns where its bytes lie.
    func takeAudio(where isUnwanted: (QueuedAudio.Message) -> Bool) -> [Range<Int>] {
        let ranges = audio.take(where: isUnwanted)
        let pongAt = pongEnd - audio.removed
        for range in ranges where range.upperBound <= pongAt { pongEnd -= range.count }
        return ranges
    }

    /// Forgets everything but its memory.
    fileprivate func reset() {
        audio.reset()
        overSoftLimitSince = nil
        pongEnd = 0
        isPongDue = false
    }
}

/// Backlogs that no connection uses.
struct OutputBacklogPool {
    /// How many are kept. 64, as of `ChunkPool`: enough for a tick in which all speakers write.
    private static let maxIdle = 64
    private var idle: [OutputBacklog] = []

    /// An empty backlog.
    mutating func take() -> OutputBacklog { idle.popLast() ?? OutputBacklog() }

    /// Takes a backlog back.
    mutating func giveBack(_ backlog: OutputBacklog) {
        guard idle.count < Self.maxIdle else { return }
        backlog.reset()
        idle.append(backlog)
    }
}
