// The signal whose voice activity the ONNX model has been asked about; the same samples, to the
// bit, as Tests/scripts/silero_reference.py makes. Whole-number arithmetic only: change both.

/// Silence, synthetic vowels, noise and full-scale square waves, one after the other, at 16 kHz.
struct ReferenceSignal {
    private(set) var samples: [Int16] = []
    private var seed: UInt32 = 1

    /// Resonances of four vowels: (2 r cos θ, r²) in 1/16,384 for each formant.
    private static let vowels = [
        [(30_300, -15_750), (27_500, -15_400), (-1_900, -14_900)],
        [(31_900, -15_900), (20_700, -15_500), (10_100, -15_100)],
        [(31_700, -15_850), (30_200, -15_600), (16_000, -15_000)],
        [(31_000, -15_800), (23_400, -15_500), (12_500, -15_000)],
    ]

    init() {
        noise(8_192, shift: 14)
        speech(24_576, pitch: 110)
        noise(6_144, shift: 3)
        noise(8_192, shift: 16)
        square(4_096, halfPeriod: 40)
        speech(16_384, pitch: 190)
    }

    /// A whole number in -32,768…32,767.
    private mutating func random() -> Int {
        seed = seed &* 1_664_525 &+ 1_013_904_223
        return Int(seed >> 16) - 32_768
    }

    private mutating func noise(_ count: Int, shift: Int) {
        for _ in 0..<count { samples.append(Int16(clamping: random() >> shift)) }
    }

    private mutating func square(_ count: Int, halfPeriod: Int) {
        for index in 0..<count {
            samples.append(index / halfPeriod % 2 == 0 ? 32_767 : -32_768)
        }
    }

    /// Pulses of a falling and rising pitch through the resonances, a vowel every 120 ms.
    private mutating func speech(_ count: Int, pitch: Int) {
        var history = [[0, 0], [0, 0], [0, 0]]
        var phase = 0
        for index in 0..<count {
            let (syllable, position) = index.quotientAndRemainder(dividingBy: 1_920)
            phase += pitch + abs(index % 9_600 - 4_800) >> 7
            var pulse = random() >> 9
            if phase >= 16_000 {
                phase -= 16_000
                pulse += 6_000
            }
            var value = (pulse * min(position, 1_920 - position, 256)) >> 8
            let vowel = Self.vowels[syllable % Self.vowels.count]
            for (formant, (first, second)) in vowel.enumerated() {
                let state = history[formant]
                value += (first * state[0] + second * state[1]) >> 14
                history[formant] = [value, state[0]]
                value >>= 2
            }
            samples.append(Int16(clamping: value))
        }
    }
}
