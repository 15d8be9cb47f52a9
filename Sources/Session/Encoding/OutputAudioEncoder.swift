// Turns queued speech into the bytes of the response's output format. Samples are encoded. Opus
// packets of the speech service pass through. They are decoded where the client does not take Opus,
// and decoded and encoded again where the tone of a recording is mixed into them.
// One encoder serves one response at a time, and is reset in between, because resampler and Opus
// state must not leak from one reply into the next.

import Codec

/// Encodes runs of whole 20 ms frames.
final class OutputAudioEncoder {
    /// Frames per second of audio: every frame lasts 20 ms, the usual Opus packet.
    static let framesPerSecond = 50
    static let frameMilliseconds = 20
    /// Frames of one payload of PCM or G.711: 100 ms.
    private static let maxFrames = 5

    let format: AudioFormat
    private var settings: ResolvedOpusSettings
    /// The complexity that `opus` has been told.
    private var complexity: Int
    /// The rate of the samples that the coders below are for.
    private var inputRate: SampleRate?
    private var opus: OpusEncoder?
    private var opusRate: SampleRate?
    private var resampler: Resampler?
    /// The samples at the front of the work space that the last payload was made of, and their
    /// rate. Nil where the payload was a packet of the speech service.
    private(set) var source: (count: Int, rate: SampleRate)?
    /// Whether something was mixed into the last packet.
    private var isMixed = false
    /// For packets where the client does not take Opus, and for those with a tone.
    private var decoder: OpusDecoder?

    init(format: AudioFormat, settings: ResolvedOpusSettings) {
        self.format = format
        self.settings = settings
        complexity = settings.complexity
    }

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(OutputAudioEncoder.self)

    /// Bytes of the encoder and its coders' state.
    var heldBytes: Int {
        Self.objectBytes + (opus == nil ? 0 : HeapBlock.bytes(OpusEncoder.stateBytes))
            + (resampler == nil ? 0 : Resampler.stateBytes)
            + (decoder == nil ? 0 : HeapBlock.bytes(OpusDecoder.stateBytes))
    }

    /// Ends the stream and begins another.
    func reset(settings: ResolvedOpusSettings) {
        if settings != self.settings { inputRate = nil }
        self.settings = settings
        if opus != nil { opus!.reset() }
        if resampler != nil { resampler!.reset() }
        decoder = nil
    }

    /// Checks that a chunk can be encoded, whatever the format.
    static func check(_ chunk: SpeechChunk) throws(AgentError) {
        let rate = chunk.rate.hertz
        guard rate % framesPerSecond == 0, Resampler.supportedHertz.contains(rate),
            rate / framesPerSecond <= InputAudioDecoder.scratchSamples
        else {
            throw .malformedReply(message: "Speech at \(rate) Hz has no whole frames of 20 ms.")
        }
    }

    /// Takes speech from the head of a queue and encodes it: at most `maxFrames` frames, fewer
    /// where the format or the work space requires it.
    /// - Parameter beep: is mixed into the speech that is due, if there is a beep.
    /// - Returns: one Opus packet, or a run of PCM or G.711; and how long it lasts, on the queue's
    ///   timeline.
    func encodeNext(
        of queue: inout ItemSpeechQueue, maxFrames: Int, in space: CodecSpace,
        mixing beep: RecordingBeep? = nil
    ) throws(AgentError) -> (payload: [UInt8], length: Int) {
        guard format == .opus else {
            return try takeRun(
                of: &queue, maxFrames: maxFrames, mixing: beep, scratch: space.scratch)
        }
        isMixed = false
        endPhrases(of: &queue, space)
        let payload: [UInt8]
        switch queue.head {
        case .samples(let rate):
            try prepare(for: rate, relief: space.relief.reduction)
            payload = try encodeFrame(of: &queue, rate, mixing: beep, scratch: space.scratch)
        case .packet:
            if let beep, beep.isSounding {
                payload = try mixPacket(of: &queue, with: beep, space)
            } else {
                payload = queue.takePacket { Array($0) }
                source = nil
            }
        case nil: return ([], 0)
        }
        // A phrase with a packet missing is not kept.
        if space.phrases.isEnabled, !isMixed { queue.record(payload) }
        endPhrases(of: &queue, space)
        return (payload, ItemSpeechQueue.frameLength)
    }

    private func takeRun(
        of queue: inout ItemSpeechQueue, maxFrames: Int, mixing beep: RecordingBeep?,
        scratch: AudioScratch
    ) throws(AgentError) -> (payload: [UInt8], length: Int) {
        switch queue.head {
        case .samples(let rate):
            try prepare(for: rate, relief: 0)
            let frame = rate.hertz / Self.framesPerSecond
            let fitting = max(1, min(Self.maxFrames, InputAudioDecoder.scratchSamples / frame))
            let wanted = frame * max(1, min(fitting, maxFrames))
            let room = UnsafeMutableBufferPointer(rebasing: scratch.decoded[..<wanted])
            let taken = queue.takeSamples(into: room)
            _ = beep?.mix(into: UnsafeMutableBufferPointer(rebasing: room[..<taken]), rate: rate)
            source = (taken, rate)
            let samples = resample(UnsafeBufferPointer(rebasing: room[..<taken]), scratch)
            return (bytes(of: samples), ItemSpeechQueue.length(ofSamples: taken, at: rate))
        case .packet:
            return try decodePackets(
                &queue, maxFrames: maxFrames, mixing: beep, scratch: scratch)
        case nil: return ([], 0)
        }
    }

