// Real speech for the tests: recordings of apt's pocketsphinx-testdata, as the packets that a
// client would send.

import Codec
import Foundation

/// A recording of human speech.
package struct SpeechRecording: Sendable {
    /// Mono, at 16 kHz.
    package let samples: [Int16]

    /// Creates a recording of samples at 16 kHz.
    package init(samples: [Int16]) { self.samples = samples }

    /// Reads a WAV file, one channel of it, at any rate.
    package init(wav path: String) throws {
        guard let data = FileManager.default.contents(atPath: path) else {
            throw CocoaError(.fileReadNoSuchFile, userInfo: [NSFilePathErrorKey: path])
        }
        let file = try WAVFile(parsing: [UInt8](data))
        var resampler = try Resampler(from: file.rate, to: .hz16000)
        var output = [Int16](
            repeating: 0, count: resampler.maxOutputSamples(for: file.samples.count))
        let count = file.samples.withUnsafeBufferPointer { input in
            output.withUnsafeMutableBufferPointer { resampler.process(input, into: $0) }
        }
        samples = Array(output[..<count])
    }

    /// "go forward ten meters", 2.8 s.
    package static let goForward = load("goforward.raw")

    /// "go somewhere and do something", 2.6 s.
    package static let doSomething = load("something.raw")

    /// A sentence read without a pause of half a second, 7.1 s.
    package static let sentence = load(
        "librivox/sense_and_sensibility_01_austen_64kb-0870.wav", headerBytes: 44)

    private static func load(_ name: String, headerBytes: Int = 0) -> SpeechRecording {
        let path = "/usr/share/pocketsphinx/test/data/\(name)"
        guard let data = FileManager.default.contents(atPath: path) else {
            fatalError("\(path) is missing: apt-get install pocketsphinx-testdata")
        }
        return SpeechRecording(
            samples: stride(from: headerBytes, to: data.count - 1, by: 2).map {
                Int16(bitPattern: UInt16(data[$0]) | UInt16(data[$0 + 1]) << 8)
            })
    }

    /// 20 ms packets of `audio/pcm` (24 kHz), with silence after the speech.
    package func packets(silenceMilliseconds: Int = 1_000) throws -> [[UInt8]] {
        var resampler = try Resampler(from: .hz16000, to: .hz24000)
        let padded = samples + [Int16](repeating: 0, count: 16 * silenceMilliseconds)
        var output = [Int16](repeating: 0, count: resampler.maxOutputSamples(for: padded.count))
        let count = padded.withUnsafeBufferPointer { input in
            output.withUnsafeMutableBufferPointer { resampler.process(input, into: $0) }
        }
        return stride(from: 0, to: count - 480, by: 480).map { start in
            output[start..<start + 480].flatMap {
                [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)]
            }
        }
    }
}
