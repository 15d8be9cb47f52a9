// What is left of a recording whose process was killed: the whole pages of a file, and a writer that
// ends them. Any bytes give a stream that can be ended, or none; what is found is found again.
//
// An input: a byte of choices, a byte for how long the other side plays, then the file. With the first
// choice, every page in the file gets a correct checksum first, so that fuzzing reaches the code behind
// the check.

import Codec
import Simulation

/// `ogg_opus_recovery`: OggOpusRecovery and OggOpusWriter.
enum OggOpusRecoveryTarget: FuzzTarget {
    static let name = "ogg_opus_recovery"

    static var seeds: [(name: String, bytes: [UInt8])] {
        let packets = (0..<120).map { [9 << 3, UInt8($0), 7, 7] as [UInt8] }
        let open = stream(of: packets, lost: 0, isEnded: false)
        return [
            ("headers", [0, 0] + stream(of: [], lost: 0, isEnded: false)),
            ("open", [0, 9] + open), ("open-fixed", [1, 9] + open),
            ("ended", [1, 0] + stream(of: Array(packets.prefix(60)), lost: 0, isEnded: true)),
            ("silent", [1, 255] + stream(of: [], lost: 48_000, isEnded: false)),
            ("torn", [0, 9] + open.dropLast(50)),
        ]
    }

    private static func stream(of packets: [[UInt8]], lost: Int, isEnded: Bool) -> [UInt8] {
        var writer = OggOpusWriter(serial: 7)
        var stream: [UInt8] = []
        writer.begin(comments: ["PARLEY_SESSION=sess_1"], into: &stream)
        for packet in packets { try? writer.append(packet.span.bytes, into: &stream) }
        writer.appendLoss(samples: lost, into: &stream)
        if isEnded {
            writer.finish(playing: writer.playedSamples - 100, into: &stream)
        } else {
            writer.flush(into: &stream)
        }
        return stream
    }

    static func run(_ input: FuzzInput) {
        var input = input
        let choices = input.byte()
        let longer = Int(input.byte()) * 2_400
        var file = input.rest()
        if choices & 1 != 0 { OggOpusTarget.correctChecksums(of: &file) }
        guard let found = withBytes(of: file, { OggOpusRecovery($0) }) else { return }
        require((1...file.count).contains(found.byteCount), "\(found.byteCount) bytes")
        // A packet of a byte lasts 60 ms at most, and one of two bytes 120.
        require(
            (0...file.count * 5_760).contains(found.playedSamples), "\(found.playedSamples) samples"
        )
        let whole = Array(file.prefix(found.byteCount))
        require(withBytes(of: whole) { OggOpusRecovery($0) } == found, "the pages alone differ")
        guard !found.isEnded else { return }
        var writer = found.writer
        var ended = whole
        writer.finish(playing: found.playedSamples + longer, into: &ended)
        let again = withBytes(of: ended) { OggOpusRecovery($0) }
        require(again?.isEnded == true && again?.byteCount == ended.count, "it is not ended")
        require(
            again?.playedSamples == found.playedSamples + longer, "it plays for another time")
        if packets(of: whole) != nil {
            require(packets(of: ended) != nil, "a reader refuses what was added")
        }
    }

    /// How many packets a reader finds; nil where it refuses the stream.
    private static func packets(of stream: [UInt8]) -> Int? {
        var reader = OggOpusReader()
        var count = 0
        do throws(OggError) {
            try withBytes(of: stream) { (bytes) throws(OggError) in
                try reader.append(bytes) { _ in count += 1 }
            }
            try reader.finish()
        } catch {
            return nil
        }
        return count
    }
}
