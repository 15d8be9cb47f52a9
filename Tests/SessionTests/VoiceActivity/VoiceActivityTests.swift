// The voice activity network against the ONNX model's own answers (Tests/Fixtures/
// silero_reference.json), and what it refuses. Needs models/silero_vad.bin: `make models`.

import Foundation
import Session
import TestMaterial
import Testing

/// What the ONNX model answered; written by Tests/scripts/silero_reference.py.
private struct Reference: Decodable {
    let sampleSum: Int
    let probabilities: [Float]

    static func load() throws -> Reference {
        let file = packageRoot.appending(path: "Tests/Fixtures/silero_reference.json")
        return try JSONDecoder().decode(Reference.self, from: Data(contentsOf: file))
    }
}

private let packageRoot = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

private func probabilities(
    of samples: [Int16], by detector: inout VoiceActivityDetector
) -> [Float] {
    let size = VoiceActivityDetector.windowSamples
    return samples.withUnsafeBufferPointer { samples in
        (0..<samples.count / size).map { index in
            let window = samples[index * size..<(index + 1) * size]
            return detector.process(UnsafeBufferPointer(rebasing: window))
        }
    }
}

@Suite struct VoiceActivityTests {
    @Test(arguments: DenseKernel.allCases.filter(\.isAvailable))
    func agreesWithTheONNXModel(kernel: DenseKernel) throws {
        let reference = try Reference.load()
        let signal = ReferenceSignal().samples
        try #require(signal.reduce(0) { $0 + Int($1) } == reference.sampleSum)
        var detector = VoiceActivityDetector(model: .installed(kernel))
        let found = probabilities(of: signal, by: &detector)
        try #require(found.count == reference.probabilities.count)
        let worst = zip(found, reference.probabilities).map { abs($0 - $1) }.max()!
        #expect(worst < 1e-4)
        // The reference would prove little if the model were never sure of anything.
        #expect(reference.probabilities.max()! > 0.99 && reference.probabilities.min()! < 0.02)
    }

    @Test func streamsAreIndependent() throws {
        let model = VoiceActivityModel.installed
        let size = VoiceActivityDetector.windowSamples
        let signal = Array(ReferenceSignal().samples[size * 14..<size * 22])
        var alone = VoiceActivityDetector(model: model)
        let expected = probabilities(of: signal, by: &alone)

        var first = VoiceActivityDetector(model: model)
        let opening = probabilities(of: Array(signal[..<(size * 4)]), by: &first)
        var copy = first
        let silence = probabilities(of: Array(repeating: 0, count: size * 4), by: &copy)
        let rest = probabilities(of: Array(signal[(size * 4)...]), by: &first)
        #expect(opening + rest == expected)
        #expect(silence != rest)
    }

    @Test func resetStartsAnotherStream() throws {
        let size = VoiceActivityDetector.windowSamples
        let signal = Array(ReferenceSignal().samples[size * 16..<size * 20])
        var detector = VoiceActivityDetector(model: .installed)
        let first = probabilities(of: signal, by: &detector)
        #expect(probabilities(of: signal, by: &detector) != first)
        detector.reset()
        #expect(probabilities(of: signal, by: &detector) == first)
    }

    @Test func hearsNothingWithoutAModel() {
        var detector = VoiceActivityDetector(model: nil)
        let size = VoiceActivityDetector.windowSamples
        let signal = Array(ReferenceSignal().samples[size * 20..<size * 24])
        #expect(probabilities(of: signal, by: &detector) == [0, 0, 0, 0])
    }

    @Test func acceptsAnySamples() throws {
        var detector = VoiceActivityDetector(model: .installed)
        let size = VoiceActivityDetector.windowSamples
        let signals: [[Int16]] = [
            Array(repeating: .min, count: size), Array(repeating: .max, count: size),
            (0..<size).map { $0 % 2 == 0 ? .min : .max }, Array(repeating: 0, count: size),
        ]
        for _ in 0..<8 {
            for probability in probabilities(of: signals.flatMap { $0 }, by: &detector) {
                #expect((0...1).contains(probability))
            }
        }
    }

    @Test func refusesAnythingButTheNetworksWeights() {
        let good = InstalledModels.voiceActivityWeights
        func refusal(_ change: (inout [UInt8]) -> Void) -> VoiceActivityModelError? {
            var bytes = good
            change(&bytes)
            do throws(VoiceActivityModelError) {
                _ = try VoiceActivityModel(weights: bytes)
                return nil
            } catch { return error }
        }
        let count = (good.count - 12) / 4
        #expect(refusal { $0 = [] } == .notSileroWeights)
        #expect(refusal { $0 = Array($0.prefix(11)) } == .notSileroWeights)
        #expect(refusal { $0[7] = UInt8(ascii: "2") } == .notSileroWeights)
        #expect(refusal { $0.removeLast(4) } == .wrongFloatCount(expected: count, found: count - 1))
        #expect(refusal { $0.removeLast() } == .wrongFloatCount(expected: count, found: count - 1))
        #expect(refusal { $0.append(0) } == .wrongFloatCount(expected: count, found: count))
        #expect(refusal { $0[8] ^= 1 } == .wrongFloatCount(expected: count, found: count))
        #expect(
            refusal { $0.replaceSubrange(12 + 400..<12 + 404, with: [0, 0, 0xC0, 0x7F]) }
                == .weightNotFinite(index: 100))
        #expect(
            refusal { $0.replaceSubrange(12 + 4_000..<12 + 4_004, with: [0, 0, 0x80, 0x3F]) }
                == .notAFourierBasis)
    }

    @Test func refusesWindowsOfAnotherSize() async {
        await #expect(processExitsWith: .failure) {
            var detector = VoiceActivityDetector(model: nil)
            let samples = [Int16](repeating: 0, count: 511)
            _ = samples.withUnsafeBufferPointer { detector.process($0) }
        }
    }
}
