// The voice activity network against the ONNX model over recordings of people in noise. What the
// model says is computed afresh by Tests/vad/run.sh (`make test-vad`), which names the folder; the
// stored answers about a synthetic signal are VoiceActivityTests'.

import Foundation
import Session
import Testing

/// Where Tests/vad/recordings.py left the signals and the model's answers; nil: it did not run.
private let folder = ProcessInfo.processInfo.environment["PARLEY_VAD_REFERENCE"]

private struct Answers: Decodable {
    let file: String
    let probabilities: [Float]
}

@Suite(.enabled(if: folder != nil, "`make test-vad` asks the ONNX model first"))
struct VoiceActivityRecordingTests {
    @Test(arguments: DenseKernel.allCases.filter(\.isAvailable))
    func agreesWithTheONNXModelOverRecordings(kernel: DenseKernel) throws {
        let folder = URL(filePath: try #require(folder))
        let list = try Data(contentsOf: folder.appending(path: "reference.json"))
        let size = VoiceActivityDetector.windowSamples
        var worst: Float = 0
        for answers in try JSONDecoder().decode([Answers].self, from: list) {
            let bytes = try Data(contentsOf: folder.appending(path: answers.file))
            let samples = bytes.withUnsafeBytes { bytes in
                (0..<bytes.count / 2).map {
                    Int16(
                        littleEndian: bytes.loadUnaligned(fromByteOffset: 2 * $0, as: Int16.self))
                }
            }
            try #require(samples.count == answers.probabilities.count * size)
            var detector = VoiceActivityDetector(model: .installed(kernel))
            for (index, expected) in answers.probabilities.enumerated() {
                let found = samples[index * size..<(index + 1) * size].withUnsafeBufferPointer {
                    detector.process($0)
                }
                worst = max(worst, abs(found - expected))
            }
        }
        #expect(worst < 1e-4)
        print("\(kernel.rawValue): voice activity differs from the ONNX model by \(worst)")
    }
}
