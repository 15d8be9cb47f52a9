// What is left of a stream whose writer has not ended it, whatever the file has become.

import Codec
import TestMaterial
import Testing

@Suite struct OggOpusRecoveryTests {
    private static func packet(_ marker: UInt8) -> [UInt8] { [9 << 3, marker, 7, 7] }

    /// Pages of a second each, not ended.
    private static func stream(seconds: Int) throws -> [UInt8] {
        var writer = OggOpusWriter(serial: 7)
        var stream: [UInt8] = []
        writer.begin(comments: ["TITLE=a"], into: &stream)
        for index in 0..<50 * seconds {
            try writer.append(packet(UInt8(index % 250)).span.bytes, into: &stream)
        }
        writer.flush(into: &stream)
        return stream
    }

    private static func recovered(_ stream: [UInt8]) -> OggOpusRecovery? {
        stream.withUnsafeBytes { OggOpusRecovery($0) }
    }

    @Test func wholePagesAreFoundAndEnded() throws {
        var stream = try Self.stream(seconds: 3)
        let found = try #require(Self.recovered(stream))
        #expect(found.byteCount == stream.count && !found.isEnded)
        #expect(found.playedSamples == 3 * 48_000 - OggOpusWriter.preSkip)
        var writer = found.writer
        writer.finish(playing: 4 * 48_000, into: &stream)
        let ended = try #require(Self.recovered(stream))
        #expect(ended.isEnded && ended.playedSamples == 4 * 48_000)
        #expect(ended.byteCount == stream.count)
    }

    @Test(arguments: [1, 20, 200])
    func aPageThatIsWrittenInPartIsNone(missing: Int) throws {
        let two = try Self.stream(seconds: 2)
        let stream = try Self.stream(seconds: 3).dropLast(missing)
        let found = try #require(Self.recovered(Array(stream)))
        #expect(found.byteCount == two.count && found == Self.recovered(two))
    }

    @Test func withoutBothHeadersThereIsNothing() throws {
        let stream = try Self.stream(seconds: 0)
        #expect(Self.recovered(stream)?.playedSamples == 0)
        #expect(Self.recovered(Array(stream.dropLast())) == nil)
        #expect(Self.recovered([]) == nil)
        #expect(Self.recovered([UInt8](repeating: 0, count: 100_000)) == nil)
    }

    /// A writer would fill the time up to such a position with silence.
    @Test(arguments: [Int64.max, 1 << 40, 4_801, 4_799, -1, -5])
    func aPositionThatItsPacketsDoNotReachIsRefused(position: Int64) throws {
        var stream = OggOpusStream()
        let headers = stream.bytes.count
        let packets = (0..<5).map { Self.packet(UInt8($0)) }
        stream.append(packets: packets, granule: position)
        let found = try #require(Self.recovered(stream.bytes))
        #expect(found.byteCount == headers && found.playedSamples == 0)
        var right = OggOpusStream()
        right.append(packets: packets, granule: 4_800)
        #expect(Self.recovered(right.bytes)?.byteCount == right.bytes.count)
    }

    @Test func theLastPageMayBeCutWithinItsPackets() {
        for (position, isRight) in [(Int64(4_800), true), (100, true), (4_801, false)] {
            var stream = OggOpusStream()
            stream.append(
                packets: (0..<5).map { Self.packet(UInt8($0)) }, flags: 4, granule: position)
            #expect(Self.recovered(stream.bytes)?.isEnded == isRight)
        }
    }

    @Test func aPageOfBytesThatAreNoPacketIsRefused() {
        var stream = OggOpusStream()
        let headers = stream.bytes.count
        // Code 3 without a count of frames (RFC 6716 §3.2.5).
        stream.append(packets: [[9 << 3 | 3]], granule: 960)
        #expect(Self.recovered(stream.bytes)?.byteCount == headers)
    }
}
