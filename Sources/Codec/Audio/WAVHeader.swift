// The header of a WAV file that is read while it arrives: enough to decide whether the samples can
// be used as they are. WAV.swift reads whole files and every encoding.
//
//   "RIFF" size "WAVE" { id(4) size(4, little-endian) content, padded to an even length }* "data" …

/// The header of a WAV file of 16-bit linear samples.
public struct WAVHeader: Equatable, Sendable {
    /// Maximum bytes before the samples. 64 KiB: pictures and notes are not speech.
    public static let maxBytes = 64 << 10

    /// Frames per second, 1…`WAVFile.maxHertz`.
    public let rate: SampleRate
    /// Channels, 1…`WAVFile.maxChannels`.
    public let channels: Int
    /// Bytes of the header, and so the offset of the samples.
    public let byteCount: Int
    /// Bytes of samples, after which other chunks may follow. Where nil, all bytes until the end
    /// are samples: programs that do not know the size yet write such headers.
    public let dataBytes: Int?

    /// Whether bytes may be the beginning of a WAV file.
    public static func canBegin(_ bytes: [UInt8]) -> Bool {
        zip(bytes, "RIFF".utf8).allSatisfy { $0 == $1 }
    }

    /// Reads a header from the first bytes of a file; nil when more bytes are needed.
    /// - Throws: why the bytes are not such a file.
    public init?(beginning bytes: [UInt8]) throws(WAVError) {
        guard Self.canBegin(bytes) else { throw .notWAV }
        guard bytes.count >= 12 else { return nil }
        guard bytes[8..<12].elementsEqual("WAVE".utf8) else { throw .notWAV }
        var offset = 12
        var layout: (channels: Int, hertz: Int)?
        while true {
            guard offset <= Self.maxBytes else { throw .missingChunk("data") }
            guard bytes.count - offset >= 8 else { return nil }
            let id = bytes[offset..<offset + 4]
            let size = Self.number(bytes, at: offset + 4, bytes: 4)
            offset += 8
            if id.elementsEqual("data".utf8) {
                guard let layout else { throw .missingChunk("fmt ") }
                channels = layout.channels
                rate = SampleRate(hertz: layout.hertz)
                byteCount = offset
                dataBytes = size == 0 || size >= WAVFile.streamedSize ? nil : size
                return
            }
            if id.elementsEqual("fmt ".utf8) {
                guard size >= 16 else { throw .truncated(chunk: "fmt ") }
                guard bytes.count - offset >= min(size, 40) else { return nil }
                layout = try Self.layout(bytes, at: offset, size: size)
            }
            offset += size + (size & 1)
        }
    }

    private static func layout(
        _ bytes: [UInt8], at offset: Int, size: Int
    ) throws(WAVError) -> (channels: Int, hertz: Int) {
        var tag = number(bytes, at: offset, bytes: 2)
        let channels = number(bytes, at: offset + 2, bytes: 2)
        let hertz = number(bytes, at: offset + 4, bytes: 4)
        let frameBytes = number(bytes, at: offset + 12, bytes: 2)
        let bits = number(bytes, at: offset + 14, bytes: 2)
        // WAVEFORMATEXTENSIBLE: the sub-format's identifier begins with its tag.
        if tag == 0xFFFE, size >= 40 { tag = number(bytes, at: offset + 24, bytes: 2) }
        guard tag == 1, bits == 16 else { throw .unsupportedEncoding(tag: tag, bits: bits) }
        try WAVFile.check(
            channels: channels, hertz: hertz, frameBytes: frameBytes,
            sampleBytes: PCM.bytesPerSample)
        return (channels, hertz)
    }

    private static func number(_ content: [UInt8], at offset: Int, bytes: Int) -> Int {
        content[offset..<offset + bytes].littleEndian
    }
}
