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
    /// Of the event that brought it; errors name it.
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

/// How much audio the sessions of a shard may hear in a tick of its event loop, in samples at
/// 16 kHz. Opus packets and short messages are never cut, so that they may exceed their share.
struct AudioShares {
    /// The shortest share, and the longest message that is never cut. 100 ms: five ordinary
    /// packets, and about 0.2 ms of work. So each of many clients that send faster than real time
    /// delays a tick only a little.
    static let leastMilliseconds = 100

    /// Audio received when the tick has used its time up.
    private(set) var tickEnd = Int.max
    /// The same of the connection that is being served. Without a shell that sets it, no share
    /// ends.
    private(set) var shareEnd = Int.max

    /// A tick begins, whose sessions may hear so many samples between them.
    mutating func beginTick(samples: Int, received: Int) { tickEnd = received + samples }

    /// Another connection has what is left of the tick, and the shortest share in any case.
    mutating func beginShare(received: Int) {
        let least = SampleRate.hz16000.samples(inMilliseconds: Self.leastMilliseconds)
        shareEnd = max(tickEnd, received + least)
    }

    /// The rest of the share, in milliseconds: a multiple of a run, and at least the shortest
    /// share.
    func millisecondsLeft(received: Int) -> Int {
        guard shareEnd < .max else { return .max }
        let left = SampleRate.hz16000.milliseconds(ofSamples: shareEnd - received)
        let run = InputAudioDecoder.runMilliseconds
        return max(Self.leastMilliseconds, left / run * run)
    }
}

extension AudioFormat {
    /// How long so many bytes of PCM or G.711 last, rounded down. An Opus packet says itself, and
    /// lasts 120 ms at most: 0.
    func milliseconds(inBytes bytes: Int) -> Int {
        self == .opus ? 0 : sampleRate.milliseconds(ofSamples: bytes / bytesPerSample)
    }

    /// Bytes of PCM or G.711 that last so long.
    func bytes(inMilliseconds milliseconds: Int) -> Int {
        sampleRate.samples(inMilliseconds: milliseconds) * bytesPerSample
    }
}
