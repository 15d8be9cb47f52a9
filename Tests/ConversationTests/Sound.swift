// Sounds for the microphone: recordings of human speech, and computed noises. Every sound is
// normalised to the same level, and a `gain_db` is relative to it. Pink noise at −5 dB beside a
// recording at 0 dB is a signal-to-noise ratio of 5 dB.
//
// Tests/clients/microphone.py computes the same sounds: change both together.

import Codec
import Foundation

/// Mono samples at `Sound.rate`, full scale 1.
struct Sound {
    static let rate = SampleRate.hz24000
    /// The level of every sound: RMS over its whole length, in dB of full scale.
    static let level = -26.0

    var samples: [Float]

    /// Normalises samples to the common level, plus `gain` dB.
    init(_ samples: [Float], gain: Double) {
        let energy = samples.reduce(into: 0.0) { $0 += Double($1) * Double($1) }
        let rms = (energy / Double(max(1, samples.count))).squareRoot()
        let factor = rms == 0 ? 0 : Float(pow(10, (Self.level + gain) / 20) / rms)
        self.samples = samples.map { $0 * factor }
    }

    /// Keeps samples at their own level.
    init(exactly samples: [Float]) { self.samples = samples }

    var milliseconds: Int { Self.rate.milliseconds(ofSamples: samples.count) }

    /// A part of the sound; its level is not normalised again.
    func cut(_ range: Range<Int>) -> Sound {
        var sound = self
        let bounds =
            Self.rate.samples(
                inMilliseconds: range.lowerBound)..<min(
                samples.count, Self.rate.samples(inMilliseconds: range.upperBound))
        sound.samples = Array(samples[bounds])
        return sound
    }

    // MARK: Recordings

    /// A recording by its name in Tests/Fixtures/recordings.yaml.
    static func recording(_ name: String, gain: Double = 0) throws -> Sound {
        guard let entry = try Fixtures.recordings()[name], let path = entry["file"]?.text else {
            throw Fixtures.Failure(description: "recordings.yaml has no \(name)")
        }
        guard let data = FileManager.default.contents(atPath: path) else {
            throw Fixtures.Failure(
                description: "\(path) is missing: install alsa-utils and pocketsphinx-testdata")
        }
        let file =
            path.hasSuffix(".wav")
            ? try WAVFile(parsing: [UInt8](data))
            : WAVFile(
                rate: .hz16000,
                samples: stride(from: 0, to: data.count - 1, by: 2).map {
                    Int16(bitPattern: UInt16(data[$0]) | UInt16(data[$0 + 1]) << 8)
                })
        let samples = file.rate == rate ? file.samples : try resampled(file)
        return Sound(samples.map { Float($0) / 32_768 }, gain: gain)
    }

    private static func resampled(_ file: WAVFile) throws -> [Int16] {
        precondition(file.channels == 1)
        var resampler = try Resampler(from: file.rate, to: rate)
        let room = resampler.maxOutputSamples(for: file.samples.count)
        return [Int16](unsafeUninitializedCapacity: room) { target, count in
            count = file.samples.withUnsafeBufferPointer { resampler.process($0, into: target) }
        }
    }

    // MARK: Noises

    /// A noise by its name: `pink`, `beep`, `click` or `cough`.
    static func noise(_ name: String, milliseconds: Int, gain: Double) throws -> Sound {
        let count = rate.samples(inMilliseconds: milliseconds)
        var white = WhiteNoise()
        switch name {
        case "pink":
            var filter = PinkFilter()
            return Sound((0..<count).map { _ in filter.next(white.next()) }, gain: gain)
        case "beep":
            // 1 kHz, 200 ms of every 500.
            return Sound(
                (0..<count).map { index in
                    index % 12_000 < 4_800 ? sin(2 * .pi * Float(index % 24) / 24) : 0
                }, gain: gain)
        case "click":
            // One click every 250 ms, 5 ms long.
            return Sound(
                (0..<count).map { white.next() * exp(-Float($0 % 6_000) / 24) }, gain: gain)
        case "cough":
            // A burst that fades within 100 ms, then a second, voiceless one.
            var filter = PinkFilter()
            return Sound(
                (0..<count).map { filter.next(white.next()) * exp(-Float($0 % 4_800) / 1_200) },
                gain: gain)
        default: throw Fixtures.Failure(description: "no noise is called \(name)")
        }
    }
}

/// Pseudo-random numbers that are the same in every language: a linear congruential generator
/// (Knuth, MMIX).
private struct WhiteNoise {
    private var state: UInt64 = 7

    /// −1…1.
    mutating func next() -> Float {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Float(state >> 40) / Float(1 << 23) - 1
    }
}

/// Filters white noise to pink within half a decibel: Paul Kellet's three poles.
private struct PinkFilter {
    private var low: Float = 0
    private var middle: Float = 0
    private var high: Float = 0

    mutating func next(_ white: Float) -> Float {
        low = 0.99765 * low + white * 0.0990460
        middle = 0.96300 * middle + white * 0.2965164
        high = 0.57000 * high + white * 1.0526913
        return low + middle + high + white * 0.1848
    }
}
