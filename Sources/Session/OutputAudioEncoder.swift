// From queued speech to the bytes of the response's output format: samples are encoded, packets
// that are encoded already pass through or, where the client does not take Opus, are decoded. One
// encoder serves one response, because resampler and Opus state must not leak from one reply into
// the next.

import Codec

/// Encodes runs of whole 20 ms frames.
final class OutputAudioEncoder {
    /// Frames per second of audio: every frame lasts 20 ms, the usual Opus packet.
    static let framesPerSecond = 50
    static let frameMilliseconds = 20
    /// Frames of one payload of PCM or G.711: 100 ms.
    private static let maxFrames = 5

    let format: AudioFormat
    /// The rate of the samples that the coders below are for.
    private var inputRate: SampleRate?
    private var opus: OpusEncoder?
    private var resampler: Resampler?
    /// For packets where the client does not take Opus.
    private var decoder: OpusDecoder?

    init(format: AudioFormat) { self.format = format }

    /// Checks that a chunk can be encoded, whatever the format.
    static func check(_ chunk: SpeechChunk) throws(AgentError) {
        let rate = chunk.rate.hertz
        guard rate % framesPerSecond == 0, Resampler.supportedHertz.contains(rate),
            rate / framesPerSecond <= InputAudioDecoder.scratchSamples
        else { throw .malformedReply(message: "Speech at \(rate) Hz has no whole frames of 20 ms.") }
    }

    /// Takes what is first in a queue, at most `maxFrames` frames and fewer where the format or the
    /// work space asks for it, and encodes it.
    /// - Returns: one Opus packet, or a run of PCM or G.711; and how long it lasts, on the queue's
    ///   timeline.
    func encodeNext(
        of queue: inout SpeechQueue, maxFrames: Int, scratch: AudioScratch
    ) throws(AgentError) -> (payload: [UInt8], length: Int) {
        switch queue.head {
        case .samples(let rate):
            try prepare(for: rate)
            return try encodeSamples(&queue, rate, maxFrames: maxFrames, scratch: scratch)
        case .packet where format == .opus:
            return (queue.takePacket { Array($0) }, SpeechQueue.frameLength)
        case .packet:
            return try decodePackets(&queue, maxFrames: maxFrames, scratch: scratch)
        case nil: return ([], 0)
        }
    }

    /// Makes the coders for samples of a rate.
    private func prepare(for rate: SampleRate) throws(AgentError) {
        guard rate != inputRate else { return }
        do {
            // Opus takes 8, 12, 16, 24 and 48 kHz as they are; anything else goes through 24 kHz.
            let codable = [8_000, 12_000, 16_000, 24_000, 48_000].contains(rate.hertz)
            let coded = format == .opus ? (codable ? rate : .hz24000) : format.sampleRate
            resampler = coded == rate ? nil : try Resampler(from: rate, to: coded)
            opus = format == .opus ? try OpusEncoder(rate: coded) : nil
        } catch {
            throw .malformedReply(message: "Speech at \(rate.hertz) Hz cannot be encoded.")
        }
        inputRate = rate
    }

    private func encodeSamples(
        _ queue: inout SpeechQueue, _ rate: SampleRate, maxFrames: Int, scratch: AudioScratch
    ) throws(AgentError) -> (payload: [UInt8], length: Int) {
        let frame = rate.hertz / Self.framesPerSecond
        let fitting = max(1, min(Self.maxFrames, InputAudioDecoder.scratchSamples / frame))
        let wanted = format == .opus ? frame : frame * max(1, min(fitting, maxFrames))
        let room = UnsafeMutableBufferPointer(rebasing: scratch.decoded[..<wanted])
        let taken = queue.takeSamples(into: room)
        guard format == .opus else {
            let samples = resample(UnsafeBufferPointer(rebasing: room[..<taken]), scratch)
            return (bytes(of: samples), SpeechQueue.length(ofSamples: taken, at: rate))
        }
        // The item's last frame is filled up with silence.
        for silent in taken..<wanted { room[silent] = 0 }
        do {
            let count = try opus!.encode(
                resample(UnsafeBufferPointer(room), scratch), into: scratch.packet)
            return ([UInt8](scratch.packet[..<count]), SpeechQueue.frameLength)
        } catch {
            throw .malformedReply(message: "Speech could not be encoded as Opus: \(error)")
        }
    }

    private func decodePackets(
        _ queue: inout SpeechQueue, maxFrames: Int, scratch: AudioScratch
    ) throws(AgentError) -> (payload: [UInt8], length: Int) {
        let frame = format.sampleRate.hertz / Self.framesPerSecond
        var frames = 0
        do {
            if decoder == nil { decoder = try OpusDecoder(rate: format.sampleRate) }
            while frames < min(maxFrames, Self.maxFrames), queue.head == .packet {
                let room = UnsafeMutableBufferPointer(
                    rebasing: scratch.decoded[(frames * frame)..<((frames + 1) * frame)])
                let count = queue.takePacket { try? decoder!.decode($0.span.bytes, into: room) }
                // A packet that the service spoilt is filled in for.
                if count == nil { _ = try decoder!.conceal(samples: frame, into: room) }
                frames += 1
            }
        } catch {
            throw .malformedReply(message: "Opus of the speech service: \(error)")
        }
        let samples = UnsafeBufferPointer(rebasing: scratch.decoded[..<(frames * frame)])
        return (bytes(of: samples), frames * SpeechQueue.frameLength)
    }

    private func resample(
        _ samples: UnsafeBufferPointer<Int16>, _ scratch: AudioScratch
    ) -> UnsafeBufferPointer<Int16> {
        guard resampler != nil else { return samples }
        let count = resampler!.process(samples, into: scratch.resampled)
        return UnsafeBufferPointer(rebasing: scratch.resampled[..<count])
    }

    /// Samples as PCM or G.711.
    private func bytes(of samples: UnsafeBufferPointer<Int16>) -> [UInt8] {
        guard format != .pcm else {
            return [UInt8](unsafeUninitializedCapacity: samples.count * 2) { target, count in
                for (index, sample) in samples.enumerated() {
                    target[2 * index] = UInt8(truncatingIfNeeded: sample)
                    target[2 * index + 1] = UInt8(truncatingIfNeeded: sample >> 8)
                }
                count = samples.count * 2
            }
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(samples.count)
        G711.encode(samples, law: format == .pcmu ? .mu : .a, into: &bytes)
        return bytes
    }
}
