// Encodes the audio that `parley talk` sends: 20 ms of samples become one packet of the session's
// input format.

import Codec

/// Encodes packets of one input format.
struct PacketEncoder: ~Copyable {
    /// Samples per packet: 20 ms at the format's rate.
    let packetSamples: Int
    private let format: AudioFormat
    private var opus: OpusEncoder?

    /// Creates an encoder. Opus is encoded at 24 kb/s, as in a good voice call.
    /// - Throws: a `CommandFailure` where libopus refuses.
    init(format: AudioFormat) throws(CommandFailure) {
        self.format = format
        packetSamples = format.sampleRate.samples(inMilliseconds: 20)
        opus = try reportingOpus { () throws(OpusError) in
            format == .opus ? try OpusEncoder(rate: format.sampleRate, bitrate: 24_000) : nil
        }
    }

    /// Encodes 20 ms.
    /// - Precondition: `samples` holds `packetSamples` samples.
    /// - Throws: a `CommandFailure` where libopus refuses.
    mutating func encode(_ samples: [Int16]) throws(CommandFailure) -> [UInt8] {
        precondition(samples.count == packetSamples)
        switch format {
        case .pcm, .pcm8000, .pcm16000, .pcm48000:
            return samples.flatMap {
                [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)]
            }
        case .pcmu, .pcma:
            var bytes: [UInt8] = []
            let law = format == .pcmu ? G711.Law.mu : .a
            samples.withUnsafeBufferPointer { G711.encode($0, law: law, into: &bytes) }
            return bytes
        case .opus:
            var packet = [UInt8](repeating: 0, count: OpusEncoder.maxPacketBytes)
            let count = try reportingOpus { () throws(OpusError) in
                try packet.withUnsafeMutableBufferPointer { (room) throws(OpusError) in
                    try samples.withUnsafeBufferPointer { (pcm) throws(OpusError) in
                        try opus?.encode(pcm, into: UnsafeMutableRawBufferPointer(room)) ?? 0
                    }
                }
            }
            packet.removeLast(packet.count - count)
            return packet
        }
    }
}

/// Calls libopus, and makes its error a failure of the command.
func reportingOpus<Result: ~Copyable>(
    _ body: () throws(OpusError) -> Result
) throws(CommandFailure) -> Result {
    do throws(OpusError) {
        return try body()
    } catch {
        throw CommandFailure(description: "libopus: \(error)")
    }
}
