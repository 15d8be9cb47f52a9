// A long message of audio is heard in shares. The rest that has no room in a tick of the event loop
// waits here. The session hears more of it (`VoiceSession.handleUnheardAudio(at:)`) before the
// shell hands over anything else of its client. Audio is refused before any of it is heard.
//
// Invariant: a message in shares has the same effect as the message at once. Shares are cut where
// the decoder cuts a message into runs, and the decoder keeps its state between them.

import Codec

/// The rest of a message of PCM or G.711. Made only for a message that is longer than its share.
final class UnheardAudio {
    /// The message from its second share on.
    let bytes: [UInt8]
    /// Bytes of it that were heard.
    private var heard = 0
    /// The format of the message.
    let format: AudioFormat
    /// The id of the event that brought it. Errors name it.
    let eventID: String?
    /// Whether some of the message found no room in the buffer.
    var hasOverflowed = false

    init(_ rest: RawSpan, format: AudioFormat, eventID: String?) {
        bytes = rest.withUnsafeBytes { Array($0) }
        self.format = format
        self.eventID = eventID
    }

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(UnheardAudio.self)

    /// Bytes of the object and of its audio, which is freed when all of it is heard.
    var heldBytes: Int { Self.objectBytes + bytes.heapBytes + eventID.heapBytes }

    /// Whether nothing is left.
    var isOver: Bool { heard == bytes.count }

    /// Takes the next share: a range of `bytes`.
    func takeShare(ofMilliseconds milliseconds: Int) -> Range<Int> {
        let count = min(format.bytes(inMilliseconds: milliseconds), bytes.count - heard)
        defer { heard += count }
        return heard..<heard + count
    }
}
