// The events of one session that its client may have missed, as texts in order, each with its
// offset. The oldest are forgotten once the client has them, or beyond the limit. Audio is not here:
// it is sent again from what was heard.
//
// Invariant: the events that are kept are those of the offsets `first` ..< `next`, without a gap.

import Codec

/// Events that may have to be sent again.
struct ResumeLog {
    /// The texts, one behind another; those before `headBytes` are forgotten.
    private var bytes: [UInt8] = []
    /// The length of each text; those before `head` are forgotten.
    private var lengths: [UInt32] = []
    private var head = 0
    private var headBytes = 0
    /// The offset of the oldest event that is kept, or of the next where none is kept.
    private(set) var first: UInt64

    /// Without an event.
    /// - Parameter first: the offset of the next.
    init(first: UInt64 = 1) { self.first = first }

    /// The offset that the next event gets.
    var next: UInt64 { first + UInt64(lengths.count - head) }
    /// Whether nothing is kept.
    var isEmpty: Bool { head == lengths.count }
    /// Bytes on the heap.
    var heldBytes: Int { bytes.heapBytes + lengths.heapBytes }

    /// Keeps an event.
    /// - Parameter limit: bytes that are kept; the oldest events beyond it are forgotten.
    mutating func append(_ text: UnsafeRawBufferPointer, limit: Int) {
        bytes.append(contentsOf: text)
        lengths.append(UInt32(clamping: text.count))
        while bytes.count - headBytes > limit, !isEmpty { forgetOldest() }
        tidy()
    }

    /// Numbers an event that never has to be sent again.
    /// - Precondition: `isEmpty`.
    mutating func skip() {
        precondition(isEmpty)
        first += 1
    }

    /// The client has all events up to this one.
    mutating func forget(through offset: UInt64) {
        while first <= offset, !isEmpty { forgetOldest() }
        tidy()
    }

    /// Whether every event after this one is kept, and this one was sent.
    func covers(_ offset: UInt64) -> Bool { offset < next && offset + 1 >= first }

    /// Visits the events after this one, in order.
    /// - Precondition: `covers(offset)`.
    func forEach(after offset: UInt64, _ body: (UnsafeRawBufferPointer) -> Void) {
        bytes.withUnsafeBytes { all in
            var start = headBytes
            for (index, length) in lengths[head...].enumerated() {
                let end = start + Int(length)
                if first + UInt64(index) > offset {
                    body(UnsafeRawBufferPointer(rebasing: all[start..<end]))
                }
                start = end
            }
        }
    }

    private mutating func forgetOldest() {
        headBytes += Int(lengths[head])
        head += 1
        first += 1
    }

    /// Gives memory back: all of it when nothing is kept, otherwise the free front once that is the
    /// larger part.
    private mutating func tidy() {
        if isEmpty {
            (bytes, lengths, head, headBytes) = ([], [], 0, 0)
        } else if headBytes > bytes.count / 2 {
            bytes.removeFirst(headBytes)
            lengths.removeFirst(head)
            (head, headBytes) = (0, 0)
        }
    }
}
