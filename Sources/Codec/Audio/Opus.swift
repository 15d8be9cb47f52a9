// Opus packets ↔ samples, RFC 6716, by libopus. Each codec state has one owner and is freed with
// it.
//
// A packet comes from a peer: any bytes decode to samples or an `OpusError`, and a refused packet
// leaves the decoder usable. Jitter buffers, sequence numbers and Ogg are not here. Our side is
// always mono: libopus mixes the channels of a stereo packet down. For 20 ms of one stream,
// decoding at 16 kHz takes 16–35 µs and encoding at complexity 5 about 170 µs (64–97 at 0, 309–387
// at 10).

import COpus

/// An error reported by libopus.
public struct OpusError: Error, Equatable, CustomStringConvertible {
    /// libopus's code; negative.
    public let code: Int32

    /// The packet breaks RFC 6716 §3.4, or is empty.
    public static let invalidPacket = OpusError(code: OPUS_INVALID_PACKET)
    /// The output buffer is too small.
    public static let bufferTooSmall = OpusError(code: OPUS_BUFFER_TOO_SMALL)
    /// A rate, bitrate, complexity or frame duration that Opus does not support.
    public static let badArgument = OpusError(code: OPUS_BAD_ARG)

    /// libopus's text for the code.
    public var message: String { String(cString: opus_strerror(code)) }

    /// The message, prefixed by "opus".
    public var description: String { "opus: \(message)" }

    /// The count that a libopus call returned, or its negative code as an error.
    fileprivate static func checked(_ result: Int32) throws(OpusError) -> Int {
        guard result >= 0 else { throw OpusError(code: result) }
        return Int(result)
    }
}

/// Decoder of one incoming stream of Opus packets; about 18 kB of state.
public struct OpusDecoder: ~Copyable {
    /// The longest packet there is: 120 ms (RFC 6716 §3.2.5, R5).
    public static let maxPacketMilliseconds = 120
    /// Bytes of a decoder's state.
    public static let stateBytes = Int(opus_decoder_get_size(1))

    /// The rate of the decoded samples.
    public let rate: SampleRate
    private let state: OpaquePointer

    /// Creates a decoder at the start of a stream.
    /// - Parameter rate: 8, 12, 16, 24 or 48 kHz; libopus resamples, whatever the peer encodes.
    /// - Throws: `.badArgument` for another rate.
    public init(rate: SampleRate) throws(OpusError) {
        var code = OPUS_OK
        guard let state = opus_decoder_create(Int32(clamping: rate.hertz), 1, &code) else {
            throw OpusError(code: code)
        }
        self.state = state
        self.rate = rate
    }

    deinit { opus_decoder_destroy(state) }

    /// Decodes the stream's next packet and returns how many samples it wrote.
    /// - Parameter samples: room for `sampleCount(of:at:)` samples; 120 ms suffice for any packet.
    /// - Throws: `.invalidPacket`, `.bufferTooSmall`; the decoder remains usable.
    public mutating func decode(
        _ packet: RawSpan, into samples: UnsafeMutableBufferPointer<Int16>
    ) throws(OpusError) -> Int {
        // libopus treats a packet of no bytes as a lost one.
        guard !packet.isEmpty else { throw .invalidPacket }
        guard let start = samples.baseAddress, !samples.isEmpty else { throw .bufferTooSmall }
        return try decode(packet, into: start, samples: samples.count, usesCopy: false)
    }

    /// - Parameter usesCopy: whether the packet's copy of the packet before it is decoded.
    private func decode(
        _ packet: RawSpan, into start: UnsafeMutablePointer<Int16>, samples: Int, usesCopy: Bool
    ) throws(OpusError) -> Int {
        let count = packet.withUnsafeBytes { bytes in
            opus_decode(
                state, bytes.baseAddress?.assumingMemoryBound(to: UInt8.self),
                Int32(clamping: bytes.count), start, Int32(clamping: samples), usesCopy ? 1 : 0)
        }
        return try OpusError.checked(count)
    }

