// Makes one stereo WAV file of a recording's two Ogg Opus files: the user on the left, the agent on the
// right. The files are read and written piece by piece, however long they are.
//
// Invariant: the sides begin together, and the shorter one is filled up with silence.

import Codec
import Glibc

/// Mixes two files.
struct StereoMix {
    /// The rate of the result: that of the protocol's PCM.
    static let rate = SampleRate.hz24000
    /// Bytes of a WAV file, at most: its sizes have 32 bits.
    private static let maxBytes = Int(UInt32.max)
    /// Bytes of the WAV file's header.
    private static let headerBytes = 44

    /// Writes the mix of two files.
    /// - Returns: how long it plays, in seconds.
    /// - Throws: `CommandFailure` that names the file that cannot be used.
    static func write(
        user: String, agent: String, to path: String
    ) throws(CommandFailure) -> Int {
        let left = try SideReader(user)
        let right = try SideReader(agent)
        guard let file = fopen(path, "we") else {
            throw CommandFailure(description: "cannot write \(path)")
        }
        var frames = 0
        do throws(CommandFailure) {
            var isWritten = write(header(frames: 0), to: file)
            while true {
                try left.fill()
                try right.fill()
                let (user, agent) = (left.take(), right.take())
                let count = max(user.count, agent.count)
                guard count > 0 else { break }
                frames += count
                guard headerBytes + frames * 4 <= maxBytes else {
                    throw CommandFailure(description: "the recording is too long for a WAV file")
                }
                isWritten = isWritten && write(interleaved(user, agent, count), to: file)
            }
            isWritten = isWritten && fseek(file, 0, SEEK_SET) == 0
            isWritten = isWritten && write(header(frames: frames), to: file)
            // Closing flushes, and a full disk may show only then.
            guard fclose(file) == 0, isWritten else {
                throw CommandFailure(description: "cannot write all of \(path)")
            }
        } catch {
            unlink(path)
            throw error
        }
        return frames / rate.hertz
    }

    private static func header(frames: Int) -> [UInt8] {
        var header = WAVFile(rate: rate, channels: 2, samples: []).encoded()
        for (place, size) in [(4, headerBytes - 8 + frames * 4), (40, frames * 4)] {
            for index in 0..<4 {
                header[place + index] = UInt8(truncatingIfNeeded: size >> (8 * index))
            }
        }
        return header
    }

    private static func interleaved(_ left: [Int16], _ right: [Int16], _ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count * 4)
        for (side, samples) in [left, right].enumerated() {
            for (index, sample) in samples.enumerated() {
                bytes[index * 4 + side * 2] = UInt8(truncatingIfNeeded: sample)
                bytes[index * 4 + side * 2 + 1] = UInt8(truncatingIfNeeded: sample >> 8)
            }
        }
        return bytes
    }

    private static func write(_ bytes: [UInt8], to file: UnsafeMutablePointer<FILE>) -> Bool {
        fwrite(bytes, 1, bytes.count, file) == bytes.count
    }
}

/// Decodes one side, a second at a time.
private final class SideReader {
    /// Samples that are decoded ahead: both sides are read to the same point.
    private static let wanted = StereoMix.rate.hertz

    private let path: String
    private let file: UnsafeMutablePointer<FILE>
    private var ogg = OggOpusReader()
    private var decoder: OpusDecoder
    private var hasEnded = false
    /// Decoded samples that are not taken yet.
    private(set) var samples: [Int16] = []

    init(_ path: String) throws(CommandFailure) {
        self.path = path
        guard let file = fopen(path, "re") else {
            throw CommandFailure(description: "cannot read \(path)")
        }
        self.file = file
        do throws(OpusError) {
            decoder = try OpusDecoder(rate: StereoMix.rate)
        } catch {
            throw CommandFailure(description: "cannot decode \(path): \(error)")
        }
    }

    deinit { fclose(file) }

    /// Decodes until a second is there, or the file's end.
    func fill() throws(CommandFailure) {
        var bytes = [UInt8](repeating: 0, count: 16 << 10)
        while samples.count < Self.wanted, !hasEnded {
            let count = fread(&bytes, 1, bytes.count, file)
            hasEnded = count == 0
            var packets: [OggOpusPacket] = []
            do throws(OggError) {
                try bytes.span.bytes.extracting(0..<count)
                    .withUnsafeBytes { (bytes) throws(OggError) in
                        try ogg.append(bytes) { packets.append($0) }
                    }
            } catch {
                throw CommandFailure(description: "cannot read \(path): \(error)")
            }
            for packet in packets { decode(packet) }
        }
    }

    /// Takes a second at most.
    func take() -> [Int16] {
        let taken = Array(samples.prefix(Self.wanted))
        samples.removeFirst(taken.count)
        return taken
    }

    /// Decodes a packet. One that does not decode is concealed, like one that was lost.
    private func decode(_ packet: OggOpusPacket) {
        let ratio = SampleRate.hz48000.hertz / StereoMix.rate.hertz
        let length = packet.samples / ratio
        let decoded = [Int16](unsafeUninitializedCapacity: length) { room, count in
            let written = try? decoder.decode(packet.bytes.span.bytes, into: room)
            count = written ?? (try? decoder.conceal(samples: length, into: room)) ?? 0
        }
        let end = max(0, decoded.count - packet.trimmed / ratio)
        samples += decoded[min(packet.skipped / ratio, end)..<end]
    }
}
