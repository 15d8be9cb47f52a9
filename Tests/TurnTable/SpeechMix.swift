// Disturbances in a microphone: noises added to a recording, at a level relative to its speech.
// Every mix is the same in every run.

import Session

/// A disturbance and its level.
enum SpeechMix: CaseIterable, Sendable {
    /// A quiet room without disturbance.
    case clean
    /// Pink noise 15 or 5 dB under the speech.
    case pink15, pink5
    /// A tone of 1 kHz, 100 ms long, every 700 ms, as loud as the speech.
    case beeps
    /// Clicks of 2 ms at random, three a second, their peak four times the speech's level.
    case clicks
    /// A second person who talks all the time, 15 dB below the speech.
    case secondVoice

    /// Its name in the report.
    var name: String {
        switch self {
        case .clean: "clean"
        case .pink15: "pink noise, 15 dB"
        case .pink5: "pink noise, 5 dB"
        case .beeps: "beeps"
        case .clicks: "clicks"
        case .secondVoice: "a second voice, -15 dB"
        }
    }

    /// Adds the disturbance to samples at 16 kHz.
    /// - Parameters:
    ///   - level: root mean square of the speech, to which the disturbance is scaled.
    ///   - voice: samples of the second voice, repeated.
    func apply(to samples: inout [Int16], level: Float, voice: [Int16]) {
        switch self {
        case .clean: break
        case .pink15: addPinkNoise(to: &samples, level: level * 0.1778)
        case .pink5: addPinkNoise(to: &samples, level: level * 0.5623)
        case .beeps: addBeeps(to: &samples, level: level)
        case .clicks: addClicks(to: &samples, level: level)
        case .secondVoice:
            let scale = level * 0.1778 / Self.level(of: voice)
            for index in samples.indices {
                Self.add(Float(voice[index % voice.count]) * scale, to: &samples[index])
            }
        }
    }

    /// Root mean square of the louder parts: of each 20 ms within 20 dB of the loudest.
    static func level(of samples: [Int16]) -> Float {
        let energies = stride(from: 0, to: samples.count - 320, by: 320).map { start in
            samples[start..<start + 320].reduce(Float(0)) { $0 + Float($1) * Float($1) } / 320
        }
        let loudest = energies.max() ?? 0
        let loud = energies.filter { $0 >= loudest / 100 }
        return max(1, (loud.reduce(0, +) / Float(max(1, loud.count))).squareRoot())
    }

    /// Voss's algorithm: a sum of noise sources, each of which changes half as often as the one
    /// before.
    private func addPinkNoise(to samples: inout [Int16], level: Float) {
        var noise = SeededNoise()
        var sources = [Float](repeating: 0, count: 12)
        var pink = [Float](repeating: 0, count: samples.count)
        for index in pink.indices {
            let slowest = min(index.trailingZeroBitCount, sources.count - 1)
            sources[slowest] = noise.next()
            pink[index] = sources.reduce(noise.next(), +)
        }
        let sum = pink.reduce(0) { $0 + $1 * $1 }
        let scale = level / (sum / Float(max(1, pink.count))).squareRoot()
        for index in samples.indices { Self.add(pink[index] * scale, to: &samples[index]) }
    }

    private func addBeeps(to samples: inout [Int16], level: Float) {
        // One period of 1 kHz. The square root of two converts the level to a peak.
        let period: [Float] = [
            0, 0.383, 0.707, 0.924, 1, 0.924, 0.707, 0.383, 0, -0.383, -0.707, -0.924, -1, -0.924,
            -0.707, -0.383,
        ]
        for index in samples.indices where index % 11_200 >= 5_600 && index % 11_200 < 7_200 {
            Self.add(period[index % 16] * level * 1.414, to: &samples[index])
        }
    }

    private func addClicks(to samples: inout [Int16], level: Float) {
        var noise = SeededNoise()
        var position = 4_000
        while position + 32 < samples.count {
            for index in position..<position + 32 {
                let fading = Float(position + 32 - index) / 32
                Self.add(noise.next() * 4 * level * fading, to: &samples[index])
            }
            position += 2_666 + Int((noise.next() + 1) * 2_666)
        }
    }

    private static func add(_ value: Float, to sample: inout Int16) {
        let sum = Float(sample) + value
        sample = Int16(max(-32_768, min(32_767, sum)))
    }
}

/// Numbers from -1 to 1, the same in every run.
struct SeededNoise {
    private var state: UInt64 = 0x9E37_79B9_7F4A_7C15

    mutating func next() -> Float {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Float(Int32(truncatingIfNeeded: state >> 32)) / 2_147_483_648
    }
}