    /// Conceals lost packets: continues the sound and fades it out; returns the number of samples.
    /// - Parameter samples: the length of the gap, in whole multiples of 2.5 ms.
    /// - Throws: `.badArgument` for another duration, `.bufferTooSmall`.
    public mutating func conceal(
        samples: Int, into output: UnsafeMutableBufferPointer<Int16>
    ) throws(OpusError) -> Int {
        guard let start = output.baseAddress, samples <= output.count else {
            throw .bufferTooSmall
        }
        return try OpusError.checked(
            opus_decode(state, nil, 0, start, Int32(clamping: samples), 0))
    }

    /// Replaces the packet before `next`, which was lost. Decodes the copy of it that `next`
    /// contains (RFC 6716 §2.1.7), or conceals it where there is no copy.
    /// - Parameter samples: duration of the lost packet, in whole multiples of 2.5 ms.
    /// - Throws: `.invalidPacket`, `.badArgument`, `.bufferTooSmall`.
    public mutating func recover(
        samples: Int, from next: RawSpan, into output: UnsafeMutableBufferPointer<Int16>
    ) throws(OpusError) -> Int {
        guard !next.isEmpty else { throw .invalidPacket }
        guard let start = output.baseAddress, samples <= output.count else {
            throw .bufferTooSmall
        }
        return try decode(next, into: start, samples: samples, usesCopy: true)
    }

    /// Resets the decoder to the start of a stream.
    public mutating func reset() {
        let code = parley_opus_reset_decoder(state)
        precondition(code == OPUS_OK)
    }

    /// Whether a packet contains a copy of the one before it: the LBRR flags at the beginning of
    /// its first frame (RFC 6716 §4.2.3 and §4.2.4). False for bytes that are not a packet.
    public static func holdsPreviousPacket(_ packet: RawSpan) -> Bool {
        // CELT packets have no copies (configurations 16…31, §3.1).
        guard !packet.isEmpty, packet.unsafeLoad(as: UInt8.self) & 0x80 == 0 else { return false }
        return packet.withUnsafeBytes { bytes in
            let start = bytes.baseAddress!.assumingMemoryBound(to: UInt8.self)
            return withUnsafeTemporaryAllocation(of: Int16.self, capacity: maxFrames) { sizes in
                withUnsafeTemporaryAllocation(
                    of: UnsafePointer<UInt8>?.self, capacity: maxFrames
                ) { frames in
                    let count = opus_packet_parse(
                        start, Int32(clamping: bytes.count), nil, frames.baseAddress!,
                        sizes.baseAddress!, nil)
                    guard count > 0, sizes[0] > 0, let first = frames[0]?.pointee else {
                        return false
                    }
                    // Per channel: one bit of voice activity for every 20 ms, then the flag.
                    let samples = Int(opus_packet_get_samples_per_frame(start, 48_000))
                    let activityBits = max(1, samples / 960)
                    let mid = first >> (7 - activityBits) & 1
                    guard opus_packet_get_nb_channels(start) == 2 else { return mid == 1 }
                    return mid == 1 || first >> (6 - 2 * activityBits) & 1 == 1
                }
            }
        }
    }

    /// Maximum frames of a packet: 120 ms of 2.5 ms each.
    private static let maxFrames = 48

    /// Samples that a packet decodes to at a rate, read from its first bytes (RFC 6716 §3.1).
    /// - Throws: `.invalidPacket` if it has no bytes, or claims no frame or more than 120 ms (§3.4,
    ///   R1 and R5).
    public static func sampleCount(
        of packet: RawSpan, at rate: SampleRate
    ) throws(OpusError) -> Int {
        let count = packet.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress, !bytes.isEmpty else { return OPUS_INVALID_PACKET }
            return opus_packet_get_nb_samples(
                start.assumingMemoryBound(to: UInt8.self), Int32(clamping: bytes.count),
                Int32(clamping: rate.hertz))
        }
        guard count != 0 else { throw .invalidPacket }
        return try OpusError.checked(count)
    }
}

