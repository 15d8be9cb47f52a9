// Finds where speech begins in an utterance. MoonshineRecognizer leaves out the silence before it.

import Session

/// Where speech begins in samples at 16 kHz, by the network of voice activity.
struct SpeechOnset {
    /// 300 ms before the speech are kept, as `server_vad` does by default (`prefix_padding_ms`): the
    /// first consonant is in them.
    static let marginSamples = 4_800
    /// The least probability of speech, 0…1, of the first window. 0.5 is the default of `server_vad`.
    static let threshold: Float = 0.5

    /// Without the network nothing is left out.
    let model: VoiceActivityModel?

    /// The index of the first sample to hear; `startIndex` where no window is speech.
    func start(of samples: ArraySlice<Int16>) -> Int {
        guard let model else { return samples.startIndex }
        var detector = VoiceActivityDetector(model: model)
        let window = VoiceActivityDetector.windowSamples
        return samples.withUnsafeBufferPointer { buffer in
            let offsets = stride(from: 0, through: buffer.count - window, by: window)
            let onset = offsets.first { offset in
                let samples = UnsafeBufferPointer(rebasing: buffer[offset..<offset + window])
                return detector.process(samples) >= Self.threshold
            }
            return samples.startIndex + max(0, (onset ?? 0) - Self.marginSamples)
        }
    }
}
