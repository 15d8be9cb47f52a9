// WAV files: reading, writing, and every kind of malformed file.

import Codec
import Testing

/// Builds files field by field, so that any field can be wrong.
private struct WAVBuilder {
    var tag = 1
    var channels = 1
    var hertz = 16_000
    var bits = 16
    var frameBytes: Int?
    var extensionBytes: [UInt8] = []
    var chunksBefore: [UInt8] = []
    var chunksBetween: [UInt8] = []
    var declaredDataBytes: Int?
    var data: [UInt8] = []

    static func littleEndian(_ value: Int, _ bytes: Int) -> [UInt8] {
        (0..<bytes).map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
    }

    static func chunk(_ id: String, _ content: [UInt8], declared: Int? = nil) -> [UInt8] {
        let padding: [UInt8] = content.count % 2 == 1 ? [0] : []
        return Array(id.utf8) + littleEndian(declared ?? content.count, 4) + content + padding
    }

    var format: [UInt8] {
        let frame = frameBytes ?? channels * bits / 8
        let fields = [
            (tag, 2), (channels, 2), (hertz, 4), (hertz * frame, 4), (frame, 2), (bits, 2),
        ]
        return fields.flatMap { Self.littleEndian($0, $1) } + extensionBytes
    }

    var file: [UInt8] {
        let chunks =
            chunksBefore + Self.chunk("fmt ", format) + chunksBetween
            + Self.chunk("data", data, declared: declaredDataBytes)
        return Array("RIFF".utf8) + Self.littleEndian(4 + chunks.count, 4)
            + Array("WAVE".utf8) + chunks
    }
}

private func refusal(_ bytes: [UInt8]) -> WAVError? {
    do throws(WAVError) {
        _ = try WAVFile(parsing: bytes)
        return nil
    } catch { return error }
}

@Suite struct WAVTests {
    @Test(arguments: [1, 2, 8])
    func whatIsWrittenReadsBack(_ channels: Int) throws {
        var numbers = RepeatableNumbers(seed: 3)
        let samples = (0..<channels * 100).map { _ in
            Int16.random(in: .min ... .max, using: &numbers)
        }
        let file = WAVFile(rate: .hz24000, channels: channels, samples: samples)
        #expect(try WAVFile(parsing: file.encoded()) == file)
    }

    @Test func writesTheCanonicalHeader() {
        var builder = WAVBuilder(channels: 2, hertz: 48_000)
        builder.data = [1, 0, 2, 0, 0xFF, 0xFF, 0, 0x80]
        let file = WAVFile(rate: .hz48000, channels: 2, samples: [1, 2, -1, .min])
        #expect(file.encoded() == builder.file)
    }

    /// Format tag, bits per sample, bytes, and the samples they encode.
    static let encodings: [(Int, Int, [UInt8], [Int16])] = [
        (1, 8, [0, 127, 128, 129, 255], [-32_768, -256, 0, 256, 32_512]),
        (1, 16, [0, 0x80, 0xFF, 0x7F, 0xFF, 0xFF], [.min, .max, -1]),
        (1, 24, [0, 0, 0x80, 0xFF, 0xFF, 0x7F, 0x7F, 0, 0, 0x80, 0, 0], [.min, .max, 0, 1]),
        (1, 24, [0x7F, 0xFF, 0xFF, 0x80, 0xFF, 0xFF], [-1, 0]),
        (1, 32, [0, 0, 0, 0x80, 0xFF, 0xFF, 0xFF, 0x7F, 0, 0x80, 0, 0], [.min, .max, 1]),
        (3, 32, [0, 0, 0x80, 0x3F, 0, 0, 0, 0xBF, 0, 0, 0xC0, 0x7F], [.max, -16_384, 0]),
        (6, 8, [0xD5, 0x55, 0xAA], [8, -8, 32_256]),
        (7, 8, [0xFF, 0x80, 0x00], [0, 32_124, -32_124]),
    ]