    /// A phrase that has left goes to the cache, and the coder is reset: packets of a cached phrase
    /// must decode correctly after any others.
    func endPhrases(of queue: inout ItemSpeechQueue, _ space: CodecSpace) {
        while queue.takePhraseEnd({ space.phrases.insert($0, [SpeechChunk(packets: $1)]) }) {
            if opus != nil { opus!.reset() }
            if resampler != nil { resampler!.reset() }
        }
    }

    /// Makes the coders for samples of a rate.
    /// - Parameter relief: how much a busy shard lowers the complexity.
    private func prepare(for rate: SampleRate, relief: Int) throws(AgentError) {
        let complexity = max(0, settings.complexity - relief)
        guard rate != inputRate || complexity != self.complexity else { return }
        do {
            if rate != inputRate { try makeCoders(for: rate) }
            if opus != nil {
                try opus!.configure(
                    bitrate: settings.bitrate, complexity: complexity, usesDTX: settings.usesDTX)
            }
        } catch {
            throw .malformedReply(message: "Speech at \(rate.hertz) Hz cannot be encoded.")
        }
        inputRate = rate
        self.complexity = complexity
    }

    private func makeCoders(for rate: SampleRate) throws {
        // Opus takes 8, 12, 16, 24 and 48 kHz as they are; anything else goes through 24 kHz.
        let codable = [8_000, 12_000, 16_000, 24_000, 48_000].contains(rate.hertz)
        let coded = format == .opus ? (codable ? rate : .hz24000) : format.sampleRate
        resampler = coded == rate ? nil : try Resampler(from: rate, to: coded)
        guard format == .opus else { return }
        guard opusRate != coded else { return }
        opus = try OpusEncoder(rate: coded)
        opusRate = coded
        decoder = nil
    }

    private func encodeFrame(
        of queue: inout ItemSpeechQueue, _ rate: SampleRate, mixing beep: RecordingBeep?,
        scratch: AudioScratch
    ) throws(AgentError) -> [UInt8] {
        let frame = rate.hertz / Self.framesPerSecond
        let room = UnsafeMutableBufferPointer(rebasing: scratch.decoded[..<frame])
        // The phrase's last frame is filled up with silence.
        for silent in queue.takeSamples(into: room)..<frame { room[silent] = 0 }
        isMixed = beep?.mix(into: room, rate: rate) == true
        source = (frame, rate)
        return try encode(resample(UnsafeBufferPointer(room), scratch), scratch)
    }

    /// Mixes the tone into the packet at the head of the queue. The decoder begins with the tone,
    /// which masks that the decoder does not know the packets before.
    private func mixPacket(
        of queue: inout ItemSpeechQueue, with beep: RecordingBeep, _ space: CodecSpace
    ) throws(AgentError) -> [UInt8] {
        let scratch = space.scratch
        if opus == nil { try prepare(for: .hz24000, relief: space.relief.reduction) }
        let rate = opusRate ?? .hz24000
        let frame = rate.hertz / Self.framesPerSecond
        let room = UnsafeMutableBufferPointer(rebasing: scratch.decoded[..<frame])
        try decodePacket(of: &queue, at: rate, into: room)
        isMixed = beep.mix(into: room, rate: rate)
        if !beep.isSounding { decoder = nil }
        source = (frame, rate)
        return try encode(UnsafeBufferPointer(room), scratch)
    }

    /// Encodes a frame at the rate of the Opus encoder.
    private func encode(
        _ samples: UnsafeBufferPointer<Int16>, _ scratch: AudioScratch
    ) throws(AgentError) -> [UInt8] {
        do {
            let count = try opus!.encode(samples, into: scratch.packet)
            return [UInt8](scratch.packet[..<count])
        } catch {
            throw .malformedReply(
                message: "Speech could not be encoded as Opus.", detail: "\(error)")
        }
    }

    private func decodePackets(
        _ queue: inout ItemSpeechQueue, maxFrames: Int, mixing beep: RecordingBeep?,
        scratch: AudioScratch
    ) throws(AgentError) -> (payload: [UInt8], length: Int) {
        let rate = format.sampleRate
        let frame = rate.hertz / Self.framesPerSecond
        var frames = 0
        while frames < min(maxFrames, Self.maxFrames), queue.head == .packet {
            try decodePacket(
                of: &queue, at: rate,
                into: UnsafeMutableBufferPointer(
                    rebasing: scratch.decoded[(frames * frame)..<((frames + 1) * frame)]))
            frames += 1
        }
        let room = UnsafeMutableBufferPointer(rebasing: scratch.decoded[..<(frames * frame)])
        _ = beep?.mix(into: room, rate: rate)
        source = (room.count, rate)
        return (bytes(of: UnsafeBufferPointer(room)), frames * ItemSpeechQueue.frameLength)
    }

    /// Decodes the packet at the head of the queue, 20 ms.
    private func decodePacket(
        of queue: inout ItemSpeechQueue, at rate: SampleRate,
        into room: UnsafeMutableBufferPointer<Int16>
    ) throws(AgentError) {
        do {
            if decoder == nil { decoder = try OpusDecoder(rate: rate) }
            let count = queue.takePacket { try? decoder!.decode($0.span.bytes, into: room) }
            // A packet that does not decode is concealed.
            if count == nil { _ = try decoder!.conceal(samples: room.count, into: room) }
        } catch {
            throw .malformedReply(
                message: "The speech service's Opus cannot be decoded.", detail: "\(error)")
        }
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
        guard !format.isPCM else {
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
