// Streams that OggOpusWriter makes, read back with OggOpusReader and with opus-tools.

import CLinux
import Codec
import Testing

@Suite struct OggOpusWriterTests {
    /// 20 ms of wideband SILK in one frame.
    private static func packet(_ marker: UInt8, bytes: Int = 40) -> [UInt8] {
        [9 << 3, marker] + [UInt8](repeating: marker, count: bytes - 2)
    }

    private static func read(_ stream: [UInt8]) throws(OggError) -> [OggOpusPacket] {
        var reader = OggOpusReader()
        var packets: [OggOpusPacket] = []
        try stream.span.bytes.withUnsafeBytes { (bytes) throws(OggError) in
            try reader.append(bytes) { packets.append($0) }
        }
        try reader.finish()
        return packets
    }

    /// What is played of a stream, in samples at 48 kHz.
    private static func played(_ stream: [UInt8]) throws(OggError) -> Int {
        try read(stream).reduce(0) { $0 + $1.samples - $1.skipped - $1.trimmed }
    }

    private static func decode(_ packets: [OggOpusPacket]) throws -> [Int16] {
        var decoder = try OpusDecoder(rate: .hz48000)
        let room = UnsafeMutableBufferPointer<Int16>.allocate(capacity: 5_760)
        defer { room.deallocate() }
        return try packets.flatMap { packet in
            let count = try decoder.decode(packet.bytes.span.bytes, into: room)
            return room[packet.skipped..<count - packet.trimmed].map { $0 }
        }
    }

    @Test(arguments: [2, 40, 254, 255, 256, 510, 1_000, OggOpusReader.maxPacketBytes])
    func packetsComeBackAsTheyWere(bytes: Int) throws {
        var writer = OggOpusWriter(serial: 7)
        var stream: [UInt8] = []
        writer.begin(comments: ["TITLE=a"], into: &stream)
        let packets = (0..<120).map { Self.packet(UInt8($0), bytes: bytes) }
        for packet in packets { try writer.append(packet.span.bytes, into: &stream) }
        #expect(writer.position == 120 * 960)
        writer.finish(playing: writer.playedSamples, into: &stream)
        let read = try Self.read(stream)
        #expect(read.prefix(120).map(\.bytes) == packets)
        #expect(try Self.played(stream) == 120 * 960 - OggOpusWriter.preSkip)
    }

    @Test func aPageLastsASecondAtMost() throws {
        var writer = OggOpusWriter(serial: 7)
        var stream: [UInt8] = []
        writer.begin(comments: [], into: &stream)
        let headers = stream.count
        for marker in 0..<50 {
            try writer.append(Self.packet(UInt8(marker)).span.bytes, into: &stream)
        }
        #expect(stream.count == headers && writer.hasPage)
        try writer.append(Self.packet(50).span.bytes, into: &stream)
        #expect(stream.count > headers)
    }

    @Test(arguments: [0, 1, 119, 120, 960, 961, 47_999, 48_000, 10 * 48_000 + 7])
    func theEndIsExactToTheSample(samples: Int) throws {
        for packets in [0, 1, 3] {
            var writer = OggOpusWriter(serial: 1)
            var stream: [UInt8] = []
            writer.begin(comments: [], into: &stream)
            for _ in 0..<packets { try writer.append(Self.packet(1).span.bytes, into: &stream) }
            writer.flush(into: &stream)
            let written = writer.playedSamples
            writer.finish(playing: samples, into: &stream)
            #expect(try Self.played(stream) == max(samples, written))
        }
    }

