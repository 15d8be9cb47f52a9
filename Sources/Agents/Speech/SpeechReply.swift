// The body of a speech service's answer → runs of speech, while the bytes arrive. OpenAISpeech
// makes the request. PCMSpeechReply reads samples, OggOpusReader the container, and
// OpusRepacketizer makes packets of 20 ms.
//
// Opus packets are passed on without a decoder as long as possible. From the first packet that
// cannot be cut into packets of 20 ms, the rest of the answer is decoded. A stream with an output
// gain is decoded from its beginning. Invariant: no packet is passed on after one was decoded.

import Codec
import Glibc
import Session

/// Reads one answer.
struct SpeechReply: ~Copyable {
    static let tooLarge = AgentError.malformedReply(
        message: "The speech service's answer is too large.")

    /// Content types that are refused without a look at the body: they are neither of the two
    /// formats. A missing, general or inexact audio type is accepted.
    private static let foreignTypes = [
        "application/json", "application/xml", "application/xhtml+xml", "audio/mpeg", "audio/mp3",
        "audio/aac", "audio/flac",
    ]
    private static let foreignFamilies = ["text/", "image/", "video/"]

    private var pcm: PCMSpeechReply
    private var opus: OpusReply?
    private var isEmpty = true

    /// - Parameter contentType: the answer's `Content-Type` field, or nil.
    /// - Throws: `AgentError.malformedReply` where the type is not speech in one of the formats.
    init(format: SpeechServiceFormat, contentType: String?) throws(AgentError) {
        pcm = PCMSpeechReply()
        opus = format == .opus ? OpusReply() : nil
        guard let contentType, Self.isForeign(contentType) else { return }
        throw .malformedReply(
            message: "The speech service does not answer in the format \"\(format.rawValue)\".",
            detail: contentType)
    }

    private static func isForeign(_ contentType: String) -> Bool {
        let type = contentType.prefix { $0 != ";" && $0 != " " }.lowercased()
        return foreignTypes.contains(type) || foreignFamilies.contains { type.hasPrefix($0) }
            || type.hasSuffix("+json") || type.hasSuffix("+xml")
    }

    /// Reads the next piece of the answer; returns the speech in it.
    mutating func append(_ bytes: [UInt8]) throws(AgentError) -> [SpeechChunk] {
        isEmpty = isEmpty && bytes.isEmpty
        return try opus != nil ? opus!.append(bytes) : pcm.append(bytes)
    }

    /// The answer is over.
    /// - Throws: `AgentError.malformedReply` where it is incomplete or empty.
    mutating func finish() throws(AgentError) {
        guard !isEmpty else {
            throw .malformedReply(message: "The speech service's answer is empty.")
        }
        if opus != nil { try opus!.finish() } else { try pcm.finish() }
    }
}

/// Reads one answer in Ogg Opus.
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

    mutating func finish() throws(AgentError) {
        do throws(OggError) { try reader.finish() } catch { throw Self.unreadable(error) }
    }

    private mutating func speech(
        of packets: [OggOpusPacket]
    ) throws(AgentError) -> [SpeechChunk] {
        var chunks: [SpeechChunk] = []
        var run = OpusPackets()
        for packet in packets {
            if decoder == nil, reader.outputGain == 0, try pass(packet, into: &run) { continue }
            // Once a packet is decoded, `pass` is not tried again.
            if run.count > 0 { chunks.append(SpeechChunk(packets: run)) }
            run = OpusPackets()
            chunks += try decode(packet)
        }
        if run.count > 0 { chunks.append(SpeechChunk(packets: run)) }
        return chunks
    }

    /// Adds a packet to the run; false when the stream must be decoded from here on.
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
            throw Self.undecodable(error)
        }
        return true
    }

    private mutating func decode(_ packet: OggOpusPacket) throws(AgentError) -> [SpeechChunk] {
        do throws(OpusError) {
            if decoder == nil { decoder = try OpusDecoder(rate: .hz24000) }
            var failure: OpusError?
            // The packet counts samples at 48 kHz; the decoder works at half that rate.
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
            throw Self.undecodable(error)
        }
    }

    /// Samples × 10^(gain / 20), the gain in 1/256 dB (RFC 7845 §5.1).
    private static func amplified(_ samples: ArraySlice<Int16>, gain: Int) -> [Int16] {
        guard gain != 0 else { return Array(samples) }
        let factor = pow(10, Float(gain) / 256 / 20)
        return samples.map { Int16(clamping: Int((Float($0) * factor).rounded())) }
    }

    private static func undecodable(_ error: OpusError) -> AgentError {
        .malformedReply(
            message: "The speech service's Opus cannot be decoded.", detail: "\(error)")
    }

    private static func unreadable(_ error: OggError) -> AgentError {
        .malformedReply(message: error.sentence, detail: "\(error)")
    }
}

extension OggError {
    /// The message for the client.
    fileprivate var sentence: String {
        switch self {
        case .notOgg, .unsupportedVersion, .notOpus:
            "The speech service does not answer in the format \"opus\"."
        case .checksumMismatch, .pageMissing, .inconsistentContinuation, .packetTooLong,
            .invalidHeader, .missingComments, .invalidPacket:
            "The speech service's Ogg Opus is damaged."
        case .unsupportedChannels:
            "The speech service's Ogg Opus has more than two channels."
        case .truncated:
            "The speech service's Ogg Opus ends too early."
        }
    }
}
