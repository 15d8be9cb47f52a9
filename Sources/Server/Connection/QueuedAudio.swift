// The places of a connection's unsent reply audio among the bytes that wait for its socket. With
// them, audio that would come too late, or that belongs to an interrupted reply, is dropped instead
// of sent. The bytes themselves are in the send buffer; the shard drops them there.
//
//     removed                                              removed + bytes that wait
//   ───┴────────────────────────────────────────────────────────┴──▶ offset in the stream
//      │ rest of a message that has begun │ event │▒▒ audio ▒▒│ event │▒▒▒▒│
//
// Invariant: messages are in the order of the stream, and that of their usefulness; none begins
// before `removed`: a message of which a byte has left is finished. Bytes that a full socket did
// not take have not left; with TLS, bytes have left once they are in a record.

import Codec
import Session

/// The messages of reply audio in one send buffer.
struct QueuedAudio {
    /// One message of audio, its frame header included.
    struct Message {
        /// Offset in the stream of its first byte.
        var start: Int
        let byteCount: Int
        /// After this it would be heard too late.
        let usefulUntil: Instant
        /// Identifiers are short enough to be kept without an allocation.
        let responseID: String
        let itemID: String
        /// Where in its item it starts, in samples at 48 kHz.
        let position: Int

        var end: Int { start + byteCount }
    }

    /// Offset in the stream of the oldest byte that waits.
    private(set) var removed = 0
    private var messages: [Message] = []
    /// Messages at the front of `messages` that are gone.
    private var head = 0

    /// Bytes of the records of the messages; the messages themselves are in the send buffer.
    var heldBytes: Int { messages.heapBytes }

    /// Whether no audio waits that could be dropped.
    var isEmpty: Bool { head == messages.count }

    /// The messages of which no byte has left, oldest first.
    var waiting: ArraySlice<Message> { messages[head...] }

    /// Starts anew, for another connection; keeps its memory unless that has become much.
    mutating func reset() {
        messages.removeAll(keepingCapacity: messages.capacity <= 64)
        (head, removed) = (0, 0)
    }

    /// Takes note of a message at the end of the queue.
    mutating func append(_ message: Message) {
        // Entries of sent messages go when there are as many of them as of waiting ones.
        if head > 16, head * 2 > messages.count {
            messages.removeFirst(head)
            head = 0
        }
        messages.append(message)
    }

    /// The oldest `count` bytes have left the queue.
    mutating func handleRemoved(_ count: Int) {
        removed += count
        while head < messages.count, messages[head].start < removed { head += 1 }
    }

    /// Takes the message that is next to be sent, if it comes too late: its bytes are to be dropped
    /// from the front of the queue.
    mutating func takeLateFront(at now: Instant) -> Message? {
        guard head < messages.count, messages[head].start == removed,
            messages[head].usefulUntil < now
        else { return nil }
        defer { head += 1 }
        return messages[head]
    }

    /// How many bytes may be sent before a message that comes too late, or nil where all may be
    /// sent.
    func bytesBeforeLate(at now: Instant) -> Int? {
        // The first is useful for the shortest time.
        guard head < messages.count, messages[head].usefulUntil < now else { return nil }
        return messages[head].start - removed
    }

    /// Bytes of messages that come too late.
    func lateBytes(at now: Instant) -> Int {
        messages[head...].prefix { $0.usefulUntil < now }.reduce(0) { $0 + $1.byteCount }
    }

    /// Takes messages out.
    /// - Returns: where their bytes lie, counted from the oldest that waits, in order.
    mutating func take(where isUnwanted: (Message) -> Bool) -> [Range<Int>] {
        var ranges: [Range<Int>] = []
        var kept: [Message] = []
        var dropped = 0
        for var message in messages[head...] {
            if isUnwanted(message) {
                ranges.append(message.start - removed..<message.end - removed)
                dropped += message.byteCount
            } else {
                message.start -= dropped
                kept.append(message)
            }
        }
        guard !ranges.isEmpty else { return [] }
        messages = kept
        head = 0
        return ranges
    }
}
