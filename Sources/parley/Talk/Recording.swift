// A recording in the form in which it is sent: mono, at the rate of the input format. SpokenTurn
// cuts it into packets of 20 ms and paces them.

import Codec
import Server

/// Recorded speech, ready to be encoded.
struct Recording {
    /// Mono samples at `rate`.
    let samples: [Int16]
    /// The rate of the input format; 48 kHz for Opus.
    let rate: SampleRate

    /// Samples up to the end of speech: the last 10 ms whose level is within 26 dB of the loudest
    /// 10 ms. All samples, when no part is that much louder.
    var samplesOfSpeech: Int {
        let window = rate.samples(inMilliseconds: 10)
        var loudest = 0.0
        var levels: [Double] = []
        for start in stride(from: 0, to: samples.count - window + 1, by: window) {
            let energy = samples[start..<start + window].reduce(0.0) {
                $0 + Double($1) * Double($1)
            }
            levels.append(energy)
            loudest = max(loudest, energy)
        }
        // Energy is a level squared: 26 dB are a factor of 400.
        let last = levels.lastIndex { $0 > 0 && $0 >= loudest / 400 }
        return last.map { ($0 + 1) * window } ?? samples.count
    }

    /// Bytes of a WAV file, at most. 256 MiB: 46 minutes at 48 kHz, which are sent in real time.
    private static let maxFileBytes = 256 << 20

    /// Reads a WAV file of any rate and channel count.
    /// - Throws: a `CommandFailure` that names the file.
    init(path: String, format: AudioFormat) throws(CommandFailure) {
        let content: [UInt8]
        do throws(WholeFileError) {
            content = try WholeFile.read(path, maxBytes: Self.maxFileBytes)
        } catch {
            throw CommandFailure(description: error.problem(of: path))
        }
        do {
            let file = try WAVFile(parsing: content)
            rate = format.sampleRate
            samples = try resampled(file.monoSamples, from: file.rate, to: rate)
        } catch let error as WAVError {
            throw CommandFailure(description: "\(path) cannot be used: \(error.problem)")
        } catch {
            throw CommandFailure(description: "\(path) cannot be used: \(error)")
        }
        guard !samples.isEmpty else {
            throw CommandFailure(description: "\(path) holds no audio")
        }
    }
}

extension WAVError {
    /// The fault of the file, as one clause for a person.
    var problem: String {
        switch self {
        case .notWAV: "it is no WAV file"
        case .truncated(let chunk): "it ends inside its \(chunk) chunk"
        case .missingChunk(let chunk): "it has no \(chunk) chunk before its end"
        case .unsupportedEncoding(let tag, let bits):
            "its encoding (format \(tag), \(bits) bits) is not supported"
        case .unsupportedChannels(let count):
            "it has \(count) channels, and 1 to \(WAVFile.maxChannels) are supported"
        case .unsupportedRate(let hertz):
            "its rate is \(hertz) Hz, and 1 to \(WAVFile.maxHertz) are supported"
        case .inconsistentFrameSize(let bytes):
            "its \(bytes) bytes a frame do not fit its channels and sample size"
        case .partialFrame: "its audio ends inside a frame"
        }
    }
}

/// A whole recording at another rate.
func resampled(
    _ samples: [Int16], from source: SampleRate, to target: SampleRate
) throws(ResamplerError) -> [Int16] {
    if source == target { return samples }
    var resampler = try Resampler(from: source, to: target)
    var output = [Int16](repeating: 0, count: resampler.maxOutputSamples(for: samples.count))
    let count = samples.withUnsafeBufferPointer { input in
        output.withUnsafeMutableBufferPointer { resampler.process(input, into: $0) }
    }
    output.removeLast(output.count - count)
    return output
}
