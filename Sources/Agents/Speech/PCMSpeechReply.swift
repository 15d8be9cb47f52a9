// The body of a speech service's answer that was asked for as bare samples → samples, as its bytes
// come. Some services send a WAV file all the same: its header is read and passed over. What is
// plainly something else is refused, since as samples it would be noise.

import Codec
import Session

/// Reads one answer in the format `pcm`: 16-bit samples, little-endian, mono, at 24 kHz unless a
/// WAV header says otherwise.
struct PCMSpeechReply {
    /// How files begin that are no samples: Ogg, FLAC, and MP3 with a tag.
    private static let foreignMarks = ["OggS", "fLaC", "ID3\u{2}", "ID3\u{3}", "ID3\u{4}"]
        .map { Array($0.utf8) }
    private static let markBytes = 4

    private var isBeginning = true
    private var held: [UInt8] = []
    private var rate = SampleRate.hz24000
    /// Bytes of samples that are still to come where a header says how many; what follows is none.
    private var remainingBytes: Int?

    /// Takes more of the answer; returns the speech in it.
    mutating func append(_ bytes: [UInt8]) throws(AgentError) -> [SpeechChunk] {
        held += bytes
        if isBeginning {
            guard held.count >= Self.markBytes, try passHeader() else { return [] }
            isBeginning = false
        }
        let count = min(held.count, remainingBytes ?? .max) / 2
        defer { dropSurplus() }
        guard count > 0 else { return [] }
        let samples = [Int16](unsafeUninitializedCapacity: count) { samples, filled in
            for index in 0..<count {
                samples[index] = Int16(held[2 * index]) | Int16(held[2 * index + 1]) << 8
            }
            filled = count
        }
        held.removeFirst(2 * count)
        if let remainingBytes { self.remainingBytes = remainingBytes - 2 * count }
        return [SpeechChunk(samples: samples, rate: rate)]
    }

    /// The answer is over. Half a sample at its end says nothing, half a header is no speech.
    func finish() throws(AgentError) {
        guard isBeginning, WAVHeader.canBegin(held), held.count >= Self.markBytes else { return }
        throw Self.unreadable("the file ends inside its header")
    }

    /// Looks at what the answer begins with, and passes over a WAV file's header.
    /// - Returns: false where more is needed to tell.
    private mutating func passHeader() throws(AgentError) -> Bool {
        if Self.foreignMarks.contains(where: { held.starts(with: $0) }) {
            throw .malformedReply(
                message: "The speech service does not answer in the format \"pcm\".")
        }
        guard WAVHeader.canBegin(held) else { return true }
        let header: WAVHeader
        do throws(WAVError) {
            guard let read = try WAVHeader(beginning: held) else {
                guard held.count <= WAVHeader.maxBytes else { throw .missingChunk("data") }
                return false
            }
            header = read
        } catch {
            throw Self.unreadable("\(error)")
        }
        guard header.channels == 1 else { throw Self.unreadable("\(header.channels) channels") }
        rate = header.rate
        remainingBytes = header.dataBytes
        held.removeFirst(header.byteCount)
        return true
    }

    /// Nothing behind the samples is kept.
    private mutating func dropSurplus() {
        if let remainingBytes, remainingBytes < 2 { held = [] }
    }

    private static func unreadable(_ detail: String) -> AgentError {
        .malformedReply(
            message: "The speech service answers with a WAV file that is not 16-bit mono.",
            detail: detail)
    }
}
