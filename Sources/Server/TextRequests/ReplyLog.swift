// The parts of a model's reply so far, for its readers: the connection that asked, and in the UI
// message format a client that comes back for it. One shard writes, connections of any shard read,
// each at its own pace; so it has a lock. The readers write the parts to the wire.
//
// Invariant: nothing follows the last part; a reader gets every part once and in order,
// neighbouring texts joined. A reply is bounded (`max-response-bytes`, `max-response-items`), and
// so is its log.

import Codec
import Synchronization

/// A connection that reads a reply.
struct ReplyReader: Hashable, Sendable {
    /// Index of its shard.
    let shard: Int
    let token: EventToken
}

/// One reply in the making.
final class ReplyLog: Sendable {
    /// The state of the readers, for the owner.
    struct Status {
        /// Connections that are shown the reply.
        var readers: Int
        /// Bytes that the fastest of them has not read; 0 without a reader.
        var unreadBytes: Int
        /// Bytes of all parts.
        var bytes: Int
        /// Whether the reply is complete.
        var isOver: Bool
        /// Whether a client has asked to end it.
        var isStopWanted = false
    }

    /// A reader that waits for more.
    struct Waiter {
        let reader: ReplyReader
        /// Wakes it on its shard.
        let wake: @Sendable (EventToken) -> Void
    }

    /// The position of a reader.
    private struct Place {
        let waiter: Waiter
        /// Whether it can use nothing before the end.
        let needsAll: Bool
        var part = 0
        /// How many bytes of that part were read.
        var offset = 0
        var readBytes = 0
        var isWaiting = false
    }

    private struct State {
        var parts: [ReplyPart] = []
        var bytes = 0
        var places: [Place] = []
        /// Whether the model is paused until readers have read.
        var isModelPaused = false
        /// Whether a client has asked to end the reply.
        var isStopWanted = false

        var isOver: Bool { parts.last?.isLast ?? false }

        var unreadBytes: Int {
            places.filter { !$0.needsAll }.map { bytes - $0.readBytes }.min() ?? 0
        }

        func place(of reader: ReplyReader) -> Int? {
            places.firstIndex { $0.waiter.reader == reader }
        }
    }

    private let state = Mutex(State())
    /// Id of the assistant's message in the UI message format, the same for every reader.
    let messageID: String
    /// Reports to the owner that readers came, went or have read. Any thread.
    let review: @Sendable () -> Void

    /// - Parameter review: is called where the owner has asked for it, and when a reader leaves.
    init(messageID: String, review: @escaping @Sendable () -> Void) {
        self.messageID = messageID
        self.review = review
    }

    // MARK: The owner

    /// Adds a part. One that follows the last part is dropped.
    /// - Returns: the readers that have waited for it.
    func append(_ part: ReplyPart) -> [Waiter] {
        state.withLock { state in
            guard !state.isOver else { return [] }
            state.bytes += part.byteCount
            let last = state.parts.count - 1
            if last < 0 || !state.parts[last].append(part) { state.parts.append(part) }
            var waiters: [Waiter] = []
            for index in state.places.indices
            where state.places[index].isWaiting && (part.isLast || !state.places[index].needsAll) {
                state.places[index].isWaiting = false
                waiters.append(state.places[index].waiter)
            }
            return waiters
        }
    }

    /// All parts so far.
    var parts: [ReplyPart] { state.withLock { $0.parts } }

    /// The state of the readers.
    var status: Status {
        state.withLock {
            Status(
                readers: $0.places.count, unreadBytes: $0.unreadBytes, bytes: $0.bytes,
                isOver: $0.isOver, isStopWanted: $0.isStopWanted)
        }
    }

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(ReplyLog.self)

    /// Bytes of all of it. A part's text grows by joining, without room to spare.
    var heldBytes: Int {
        state.withLock {
            Self.objectBytes + $0.parts.heapBytes + $0.places.heapBytes + $0.bytes
                + $0.parts.count * (HeapBlock.string(capacity: 64) - 64)
        }
    }

    /// The model is paused until readers have read, or goes on. While it is paused, `review` is
    /// called when a reader has read.
    func setModelPaused(_ isPaused: Bool) { state.withLock { $0.isModelPaused = isPaused } }

    // MARK: Readers

    /// Begins to read at the start. The same reader may do so once.
    /// - Parameter needsAll: whether it can use nothing before the end.
    func addReader(
        _ reader: ReplyReader, needsAll: Bool, wake: @escaping @Sendable (EventToken) -> Void
    ) {
        let waiter = Waiter(reader: reader, wake: wake)
        state.withLock { $0.places.append(Place(waiter: waiter, needsAll: needsAll)) }
    }

    /// Asks the owner to end the reply, of which a client wants no more.
    func askToStop() {
        state.withLock { $0.isStopWanted = true }
        review()
    }

    /// A reader leaves.
    func removeReader(_ reader: ReplyReader) {
        let wasReading = state.withLock { state in
            guard let index = state.place(of: reader) else { return false }
            state.places.remove(at: index)
            return true
        }
        if wasReading { review() }
    }

    /// The next parts, about `limit` bytes of them. None: the reader is woken when there are more.
    /// A reader that needs all gets nothing before the end, and then everything.
    func read(as reader: ReplyReader, atMost limit: Int) -> [ReplyPart] {
        let (parts, frees) = state.withLock { state -> ([ReplyPart], Bool) in
            guard let index = state.place(of: reader) else { return ([], false) }
            if state.places[index].needsAll, !state.isOver {
                state.places[index].isWaiting = true
                return ([], false)
            }
            let limit = state.places[index].needsAll ? Int.max : limit
            var parts: [ReplyPart] = []
            var count = 0
            while count < limit, let part = Self.takeNext(&state, index) {
                count += part.byteCount
                parts.append(part)
            }
            state.places[index].readBytes += count
            state.places[index].isWaiting = parts.isEmpty
            return (parts, state.isModelPaused && !parts.isEmpty)
        }
        if frees { review() }
        return parts
    }

    /// The next part, or the new piece of the last one, which may still grow.
    private static func takeNext(_ state: inout State, _ index: Int) -> ReplyPart? {
        while state.places[index].part < state.parts.count {
            let (number, offset) = (state.places[index].part, state.places[index].offset)
            let part = state.parts[number]
            let rest = part.dropping(offset)
            if part.canGrow, number == state.parts.count - 1 {
                state.places[index].offset = part.byteCount
                return rest
            }
            state.places[index].part = number + 1
            state.places[index].offset = 0
            if let rest { return rest }
        }
        return nil
    }
}

extension ReplyPart {
    /// Whether the next part may be joined to it.
    fileprivate var canGrow: Bool {
        switch self {
        case .text, .callArguments: true
        case .callStarted, .callFinished, .finished, .failed: false
        }
    }
}