    @Test(arguments: encodings)
    func readsEveryEncoding(_ tag: Int, _ bits: Int, _ data: [UInt8], _ samples: [Int16]) throws {
        var builder = WAVBuilder(tag: tag, bits: bits, data: data)
        #expect(try WAVFile(parsing: builder.file).samples == samples)
        // The same in WAVEFORMATEXTENSIBLE: valid bits, speaker positions, identifier of the
        // sub-format.
        builder.tag = 0xFFFE
        builder.extensionBytes =
            [22, 0] + WAVBuilder.littleEndian(bits, 2) + [4, 0, 0, 0]
            + WAVBuilder.littleEndian(tag, 2) + [UInt8](repeating: 0x10, count: 14)
        #expect(try WAVFile(parsing: builder.file).samples == samples)
    }

    @Test func skipsOtherChunks() throws {
        var builder = WAVBuilder(data: [5, 0])
        builder.chunksBefore = WAVBuilder.chunk("JUNK", [1, 2, 3])
        builder.chunksBetween = WAVBuilder.chunk("LIST", [1]) + WAVBuilder.chunk("fact", [])
        #expect(try WAVFile(parsing: builder.file).samples == [5])
        #expect(try WAVFile(parsing: builder.file + [1, 2, 3]).samples == [5])
    }

    @Test(arguments: [0xFFFF_FFFF, 0x7FFF_0000, 0x7FFF_FFFF])
    func aStreamedFileLastsToItsEnd(_ declared: Int) throws {
        let builder = WAVBuilder(declaredDataBytes: declared, data: [5, 0, 6, 0])
        #expect(try WAVFile(parsing: builder.file).samples == [5, 6])
    }

    /// Channels, a frame, and its mean.
    static let means: [(Int, [Int16], Int16)] = [
        (1, [-7], -7), (2, [1, 2], 2), (2, [-1, -2], -1), (2, [.max, .max], .max),
        (2, [.min, .min], .min), (2, [.min, .max], 0), (3, [1, 1, 2], 1), (3, [1, 2, 2], 2),
        (3, [-1, -1, -2], -1), (3, [-1, -2, -2], -2), (4, [0, 0, 0, 2], 1),
    ]

    @Test(arguments: means)
    func monoIsTheRoundedMean(_ channels: Int, _ frame: [Int16], _ mean: Int16) {
        let file = WAVFile(rate: .hz8000, channels: channels, samples: frame + frame)
        #expect(file.monoSamples == [mean, mean])
    }

    // MARK: - Malformed files

    static let malformed: [(String, [UInt8], WAVError)] = [
        ("empty", [], .truncated(chunk: "RIFF")),
        ("another file", Array("OggS000000000000".utf8), .notWAV),
        ("another RIFF", Array("RIFF\0\0\0\0AVI LIST".utf8), .notWAV),
        ("only the header", Array("RIFF\0\0\0\0WAVE".utf8), .missingChunk("fmt ")),
        (
            "no data",
            Array("RIFF\0\0\0\0WAVE".utf8) + WAVBuilder.chunk("fmt ", WAVBuilder().format),
            .missingChunk("data")
        ),
        (
            "data first", Array("RIFF\0\0\0\0WAVE".utf8) + WAVBuilder.chunk("data", [0, 0]),
            .missingChunk("fmt ")
        ),
        (
            "short fmt", Array("RIFF\0\0\0\0WAVE".utf8) + WAVBuilder.chunk("fmt ", [1, 0, 1, 0]),
            .truncated(chunk: "fmt ")
        ),
        ("short extension", WAVBuilder(tag: 0xFFFE).file, .truncated(chunk: "fmt ")),
        ("ADPCM", WAVBuilder(tag: 2, bits: 4).file, .unsupportedEncoding(tag: 2, bits: 4)),
        ("12 bits", WAVBuilder(bits: 12).file, .unsupportedEncoding(tag: 1, bits: 12)),
        ("0 bits", WAVBuilder(bits: 0).file, .unsupportedEncoding(tag: 1, bits: 0)),
        ("doubles", WAVBuilder(tag: 3, bits: 64).file, .unsupportedEncoding(tag: 3, bits: 64)),
        ("no channels", WAVBuilder(channels: 0).file, .unsupportedChannels(0)),
        ("9 channels", WAVBuilder(channels: 9).file, .unsupportedChannels(9)),
        ("no rate", WAVBuilder(hertz: 0).file, .unsupportedRate(0)),
        ("4 GHz", WAVBuilder(hertz: 0xFFFF_FFFF).file, .unsupportedRate(0xFFFF_FFFF)),
        ("frame size", WAVBuilder(frameBytes: 4).file, .inconsistentFrameSize(4)),
        ("half a sample", WAVBuilder(data: [1, 2, 3]).file, .partialFrame),
        ("half a frame", WAVBuilder(channels: 2, data: [1, 2]).file, .partialFrame),
        (
            "too long", WAVBuilder(declaredDataBytes: 6, data: [1, 2, 3, 4]).file,
            .truncated(chunk: "data")
        ),
    ]

