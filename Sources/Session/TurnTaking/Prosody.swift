// How speech sounded just before a silence: whether its melody and loudness fell, as they do at the
// end of a turn, or stopped in the middle. It is measured from the samples at a pause, on the
// stack, and nothing is kept. PitchTrack measures the pitch; TurnEndEstimator decides what the
// sound means for the turn.
//
// Levels are compared with the silence itself, so that a noisy room is measured like a quiet one.

import Glibc

/// The end of one stretch of speech, in numbers.
package struct Prosody: Equatable, Sendable {
    /// The pitch at the end against that of the whole stretch, in semitones; below 0 where it fell.
    package var fall: Float
    /// Milliseconds from the last loud 10 ms to the end: long where the last syllable is drawn out
    /// and fades, short where the voice stops in the middle.
    package var fade: Float
    /// Milliseconds from the last voiced 10 ms to the end: breath and noise after the voice.
    package var breath: Float

    /// Takes the numbers as they are.
    package init(fall: Float, fade: Float, breath: Float) {
        self.fall = fall
        self.fade = fade
        self.breath = breath
    }

    /// The three, in the order of `weights`.
    package var numbers: [Float] { [fall, fade, breath] }

    /// Weights of the three and a constant, fitted to recordings of people, clean and in noise
    /// (`turn-table --prosody`, LoadTests/RESULTS.md).
    package static let weights: [Float] = [-0.0918, 0.0077, 0.0057, -1.2689]

    /// The logarithm of the odds that this was the end of a turn; 0: even odds.
    package var finality: Float {
        Self.weights[0] * fall + Self.weights[1] * fade + Self.weights[2] * breath
            + Self.weights[3]
    }

    /// The longest stretch that is measured, 1.2 s: a phrase, long enough to compare its end with
    /// its beginning.
    package static let maxSamples = 120 * hop
    /// The silence after it that is needed, 160 ms.
    package static let silenceSamples = 16 * hop
    /// A stretch shorter than this has no melody to judge, 300 ms.
    package static let minSamples = 30 * hop

    /// 10 ms at 16 kHz.
    static let hop = 160
    /// Decibels under the loudest 10 ms, where speech ends and where its pitch is still clear.
    private static let depth: Float = 25
    private static let voicedDepth: Float = 20
    /// Decibels under the loudest 10 ms that still count as loud.
    private static let loudDepth: Float = 10

    /// Measures speech that a silence followed.
    /// - Parameters:
    ///   - samples: at 16 kHz; up to `maxSamples` of speech, then silence.
    ///   - silence: how many of the last samples are silence, at least `silenceSamples`.
    /// - Returns: nil where too little of it stands out from the silence.
    package static func measure(
        _ samples: UnsafeBufferPointer<Int16>, silence: Int
    ) -> Prosody? {
        measure(
            sampleCount: samples.count, silence: silence,
            levels: { levels in
                for index in levels.indices {
                    levels[index] = samples[index * hop..<(index + 1) * hop].reduce(0) {
                        $0 + Float($1) * Float($1)
                    }
                }
            },
            slow: { PitchTrack.slowDown(samples, into: $0) })
    }

    /// As above, from measurements of the samples.
    /// - Parameters:
    ///   - fillLevels: writes the energy of each hop, the sum of its samples' squares.
    ///   - fillSlow: writes the samples at a quarter of their rate, at any scale.
    static func measure(
        sampleCount: Int, silence: Int,
        levels fillLevels: (UnsafeMutableBufferPointer<Float>) -> Void,
        slow fillSlow: (UnsafeMutableBufferPointer<Float>) -> Void
    ) -> Prosody? {
        let count = sampleCount / hop
        let slowCount = sampleCount / PitchTrack.decimation
        guard silence >= silenceSamples, sampleCount - silence >= minSamples,
            sampleCount - silence <= maxSamples
        else { return nil }
        return withUnsafeTemporaryAllocation(of: Float.self, capacity: 3 * count + slowCount) {
            space in
            let levels = UnsafeMutableBufferPointer(rebasing: space[..<count])
            let pitches = UnsafeMutableBufferPointer(rebasing: space[count..<2 * count])
            let sorted = UnsafeMutableBufferPointer(rebasing: space[2 * count..<3 * count])
            let slow = UnsafeMutableBufferPointer(rebasing: space[(3 * count)...])
            fillLevels(levels)
            for index in levels.indices {
                levels[index] = 10 * log10((1 + levels[index]) / Float(hop))
            }
            guard let speech = speech(levels, count - (silence + hop - 1) / hop) else { return nil }
            let loudest = levels[speech].max() ?? 0
            let floor = max(levels[speech].min() ?? 0, loudest - voicedDepth)
            fillSlow(slow)
            PitchTrack.measure(UnsafeBufferPointer(slow), in: speech, into: pitches) {
                levels[$0] >= floor
            }
            let lastLoud = speech.last { levels[$0] >= loudest - loudDepth } ?? speech.lowerBound
            let lastVoiced = speech.last { pitches[$0] > 0 } ?? speech.lowerBound
            return Prosody(
                fall: fall(pitches, speech, sorting: sorted),
                fade: Float(10 * (speech.upperBound - 1 - lastLoud)),
                breath: Float(10 * (speech.upperBound - 1 - lastVoiced)))
        }
    }

    /// The hops that are speech: those near the loudest and above the silence that follows them.
    private static func speech(
        _ levels: UnsafeMutableBufferPointer<Float>, _ spoken: Int
    ) -> Range<Int>? {
        // The beginning of the silence is left out, because speech may still fade there. A click
        // may be in the rest.
        let quiet = (spoken + levels.count) / 2
        let half = (quiet + levels.count) / 2
        let silence = min(mean(levels, quiet..<half), mean(levels, half..<levels.count))
        let loudest = levels[..<spoken].max() ?? silence
        guard loudest >= silence + 6 else { return nil }
        let floor = max(silence + 4, loudest - depth)
        guard let first = levels[..<spoken].firstIndex(where: { $0 >= floor }),
            let last = levels[..<spoken].lastIndex(where: { $0 >= floor }),
            last - first >= minSamples / hop / 2
        else { return nil }
        return first..<last + 1
    }

    private static func mean(
        _ levels: UnsafeMutableBufferPointer<Float>, _ range: Range<Int>
    ) -> Float {
        range.reduce(0) { $0 + levels[$1] } / Float(max(1, range.count))
    }

    /// The median of the last voiced hops against the median of all. Medians are used because one
    /// hop in ten is measured an octave off.
    private static func fall(
        _ pitches: UnsafeMutableBufferPointer<Float>, _ speech: Range<Int>,
        sorting space: UnsafeMutableBufferPointer<Float>
    ) -> Float {
        func median(_ count: Int) -> Float {
            var values = UnsafeMutableBufferPointer(rebasing: space[..<count])
            values.sort()
            return values[count / 2]
        }
        var voiced = 0
        for index in speech.reversed() where pitches[index] > 0 {
            space[voiced] = pitches[index]
            voiced += 1
        }
        guard voiced >= 2 * fallHops else { return 0 }
        // Backwards, so that the first are the last ones spoken.
        let end = median(fallHops)
        let fall = end - median(voiced)
        // The pitch of a voice that creaks at its end is measured an octave off: such a leap is
        // ignored.
        return fall - 12 * (fall / 12).rounded()
    }

    /// Voiced pitches that make the end of the melody: 3 of 20 ms.
    private static let fallHops = 3
}