    @Test func silenceIsSilent() throws {
        var encoder = try OpusEncoder(rate: .hz16000)
        let tone = (0..<320).map { Int16(8_000 * ($0 / 20 % 2 == 0 ? 1 : -1)) }
        var writer = OggOpusWriter(serial: 1)
        var stream: [UInt8] = []
        writer.begin(comments: [], into: &stream)
        let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 1_276, alignment: 1)
        defer { room.deallocate() }
        for _ in 0..<10 {
            let count = try tone.withUnsafeBufferPointer { try encoder.encode($0, into: room) }
            let packet = [UInt8](room[..<count])
            try writer.append(packet.span.bytes, into: &stream)
        }
        // 20, 10, 5 and 2.5 ms; the rest is left out.
        writer.appendSilence(samples: 48_000 + 480 + 240 + 120 + 119, into: &stream)
        #expect(writer.position == 10 * 960 + 48_000 + 840)
        writer.finish(playing: writer.playedSamples, into: &stream)
        let samples = try Self.decode(try Self.read(stream))
        #expect(samples[..<9_000].contains { abs(Int($0)) > 4_000 })
        // The decoder fades from one mode to the other within a frame.
        #expect(samples[(10 * 960 + 960)...].allSatisfy { $0 == 0 })
    }

    @Test func aLostPacketIsConcealed() throws {
        var writer = OggOpusWriter(serial: 1)
        var stream: [UInt8] = []
        writer.begin(comments: [], into: &stream)
        try writer.append(Self.packet(1).span.bytes, into: &stream)
        writer.appendLoss(samples: 3 * 960 + 240, into: &stream)
        #expect(writer.position == 4 * 960 + 240)
        writer.finish(playing: writer.playedSamples, into: &stream)
        let packets = try Self.read(stream)
        // RFC 7845 §4.1: a table of contents alone, of the kind of the packet before.
        #expect(packets[1...3].allSatisfy { $0.bytes == [9 << 3] && $0.samples == 960 })
        #expect(packets[4].samples == 240)
    }

    @Test func bytesThatAreNoPacketAreRefused() throws {
        var writer = OggOpusWriter(serial: 1)
        var stream: [UInt8] = []
        let empty: [UInt8] = []
        #expect(throws: OpusError.self) { try writer.append(empty.span.bytes, into: &stream) }
        // Code 3 without a count of frames (RFC 6716 §3.2.5).
        let cut: [UInt8] = [9 << 3 | 3]
        #expect(throws: OpusError.self) { try writer.append(cut.span.bytes, into: &stream) }
        let long = Self.packet(1, bytes: OggOpusReader.maxPacketBytes + 1)
        #expect(throws: OpusError.self) { try writer.append(long.span.bytes, into: &stream) }
        #expect(stream.isEmpty && !writer.hasPage && writer.position == 0)
    }

    @Test func aStreamIsContinuedAfterItsLastPage() throws {
        var writer = OggOpusWriter(serial: 9)
        var stream: [UInt8] = []
        writer.begin(comments: [], into: &stream)
        for _ in 0..<20 { try writer.append(Self.packet(1).span.bytes, into: &stream) }
        writer.flush(into: &stream)
        // Two header pages and one of audio.
        var next = OggOpusWriter(continuing: 9, sequence: 3, position: writer.position)
        next.finish(playing: 48_000, into: &stream)
        #expect(try Self.played(stream) == 48_000)
    }

    @Test func opusToolsFindNothingWrong() throws {
        guard access("/usr/bin/opusinfo", X_OK) == 0 else { return }
        var writer = OggOpusWriter(serial: 1)
        var stream: [UInt8] = []
        writer.begin(comments: ["PARLEY_SESSION=sess_1"], into: &stream)
        writer.appendSilence(samples: 3 * 48_000 + 120, into: &stream)
        for marker in 0..<100 {
            try writer.append(Self.packet(UInt8(marker)).span.bytes, into: &stream)
        }
        writer.appendLoss(samples: 960, into: &stream)
        writer.finish(playing: 7 * 48_000 + 11, into: &stream)
        var path = Array("/tmp/parley-ogg-XXXXXX".utf8CString)
        let file = mkstemp(&path)
        try #require(file >= 0)
        defer { unlink(path) }
        #expect(stream.withUnsafeBytes { write(file, $0.baseAddress, $0.count) } == stream.count)
        close(file)
        let name = String(decoding: path.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        #expect(system("opusinfo -q '\(name)' >/dev/null 2>&1") == 0)
        #expect(system("opusinfo '\(name)' 2>&1 | grep -qi warning") != 0)
        #expect(system("opusinfo '\(name)' | grep -q 'Playback length: 0m:07.000s'") == 0)
    }
}
