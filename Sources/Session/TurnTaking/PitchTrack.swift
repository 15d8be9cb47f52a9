// The pitch of a voice: normalised autocorrelation of 40 ms at 4 kHz, every 20 ms. Prosody
// interprets it.

import Glibc

/// Finds the pitch of speech at 16 kHz.
enum PitchTrack {
    /// Pitch needs no more than 4 kHz.
    static let decimation = 4
    /// 40 ms at 4 kHz: three periods of the lowest voice.
    private static let window = 160
    /// Periods at 4 kHz: 400 down to 70 Hz.
    private static let lags = 10...57
    /// Correlation from which a window counts as voiced.
    private static let voicing: Float = 0.55

    private typealias Lane = SIMD8<Float>

    /// Writes sums of `decimation` samples each, as far as there is room.
    static func slowDown(
        _ samples: UnsafeBufferPointer<Int16>, into slow: UnsafeMutableBufferPointer<Float>
    ) {
        for index in slow.indices {
            slow[index] = samples[index * decimation..<(index + 1) * decimation].reduce(0) {
                $0 + Float($1)
            }
        }
    }

    /// The pitch of every other hop in `range`, in semitones above about 70 Hz; 0 where there is no
    /// pitch, and for the hops between.
    /// - Parameters:
    ///   - slow: the sound at a quarter of its rate.
    ///   - isLoud: whether a hop is loud enough to be measured.
    static func measure(
        _ slow: UnsafeBufferPointer<Float>, in range: Range<Int>,
        into pitches: UnsafeMutableBufferPointer<Float>, _ isLoud: (Int) -> Bool
    ) {
        pitches.update(repeating: 0)
        let hop = Prosody.hop / decimation
        let reach = window + lags.upperBound
        // From the end, where it matters most.
        for index in stride(from: range.upperBound - 1, through: range.lowerBound, by: -2)
        where isLoud(index) {
            let start = max(0, index * hop + hop / 2 - reach / 2)
            guard start + reach <= slow.count else { continue }
            pitches[index] = pitch(of: UnsafeBufferPointer(rebasing: slow[start..<start + reach]))
        }
    }

    /// The pitch of one window and what `lags` needs behind it.
    private static func pitch(of part: UnsafeBufferPointer<Float>) -> Float {
        let mean = part.reduce(0, +) / Float(part.count)
        let capacity = lags.count + part.count
        return withUnsafeTemporaryAllocation(of: Float.self, capacity: capacity) { space in
            let found = UnsafeMutableBufferPointer(rebasing: space[..<lags.count])
            let level = UnsafeMutableBufferPointer(rebasing: space[lags.count...])
            // Rumble and offset correlate with themselves at every lag.
            for index in part.indices { level[index] = part[index] - mean }
            let part = UnsafeBufferPointer(level)
            let energy = 1 + product(part, 0, 0)
            for lag in lags {
                let shifted = 1 + product(part, lag, lag)
                found[lag - lags.lowerBound] =
                    product(part, 0, lag) / (energy * shifted).squareRoot()
            }
            let best = found.max() ?? 0
            guard best >= voicing else { return 0 }
            // The shortest period that is nearly as good: multiples of a period correlate too.
            let period = (1..<found.count - 1).first {
                found[$0] >= 0.9 * best && found[$0] >= found[$0 - 1] && found[$0] >= found[$0 + 1]
            }
            guard let period else { return 0 }
            let longest = Float(lags.upperBound + 1)
            return 12 * log2(longest / Float(period + lags.lowerBound))
        }
    }

    /// The products of two windows, summed up.
    private static func product(
        _ part: UnsafeBufferPointer<Float>, _ first: Int, _ second: Int
    ) -> Float {
        let raw = UnsafeRawBufferPointer(part)
        var sum = Lane.zero
        for index in stride(from: 0, to: window, by: Lane.scalarCount) {
            let stride = MemoryLayout<Float>.stride
            let one = raw.loadUnaligned(fromByteOffset: (first + index) * stride, as: Lane.self)
            let other = raw.loadUnaligned(fromByteOffset: (second + index) * stride, as: Lane.self)
            sum += one * other
        }
        return sum.sum()
    }
}