/// Encoder of one outgoing stream of Opus packets, tuned for speech; about 44 kB of state.
public struct OpusEncoder: ~Copyable {
    /// Maximum bytes of a packet of one frame, which lasts at most 20 ms: 1,275 bytes and the table
    /// of contents (RFC 6716 §3.4, R2, and §3.1).
    public static let maxPacketBytes = 1_276
    /// Bytes of an encoder's state.
    public static let stateBytes = Int(opus_encoder_get_size(1))

    /// The rate of the samples to encode.
    public let rate: SampleRate
    private let state: OpaquePointer

    /// Creates an encoder at the start of a stream.
    /// - Parameters:
    ///   - rate: 8, 12, 16, 24 or 48 kHz.
    ///   - bitrate: bits per second, 6,000…510,000. 24,000: wideband speech without audible loss.
    ///   - complexity: 0…10. 5: half the cost of 10, and hard to tell from it for speech.
    ///   - usesDTX: whether silence is sent as packets of one or two bytes, which the receiver
    ///     replaces by comfort noise. False: the background is encoded as it is.
    /// - Throws: `.badArgument` for values that Opus does not support.
    public init(
        rate: SampleRate, bitrate: Int = 24_000, complexity: Int = 5, usesDTX: Bool = false
    ) throws(OpusError) {
        var code = OPUS_OK
        guard
            let state = opus_encoder_create(
                Int32(clamping: rate.hertz), 1, OPUS_APPLICATION_VOIP, &code)
        else { throw OpusError(code: code) }
        do {
            try Self.set(state, OPUS_SET_SIGNAL_REQUEST, OPUS_SIGNAL_VOICE)
            try Self.configure(state, bitrate, complexity, usesDTX)
        } catch {
            opus_encoder_destroy(state)
            throw error
        }
        self.state = state
        self.rate = rate
    }

    /// Changes the settings from the next packet on, within the same stream.
    /// - Throws: `.badArgument` for values that Opus does not support.
    public mutating func configure(
        bitrate: Int, complexity: Int, usesDTX: Bool
    ) throws(OpusError) {
        try Self.configure(state, bitrate, complexity, usesDTX)
    }

    /// Resets the encoder to the start of a stream and keeps the settings.
    public mutating func reset() {
        let code = parley_opus_reset_encoder(state)
        precondition(code == OPUS_OK)
    }

    private static func configure(
        _ state: OpaquePointer, _ bitrate: Int, _ complexity: Int, _ usesDTX: Bool
    ) throws(OpusError) {
        guard (6_000...510_000).contains(bitrate) else { throw .badArgument }
        try set(state, OPUS_SET_BITRATE_REQUEST, Int32(bitrate))
        try set(state, OPUS_SET_COMPLEXITY_REQUEST, Int32(clamping: complexity))
        try set(state, OPUS_SET_DTX_REQUEST, usesDTX ? 1 : 0)
    }

    private static func set(
        _ state: OpaquePointer, _ request: Int32, _ value: Int32
    ) throws(OpusError) {
        let code = parley_opus_set(state, request, value)
        guard code == OPUS_OK else { throw OpusError(code: code) }
    }

    deinit { opus_encoder_destroy(state) }

    /// Encodes one packet and returns its size in bytes.
    /// - Parameters:
    ///   - samples: 2.5, 5, 10, 20, 40 or 60 ms.
    ///   - packet: where to write; never overrun. `maxPacketBytes` suffice for up to 20 ms.
    /// - Throws: `.badArgument` for another duration, `.bufferTooSmall`.
    public mutating func encode(
        _ samples: UnsafeBufferPointer<Int16>, into packet: UnsafeMutableRawBufferPointer
    ) throws(OpusError) -> Int {
        guard let start = samples.baseAddress, !samples.isEmpty else { throw .badArgument }
        guard let output = packet.baseAddress, !packet.isEmpty else { throw .bufferTooSmall }
        return try OpusError.checked(
            opus_encode(
                state, start, Int32(clamping: samples.count),
                output.assumingMemoryBound(to: UInt8.self), Int32(clamping: packet.count)))
    }
}
