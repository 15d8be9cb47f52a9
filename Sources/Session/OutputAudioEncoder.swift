// From synthesised samples to the bytes of the response's output format. One encoder serves one
// response, because resampler and Opus state must not leak from one reply into the next.

import Codec

/// Encodes runs of whole 20 ms frames.
final class OutputAudioEncoder {
    /// Frames per second of audio: every frame lasts 20 ms, the usual Opus packet.
    static let framesPerSecond = 50
    static let frameMilliseconds = 20

    let format: AudioFormat
    /// The rate of the samples that come in.
    let inputRate: SampleRate
    private var opus: OpusEncoder?
    private var resampler: Resampler?

    /// Samples of one frame at the input rate.
    var frameSamples: Int { inputRate.hertz / Self.framesPerSecond }

    /// Frames that may be encoded in one call: one Opus packet, or 100 ms for the other formats
    /// where the scratch space allows it.
    var maxFrames: Int {
        format == .opus ? 1 : max(1, min(5, InputAudioDecoder.scratchSamples / frameSamples))
    }

    init(format: AudioFormat, inputRate: SampleRate) throws(AgentError) {
        self.format = format
        self.inputRate = inputRate
        let frame = inputRate.hertz / Self.framesPerSecond
        guard inputRate.hertz % Self.framesPerSecond == 0,
            frame <= InputAudioDecoder.scratchSamples
        else {
            throw .malformedReply(
                message: "Speech at \(inputRate.hertz) Hz has no whole frames of 20 ms.")
        }
        do {
            // Opus takes 8, 12, 16, 24 and 48 kHz as they are; anything else goes through 24 kHz.
            let codable = [8_000, 12_000, 16_000, 24_000, 48_000].contains(inputRate.hertz)
            let coded =
                format == .opus ? (codable ? inputRate : SampleRate.hz24000) : format.sampleRate
            if coded != inputRate { resampler = try Resampler(from: inputRate, to: coded) }
            if format == .opus { opus = try OpusEncoder(rate: coded) }
        } catch {
            throw .malformedReply(message: "Speech at \(inputRate.hertz) Hz cannot be encoded.")
        }
    }

    /// Encodes samples: one payload for PCM and G.711; for Opus one packet, so one frame at a time.
    /// - Precondition: for Opus exactly one frame; at most `maxFrames` frames otherwise.
    func encode(
        _ samples: UnsafeBufferPointer<Int16>, scratch: AudioScratch
    ) throws(AgentError) -> [UInt8] {
        var coded = samples
        if resampler != nil {
            let count = resampler!.process(samples, into: scratch.resampled)
            coded = UnsafeBufferPointer(rebasing: scratch.resampled[..<count])
        }
        switch format {
        case .pcm:
            return [UInt8](unsafeUninitializedCapacity: coded.count * 2) { target, count in
                for (index, sample) in coded.enumerated() {
                    target[2 * index] = UInt8(truncatingIfNeeded: sample)
                    target[2 * index + 1] = UInt8(truncatingIfNeeded: sample >> 8)
                }
                count = coded.count * 2
            }
        case .pcmu, .pcma:
            var bytes: [UInt8] = []
            bytes.reserveCapacity(coded.count)
            G711.encode(coded, law: format == .pcmu ? .mu : .a, into: &bytes)
            return bytes
        case .opus:
            return try encodeOpus(coded, scratch: scratch)
        }
    }

    private func encodeOpus(
        _ samples: UnsafeBufferPointer<Int16>, scratch: AudioScratch
    ) throws(AgentError) -> [UInt8] {
        do {
            let count = try opus!.encode(samples, into: scratch.packet)
            return [UInt8](scratch.packet[..<count])
        } catch {
            throw .malformedReply(message: "Speech could not be encoded as Opus: \(error)")
        }
    }
}
