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
    /// Milliseconds of PCM and G.711 that are decoded at a time, however long the message is. 20
    /// ms, as in ordinary packets.
    static let runMilliseconds = 20

    let format: AudioFormat
    private var opus: OpusInput?
    private var resampler: Resampler?
    /// Whether the client has had an error for a corrupt packet. One error per stream: a client
    /// that does not send Opus is told, and a bad connection causes no flood of errors.
    private var hasRefused = false
    /// Bytes of the payload that are decoded, of PCM and G.711.
    private var done = 0

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

    /// Samples of the last Opus packet; a lost one counts as the same number.
    var packetSamples: Int { opus?.packetSamples ?? OpusInput.usualSamples }

    /// Forgets the stream and starts another.
    func reset() {
        hasRefused = false
        if opus != nil { opus!.reset() }
        if resampler != nil { resampler!.reset() }
    }

    /// Begins with a payload: an Opus packet, or any number of PCM or G.711 samples. `next(of:_:)`
    /// has its samples.
    /// - Parameter missing: packets that were lost before this one; nil if they are not numbered.
    func begin(_ bytes: RawSpan, missing: Int?) throws(Failure) {
        done = 0
        guard format != .opus else { return opus!.begin(bytes, missing: missing) }
        guard bytes.byteCount % format.bytesPerSample == 0 else { throw .oddByteCount }
    }

    /// The next run of samples of the payload: a whole Opus packet, 20 ms of the others. Nil means
    /// that there are no more. A corrupt Opus packet is concealed; the first is refused. A run stands
    /// until something else is decoded or encoded.
    func next(
        of bytes: RawSpan, _ scratch: AudioScratch
    ) throws(Failure) -> UnsafeBufferPointer<Int16>? {
        guard format != .opus else { return try nextOpus(of: bytes, scratch) }
        guard done < bytes.byteCount else { return nil }
        let run = format.bytes(inMilliseconds: Self.runMilliseconds)
        let end = min(done + run, bytes.byteCount)
        let count = (end - done) / format.bytesPerSample
        decode(bytes.extracting(done..<end), into: scratch.decoded)
        done = end
        let written = resampler!.process(
            UnsafeBufferPointer(rebasing: scratch.decoded[..<count]), into: scratch.resampled)
        return UnsafeBufferPointer(rebasing: scratch.resampled[..<written])
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

    /// The repairs in the payload. They are complete once `next(of:_:)` has returned nil or failed.
    var repairs: OpusInput.Repairs { opus?.repairs ?? OpusInput.Repairs() }

    private func nextOpus(
        of packet: RawSpan, _ scratch: AudioScratch
    ) throws(Failure) -> UnsafeBufferPointer<Int16>? {
        if let run = opus!.next(of: packet, into: scratch.decoded) { return run }
        guard !hasRefused, let error = opus?.error else { return nil }
        hasRefused = true
        throw .opus("\(error)")
    }
}

extension InputAudioDecoder.Failure {
    /// The error that the client receives.
    func clientEventError(format: AudioFormat) -> ClientEventError {
        switch self {
        case .oddByteCount:
            ClientEventError(
                code: "invalid_audio",
                message: "The audio is not a whole number of 16-bit samples.", param: "audio")
        case .opus(let reason):
            ClientEventError(
                code: "invalid_audio", message: "The packet is not valid Opus: \(reason).",
                param: "audio")
        case .unsupported(let reason):
            ClientEventError(
                kind: .server, code: "audio_unavailable",
                message: "\(format.wireName) cannot be decoded: \(reason).", param: "audio")
        }
    }
}
