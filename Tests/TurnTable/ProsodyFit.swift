// `turn-table --prosody`: how well the end of a turn can be distinguished from a pause in it by
// sound alone, and the weights that do so best. Fitted on the recordings with even numbers and
// evaluated on the odd ones.

import Foundation
import Session

/// One stretch of speech before a silence.
private struct ProsodyExample {
    let numbers: [Float]
    let isEnd: Bool
    let isTraining: Bool
}

/// Fits a logistic regression to prosody.
struct ProsodyFit {
    private static let names = ["fall, semitones", "fade, ms", "breath, ms"]
    private var examples: [ProsodyExample] = []
    private var unmeasured = 0
    private var time = Duration.zero

    /// Measures the sound before each pause and before each end, in every mix.
    init(_ speech: [PausedSpeech], mixes: [SpeechMix]) {
        var known: Set<[Int16]> = []
        for utterance in speech {
            let whole = utterance.before + utterance.after
            for mix in mixes {
                add(utterance.before, utterance, mix, isEnd: false)
                guard known.insert(whole).inserted || mix != mixes[0] else { continue }
                add(whole, utterance, mix, isEnd: true)
            }
        }
    }

    private mutating func add(
        _ spoken: [Int16], _ utterance: PausedSpeech, _ mix: SpeechMix, isEnd: Bool
    ) {
        // The detector reports the end a little late.
        let late = 16 * 48
        let spoken = PausedSpeech.withoutSilentEnd(spoken)
        let silence = Prosody.silenceSamples
        var samples = spoken + [Int16](repeating: 0, count: late + silence)
        mix.apply(to: &samples, level: SpeechMix.level(of: spoken), voice: PausedSpeech.secondVoice)
        let first = max(0, samples.count - silence - Prosody.maxSamples)
        let clock = ContinuousClock()
        let start = clock.now
        let prosody = samples[first...].withUnsafeBufferPointer {
            Prosody.measure($0, silence: silence)
        }
        time += clock.now - start
        guard let prosody else {
            unmeasured += 1
            return
        }
        examples.append(
            ProsodyExample(
                numbers: prosody.numbers, isEnd: isEnd, isTraining: utterance.recording % 2 == 0))
    }

    /// Prints the means of the features and the accuracy.
    func report(_ title: String) {
        let count = examples.count + unmeasured
        let each = time / max(1, count)
        print("\(title): \(count) silences, \(unmeasured) without prosody, \(each) each.\n")
        print("| | before a pause | at the end | weight |\n|---|---|---|---|")
        let weights = fit()
        for (index, name) in Self.names.enumerated() {
            let pause = mean(index) { !$0.isEnd }
            let end = mean(index) { $0.isEnd }
            print(
                String(format: "| %@ | %.2f | %.2f | %.4f |", name, pause, end, weights[index]))
        }
        print(String(format: "| constant | | | %.4f |\n", weights[Self.names.count]))
        print("| told right | training half | other half |\n|---|---|---|")
        print("| fitted weights | \(accuracy(weights, true)) | \(accuracy(weights, false)) |")
        let used = Prosody.weights
        print("| the weights in use | \(accuracy(used, true)) | \(accuracy(used, false)) |\n")
        if CommandLine.arguments.contains("--csv") {
            for example in examples {
                print(
                    "csv,\(example.isEnd ? 1 : 0),\(example.isTraining ? 1 : 0),"
                        + example.numbers.map { "\($0)" }.joined(separator: ","))
            }
        }
    }

    private func mean(_ index: Int, _ isMeant: (ProsodyExample) -> Bool) -> Float {
        let values = examples.filter(isMeant).map { $0.numbers[index] }
        return values.reduce(0, +) / Float(max(1, values.count))
    }

    /// Gradient descent. Both classes have the same total weight.
    private func fit() -> [Float] {
        let training = examples.filter(\.isTraining)
        let ends = Float(max(1, training.count(where: \.isEnd)))
        let pauses = Float(max(1, training.count)) - ends
        // The spread of the features, so that each contributes from the start.
        let scales: [Float] = [3, 80, 100, 1]
        var weights = [Float](repeating: 0, count: scales.count)
        for _ in 0..<4_000 {
            var slope = weights.map { 0.02 * $0 }
            for example in training {
                let inputs = zip(example.numbers + [1], scales).map { $0 / $1 }
                let sum = zip(inputs, weights).reduce(0) { $0 + $1.0 * $1.1 }
                let error = 1 / (1 + exp(-sum)) - (example.isEnd ? 1 : 0)
                let share = example.isEnd ? 0.5 / ends : 0.5 / max(1, pauses)
                for index in inputs.indices { slope[index] += share * error * inputs[index] }
            }
            for index in weights.indices { weights[index] -= slope[index] }
        }
        return zip(weights, scales).map { $0 / $1 }
    }

    /// The mean of the two classes' accuracies.
    private func accuracy(_ weights: [Float], _ isTraining: Bool) -> String {
        func share(_ isEnd: Bool) -> Double {
            let meant = examples.filter { $0.isEnd == isEnd && $0.isTraining == isTraining }
            let right = meant.count { example in
                let sum = zip(example.numbers + [1], weights).reduce(0) { $0 + $1.0 * $1.1 }
                return (sum > 0) == isEnd
            }
            return Double(right) / Double(max(1, meant.count))
        }
        return String(format: "%.0f%%", 50 * (share(true) + share(false)))
    }
}
