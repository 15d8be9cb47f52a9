// Valid and broken Ogg Opus streams, each read whole, byte by byte and at random splits.

import Codec
import TestMaterial
import Testing

@Suite struct OggOpusReaderTests {
    /// 20 ms of wideband SILK in one frame. The reader does not look at the frame's content.
    private static func packet(_ marker: UInt8, bytes: Int = 40) -> [UInt8] {
        [9 << 3, marker] + [UInt8](repeating: marker, count: bytes - 2)
    }

    private static func read(
        _ pieces: [[UInt8]]
    ) -> (packets: [OggOpusPacket], error: OggError?) {
        var reader = OggOpusReader()
        var packets: [OggOpusPacket] = []
        do throws(OggError) {
            for piece in pieces {
                try piece.span.bytes.withUnsafeBytes { (bytes) throws(OggError) in
                    try reader.append(bytes) { packets.append($0) }
                }
            }
            try reader.finish()
            return (packets, nil)
        } catch {
            return (packets, error)
        }
    }

    private func expect(
        _ stream: [UInt8], gives packets: [OggOpusPacket]? = nil, fails error: OggError? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let splits = [
            [stream], stream.count > 10_000 ? [stream] : stream.map { [$0] },
            stride(from: 0, to: stream.count, by: 97).map {
                Array(stream[$0..<min($0 + 97, stream.count)])
            },
        ]
        for pieces in splits {
            let outcome = Self.read(pieces)
            #expect(outcome.error == error, sourceLocation: sourceLocation)
            if let packets { #expect(outcome.packets == packets, sourceLocation: sourceLocation) }
        }
    }

    // MARK: Good streams

    @Test func readsPacketsInOrder() {
        var stream = OggOpusStream()
        stream.append(packets: [Self.packet(1), Self.packet(2)], granule: 1_920)
        stream.append(packets: [Self.packet(3)], flags: 4, granule: 2_880)
        expect(
            stream.bytes,
            gives: [1, 2, 3].map { OggOpusPacket(bytes: Self.packet($0), samples: 960) })
    }

    @Test func aPacketMayBeOfAnyNumberOfSegmentsAndPages() {
        // 255 and 510 bytes end with an empty segment (RFC 3533 §5).
        for size in [254, 255, 256, 510, 1_000] {
            var stream = OggOpusStream()
            stream.append(packets: [Self.packet(1, bytes: size)], flags: 4, granule: 960)
            expect(
                stream.bytes,
                gives: [OggOpusPacket(bytes: Self.packet(1, bytes: size), samples: 960)])
        }
        var stream = OggOpusStream()
        let packets = (0..<120).map { Self.packet(UInt8($0), bytes: 700) }
        stream.append(packets: packets, flags: 4, granule: 960 * 120)
        expect(stream.bytes, gives: packets.map { OggOpusPacket(bytes: $0, samples: 960) })
    }

    @Test func theEncodersDelayIsSkipped() {
        var stream = OggOpusStream(preSkip: 1_272)
        stream.append(packets: [Self.packet(1), Self.packet(2)], granule: 1_920)
        stream.append(packets: [Self.packet(3)], granule: 2_880)
        expect(
            stream.bytes,
            gives: [
                OggOpusPacket(bytes: Self.packet(1), samples: 960, skipped: 960),
                OggOpusPacket(bytes: Self.packet(2), samples: 960, skipped: 312),
                OggOpusPacket(bytes: Self.packet(3), samples: 960),
            ])
    }

    @Test func samplesBeyondTheEndAreTrimmed() {
        var stream = OggOpusStream(preSkip: 312)
        stream.append(packets: [Self.packet(1)], granule: 960)
        stream.append(packets: [Self.packet(2), Self.packet(3)], flags: 4, granule: 1_700)
        expect(
            stream.bytes,
            gives: [
                OggOpusPacket(bytes: Self.packet(1), samples: 960, skipped: 312),
                OggOpusPacket(bytes: Self.packet(2), samples: 960, trimmed: 220),
                OggOpusPacket(bytes: Self.packet(3), samples: 960, trimmed: 960),
            ])
        // A whole stream in one page also states its length.
        var short = OggOpusStream()
        short.append(packets: [Self.packet(1), Self.packet(2)], flags: 4, granule: 1_000)
        #expect(Self.read([short.bytes]).packets.map(\.trimmed) == [0, 920])
    }

    @Test func aStreamCutOutOfALongerOneKeepsItsLength() {
        var stream = OggOpusStream()
        stream.append(packets: [Self.packet(1)], granule: 960_960)
        stream.append(packets: [Self.packet(2)], flags: 4, granule: 961_920 - 100)
        #expect(Self.read([stream.bytes]).packets.map(\.trimmed) == [0, 100])
    }

    @Test func streamsThatFollowOneAnotherAreOne() {
        var first = OggOpusStream(serial: 1)
        first.append(packets: [Self.packet(1)], flags: 4, granule: 960)
        var second = OggOpusStream(serial: 2, preSkip: 100)
        second.append(packets: [Self.packet(2)], flags: 4, granule: 960)
        expect(
            first.bytes + second.bytes,
            gives: [
                OggOpusPacket(bytes: Self.packet(1), samples: 960),
                OggOpusPacket(bytes: Self.packet(2), samples: 960, skipped: 100),
            ])
    }

    @Test func aStreamWithoutALastPageIsComplete() {
        var stream = OggOpusStream(comments: 5_000)
        stream.append(packets: [Self.packet(1)], granule: 960)
        expect(stream.bytes, gives: [OggOpusPacket(bytes: Self.packet(1), samples: 960)])
    }

    @Test func stereoAndAMappingTableOfOneStreamAreRead() {
        for mapping: [UInt8] in [[0], [1, 1, 1, 0, 1]] {
            var stream = OggOpusStream(channels: 2, mapping: mapping)
            stream.append(packets: [Self.packet(1)], flags: 4, granule: 960)
            #expect(Self.read([stream.bytes]).packets.count == 1)
        }
    }

    // MARK: Bad streams

    private var good: OggOpusStream {
        var stream = OggOpusStream()
        stream.append(packets: [Self.packet(1)], granule: 960)
        return stream
    }

    @Test func rejectsWhatIsNoOgg() {
        expect(Array("RIFF1234WAVE".utf8), fails: .notOgg)
        expect(Array("OggX".utf8), fails: .notOgg)
        expect(good.bytes + Array("x".utf8), fails: .notOgg)
        let cut = Self.read([good.bytes + Array("Og".utf8), Array("g?more".utf8)])
        #expect(cut.error == .notOgg, "a page's name may come in two reads")
    }

    @Test func rejectsAnotherVersion() {
        var bytes = good.bytes
        bytes[4] = 1
        expect(bytes, fails: .unsupportedVersion(1))
    }

    @Test func rejectsEveryChangedByte() {
        let bytes = good.bytes
        for index in bytes.indices {
            var changed = bytes
            changed[index] ^= 0x10
            #expect(Self.read([changed]).error != nil, "byte \(index)")
        }
    }

    @Test func rejectsAMissingPage() {
        var stream = OggOpusStream()
        let before = stream.bytes.count
        stream.append(packets: [Self.packet(1)], granule: 960)
        let after = stream.bytes.count
        stream.append(packets: [Self.packet(2)], granule: 1_920)
        expect(
            Array(stream.bytes[..<before] + stream.bytes[after...]), gives: [], fails: .pageMissing)
    }

    @Test func rejectsPagesAfterTheEndAndAnEndWithinAPacket() {
        var stream = good
        stream.append(packets: [Self.packet(2)], flags: 4, granule: 1_920)
        stream.append(packets: [Self.packet(3)], granule: 2_880)
        expect(stream.bytes, fails: .pageMissing)
        var open = good
        open.append(page: [255], [UInt8](repeating: 72, count: 255), flags: 4, granule: -1)
        var next = OggOpusStream(serial: 2)
        next.append(packets: [Self.packet(1)], granule: 960)
        expect(open.bytes + next.bytes, fails: .truncated)
    }

    /// A stream that follows another is trimmed by its own positions.
    @Test func everyStreamOfAChainHasItsOwnPositions() {
        var first = OggOpusStream(serial: 1)
        first.append(packets: [Self.packet(1)], granule: 960_960)
        first.append(packets: [Self.packet(2)], flags: 4, granule: 961_920)
        var second = OggOpusStream(serial: 2)
        second.append(packets: [Self.packet(3)], granule: 960)
        second.append(packets: [Self.packet(4)], flags: 4, granule: 1_900)
        let read = Self.read([first.bytes + second.bytes])
        #expect(read.packets.map(\.trimmed) == [0, 0, 0, 20] && read.error == nil)
    }

    @Test func anotherStreamBesideOursIsSkipped() {
        var other = OggOpusStream(serial: 9)
        let head = other.bytes.count
        other.append(page: [], [], flags: 2, granule: 0)
        var stream = good
        stream.append(packets: [Self.packet(2)], flags: 4, granule: 1_920)
        let bytes = good.bytes + other.bytes[head...] + stream.bytes[good.bytes.count...]
        #expect(Self.read([bytes]).packets.count == 2)
    }

    @Test func rejectsInconsistentContinuations() {
        var nothing = OggOpusStream()
        nothing.append(page: [2], [72, 0], flags: 1, granule: 960)
        expect(nothing.bytes, fails: .inconsistentContinuation)
        var lack = OggOpusStream()
        lack.append(page: [255], [UInt8](repeating: 72, count: 255), flags: 0, granule: -1)
        lack.append(page: [2], [72, 0], flags: 0, granule: 960)
        expect(lack.bytes, fails: .inconsistentContinuation)
    }

    @Test func rejectsAnEndWithinAPageOrPacket() {
        expect([], fails: .truncated)
        expect(good.bytes.dropLast(), fails: .truncated)
        expect(OggOpusStream().bytes.dropLast(30), fails: .truncated)
        var open = OggOpusStream()
        open.append(page: [255], [UInt8](repeating: 72, count: 255), flags: 0, granule: -1)
        expect(open.bytes, fails: .truncated)
    }

    private func expect(_ stream: ArraySlice<UInt8>, fails error: OggError) {
        expect(Array(stream), fails: error)
    }

    @Test func boundsPacketsAndComments() {
        var stream = OggOpusStream()
        let packet = [UInt8](repeating: 72, count: OggOpusReader.maxPacketBytes + 1)
        stream.append(packets: [packet], granule: 960)
        expect(stream.bytes, gives: [], fails: .packetTooLong)
        // The longest possible packet: 120 ms in 48 frames of 1,275 bytes, each with its length.
        var longest: [UInt8] = [16 << 3 | 3, 0x80 | 48]
        for _ in 0..<47 { longest += [252, 255] }
        longest += [UInt8](repeating: 1, count: 48 * 1_275)
        var long = OggOpusStream()
        long.append(packets: [longest], granule: 5_760)
        #expect(Self.read([long.bytes]).packets.map(\.samples) == [5_760])
        let comments = OggOpusStream(comments: OggOpusReader.maxCommentBytes)
        #expect(Self.read([comments.bytes]).error == .packetTooLong)
    }

    @Test func rejectsOtherCodecsAndLayouts() {
        #expect(Self.read([OggOpusStream(channels: 0).bytes]).error == .invalidHeader)
        #expect(Self.read([OggOpusStream(channels: 6).bytes]).error == .unsupportedChannels(6))
        #expect(
            Self.read([OggOpusStream(channels: 2, mapping: [1, 2, 0, 0, 1]).bytes]).error
                == .unsupportedChannels(2))
        #expect(Self.read([OggOpusStream(channels: 2, mapping: [1]).bytes]).error == .invalidHeader)
        #expect(
            Self.read([OggOpusStream(channels: 3, mapping: [1, 1, 1, 0, 1, 0]).bytes]).error
                == .unsupportedChannels(3))
        // A page with a valid checksum whose header has the next major version.
        var next = OggOpusStream(serial: 3)
        let before = next.bytes.count
        let head = Array("OpusHead".utf8) + [0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        next.append(page: [UInt8(head.count)], head, flags: 2, granule: 0)
        #expect(Self.read([Array(next.bytes[before...])]).error == .invalidHeader)
    }

    @Test(arguments: [[], [0x4B], [72 | 3, 63]] as [[UInt8]])
    func rejectsAPacketThatIsNoOpus(packet: [UInt8]) {
        var stream = OggOpusStream()
        stream.append(packets: [packet], granule: 960)
        expect(stream.bytes, gives: [], fails: .invalidPacket)
    }

    @Test func positionsOfAnySizeAreHarmless() {
        for granule in [Int64.min, -2, 0, .max] {
            var stream = OggOpusStream()
            stream.append(packets: [Self.packet(1)], granule: granule)
            stream.append(packets: [Self.packet(2)], flags: 4, granule: granule)
            #expect(Self.read([stream.bytes]).packets.count == 2)
        }
    }
}
