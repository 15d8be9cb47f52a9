// What a model's reply has come to so far, for those who are shown it: the connection that asked,
// and in the UI message format whoever comes back for it. One shard writes, connections of any
// shard read, each at its own pace; so it has a lock. How parts look on the wire is the readers'.
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
    /// How the readers are, as the owner sees it.
    struct Status {
        /// Connections that are shown the reply.
        var readers: Int
        /// Bytes that not even the fastest of them has read; 0 without one.
        var unreadBytes: Int
        /// Bytes of all parts.
        var bytes: Int
        /// Whether the reply is complete.
        var isOver: Bool
    }

    /// Somebody who waits for more.
    struct Waiter {
        let reader: ReplyReader
        /// Tells its shard.
        let wake: @Sendable (EventToken) -> Void
    }

    /// How far a reader has come.
    private struct Place {
        let reader: ReplyReader
        /// Whether nothing is of use to it before the end.
        let needsAll: Bool
        let wake: @Sendable (EventToken) -> Void
        var part = 0
        /// Bytes of that part that are read.
        var offset = 0
        var readBytes = 0
        var isWaiting = false
    }

    private struct State {
        var parts: [ReplyPart] = []
        var bytes = 0
        var places: [Place] = []
        /// Whether the owner waits for readers to go on.
        var isHeldUp = false

        var isOver: Bool { parts.last?.isLast ?? false }

        var unreadBytes: Int {
            places.filter { !$0.needsAll }.map { bytes - $0.readBytes }.min() ?? 0
        }

        func place(of reader: ReplyReader) -> Int? { places.firstIndex { $0.reader == reader } }
    }

    private let state = Mutex(State())
    /// Id of the assistant's message in the UI message format, the same for whoever reads it.
    let messageID: String
    /// Tells the owner that readers came, went or went on. Any thread.
    let review: @Sendable () -> Void

    /// - Parameter review: is called where the owner has asked for it, and when a reader leaves.
    init(messageID: String, review: @escaping @Sendable () -> Void) {
        self.messageID = messageID
        self.review = review
    }

    // MARK: The owner

    /// Adds a part. One that follows the last part is dropped.
    /// - Returns: who has waited for it.
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
                let place = state.places[index]
                waiters.append(Waiter(reader: place.reader, wake: place.wake))
            }
            return waiters
        }
    }

    /// How the readers are.
    var status: Status {
        state.withLock {
            Status(
                readers: $0.places.count, unreadBytes: $0.unreadBytes, bytes: $0.bytes,
                isOver: $0.isOver)
        }
    }

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.bytes(88)

    /// Bytes of all of it. A part's text grows by joining, without room to spare.
    var heldBytes: Int {
        state.withLock {
            Self.objectBytes + $0.parts.heapBytes + $0.places.heapBytes + $0.bytes
                + $0.parts.count * (HeapBlock.string(capacity: 64) - 64)
        }
    }

    /// The owner waits, or waits no more, for readers to go on; while it does, `review` is called
    /// when one has read.
    func setHeldUp(_ isHeldUp: Bool) { state.withLock { $0.isHeldUp = isHeldUp } }

    // MARK: Readers

    /// Begins to read at the start. The same reader may do so once.
    /// - Parameter needsAll: whether nothing is of use to it before the end.
    func addReader(
        _ reader: ReplyReader, needsAll: Bool, wake: @escaping @Sendable (EventToken) -> Void
    ) {
        state.withLock {
            $0.places.append(Place(reader: reader, needsAll: needsAll, wake: wake))
        }
    }

    /// Reads no more.
    func removeReader(_ reader: ReplyReader) {
        let wasReading = state.withLock { state in
            guard let index = state.place(of: reader) else { return false }
            state.places.remove(at: index)
            return true
        }
        if wasReading { review() }
    }

    /// The next parts, about `limit` bytes of them, or none: then the reader is told when there are
    /// more. A reader that needs all gets nothing before the end, and then everything.
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
            return (parts, state.isHeldUp && !parts.isEmpty)
        }
        if frees { review() }
        return parts
    }

    /// The next part, or what is new of the last one, which may still grow.
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
    /// Whether what comes next may be joined to it.
    fileprivate var canGrow: Bool {
        switch self {
        case .text, .callArguments: true
        case .callStarted, .callFinished, .finished, .failed: false
        }
    }
}
