// Speech of one spoken item that waits for its turn to be sent: synthesised samples, or Opus packets
// of a service that encodes itself. What leaves when is Response's business, in which form
// OutputAudioEncoder's.
//
// All lengths are samples of a timeline at 48 kHz, whatever the speech's own rate: Opus counts in
// it, and the usual rates divide it.

import Codec

/// First in, first out; memory goes back as whole chunks leave.
struct SpeechQueue {
    /// The rate that lengths are counted at.
    static let rate = SampleRate.hz48000
    /// The length of a frame: 20 ms.
    static let frameLength = 960

    /// What is first in the queue.
    enum Head: Equatable {
        case samples(SampleRate)
        case packet
    }

    private var chunks: [SpeechChunk.Payload] = []
    /// Samples or packets of the first chunk that have left.
    private var offset = 0
    /// Length of what waits, on the timeline.
    private(set) var count = 0
    /// Bytes of the chunks that wait.
    private(set) var byteCount = 0

    /// The length of so many samples at a rate; rounded down where the rate does not divide 48 kHz.
    static func length(ofSamples samples: Int, at rate: SampleRate) -> Int {
        samples * Self.rate.hertz / rate.hertz
    }

    /// What leaves next.
    var head: Head? {
        switch chunks.first {
        case .samples(_, let rate): .samples(rate)
        case .opus: .packet
        case nil: nil
        }
    }

    /// Adds a chunk; returns its length.
    @discardableResult
    mutating func append(_ chunk: SpeechChunk) -> Int {
        let length = Self.length(of: chunk.payload)
        guard length > 0 else { return 0 }
        chunks.append(chunk.payload)
        count += length
        byteCount += Self.byteCount(of: chunk.payload)
        return length
    }

    /// Moves up to `target.count` samples of the head's rate into `target`; returns how many. Zero
    /// if the head is a packet.
    mutating func takeSamples(into target: UnsafeMutableBufferPointer<Int16>) -> Int {
        guard case .samples(_, let rate) = chunks.first else { return 0 }
        var taken = 0
        while taken < target.count, case .samples(let samples, rate) = chunks.first {
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
        guard case .opus(let packets) = chunks.first else { preconditionFailure("no packet") }
        let result = body(packets[offset])
        offset += 1
        if offset == packets.count { removeFirstChunk() }
        shorten(by: Self.frameLength)
        return result
    }

    private mutating func removeFirstChunk() {
        byteCount -= Self.byteCount(of: chunks.removeFirst())
        offset = 0
    }

    /// Lengths that were rounded down may leave a remainder that no sample stands for.
    private mutating func shorten(by length: Int) {
        count = chunks.isEmpty ? 0 : max(1, count - length)
    }

    private static func length(of payload: SpeechChunk.Payload) -> Int {
        switch payload {
        case .samples(let samples, let rate):
            samples.isEmpty ? 0 : max(1, length(ofSamples: samples.count, at: rate))
        case .opus(let packets): packets.count * frameLength
        }
    }

    private static func byteCount(of payload: SpeechChunk.Payload) -> Int {
        switch payload {
        case .samples(let samples, _): samples.count * 2
        case .opus(let packets): packets.byteCount
        }
    }
}
