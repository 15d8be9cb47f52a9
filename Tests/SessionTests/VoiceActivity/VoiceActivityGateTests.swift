// The gate before the voice activity network: what it leaves out, and that nothing is heard later
// or lost for it. The recordings and noises are those of SpeechRecording and of a seed.

import Codec
import TestMaterial
import Testing

@testable import Session

/// What a stream's turn detection said, and what it cost.
private struct Hearing {
    var changes: [TurnDetector.Change] = []
    var skipped = 0
    var windows = 0

    init(_ samples: [Int16], gated: Bool) {
        var turns = TurnDetector(TurnDetectionParameters())
        var plain = VoiceActivityDetector(model: .installed)
        var activity = GatedVoiceActivity(model: .installed)
        let size = VoiceActivityDetector.windowSamples
        samples.withUnsafeBufferPointer { samples in
            for start in stride(from: 0, to: samples.count - size + 1, by: size) {
                let history = gated ? max(0, start - GatedVoiceActivity.historySamples) : start
                let audio = UnsafeBufferPointer(rebasing: samples[history..<start + size])
                let probability =
                    gated
                    ? activity.process(audio, senderHeardNothing: false) : plain.process(audio)
                windows += 1
                if gated, activity.isGateClosed { skipped += 1 }
                let window = start..<start + size
                if let change = turns.handle(probability: probability, window: window) {
                    changes.append(change)
                }
            }
        }
    }
}

/// Noise whose power falls with frequency, from a seed; a mean square of about 1.
private func pinkNoise(_ count: Int, seed: UInt64) -> [Double] {
    var numbers = SeededGenerator(seed: seed)
    var slow = (0.0, 0.0, 0.0)
    return (0..<count).map { _ in
        let white = Double.random(in: -1...1, using: &numbers)
        // Three poles, 3 dB per octave in sum (Paul Kellet's economy filter).
        slow.0 = 0.99765 * slow.0 + white * 0.0990460
        slow.1 = 0.96300 * slow.1 + white * 0.2965164
        slow.2 = 0.57000 * slow.2 + white * 1.0526913
        return slow.0 + slow.1 + slow.2 + white * 0.1848
    }
}

private func root(_ values: [Double]) -> Double {
    (values.reduce(0) { $0 + $1 * $1 } / Double(values.count)).squareRoot()
}

/// A recording between two seconds of silence, in noise `decibels` below it; nil: without noise.
private func mixture(_ recording: SpeechRecording, decibels: Double?) -> [Int16] {
    let silence = [Int16](repeating: 0, count: 32_000)
    let speech = silence + recording.samples + silence
    guard let decibels else { return speech }
    let noise = pinkNoise(speech.count, seed: 5)
    let level = root(recording.samples.map(Double.init)) / root(noise)
    // 10^(-dB/20), for 15 and 5 dB.
    let scale = level * (decibels == 15 ? 0.177_828 : 0.562_341)
    return zip(speech, noise).map { Int16(clamping: Int($0) + Int($1 * scale)) }
}

extension TurnDetector.Change {
    fileprivate var position: Int {
        switch self {
        case .started(let position), .stopped(let position): position
        }
    }
}

@Suite struct VoiceActivityGateTests {
    @Test(arguments: [nil, 15, 5] as [Double?])
    func speechStartsAndStopsWhereItDoesWithoutTheGate(decibels: Double?) {
        let samples = mixture(.goForward, decibels: decibels)
        let plain = Hearing(samples, gated: false)
        let gated = Hearing(samples, gated: true)
        #expect(!plain.changes.isEmpty && gated.changes.count == plain.changes.count)
        for (expected, found) in zip(plain.changes, gated.changes) {
            #expect(
                abs(expected.position - found.position) <= VoiceActivityDetector.windowSamples)
        }
    }

    @Test func silenceIsHardlyComputed() {
        let silence = Hearing([Int16](repeating: 0, count: 16_000 * 10), gated: true)
        #expect(silence.skipped * 10 >= silence.windows * 9)
        var numbers = SeededGenerator(seed: 3)
        let room = (0..<16_000 * 10).map { _ in Int16.random(in: -50...50, using: &numbers) }
        let quiet = Hearing(room, gated: true)
        #expect(quiet.skipped * 10 >= quiet.windows * 9)
    }

    @Test func nothingIsLeftOutBeforeTheNetworkHasCalledItSilence() {
        var gate = VoiceActivityGate()
        let silence = energy(of: 0)
        for _ in 0..<VoiceActivityGate.windowsToClose {
            #expect(gate.decide(silence, senderHeardNothing: true) == .compute)
            gate.handle(probability: 0.01, of: silence)
        }
        #expect(gate.decide(silence, senderHeardNothing: false) == .skip)
    }

    @Test func aSoundAboveTheFloorOpensTheGate() {
        var gate = closedGate(at: 100)
        #expect(gate.decide(energy(of: 100), senderHeardNothing: false) == .skip)
        // 3 dB more, then the same with the sender's word for its silence, then 9 dB more.
        #expect(gate.decide(energy(of: 141), senderHeardNothing: false) == .compute)
        #expect(gate.decide(energy(of: 141), senderHeardNothing: true) == .skip)
        #expect(gate.decide(energy(of: 282), senderHeardNothing: true) == .compute)
    }

    @Test func theNetworkIsAskedAgainNowAndThen() {
        var gate = closedGate(at: 100)
        let decisions = (0...VoiceActivityGate.windowsToRecheck).map { _ in
            gate.decide(energy(of: 100), senderHeardNothing: false)
        }
        #expect(decisions.dropLast().allSatisfy { $0 == .skip } && decisions.last == .recheck)
        // It hears speech: the gate stays open, however quiet the sound.
        gate.handle(probability: 0.6, of: energy(of: 100))
        #expect(gate.decide(energy(of: 100), senderHeardNothing: true) == .compute)
    }

    @Test func speechThatTheNetworkMissesHardlyLiftsTheFloor() {
        var gate = closedGate(at: 100)
        for _ in 0..<3 { gate.handle(probability: 0.05, of: energy(of: 200)) }
        #expect(gate.decide(energy(of: 160), senderHeardNothing: false) == .compute)
    }

    private func closedGate(at level: Int16) -> VoiceActivityGate {
        var gate = VoiceActivityGate()
        for _ in 0..<VoiceActivityGate.windowsToClose {
            gate.handle(probability: 0.01, of: energy(of: level))
        }
        return gate
    }

    /// A window of noise of a level, the same noise each time.
    private func energy(of level: Int16) -> WindowEnergy {
        var numbers = SeededGenerator(seed: 1)
        let samples = (0..<VoiceActivityDetector.windowSamples).map { _ in
            Int16(Double(level) * Double.random(in: -1...1, using: &numbers))
        }
        return samples.withUnsafeBufferPointer { WindowEnergy($0) }
    }
}
