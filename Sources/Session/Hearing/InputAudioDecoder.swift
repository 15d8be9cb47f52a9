// Decodes a client's audio: bytes of the input format become mono samples at 16 kHz. The codecs
// themselves are in Codec.

import Codec

/// Decodes one session's input. It is made with the first audio and dropped when the format
/// changes.
final class InputAudioDecoder {
    /// Why a payload was refused; becomes an `error` event.
    enum Failure: Error, Equatable {
        case oddByteCount
        case opus(String)
        case unsupported(String)
    }

    /// Samples that are decoded at a time at most: any Opus packet (120 ms at 16 kHz).
    static let scratchSamples = 2_880
    /// Milliseconds of PCM and G.711 that are decoded at a time, however long the message is. 20:
    /// as if the audio had come in ordinary packets.
    static let runMilliseconds = 20

    let format: AudioFormat
    private var opus: OpusInput?
    private var resampler: Resampler?
    /// Whether the client has had an error for a corrupt packet. One error per stream: a client
    /// that does not send Opus learns of it, and a bad connection causes no flood of errors.
    private var hasRefused = false

    /// Creates a decoder with the state that its format needs.
    init(format: AudioFormat) throws(Failure) {
        self.format = format
        do {
            if format == .opus {
                opus = try OpusInput()
            } else {
                resampler = try Resampler(from: format.sampleRate, to: .hz16000)
            }
        } catch {
            throw .unsupported("\(error)")
        }
    }

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(InputAudioDecoder.self)

    /// Bytes of the decoder and its format's state.
    var heldBytes: Int {
        Self.objectBytes + (opus == nil ? 0 : HeapBlock.bytes(OpusDecoder.stateBytes))
            + (resampler == nil ? 0 : Resampler.stateBytes)
    }

    /// Samples of the last Opus packet; a lost one counts as as many.
    private(set) var packetSamples = OpusInput.usualSamples

    /// Forgets the stream and starts another.
    func reset() {
        hasRefused = false
        packetSamples = OpusInput.usualSamples
        if opus != nil { opus!.reset() }
        if resampler != nil { resampler!.reset() }
    }

    /// Decodes a payload (an Opus packet, or any number of PCM or G.711 samples) and hands `sink`
    /// runs: a whole Opus packet, 20 ms of the others. A corrupt Opus packet is concealed and
    /// counted.
    /// - Parameter missing: packets that were lost before this one; nil if they are not numbered.
    func decode(
        _ bytes: RawSpan, missing: Int?, context: SessionContext,
        _ sink: (UnsafeBufferPointer<Int16>) -> Void
    ) throws(Failure) {
        guard format != .opus else {
            return try decodeOpus(bytes, missing: missing, context: context, sink)
        }
        guard bytes.byteCount % format.bytesPerSample == 0 else { throw .oddByteCount }
        let scratch = context.scratch
        let run = format.bytes(inMilliseconds: Self.runMilliseconds)
        var done = 0
        while done < bytes.byteCount {
            let end = min(done + run, bytes.byteCount)
            decode(bytes.extracting(done..<end), into: scratch.decoded)
            resample((end - done) / format.bytesPerSample, scratch, sink)
            done = end
        }
    }

    /// Decodes a run of PCM or G.711.
    private func decode(_ run: RawSpan, into decoded: UnsafeMutableBufferPointer<Int16>) {
        guard format.isPCM else {
            return G711.decode(run, law: format == .pcmu ? .mu : .a, into: decoded)
        }
        for index in 0..<run.byteCount / 2 {
            let sample = run.unsafeLoadUnaligned(
                fromUncheckedByteOffset: index * 2, as: Int16.self)
            decoded[index] = Int16(littleEndian: sample)
        }
    }

    private func decodeOpus(
        _ packet: RawSpan, missing: Int?, context: SessionContext,
        _ sink: (UnsafeBufferPointer<Int16>) -> Void
    ) throws(Failure) {
        var repairs = OpusInput.Repairs()
        let error = opus!.decode(
            packet, missing: missing, repairs: &repairs, into: context.scratch.decoded, sink)
        packetSamples = repairs.packetSamples
        context.counters.packetsRecovered += repairs.recovered
        context.counters.packetsConcealed += repairs.concealed
        guard let error else { return }
        guard hasRefused else {
            hasRefused = true
            throw .opus("\(error)")
        }
        context.counters.decodeErrors += 1
    }

    private func resample(
        _ count: Int, _ scratch: AudioScratch, _ sink: (UnsafeBufferPointer<Int16>) -> Void
    ) {
        let written = resampler!.process(
            UnsafeBufferPointer(rebasing: scratch.decoded[..<count]), into: scratch.resampled)
        sink(UnsafeBufferPointer(rebasing: scratch.resampled[..<written]))
    }
}

/// Room for one run of samples before and after resampling, and for one coded packet; shared by a
/// shard's sessions so that decoding allocates nothing, and encoding only what is sent.
public final class AudioScratch {
    let decoded: UnsafeMutableBufferPointer<Int16>
    let resampled: UnsafeMutableBufferPointer<Int16>
    let packet: UnsafeMutableRawBufferPointer

    init() {
        decoded = .allocate(capacity: InputAudioDecoder.scratchSamples)
        // Upsampling from 8 to 48 kHz is the largest growth, plus the resampler's own rounding.
        resampled = .allocate(capacity: InputAudioDecoder.scratchSamples * 6 + 64)
        packet = .allocate(byteCount: OpusEncoder.maxPacketBytes, alignment: 16)
        decoded.initialize(repeating: 0)
        resampled.initialize(repeating: 0)
    }

    deinit {
        decoded.deallocate()
        resampled.deallocate()
        packet.deallocate()
    }
}
