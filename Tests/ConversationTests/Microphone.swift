// The client's microphone: sounds are placed on its timeline, and every 20 ms (or the
// conversation's packet duration) it makes a packet, with or without speech.

import Codec
import Foundation
import YAML

/// Mixes sounds and encodes them in the session's input format.
struct Microphone {
    let packetMilliseconds: Int
    /// Numbers of packets that are lost in transit, from 0.
    private let lost: [Range<Int>]
    /// Whether each packet begins with its number.
    private let isNumbered: Bool
    private var encoder: OpusPackets?
    private var sounds: [(start: Int, sound: Sound)] = []
    private var packets = 0
    /// How the reply sounds in the microphone: level in dB, delay in milliseconds. Nil: headphones.
    let echo: (gain: Double, delay: Int)?

    init(_ description: YAMLValue?) throws {
        packetMilliseconds = description?["packet_ms"]?.integer ?? 20
        isNumbered = description?["numbered"]?.flag ?? false
        lost = (description?["loses"]?.items ?? []).compactMap { pair in
            guard let from = pair.items?.first?.integer, let count = pair.items?.last?.integer
            else { return nil }
            return from..<from + count
        }
        echo = description?["echo"].map {
            ($0["gain_db"]?.number ?? 0, $0["delay_ms"]?.integer ?? 0)
        }
        if description?["format"]?.text == "opus" { encoder = try OpusPackets() }
    }

    /// Start of the next packet, in milliseconds.
    var position: Int { packets * packetMilliseconds }

    /// Adds a sound that begins at a time that is not in the past.
    mutating func place(_ sound: Sound, at milliseconds: Int) {
        sounds.append((Sound.rate.samples(inMilliseconds: milliseconds), sound))
    }

    /// The next packet as a binary message; nil: it is lost in transit.
    mutating func nextPacket() throws -> [UInt8]? {
        let samples = hear(
            from: Sound.rate.samples(inMilliseconds: position),
            count: Sound.rate.samples(inMilliseconds: packetMilliseconds))
        defer { packets += 1 }
        let number = isNumbered ? Self.littleEndian([Int16(truncatingIfNeeded: packets)]) : []
        let payload = try encoder?.encode(samples) ?? Self.littleEndian(samples)
        return lost.contains { $0.contains(packets) } ? nil : number + payload
    }

    private mutating func hear(from start: Int, count: Int) -> [Int16] {
        var mix = [Float](repeating: 0, count: count)
        sounds.removeAll { $0.start + $0.sound.samples.count <= start }
        for (place, sound) in sounds {
            let overlap =
                max(
                    start, place)..<max(
                    max(start, place), min(start + count, place + sound.samples.count))
            for index in overlap { mix[index - start] += sound.samples[index - place] }
        }
        return mix.map { Int16(clamping: Int(($0 * 32_767).rounded())) }
    }

    private static func littleEndian(_ samples: [Int16]) -> [UInt8] {
        samples.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
    }
}

/// An encoder in a box, so that the struct that holds it can be copied.
private final class OpusPackets {
    private var encoder: OpusEncoder

    init() throws { encoder = try OpusEncoder(rate: Sound.rate) }

    func encode(_ samples: [Int16]) throws -> [UInt8] {
        var packet = [UInt8](repeating: 0, count: 3 * OpusEncoder.maxPacketBytes)
        let count = try samples.withUnsafeBufferPointer { samples in
            try packet.withUnsafeMutableBytes { try encoder.encode(samples, into: $0) }
        }
        return Array(packet[..<count])
    }
}
