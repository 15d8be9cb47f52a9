// WAV files ↔ samples: the RIFF container (Microsoft/IBM 1991, and WAVEFORMATEXTENSIBLE).
//
//   "RIFF" size "WAVE" { id(4) size(4, little-endian) content, padded to an even length }*
//
// Read: linear 8, 16, 24 and 32 bits, 32-bit float, µ-law and A-law. Written: 16-bit linear. The
// whole file is in memory: this is for the command line and tests, not for the server's hot path.
// Any bytes give a value or a `WAVError`.

/// Why bytes are not a WAV file that can be read.
public enum WAVError: Error, Equatable {
    /// Does not begin with "RIFF" … "WAVE".
    case notWAV
    /// The file ends inside the named chunk, or inside the header.
    case truncated(chunk: String)
    /// There is no `fmt ` chunk before the audio, or no `data` chunk at all.
    case missingChunk(String)
    /// An encoding that is not supported: format tag and bits per sample.
    case unsupportedEncoding(tag: Int, bits: Int)
    /// Zero channels or more than `WAVFile.maxChannels`.
    case unsupportedChannels(Int)
    /// Zero samples per second or more than `WAVFile.maxHertz`.
    case unsupportedRate(Int)
    /// The bytes per frame in the header are not channels · bytes per sample.
    case inconsistentFrameSize(Int)
    /// The audio ends inside a frame.
    case partialFrame
}

/// The content of a WAV file, as 16-bit samples.
public struct WAVFile: Equatable, Sendable {
    /// Maximum channels. 8: surround sound, which is only ever mixed down.
    public static let maxChannels = 8
    /// Maximum samples per second and channel.
    public static let maxHertz = 384_000
    /// Sizes from here on mean "until the end". Programs that stream to a pipe write them.
    static let streamedSize = 0x7FFF_0000

    /// Frames per second.
    public let rate: SampleRate
    /// Channels, 1…`maxChannels`.
    public let channels: Int
    /// Samples, frame after frame; the channels of a frame are adjacent.
    public let samples: [Int16]

    /// Creates the content of a file.
    /// - Precondition: `samples` are whole frames of 1…`maxChannels` channels.
    public init(rate: SampleRate, channels: Int = 1, samples: [Int16]) {
        precondition((1...Self.maxChannels).contains(channels))
        precondition(samples.count.isMultiple(of: channels))
        self.rate = rate
        self.channels = channels
        self.samples = samples
    }

    /// Reads a file. Wider samples are rounded to 16 bits, floats outside -1…1 saturate.
    /// - Throws: the first thing that is wrong with the bytes.
    public init(parsing bytes: [UInt8]) throws(WAVError) {
        var reader = RIFFReader(bytes)
        guard try reader.beginsWAV() else { throw .notWAV }
        var format: WAVFormat?
        while let chunk = try reader.nextChunk() {
            switch chunk.id {
            case "fmt ": format = try WAVFormat(chunk: bytes[chunk.content])
            case "data":
                guard let format else { throw .missingChunk("fmt ") }
                rate = SampleRate(hertz: format.hertz)
                channels = format.channels
                samples = try format.samples(in: bytes[chunk.content])
                return
            default: continue
            }
        }
        throw .missingChunk(format == nil ? "fmt " : "data")
    }

    /// Checks the numbers of a `fmt ` chunk.
    static func check(
        channels: Int, hertz: Int, frameBytes: Int, sampleBytes: Int
    ) throws(WAVError) {
        guard (1...maxChannels).contains(channels) else { throw .unsupportedChannels(channels) }
        guard (1...maxHertz).contains(hertz) else { throw .unsupportedRate(hertz) }
        guard frameBytes == channels * sampleBytes else {
            throw .inconsistentFrameSize(frameBytes)
        }
    }

    /// One sample per frame: the mean of its channels, rounded to nearest, ties upwards.
    public var monoSamples: [Int16] {
        guard channels > 1 else { return samples }
        return stride(from: 0, to: samples.count, by: channels).map { frame in
            let sum = samples[frame..<frame + channels].reduce(0) { $0 + Int($1) }
            let doubled = 2 * sum + channels
            let (quotient, remainder) = doubled.quotientAndRemainder(dividingBy: 2 * channels)
            return Int16(remainder < 0 ? quotient - 1 : quotient)
        }
    }

    /// The file as 16-bit linear WAV.
    /// - Precondition: the audio is smaller than 4 GiB, which is all that the format can hold.
    public func encoded() -> [UInt8] {
        let size = samples.count * PCM.bytesPerSample
        let frameBytes = channels * PCM.bytesPerSample
        var bytes: [UInt8] = []
        bytes.reserveCapacity(44 + size)
        func append<Value: FixedWidthInteger>(_ value: Value) {
            for shift in stride(from: 0, to: Value.bitWidth, by: 8) {
                bytes.append(UInt8(truncatingIfNeeded: value >> shift))
            }
        }
        bytes.append(contentsOf: "RIFF".utf8)
        append(UInt32(36 + size))
        bytes.append(contentsOf: "WAVEfmt ".utf8)
        append(UInt32(16))
        append(UInt16(WAVFormat.linear))
        append(UInt16(channels))
        append(UInt32(rate.hertz))
        append(UInt32(rate.hertz * frameBytes))
        append(UInt16(frameBytes))
        append(UInt16(16))
        bytes.append(contentsOf: "data".utf8)
        append(UInt32(size))
        for sample in samples { append(sample) }
        return bytes
    }
}

