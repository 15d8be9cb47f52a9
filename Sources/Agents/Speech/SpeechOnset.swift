// Finds where speech begins in an utterance. MoonshineRecognizer leaves out the silence before it.

import Session

/// Where speech begins in samples at 16 kHz, by the network of voice activity.
struct SpeechOnset {
    /// 300 ms before the speech are kept, as `server_vad` does by default (`prefix_padding_ms`): the
    /// first consonant is in them.
    static let marginSamples = 4_800
    /// A window as likely speech as not is the beginning of it. `server_vad` asks for as much.
    static let threshold: Float = 0.5

    /// Without the network nothing is left out.
    let model: VoiceActivityModel?

    /// The index of the first sample to hear; `startIndex` where no window is speech.
    func start(of samples: ArraySlice<Int16>) -> Int {
        guard let model else { return samples.startIndex }
        var detector = VoiceActivityDetector(model: model)
        let window = VoiceActivityDetector.windowSamples
        return samples.withUnsafeBufferPointer { buffer in
            for offset in stride(from: 0, through: buffer.count - window, by: window)
            where detector.process(.init(rebasing: buffer[offset..<offset + window]))
                >= Self.threshold
            {
                return samples.startIndex + max(0, offset - Self.marginSamples)
            }
            return samples.startIndex
        }
    }
}
