// Speech of one spoken item that waits to be sent: synthesised samples, or Opus packets of a
// service that encodes itself. SpeechSender decides when it is sent, OutputAudioEncoder in which
// form.
//
// Where the output is Opus, each phrase begins with a new frame, and its packets are recorded for
// PhraseCache as they leave; the queue knows where phrases end. The recording is dropped with the
// queue.
//
// All lengths are samples of a timeline at 48 kHz, whatever the speech's own rate: Opus counts in
// it, and the usual rates divide it.

import Codec

/// First in, first out. Memory is freed by whole chunks.
struct ItemSpeechQueue {
    /// The rate that lengths are counted at.
    static let rate = SampleRate.hz48000
    /// The length of a frame: 20 ms.
    static let frameLength = 960

    /// The form of the speech at the head of the queue.
    enum Head: Equatable {
        case samples(SampleRate)
        case packet
    }

    private enum Chunk {
        case speech(SpeechChunk)
        /// A phrase is complete; `key` is nil if it is not to be kept.
        case phraseEnd(key: PhraseKey?, frames: Int)
    }

    private var chunks: [Chunk] = []
    /// Samples or packets of the first chunk that have left.
    private var offset = 0
    /// Length of the speech that waits, on the timeline.
    private(set) var count = 0
    /// Bytes of the chunks that wait, each a block of its own.
    private var chunkBytes = 0
    /// Bytes of the whole queue.
    var heldBytes: Int { chunks.heapBytes + chunkBytes + recording.heapBytes }
    /// Ends of phrases that wait.
    private var phraseEnds = 0
    /// Length of the phrase that is being added.
    private var phraseLength = 0
    /// Packets of the phrase that is leaving.
    private var recording = OpusPackets()

    /// Whether the first phrase is complete: nothing more will be added to it.
    var hasCompletePhrase: Bool { phraseEnds > 0 }

    /// The length of this many samples at a rate, rounded down where the rate does not divide 48
    /// kHz.
    static func length(ofSamples samples: Int, at rate: SampleRate) -> Int {
        samples * Self.rate.hertz / rate.hertz
    }

    /// The form of the speech that leaves next, or nil where none waits.
    var head: Head? {
        guard case .speech(let chunk) = chunks.first else { return nil }
        return switch chunk.payload {
        case .samples(_, let rate): .samples(rate)
        case .opus: .packet
        }
    }

    /// Adds a chunk; returns its length.
    @discardableResult
    mutating func append(_ chunk: SpeechChunk) -> Int {
        let length = Self.length(of: chunk.payload)
        guard length > 0 else { return 0 }
        chunks.append(.speech(chunk))
        count += length
        chunkBytes += chunk.heapBytes
        phraseLength += length
        return length
    }

    /// Completes the phrase that is being added. Its last frame is filled up with silence.
    /// - Parameter key: the key in the cache, or nil where it is not kept.
    /// - Returns: the length of that silence.
    mutating func endPhrase(key: PhraseKey?) -> Int {
        let frames = (phraseLength + Self.frameLength - 1) / Self.frameLength
        chunks.append(.phraseEnd(key: key, frames: frames))
        phraseEnds += 1
        defer { phraseLength = 0 }
        return frames * Self.frameLength - phraseLength
    }

    /// Takes the end of a phrase that is first in the queue.
    /// - Parameter keep: receives the packets of the phrase, if all of it was sent.
    /// - Returns: whether a phrase has ended.
    mutating func takePhraseEnd(_ keep: (PhraseKey, OpusPackets) -> Void) -> Bool {
        guard case .phraseEnd(let key, let frames) = chunks.first else { return false }
        removeFirstChunk()
        phraseEnds -= 1
        if let key, recording.count == frames { keep(key, recording) }
        recording.removeAll()
        return true
    }

    /// A packet of the first phrase is leaving.
    mutating func record(_ packet: [UInt8]) {
        // A packet that does not fit leaves the recording incomplete, and it is not kept.
        try? recording.append(packet.span.bytes)
    }

    /// Moves up to `target.count` samples of the head's rate into `target`; returns how many. Zero
    /// if the head is a packet.
    mutating func takeSamples(into target: UnsafeMutableBufferPointer<Int16>) -> Int {
        guard case .samples(let rate) = head else { return 0 }
        var taken = 0
        while taken < target.count, case .speech(let chunk) = chunks.first,
            case .samples(let samples, rate) = chunk.payload
        {
            let length = min(target.count - taken, samples.count - offset)
            for index in 0..<length { target[taken + index] = samples[offset + index] }
            taken += length
            offset += length
            if offset == samples.count { removeFirstChunk() }
        }
        shorten(by: Self.length(ofSamples: taken, at: rate))
        return taken
    }

    /// Lends `body` the packet at the head, which then leaves.
    /// - Precondition: the head is a packet.
    mutating func takePacket<Result>(_ body: (ArraySlice<UInt8>) -> Result) -> Result {
        guard case .speech(let chunk) = chunks.first, case .opus(let packets) = chunk.payload
        else { preconditionFailure("no packet") }
        let result = body(packets[offset])
        offset += 1
        if offset == packets.count { removeFirstChunk() }
        shorten(by: Self.frameLength)
        return result
    }

    private mutating func removeFirstChunk() {
        if case .speech(let chunk) = chunks.removeFirst() { chunkBytes -= chunk.heapBytes }
        offset = 0
    }

    /// Lengths are rounded down, so their sum may exceed the samples that are left.
    private mutating func shorten(by length: Int) {
        let hasSpeech = chunks.contains { if case .speech = $0 { true } else { false } }
        count = hasSpeech ? max(1, count - length) : 0
    }

    private static func length(of payload: SpeechChunk.Payload) -> Int {
        switch payload {
        case .samples(let samples, let rate):
            samples.isEmpty ? 0 : max(1, length(ofSamples: samples.count, at: rate))
        case .opus(let packets): packets.count * frameLength
        }
    }
}
