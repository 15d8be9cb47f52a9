// Speech that a service has encoded itself: sent untouched to a client that takes Opus, decoded for
// one that does not.

import Codec
import Foundation
import Testing

@testable import Session

@Suite struct EncodedSpeechTests {
    /// A sine of 440 Hz as packets of 20 ms, and the samples that they were made of.
    private static func tone(packets count: Int) throws -> OpusPackets {
        var encoder = try OpusEncoder(rate: .hz24000)
        var packets = OpusPackets()
        var room = [UInt8](repeating: 0, count: OpusEncoder.maxPacketBytes)
        for frame in 0..<count {
            let samples = (0..<480).map { index in
                Int16(8_000 * sin(2 * Double.pi * 440 * Double(frame * 480 + index) / 24_000))
            }
            let size = try samples.withUnsafeBufferPointer { samples in
                try room.withUnsafeMutableBytes { try encoder.encode(samples, into: $0) }
            }
            try append(Array(room[..<size]), to: &packets)
        }
        return packets
    }

    private static func append(_ packet: [UInt8], to packets: inout OpusPackets) throws {
        try packets.append(packet.span.bytes)
    }

    private static func script(
        _ packets: OpusPackets, _ configure: (inout SessionParameters) -> Void
    ) -> ScriptedSession {
        let script = ScriptedSession {
            $0.outputTransport = .binary
            configure(&$0)
        }
        script.speech = { _ in [SpeechChunk(packets: packets)] }
        script.replies = [.text("Hello there.")]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 5_000)
        return script
    }

    @Test func packetsLeaveUntouchedWhereTheClientTakesOpus() throws {
        let packets = try Self.tone(packets: 60)
        let script = Self.script(packets) { $0.outputFormat = .opus }
        #expect(script.audioPackets.map(\.payload) == (0..<60).map { Array(packets[$0]) })
        #expect(script.audioPackets.map(\.position) == (0..<60).map { $0 * 960 })
        #expect(script.violations.isEmpty)
    }

    @Test(arguments: [AudioFormat.pcm, .pcmu, .pcma])
    func packetsAreDecodedWhereTheClientDoesNot(format: AudioFormat) throws {
        let packets = try Self.tone(packets: 60)
        let script = Self.script(packets) { $0.outputFormat = format }
        let bytes = script.audioPackets.flatMap(\.payload)
        let rate = format.sampleRate.hertz
        #expect(bytes.count == (format == .pcm ? 2 : 1) * rate * 60 / 50)
        var samples = [Int16](repeating: 0, count: rate * 60 / 50)
        switch format {
        case .pcm:
            for index in samples.indices {
                samples[index] = Int16(
                    truncatingIfNeeded: Int(bytes[2 * index]) | Int(bytes[2 * index + 1]) << 8)
            }
        default:
            samples.withUnsafeMutableBufferPointer {
                G711.decode(bytes.span.bytes, law: format == .pcmu ? .mu : .a, into: $0)
            }
        }
        // A sine changes sign twice a period, 440 times a second; the codec's onset is left out.
        let settled = samples[(rate / 5)...]
        let crossings = zip(settled, settled.dropFirst()).count { ($0 < 0) != ($1 < 0) }
        #expect(abs(crossings - 880) <= 4)
        #expect(settled.max()! > 6_000)
    }

    @Test func encodedSpeechIsPacedAsItIsPlayed() throws {
        let packets = try Self.tone(packets: 100)
        let script = ScriptedSession {
            $0.outputTransport = .binary
            $0.outputFormat = .opus
        }
        script.speech = { _ in [SpeechChunk(packets: packets)] }
        script.replies = [.text("Hello there.")]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 1_000)
        // Two seconds of speech, of which the lead and what was played may have left.
        #expect((60..<80).contains(script.audioPackets.count))
    }

    @Test func clausesMayComeInEitherForm() throws {
        let packets = try Self.tone(packets: 10)
        let script = ScriptedSession {
            $0.outputTransport = .binary
            $0.outputFormat = .opus
        }
        let samples = [Int16](repeating: 1_000, count: 3_200)
        script.speech = { text in
            text.hasPrefix("Hello")
                ? [SpeechChunk(packets: packets)]
                : [SpeechChunk(samples: samples, rate: .hz16000)]
        }
        script.replies = [.text("Hello there, my friend. How are you today?")]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 5_000)
        #expect(script.spoken.count == 2)
        #expect(script.audioPackets.count == 20)
        #expect(
            script.audioPackets.prefix(10).map(\.payload) == (0..<10).map { Array(packets[$0]) })
        #expect(script.audioPackets.last?.position == 19 * 960)
    }

    @Test func onlyPacketsOfTwentyMillisecondsAreTaken() throws {
        var packets = OpusPackets()
        // Tables of contents: SILK of 10, 40, 20 ms, CELT of 20 ms in one frame and in two.
        #expect(throws: OpusError.invalidPacket) { try Self.append([0x00, 1], to: &packets) }
        #expect(throws: OpusError.invalidPacket) { try Self.append([0x10, 1], to: &packets) }
        #expect(throws: OpusError.invalidPacket) { try Self.append([UInt8](), to: &packets) }
        let long = [0x08 as UInt8] + [UInt8](repeating: 0, count: OpusPackets.maxPacketBytes)
        #expect(throws: OpusError.invalidPacket) { try Self.append(long, to: &packets) }
        try Self.append([0x08, 1], to: &packets)
        try Self.append([0x98, 7, 8], to: &packets)
        try Self.append([0x91, 7, 8, 9, 10], to: &packets)
        #expect(packets.count == 3)
        #expect(packets.milliseconds == 60)
        #expect(Array(packets[1]) == [0x98, 7, 8])
        #expect(Array(packets[2]) == [0x91, 7, 8, 9, 10])
    }
}
