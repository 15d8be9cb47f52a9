// The body of a speech service's answer → runs of speech, as its bytes come. Requests are
// OpenAISpeech's, the container is OggOpusReader's, packets of 20 ms are OpusRepacketizer's.
//
// Opus passes through without a decoder unless it cannot: packets that no packets of 20 ms can be
// made of, and streams that ask for a gain, are decoded here. Invariant: one answer is one kind of
// speech, as `SpeechChunk` asks.

import Codec
import Glibc
import Session

/// Reads one answer.
struct SpeechReply: ~Copyable {
    static let tooLarge = AgentError.malformedReply(
        message: "The speech service's answer is too large.")

    private var pcm: PCMReply
    private var opus: OpusReply?

    init(format: SpeechServiceFormat) {
        pcm = PCMReply()
        opus = format == .opus ? OpusReply() : nil
    }

    /// Takes more of the answer; returns the speech in it.
    mutating func append(_ bytes: [UInt8]) throws(AgentError) -> [SpeechChunk] {
        try opus != nil ? opus!.append(bytes) : pcm.append(bytes)
    }

    /// The answer is over; returns the speech that waited for its end.
    mutating func finish() throws(AgentError) -> [SpeechChunk] {
        try opus != nil ? opus!.finish() : pcm.finish()
    }
}

/// 16-bit samples, little-endian, mono, at 24 kHz.
private struct PCMReply {
    /// Of a WAV file, which some services send whatever is asked for.
    private static let headerMark = Array("RIFF".utf8)

    private var isBeginning = true
    private var held: [UInt8] = []

    mutating func append(_ bytes: [UInt8]) throws(AgentError) -> [SpeechChunk] {
        held += bytes
        if isBeginning {
            guard held.count >= 4 else { return [] }
            guard !held.starts(with: Self.headerMark), !held.starts(with: Array("OggS".utf8)) else {
                throw .malformedReply(
                    message: "The speech service does not answer in the format \"pcm\".")
            }
            isBeginning = false
        }
        let count = held.count / 2
        guard count > 0 else { return [] }
        let samples = [Int16](unsafeUninitializedCapacity: count) { samples, filled in
            for index in 0..<count {
                samples[index] = Int16(held[2 * index]) | Int16(held[2 * index + 1]) << 8
            }
            filled = count
        }
        held.removeFirst(2 * count)
        return [SpeechChunk(samples: samples, rate: .hz24000)]
    }

    /// Half a sample at the end says nothing.
    func finish() -> [SpeechChunk] { [] }
}

/// Opus in Ogg.
private struct OpusReply: ~Copyable {
    private var reader = OggOpusReader()
    private var repacketizer = OpusRepacketizer()
    private var decoder: OpusDecoder?

    mutating func append(_ bytes: [UInt8]) throws(AgentError) -> [SpeechChunk] {
        var packets: [OggOpusPacket] = []
        do throws(OggError) {
            try bytes.span.bytes.withUnsafeBytes { (bytes) throws(OggError) in
                try reader.append(bytes) { packets.append($0) }
            }
        } catch {
            throw Self.unreadable(error)
        }
        return try speech(of: packets)
    }

    mutating func finish() throws(AgentError) -> [SpeechChunk] {
        do throws(OggError) { try reader.finish() } catch { throw Self.unreadable(error) }
        return []
    }

    private mutating func speech(
        of packets: [OggOpusPacket]
    ) throws(AgentError) -> [SpeechChunk] {
        var chunks: [SpeechChunk] = []
        var run = OpusPackets()
        for packet in packets {
            if decoder == nil, reader.outputGain == 0, try pass(packet, into: &run) { continue }
            // From the first packet that cannot be passed on, the rest is decoded.
            if run.count > 0 { chunks.append(SpeechChunk(packets: run)) }
            run = OpusPackets()
            chunks += try decode(packet)
        }
        if run.count > 0 { chunks.append(SpeechChunk(packets: run)) }
        return chunks
    }

    /// Passes a packet on; false: the stream must be decoded.
    private mutating func pass(
        _ packet: OggOpusPacket, into run: inout OpusPackets
    ) throws(AgentError) -> Bool {
        guard packet.isAudible else { return true }
        var ready: [[UInt8]] = []
        do throws(OpusRepacketizingError) {
            try repacketizer.append(packet.bytes) { ready.append($0) }
        } catch {
            return false
        }
        do throws(OpusError) {
            for bytes in ready { try run.append(bytes.span.bytes) }
        } catch {
            throw .malformedReply(message: "The speech service's Opus cannot be read: \(error).")
        }
        return true
    }

    private mutating func decode(_ packet: OggOpusPacket) throws(AgentError) -> [SpeechChunk] {
        do throws(OpusError) {
            if decoder == nil { decoder = try OpusDecoder(rate: .hz24000) }
            var failure: OpusError?
            // Samples are counted at 48 kHz.
            let count = packet.samples / 2
            let decoded = [Int16](unsafeUninitializedCapacity: count) { samples, filled in
                do throws(OpusError) {
                    filled = try decoder!.decode(packet.bytes.span.bytes, into: samples)
                } catch {
                    failure = error
                    filled = 0
                }
            }
            if let failure { throw failure }
            let heard = decoded.dropFirst(packet.skipped / 2).dropLast(packet.trimmed / 2)
            guard !heard.isEmpty else { return [] }
            return [
                SpeechChunk(
                    samples: Self.amplified(heard, gain: reader.outputGain), rate: .hz24000)
            ]
        } catch {
            throw .malformedReply(message: "The speech service's Opus cannot be read: \(error).")
        }
    }

    /// Samples × 10^(gain / 20), the gain in 1/256 dB (RFC 7845 §5.1).
    private static func amplified(_ samples: ArraySlice<Int16>, gain: Int) -> [Int16] {
        guard gain != 0 else { return Array(samples) }
        let factor = pow(10, Float(gain) / 256 / 20)
        return samples.map { Int16(clamping: Int((Float($0) * factor).rounded())) }
    }

    private static func unreadable(_ error: OggError) -> AgentError {
        .malformedReply(message: "The speech service's Ogg Opus cannot be read: \(error).")
    }
}
