// The signal of the natural voice beside the same formulas in double precision.

import CVoiceSignal
import Foundation
import Testing

@testable import Agents

@Suite struct VoiceSignalTests {
    private static let (bins, hop, window) = (601, 300, 1_200)

    /// A clause of which no noise is made, unless a test asks for it.
    private struct Clause {
        let frames: Int
        /// lh, theta, ln, lr, phi, each bin by bin.
        var values: [[Float]]
        var pitch: [Float]

        init(frames: Int, seed: UInt64 = 1) {
            var random = SplitMix(state: seed)
            func filled(_ range: ClosedRange<Float>) -> [Float] {
                (0..<(bins * frames)).map { _ in Float.random(in: range, using: &random) }
            }
            self.frames = frames
            values = [
                filled(-5...1), filled(-1...1), filled(-90 ... -80), filled(-7...0), filled(-9...9),
            ]
            // Unvoiced at both ends, and a pitch that glides between.
            pitch = (0..<frames).map { $0 < 2 || $0 > frames - 3 ? 0 : 180 + 9 * Float($0) }
        }

        /// The sound by a kernel.
        func sound(_ kernel: VoiceKernel, random: UInt64 = 7) -> [Float]? {
            let pointers = (values + [pitch]).map { list in
                let copy = UnsafeMutablePointer<Float>.allocate(capacity: max(1, list.count))
                copy.update(from: list, count: list.count)
                return UnsafePointer(copy)
            }
            defer { for pointer in pointers { pointer.deallocate() } }
            let clause = voice_clause(
                lh: pointers[0], theta: pointers[1], ln: pointers[2], lr: pointers[3],
                phi: pointers[4], f0: pointers[5], frames: frames)
            guard var signal = VoiceSignal(clause, random: random, by: kernel) else { return nil }
            var sound: [Float] = []
            while let part = signal.next() { sound += part }
            return sound
        }

        /// The pulses of the pitch.
        private var pulses: [Double] {
            var turns = 0.0
            return (0..<(frames * hop)).map { sample in
                let place = (Double(sample) + 0.5) / Double(hop) - 0.5
                let before = Int(place.rounded(.down))
                let share = place - Double(before)
                let low = Double(pitch[min(max(before, 0), frames - 1)])
                let high = Double(pitch[min(max(before + 1, 0), frames - 1)])
                let hertz = low * (1 - share) + high * share
                turns += max(hertz, 40) / 24_000
                guard hertz > 40 else { return 0 }
                let harmonics = (11_000 / hertz).rounded(.down)
                let angle = 2 * Double.pi * turns.truncatingRemainder(dividingBy: 1)
                let divisor = 2 * sin(angle / 2)
                guard abs(divisor) > 2e-3 else { return harmonics }
                return sin((harmonics + 0.5) * angle) / divisor - 0.5
            }
        }

        /// The same sound by definition: every transform is a sum.
        var expected: [Double] {
            let pulses = pulses
            let cosines = (0..<window).map { cos(2 * Double.pi * Double($0) / Double(window)) }
            let sines = (0..<window).map { sin(2 * Double.pi * Double($0) / Double(window)) }
            var sound = [Double](repeating: 0, count: frames * hop + window)
            for frame in 0..<frames {
                let windowed = (0..<window).map { index -> Double in
                    var place = frame * hop + index - window / 2
                    if place < 0 { place = -place }
                    if place >= pulses.count { place = 2 * (pulses.count - 1) - place }
                    return pulses[place] * (0.5 - 0.5 * cosines[index]) / Double(hop)
                }
                for bin in 0..<bins {
                    var (real, imaginary) = (0.0, 0.0)
                    for index in 0..<window {
                        real += windowed[index] * cosines[bin * index % window]
                        imaginary -= windowed[index] * sines[bin * index % window]
                    }
                    let (harmonic, turn, free, own) = parts(frame, bin)
                    let sum = (
                        harmonic * (real * cos(turn) - imaginary * sin(turn)) + free * cos(own),
                        harmonic * (real * sin(turn) + imaginary * cos(turn)) + free * sin(own)
                    )
                    let weight = bin == 0 || bin == window / 2 ? 1.0 : 2.0
                    for index in 0..<window {
                        let angle = bin * index % window
                        let value = weight * (sum.0 * cosines[angle] - sum.1 * sines[angle])
                        // 1.5 is the sum of the squared windows that overlap.
                        sound[frame * hop + index] +=
                            value / Double(window) * (0.5 - 0.5 * cosines[index]) / 1.5
                    }
                }
            }
            return Array(sound[(window / 2)...].prefix(frames * hop))
        }

