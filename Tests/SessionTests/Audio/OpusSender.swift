// A client's Opus as libopus makes it, with the settings that our own encoder does not need.

import COpus
import Codec
import TestMaterial
import Testing

/// Encodes packets at 48 kHz.
final class OpusSender {
    private let encoder: OpaquePointer
    let channels: Int

    init(channels: Int = 1, _ settings: (request: Int32, value: Int32)...) throws {
        self.channels = channels
        let channelCount = Int32(channels)
        encoder = try #require(
            opus_encoder_create(48_000, channelCount, OPUS_APPLICATION_VOIP, nil))
        for (request, value) in settings {
            try #require(parley_opus_set(encoder, request, value) == OPUS_OK)
        }
    }

    deinit { opus_encoder_destroy(encoder) }

    /// Packets of mono samples at 48 kHz; a remainder is left out.
    /// - Parameter length: samples of each packet.
    func packets(of samples: [Int16], length: Int) throws -> [[UInt8]] {
        try stride(from: 0, to: samples.count - length + 1, by: length).map { start in
            let run = samples[start..<start + length].flatMap { sample in
                [Int16](repeating: sample, count: channels)
            }
            var packet = [UInt8](repeating: 0, count: 8_000)
            let count = opus_encode(encoder, run, Int32(length), &packet, Int32(packet.count))
            try #require(count > 0, "\(count)")
            return Array(packet.prefix(Int(count)))
        }
    }
}

extension SpeechRecording {
    /// The recording at 48 kHz.
    func samplesAt48Kilohertz() throws -> [Int16] {
        var resampler = try Resampler(from: .hz16000, to: .hz48000)
        var output = [Int16](repeating: 0, count: resampler.maxOutputSamples(for: samples.count))
        let count = samples.withUnsafeBufferPointer { input in
            output.withUnsafeMutableBufferPointer { resampler.process(input, into: $0) }
        }
        return Array(output.prefix(count))
    }
}

/// Numbers packets as binary messages of a session with `sequence` are.
func numbered(_ packets: [[UInt8]], from first: UInt16 = 0) -> [[UInt8]] {
    packets.enumerated().map { index, packet in
        let number = first &+ UInt16(truncatingIfNeeded: index)
        return [UInt8(number >> 8), UInt8(truncatingIfNeeded: number)] + packet
    }
}

/// How alike two signals are: 1 is the same up to a factor, 0 has nothing in common.
func correlation(_ one: some Collection<Int16>, _ other: some Collection<Int16>) -> Double {
    var (product, first, second) = (0.0, 0.0, 0.0)
    for (left, right) in zip(one, other) {
        product += Double(left) * Double(right)
        first += Double(left) * Double(left)
        second += Double(right) * Double(right)
    }
    return product / max(1, (first * second).squareRoot())
}

/// The mean square of samples.
func meanSquare(_ samples: some Collection<Int16>) -> Double {
    samples.reduce(0) { $0 + Double($1) * Double($1) } / Double(max(1, samples.count))
}
