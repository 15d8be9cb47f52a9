// The body of a speech service's answer in the format `pcm` → samples, while the bytes arrive. Some
// services send a WAV file instead, whose header is read. Another known format is refused, since it
// would be heard as noise.

import Codec
import Session

/// Reads one answer: 16-bit samples, little-endian, mono, at 24 kHz unless a WAV header gives
/// another rate.
struct PCMSpeechReply {
    /// The first bytes of other formats: Ogg, FLAC, and MP3 with a tag.
    private static let foreignMarks = ["OggS", "fLaC", "ID3\u{2}", "ID3\u{3}", "ID3\u{4}"]
        .map { Array($0.utf8) }
    private static let markBytes = 4

    private var isBeginning = true
    private var buffer: [UInt8] = []
    private var rate = SampleRate.hz24000
    /// Bytes of samples that are still to come, where a WAV header gives their number. The bytes
    /// after them are not samples.
    private var remainingBytes: Int?

    /// Reads the next piece of the answer; returns the speech in it.
    mutating func append(_ bytes: [UInt8]) throws(AgentError) -> [SpeechChunk] {
        buffer += bytes
        if isBeginning {
            guard buffer.count >= Self.markBytes, try passHeader() else { return [] }
            isBeginning = false
        }
        let count = min(buffer.count, remainingBytes ?? .max) / 2
        defer { dropSurplus() }
        guard count > 0 else { return [] }
        let samples = [Int16](unsafeUninitializedCapacity: count) { samples, filled in
            for index in 0..<count {
                samples[index] = Int16(buffer[2 * index]) | Int16(buffer[2 * index + 1]) << 8
            }
            filled = count
        }
        buffer.removeFirst(2 * count)
        if let remainingBytes { self.remainingBytes = remainingBytes - 2 * count }
        return [SpeechChunk(samples: samples, rate: rate)]
    }

    /// The answer is over. Half a sample at its end is ignored; an incomplete header is an error.
    func finish() throws(AgentError) {
        guard isBeginning, WAVHeader.canBegin(buffer), buffer.count >= Self.markBytes else {
            return
        }
        throw Self.unreadable("the file ends inside its header")
    }

    /// Reads the beginning of the answer, and removes a WAV file's header.
    /// - Returns: false when more bytes are needed.
    private mutating func passHeader() throws(AgentError) -> Bool {
        if Self.foreignMarks.contains(where: { buffer.starts(with: $0) }) {
            throw .malformedReply(
                message: "The speech service does not answer in the format \"pcm\".")
        }
        guard WAVHeader.canBegin(buffer) else { return true }
        let header: WAVHeader
        do throws(WAVError) {
            guard let read = try WAVHeader(beginning: buffer) else {
                guard buffer.count <= WAVHeader.maxBytes else { throw .missingChunk("data") }
                return false
            }
            header = read
        } catch {
            throw Self.unreadable("\(error)")
        }
        guard header.channels == 1 else { throw Self.unreadable("\(header.channels) channels") }
        rate = header.rate
        remainingBytes = header.dataBytes
        buffer.removeFirst(header.byteCount)
        return true
    }

    /// Drops the bytes behind the last sample of a WAV file.
    private mutating func dropSurplus() {
        if let remainingBytes, remainingBytes < 2 { buffer = [] }
    }

    private static func unreadable(_ detail: String) -> AgentError {
        .malformedReply(
            message: "The speech service answers with a WAV file that is not 16-bit mono.",
            detail: detail)
    }
}