        private func parts(
            _ frame: Int, _ bin: Int
        ) -> (harmonic: Double, turn: Double, free: Double, own: Double) {
            let values = values.map { Double($0[bin * frames + frame]) }
            return (
                exp(min(values[0], 7)), .pi * tanh(values[1]), exp(min(values[3], 7)), values[4]
            )
        }
    }

    /// 19: groups of eight or sixteen, and three that are computed with some of these again.
    @Test func everyKernelMakesTheSoundOfTheFormulas() throws {
        let clause = Clause(frames: 19)
        let expected = clause.expected
        for kernel in VoiceKernel.allCases where kernel.isAvailable {
            let sound = try #require(clause.sound(kernel))
            try #require(sound.count == expected.count)
            let signal = expected.reduce(0) { $0 + $1 * $1 }
            let noise = zip(sound, expected).reduce(0) {
                $0 + (Double($1.0) - $1.1) * (Double($1.0) - $1.1)
            }
            #expect(10 * log10(signal / noise) > 50, "\(kernel)")
        }
    }

    @Test(arguments: [16, 17, 33, 100])
    func windowsMakeWholeClauses(frames: Int) throws {
        let clause = Clause(frames: frames)
        let sound = try #require(clause.sound(.best))
        #expect(sound.count == frames * 300)
        #expect(sound.allSatisfy { $0.isFinite })
        if VoiceKernel.best != .baseline {
            // Kernels group the frames differently, and make the same sound.
            let other = try #require(clause.sound(.baseline))
            let most = zip(sound, other).map { abs($0 - $1) }.max() ?? 1
            #expect(most < 0.01)
        }
    }

    @Test(arguments: [0, 1, 15]) func aClauseWithoutRoomForAKernelHasNoSound(frames: Int) {
        #expect(Clause(frames: frames).sound(.best) == nil)
    }

    @Test func noiseFollowsItsLevel() throws {
        var clause = Clause(frames: 40)
        let count = 601 * 40
        clause.values[0] = Array(repeating: -90, count: count)
        clause.values[3] = clause.values[0]
        clause.values[2] = Array(repeating: 0, count: count)
        let loud = try #require(clause.sound(.best))
        let other = try #require(clause.sound(.best, random: 8))
        clause.values[2] = Array(repeating: log(0.5), count: count)
        let quiet = try #require(clause.sound(.best))
        func level(_ sound: [Float]) -> Float {
            (sound.reduce(0) { $0 + $1 * $1 } / Float(sound.count)).squareRoot()
        }
        #expect((1.9...2.1).contains(level(loud) / level(quiet)))
        #expect((0.9...1.1).contains(level(loud) / level(other)))
        #expect(loud != other)
    }

    @Test(arguments: [Float.nan, .infinity, -.infinity, 1e30, -1e30])
    func whatIsNoNumberMakesNoNoise(value: Float) throws {
        for part in 0..<6 {
            var clause = Clause(frames: 16)
            if part < 5 {
                clause.values[part] = Array(repeating: value, count: 601 * 16)
            } else {
                clause.pitch = Array(repeating: value, count: 16)
            }
            for kernel in VoiceKernel.allCases where kernel.isAvailable {
                let sound = try #require(clause.sound(kernel))
                #expect(sound.allSatisfy { $0.isFinite }, "\(part) \(kernel)")
            }
        }
        // Without a level there is silence.
        var clause = Clause(frames: 16)
        for part in [0, 2, 3] { clause.values[part] = Array(repeating: .nan, count: 601 * 16) }
        let sound = try #require(clause.sound(.best))
        #expect(sound.allSatisfy { abs($0) < 1e-6 })
    }
}
