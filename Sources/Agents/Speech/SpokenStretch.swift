// Where an utterance has speech, by the network of voice activity: where the recogniser begins to hear,
// how much speech it hears, and where the speech may be cut. The embedded recognisers decode it.

import Session

/// A stretch of an utterance at 16 kHz that is decoded as one.
struct SpokenStretch {
    /// 300 ms before the speech are kept, as `server_vad` does by default (`prefix_padding_ms`): the
    /// first consonant is in them.
    static let marginSamples = 4_800
    /// The least probability of speech, 0…1, of a window. 0.5 is the default of `server_vad`.
    static let threshold: Float = 0.5

    /// Speech that is cut no more: 0.3 s, about the shortest word.
    private static let leastWindows = 9
    /// The length of the stretch whose loudness is measured for a cut: 100 ms, as words of a list are
    /// spoken close to each other.
    private static let quietSamples = 1_600
    /// Letters that a second of speech has at least. People say 12 to 15, and 6 where they dictate digits.
    private static let leastLettersPerSecond = 3.0

    /// The samples that are decoded.
    let samples: ArraySlice<Int16>
    /// For each window from the first sample on, whether it is speech; empty: that is not known.
    private let windows: ArraySlice<Bool>

    /// The speech of an utterance, without the silence before it.
    /// - Parameter model: without it nothing is left out, and how much is speech is not known.
    init(of utterance: ArraySlice<Int16>, model: VoiceActivityModel?) {
        guard let model else {
            self.init(utterance, [])
            return
        }
        var detector = VoiceActivityDetector(model: model)
        let size = VoiceActivityDetector.windowSamples
        let windows = utterance.withUnsafeBufferPointer { buffer in
            stride(from: 0, through: buffer.count - size, by: size).map { offset in
                let window = UnsafeBufferPointer(rebasing: buffer[offset..<offset + size])
                return detector.process(window) >= Self.threshold
            }
        }
        let margin = Self.marginSamples / size
        let first = max(0, (windows.firstIndex(of: true) ?? 0) - margin)
        self.init(utterance[(utterance.startIndex + first * size)...], windows[first...])
    }

    private init(_ samples: ArraySlice<Int16>, _ windows: ArraySlice<Bool>) {
        self.samples = samples
        self.windows = windows
    }

    /// Windows of speech.
    private var spoken: Int { windows.count { $0 } }

    /// The samples up to the end of the speech, with a margin; none where there is no speech. All of
    /// them where that is not known.
    var speech: ArraySlice<Int16> {
        guard !windows.isEmpty else { return samples }
        guard let last = windows.lastIndex(of: true) else { return [] }
        let end = (last + 1 - windows.startIndex) * VoiceActivityDetector.windowSamples
        return samples.prefix(end + Self.marginSamples)
    }

    /// Whether words are missing from the transcript: there are none, or far too few for the length
    /// of the speech. The model often ends after the first item of a list, or hears none of it.
    func lacksWords(_ text: String) -> Bool {
        guard spoken >= Self.leastWindows else { return false }
        let seconds = Double(spoken * VoiceActivityDetector.windowSamples) / 16_000
        return Double(Self.letters(in: text)) < seconds * Self.leastLettersPerSecond
    }

    /// Letters as they are spoken: a digit is a word of about four.
    static func letters(in text: String) -> Int {
        text.unicodeScalars.reduce(0) { count, character in
            if character.properties.numericType != nil { return count + 4 }
            return count + (character.properties.isAlphabetic ? 1 : 0)
        }
    }

    /// Two parts, cut at the quietest point of the middle half, or nil where it is too short to be
    /// cut.
    var halves: (SpokenStretch, SpokenStretch)? {
        let size = VoiceActivityDetector.windowSamples
        guard spoken >= 2 * Self.leastWindows, let first = windows.firstIndex(of: true),
            let last = windows.lastIndex(of: true)
        else { return nil }
        let start = samples.startIndex + (first - windows.startIndex) * size
        let length = (last + 1 - first) * size
        let middle = start + length / 4..<start + length * 3 / 4
        let point = Self.quietestPoint(of: samples, in: middle)
        let window = min(windows.endIndex, windows.startIndex + (point - samples.startIndex) / size)
        return (
            SpokenStretch(samples[..<point], windows[..<window]),
            SpokenStretch(samples[point...], windows[window...])
        )
    }

    /// The middle of the stretch with the least energy.
    private static func quietestPoint(of samples: ArraySlice<Int16>, in range: Range<Int>) -> Int {
        UtteranceSplitter.quietestPoint(of: samples, in: range, quietSamples: quietSamples)
    }
}
