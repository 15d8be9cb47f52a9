// Real speech and the real voice activity model, for simulations of spoken turns: a recording of
// apt's pocketsphinx-testdata, and the weights that `make models` installs.

import Codec
import Foundation
import Session

/// Speech as a client would send it.
package enum RecordedSpeech {
    /// "go forward ten meters", 2.8 s, and then silence: packets of 20 ms of `audio/pcm` (24 kHz).
    package static func goForward(silenceMilliseconds: Int) throws -> [[UInt8]] {
        let path = "/usr/share/pocketsphinx/test/data/goforward.raw"
        guard let data = FileManager.default.contents(atPath: path) else {
            fatalError("\(path) is missing: apt-get install pocketsphinx-testdata")
        }
        let speech = stride(from: 0, to: data.count - 1, by: 2).map {
            Int16(bitPattern: UInt16(data[$0]) | UInt16(data[$0 + 1]) << 8)
        }
        let samples = speech + [Int16](repeating: 0, count: 16 * silenceMilliseconds)
        var resampler = try Resampler(from: .hz16000, to: .hz24000)
        var output = [Int16](repeating: 0, count: resampler.maxOutputSamples(for: samples.count))
        let count = samples.withUnsafeBufferPointer { input in
            output.withUnsafeMutableBufferPointer { resampler.process(input, into: $0) }
        }
        return stride(from: 0, to: count - 480, by: 480).map { start in
            output[start..<start + 480].flatMap {
                [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)]
            }
        }
    }

    /// The weights from `models/`, or from the folder that `PARLEY_MODELS` names.
    package static func voiceActivityModel() throws -> VoiceActivityModel {
        let root = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let models = ProcessInfo.processInfo.environment["PARLEY_MODELS"] ?? "models"
        let file = URL(filePath: models, relativeTo: root).appending(path: "silero_vad.bin")
        guard let data = try? Data(contentsOf: file) else {
            fatalError("models/silero_vad.bin is missing: run `make models`")
        }
        return try VoiceActivityModel(weights: [UInt8](data))
    }
}