    @Test(arguments: malformed)
    func refusesMalformedFiles(_ name: String, _ bytes: [UInt8], _ error: WAVError) {
        #expect(refusal(bytes) == error, "\(name)")
    }

    @Test func everyTruncationIsNoticed() {
        let file = WAVBuilder(data: [1, 0, 2, 0]).file
        for count in file.indices {
            #expect(refusal(Array(file.prefix(count))) != nil, "\(count) bytes")
        }
        #expect(refusal(file) == nil)
    }

    @Test func anyBytesEndInAFileOrAnError() {
        var numbers = RepeatableNumbers(seed: 11)
        let file = WAVBuilder(channels: 2, data: [UInt8](repeating: 7, count: 40)).file
        var refused = 0
        for _ in 0..<1_000 {
            var bytes = file
            for _ in 0..<Int.random(in: 1...4, using: &numbers) {
                let index = bytes.indices.randomElement(using: &numbers)!
                bytes[index] = UInt8(truncatingIfNeeded: numbers.next() >> 20)
            }
            if refusal(bytes) != nil { refused += 1 }
        }
        #expect(refused > 100 && refused < 1_000)
    }
}

@Suite struct WAVHeaderTests {
    private func header(_ bytes: [UInt8]) throws(WAVError) -> WAVHeader? {
        try WAVHeader(beginning: bytes)
    }

    @Test func aHeaderIsReadOnceItIsComplete() throws {
        var file = WAVBuilder(hertz: 22_050, chunksBefore: WAVBuilder.chunk("note", [1, 2, 3]))
        file.data = [1, 2, 3, 4]
        let bytes = file.file
        let end = bytes.count - 4
        for count in 0..<end { #expect(try header(Array(bytes[..<count])) == nil) }
        for count in end...bytes.count {
            let read = try #require(try header(Array(bytes[..<count])))
            #expect(read.byteCount == end && read.dataBytes == 4)
            #expect(read.rate.hertz == 22_050 && read.channels == 1)
        }
    }

    @Test(arguments: [0, 0x7FFF_0000, 0xFFFF_FFFF])
    func aSizeThatIsNotKnownYetIsNil(size: Int) throws {
        #expect(try header(WAVBuilder(declaredDataBytes: size).file)?.dataBytes == nil)
    }

    @Test func anExtensibleHeaderIsResolvedToItsSubFormat() throws {
        var file = WAVBuilder(tag: 0xFFFE)
        file.extensionBytes = [22, 0, 16, 0, 4, 0, 0, 0, 1, 0] + [UInt8](repeating: 0, count: 14)
        #expect(try header(file.file) != nil)
        file.extensionBytes[8] = 3
        #expect(throws: WAVError.unsupportedEncoding(tag: 3, bits: 16)) { try header(file.file) }
    }

    @Test func whatIsNoSuchFileIsRefused() {
        let many = Array("RIFF    WAVELIST".utf8) + WAVBuilder.littleEndian(1 << 20, 4)
        for (bytes, error) in [
            (Array("RIFX".utf8), WAVError.notWAV), (Array("RIFF    AVI ".utf8), .notWAV),
            (WAVBuilder(tag: 3, bits: 32).file, .unsupportedEncoding(tag: 3, bits: 32)),
            (WAVBuilder(bits: 8).file, .unsupportedEncoding(tag: 1, bits: 8)),
            (WAVBuilder(channels: 9).file, .unsupportedChannels(9)),
            (WAVBuilder(hertz: 0).file, .unsupportedRate(0)),
            (WAVBuilder(frameBytes: 3).file, .inconsistentFrameSize(3)),
            (many, .missingChunk("data")),
            (Array("RIFF    WAVEdata\0\0\0\0".utf8), .missingChunk("fmt ")),
        ] {
            #expect(throws: error) { try header(bytes) }
        }
    }
}