/// Walks the chunks of a RIFF file.
private struct RIFFReader {
    private let bytes: [UInt8]
    private var offset = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Reads the file's header.
    mutating func beginsWAV() throws(WAVError) -> Bool {
        guard bytes.starts(with: "RIFF".utf8.prefix(bytes.count)) else { return false }
        guard bytes.count >= 12 else { throw .truncated(chunk: "RIFF") }
        offset = 12
        return bytes[8..<12].elementsEqual("WAVE".utf8)
    }

    /// The next chunk's name and where its content lies, or nil at the end of the file.
    mutating func nextChunk() throws(WAVError) -> (id: String, content: Range<Int>)? {
        guard offset < bytes.count else { return nil }
        guard bytes.count - offset >= 8 else { throw .truncated(chunk: "header") }
        let id = String(decoding: bytes[offset..<offset + 4], as: UTF8.self)
        let size = bytes[offset + 4..<offset + 8].littleEndian
        let start = offset + 8
        let available = bytes.count - start
        guard size <= available || size >= WAVFile.streamedSize else { throw .truncated(chunk: id) }
        let content = start..<start + min(size, available)
        offset = content.upperBound + (size & 1)
        return (id, content)
    }
}

/// The `fmt ` chunk: how the samples are laid out.
private struct WAVFormat {
    /// WAVE_FORMAT_PCM and its relatives.
    static let linear = 1
    private static let float = 3
    private static let aLaw = 6
    private static let muLaw = 7
    private static let extensible = 0xFFFE

    let channels: Int
    let hertz: Int
    private let sampleBytes: Int
    private let encoding: Encoding

    private enum Encoding {
        case linear
        case float
        case companded(G711.Law)
    }

    init(chunk: ArraySlice<UInt8>) throws(WAVError) {
        let base = chunk.startIndex
        guard chunk.count >= 16 else { throw .truncated(chunk: "fmt ") }
        func field(_ offset: Int, bytes: Int) -> Int {
            chunk[base + offset..<base + offset + bytes].littleEndian
        }
        var tag = field(0, bytes: 2)
        channels = field(2, bytes: 2)
        hertz = field(4, bytes: 4)
        let frameBytes = field(12, bytes: 2)
        let bits = field(14, bytes: 2)
        if tag == Self.extensible {
            // The sub-format's identifier begins with the tag that it stands for.
            guard chunk.count >= 40 else { throw .truncated(chunk: "fmt ") }
            tag = field(24, bytes: 2)
        }
        switch (tag, bits) {
        case (Self.linear, 8), (Self.linear, 16), (Self.linear, 24), (Self.linear, 32):
            encoding = .linear
        case (Self.float, 32): encoding = .float
        case (Self.muLaw, 8): encoding = .companded(.mu)
        case (Self.aLaw, 8): encoding = .companded(.a)
        default: throw .unsupportedEncoding(tag: tag, bits: bits)
        }
        sampleBytes = bits / 8
        try WAVFile.check(
            channels: channels, hertz: hertz, frameBytes: frameBytes, sampleBytes: sampleBytes)
    }

    /// Converts the content of the `data` chunk.
    func samples(in data: ArraySlice<UInt8>) throws(WAVError) -> [Int16] {
        guard data.count.isMultiple(of: channels * sampleBytes) else { throw .partialFrame }
        switch encoding {
        case .companded(let law):
            return Array(unsafeUninitializedCapacity: data.count) { samples, count in
                G711.decode(data.span.bytes, law: law, into: samples)
                count = data.count
            }
        case .float:
            return starts(in: data).map { start in
                let bits = UInt32(data[start..<start + 4].littleEndian)
                return PCM.sample(Float(bitPattern: bits))
            }
        case .linear:
            return starts(in: data).map { start in
                linearSample(data[start..<start + sampleBytes].littleEndian)
            }
        }
    }

    private func starts(in data: ArraySlice<UInt8>) -> StrideTo<Int> {
        stride(from: data.startIndex, to: data.endIndex, by: sampleBytes)
    }

    /// A linear sample of 8 (unsigned), 16, 24 or 32 bits (signed) as 16 bits.
    private func linearSample(_ raw: Int) -> Int16 {
        let bits = sampleBytes * 8
        guard bits > 8 else { return Int16((raw - 128) << 8) }
        let signed = raw >= 1 << (bits - 1) ? raw - 1 << bits : raw
        let dropped = bits - 16
        guard dropped > 0 else { return Int16(signed) }
        return Int16(clamping: (signed + 1 << (dropped - 1)) >> dropped)
    }
}

extension ArraySlice<UInt8> {
    /// The bytes as an unsigned little-endian number of up to four bytes.
    var littleEndian: Int {
        reversed().reduce(0) { $0 << 8 | Int($1) }
    }
}
