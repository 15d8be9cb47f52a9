// Levels of eight bands of speech, one set every 16 ms, whatever the samples' rate. EchoPath
// compares the played reply with the microphone's audio by them.
//
// The bands are the lanes of every vector, so that one pass over the samples filters them all.

import Codec
import Glibc

/// Decibels in each band, over one square sample: full scale is about 90.
typealias BandLevels = SIMD8<Float>

/// A filter bank and the levels of the frame in progress.
struct SpeechBands {
    /// A frame at 48 kHz: 16 ms, half a window of the voice activity model.
    static let frameLength = 768
    /// Middles of the bands in Hz, half an octave apart: the part of speech that a telephone, too,
    /// carries, because replies at 8 kHz have no more.
    private static let middles: [Double] = [200, 320, 500, 760, 1_100, 1_600, 2_300, 3_200]
    /// Middle over width. 2: neighbours overlap a little.
    private static let quality = 2.0

    /// The rate that the filters are for.
    let rate: SampleRate
    private let frameSamples: Int
    // A band-pass of second order in each lane (transposed direct form II; its b1 is 0 and its
    // b2 is −b0).
    private var b0 = SIMD8<Float>()
    private var a1 = SIMD8<Float>()
    private var a2 = SIMD8<Float>()
    private var first = SIMD8<Float>()
    private var second = SIMD8<Float>()
    private var energy = SIMD8<Float>()
    private var count = 0

    init(rate: SampleRate) {
        self.rate = rate
        frameSamples = max(1, rate.hertz * Self.frameLength / SampleRate.hz48000.hertz)
        for (lane, middle) in Self.middles.enumerated() {
            let angle = 2 * Double.pi * middle / Double(rate.hertz)
            let alpha = sin(angle) / (2 * Self.quality)
            b0[lane] = Float(alpha / (1 + alpha))
            a1[lane] = Float(-2 * cos(angle) / (1 + alpha))
            a2[lane] = Float((1 - alpha) / (1 + alpha))
        }
    }

    /// Filters a run of samples; `handle` is given the levels of each frame that is complete.
    mutating func process(
        _ samples: UnsafeBufferPointer<Int16>, _ handle: (BandLevels) -> Void
    ) {
        for sample in samples {
            let input = b0 * Float(sample)
            let output = input + first
            first = second - a1 * output
            second = -input - a2 * output
            energy += output * output
            count += 1
            guard count == frameSamples else { continue }
            handle(Self.decibels(energy / Float(frameSamples) + 1))
            energy = SIMD8()
            count = 0
        }
    }

    /// Ten times the logarithm, within 0.3 dB: the exponent's bits, and the fraction's as a line.
    private static func decibels(_ power: SIMD8<Float>) -> BandLevels {
        let bits = SIMD8<Int32>(truncatingIfNeeded: unsafeBitCast(power, to: SIMD8<UInt32>.self))
        let logarithm = SIMD8<Float>(bits) / Float(1 << 23) - 126.96
        return logarithm * 3.0103
    }
}
