// Real speech for the tests: recordings of apt's pocketsphinx-testdata, as the packets that a
// client would send.

import Codec
import Foundation
import Session

/// A recording: mono samples at 16 kHz.
struct SpeechRecording {
    let samples: [Int16]

    /// "go forward ten meters", 2.8 s.
    static let goForward = load("goforward.raw")

    /// "go somewhere and do something", 2.6 s.
    static let doSomething = load("something.raw")

    /// A sentence read without a pause of half a second, 7.1 s.
    static let sentence = load(
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
    func packets(silenceMilliseconds: Int = 1_000) throws -> [[UInt8]] {
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

extension VoiceActivityModel {
    /// The real model, from `models/`.
    static let installed: VoiceActivityModel = {
        let root = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let models = ProcessInfo.processInfo.environment["PARLEY_MODELS"] ?? "models"
        let file = URL(filePath: models, relativeTo: root).appending(path: "silero_vad.bin")
        guard let data = try? Data(contentsOf: file) else {
            fatalError("models/silero_vad.bin is missing: run `make models`")
        }
        do {
            return try VoiceActivityModel(weights: [UInt8](data))
        } catch {
            fatalError("models/silero_vad.bin: \(error)")
        }
    }()
}
