// A run of reply audio from the encoder to the point where it was heard.

import Codec

/// A run of reply audio as it was sent.
struct SentRun: Equatable {
    /// The item's part that the audio belongs to.
    let part: PartAddress
    /// How it was encoded.
    let format: AudioFormat
    /// Where in the item's audio it starts, and how long it lasts: samples at 48 kHz.
    var position: Int
    var length: Int
    /// Samples, or one Opus packet.
    var payload: [UInt8]

    /// How long it lasts; a run is never counted as nothing.
    var milliseconds: Int { max(1, SampleRate.hz48000.milliseconds(ofSamples: length)) }

    /// Leaves its beginning out. An Opus packet cannot be cut: it stays whole.
    /// - Parameter wanted: samples at 48 kHz that are not wanted, fewer than `length`.
    mutating func removeFirst(_ wanted: Int) {
        let bytesPerSample = format.bytesPerSample
        guard format != .opus else { return }
        let ratio = SampleRate.hz48000.hertz / format.sampleRate.hertz
        let samples = min(wanted / ratio, payload.count / bytesPerSample)
        payload.removeFirst(samples * bytesPerSample)
        position += samples * ratio
        length -= samples * ratio
    }
}
