// A long message of audio is heard in shares: what the tick of its event loop has no room for waits
// here, and its session goes on with it (`VoiceSession.handleUnheardAudio(at:)`) before the shell
// gives it anything else of its client. Which audio is refused is decided before any is heard.
//
// Invariant: a message in shares means what it means at once. Shares are cut where the decoder cuts
// a message into runs anyway, and it keeps its state from one to the next.

import Codec

/// The rest of a message of PCM or G.711. Made only for a message that is longer than its share.
final class UnheardAudio {
    /// The message from its second share on.
    private let bytes: [UInt8]
    /// Bytes of it that were heard.
    private var heard = 0
    /// What the message is in.
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
    static let objectBytes = HeapBlock.bytes(65)

    /// Bytes of the object and of what it keeps. All of the rest stays until all of it is heard.
    var heldBytes: Int { Self.objectBytes + bytes.heapBytes + eventID.heapBytes }

    /// Whether nothing is left.
    var isOver: Bool { heard == bytes.count }

    /// Lends `body` the next share.
    func withShare<Failure: Error>(
        ofMilliseconds milliseconds: Int, _ body: (RawSpan) throws(Failure) -> Void
    ) throws(Failure) {
        let count = min(format.bytes(inMilliseconds: milliseconds), bytes.count - heard)
        let start = heard
        heard += count
        let bytes = bytes
        try body(bytes.span.bytes.extracting(start..<start + count))
    }
}

/// How much audio the sessions of a shard may hear in a tick of its event loop, in samples at
/// 16 kHz. Opus packets and short messages are never cut, so that they may exceed their share.
struct AudioShares {
    /// The shortest share, and the longest message that is never cut. 100 ms: five ordinary
    /// packets, and about 0.2 ms of work, so that many clients that send more than is spoken delay
    /// a tick by little each.
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

    /// What is left of the share, in milliseconds: a multiple of a run, and the shortest share at
    /// least.
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
        self == .opus ? 0 : sampleRate.milliseconds(ofSamples: bytes / sampleBytes)
    }

    /// Bytes of PCM or G.711 that last so long.
    func bytes(inMilliseconds milliseconds: Int) -> Int {
        sampleRate.samples(inMilliseconds: milliseconds) * sampleBytes
    }

    /// Bytes of a sample of PCM or G.711.
    var sampleBytes: Int { self == .pcm ? 2 : 1 }
}
