// A speech service's answer: Ogg pages, Opus packets, and packets of 20 ms made from them. The
// result is the same however the bytes are split.
//
// An input: a byte of choices, a byte for the split, then the stream. With the first choice, every
// page in the stream gets a correct checksum first, so that fuzzing reaches the code behind the
// check.

import Codec
import Simulation

/// `ogg_opus`: OggOpusReader and OpusRepacketizer.
enum OggOpusTarget: FuzzTarget {
    static let name = "ogg_opus"

    static var seeds: [(name: String, bytes: [UInt8])] {
        var plain = OggOpusStream(preSkip: 312)
        for index in 0..<4 {
            plain.append(packets: [packet(9 << 3, UInt8(index))], granule: 960 * Int64(index + 1))
        }
        var ended = plain
        ended.append(
            packets: [packet(9 << 3, 9), packet(31 << 3 | 1, 9)], flags: 4, granule: 5_000)
        var long = OggOpusStream(channels: 2, gain: -256, mapping: [1, 1, 1, 0, 1], comments: 600)
        long.append(packets: [packet(11 << 3, 7), packet(30 << 3, 8, bytes: 600)], granule: -1)
        var empty = plain
        empty.append(packets: [[19 << 3 | 3, 0, 0, 0]], granule: 4_800)
        var seeds = [
            // A packet that announces no frames.
            ("empty", [1, 3] + empty.bytes),
            ("chained", [1, 3] + ended.bytes + plain.bytes),
            // Refused at the fourth byte of the name, wherever it is split.
            ("misspelt", [0, 1] + plain.bytes + Array("Ogg?".utf8) + [0, 0, 0]),
        ]
        for (name, stream) in [("plain", plain), ("ended", ended), ("long", long)] {
            seeds.append((name, [0, 7] + stream.bytes))
            seeds.append((name + "-fixed", [1, 7] + stream.bytes))
        }
        return seeds
    }

    private static func packet(_ head: UInt8, _ marker: UInt8, bytes: Int = 30) -> [UInt8] {
        [head] + [UInt8](repeating: marker, count: bytes)
    }

    static func run(_ input: FuzzInput) {
        var input = input
        let choices = input.byte()
        let chunking = Chunking(input.byte())
        var stream = input.rest()
        if choices & 1 != 0 { correctChecksums(of: &stream) }
        requireChunkInvariant(stream, chunking, read)
    }

    /// Walks the stream as far as it consists of pages.
    static func correctChecksums(of stream: inout [UInt8]) {
        var start = 0
        while start + 27 <= stream.count, stream[start..<start + 4].elementsEqual("OggS".utf8) {
            let body = start + 27 + Int(stream[start + 26])
            guard body <= stream.count else { return }
            let end = stream[start + 27..<body].reduce(body) { $0 + Int($1) }
            guard end <= stream.count else { return }
            for index in 22..<26 { stream[start + index] = 0 }
            let checksum = OggOpusStream.checksum(of: Array(stream[start..<end]))
            for index in 0..<4 {
                stream[start + 22 + index] = UInt8(truncatingIfNeeded: checksum >> (8 * index))
            }
            start = end
        }
    }

    /// One line per packet, and one for the result.
    private static func read(_ pieces: [[UInt8]]) -> [String] {
        var reader = OggOpusReader()
        var packets: [OggOpusPacket] = []
        var end = "complete"
        do throws(OggError) {
            for piece in pieces {
                try withBytes(of: piece) { (bytes) throws(OggError) in
                    try reader.append(bytes) { packets.append($0) }
                }
            }
            try reader.finish()
        } catch {
            end = "failed: \(error)"
        }
        for packet in packets {
            require((120...5_760).contains(packet.samples), "\(packet.samples) samples")
            require(packet.skipped >= 0 && packet.trimmed >= 0, "less than nothing is left out")
            require(packet.skipped + packet.trimmed <= packet.samples, "too much is left out")
            require(packet.bytes.count <= OggOpusReader.maxPacketBytes, "a packet is too long")
        }
        return packets.map { "\($0)" } + repacketize(packets) + [end, "\(reader.outputGain)"]
    }

    private static func repacketize(_ packets: [OggOpusPacket]) -> [String] {
        var repacketizer = OpusRepacketizer()
        var lines: [String] = []
        for packet in packets {
            do throws(OpusRepacketizingError) {
                try repacketizer.append(packet.bytes) { made in
                    let samples = try? OpusDecoder.sampleCount(of: made.span.bytes, at: .hz48000)
                    require(samples == 960, "\(samples ?? -1) samples in a packet of 20 ms")
                    lines.append("\(made)")
                }
            } catch {
                lines.append("\(error)")
            }
        }
        return lines
    }
}
