// Encodes the samples of one side as Opus for its file: PCM and G.711 come in runs of any length, Opus
// has frames of 20 ms. Nothing is resampled: Opus takes 8 and 24 kHz as they are.

import Codec

/// Encodes one side. About 45 kB of state; 65 µs of work for 20 ms (docs/recordings.md).
final class SampleEncoder {
    /// Bits per second. 24,000: wideband speech without audible loss; a side of an hour has 11 MB.
    private static let bitrate = 24_000
    /// 1: less than half of the work of 5. A recording is heard again by people who look for words.
    private static let complexity = 1
    /// Frames per second: each lasts 20 ms.
    private static let framesPerSecond = 50

    let format: AudioFormat
    private var opus: OpusEncoder
    /// Samples that wait for the rest of their frame.
    private var waiting: [Int16] = []
    private let frame: Int
    private let room = UnsafeMutableRawBufferPointer.allocate(
        byteCount: OpusEncoder.maxPacketBytes, alignment: 1)

    init(_ format: AudioFormat) throws(OpusError) {
        self.format = format
        frame = format.sampleRate.hertz / Self.framesPerSecond
        opus = try OpusEncoder(
            rate: format.sampleRate, bitrate: Self.bitrate, complexity: Self.complexity)
    }

    deinit { room.deallocate() }

    /// Whether no samples wait.
    var isEmpty: Bool { waiting.isEmpty }

    /// Appends samples in the format; `each` gets the packets of the frames that they complete.
    func append(_ bytes: ArraySlice<UInt8>, _ each: (RawSpan) -> Void) {
        switch format {
        case .pcm, .pcm8000, .pcm16000, .pcm48000:
            for index in stride(from: bytes.startIndex, to: bytes.endIndex - 1, by: 2) {
                let bits = UInt16(bytes[index]) | UInt16(bytes[index + 1]) << 8
                waiting.append(Int16(bitPattern: bits))
            }
        case .pcmu, .pcma:
            let start = waiting.count
            waiting += [Int16](repeating: 0, count: bytes.count)
            waiting.withUnsafeMutableBufferPointer {
                let target = UnsafeMutableBufferPointer(rebasing: $0[start...])
                G711.decode(bytes.span.bytes, law: format == .pcmu ? .mu : .a, into: target)
            }
        case .opus: return
        }
        var done = 0
        while waiting.count - done >= frame {
            encode(waiting[done..<done + frame], each)
            done += frame
        }
        waiting.removeFirst(done)
    }

    /// Fills the last frame up with silence, if samples wait for it.
    func endFrame(_ each: (RawSpan) -> Void) {
        guard !waiting.isEmpty else { return }
        let silence = [Int16](repeating: 0, count: frame - waiting.count)
        encode((waiting + silence)[...], each)
        waiting.removeAll(keepingCapacity: true)
    }

    private func encode(_ samples: ArraySlice<Int16>, _ each: (RawSpan) -> Void) {
        let count = samples.withUnsafeBufferPointer { try? opus.encode($0, into: room) }
        guard let count else { return }
        each(UnsafeRawBufferPointer(rebasing: room[..<count]).bytes)
    }
}
