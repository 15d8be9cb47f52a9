// Voice activity read from Opus packets, compared with an encoder's input (RFC 6716 §3.1, §4.2.3).

import Codec
import Testing

private func saysSilence(_ bytes: [UInt8]) -> Bool { OpusActivity.saysSilence(bytes.span.bytes) }

@Suite struct OpusActivityTests {
    @Test(arguments: [[0x08], [0x08, 0x80], [0xFF], [0xF8, 0xFF]] as [[UInt8]])
    func discontinuousTransmissionIsSilence(packet: [UInt8]) {
        #expect(saysSilence(packet))
    }

    @Test func anEmptyPacketIsNotSilence() {
        #expect(!saysSilence([]))
    }

    /// Table of contents, first byte of the frame, and whether it has voice.
    @Test(arguments: [
        // 20 ms of SILK, mono: one bit of voice.
        (0x08, 0b1000_0000, false), (0x08, 0b0111_1111, true),
        // 10 ms: one bit as well.
        (0x00, 0b1000_0000, false), (0x00, 0b0111_1111, true),
        // 40 and 60 ms: two and three bits.
        (0x10, 0b0100_0000, false), (0x10, 0b0011_1111, true),
        (0x18, 0b0010_0000, false), (0x18, 0b0001_1111, true),
        // Stereo: the side channel's bits follow the middle channel's redundancy bit.
        (0x0C, 0b0010_0000, false), (0x0C, 0b0101_1111, true),
        (0x1C, 0b0000_0010, false), (0x1C, 0b0001_0001, true),
        // Hybrid, 20 ms.
        (0x68, 0b1000_0000, false), (0x68, 0b0111_1111, true),
        // CELT, and packets of several frames: no information.
        (0x80, 0b0000_0000, false), (0xF8, 0b0000_0000, false), (0x0B, 0b0000_0000, false),
        (0x09, 0b0000_0000, false),
    ])
    func voiceBitsAreRead(contents: UInt8, first: UInt8, isSilence: Bool) {
        #expect(saysSilence([contents, first, 0x55, 0xAA]) == isSilence)
    }

    @Test func anEncoderMarksItsSilenceAndNotItsSpeech() throws {
        var encoder = try OpusEncoder(rate: .hz16000, bitrate: 16_000)
        var packet = [UInt8](repeating: 0, count: OpusEncoder.maxPacketBytes)
        func encode(_ samples: [Int16]) throws -> Bool {
            let count = try samples.withUnsafeBufferPointer { samples in
                try packet.withUnsafeMutableBytes { try encoder.encode(samples, into: $0) }
            }
            return saysSilence(Array(packet[..<count]))
        }
        let silence = try (0..<20).map { _ in try encode([Int16](repeating: 0, count: 320)) }
        #expect(silence.allSatisfy { $0 })
        // A buzz of 125 Hz, full of harmonics like a voice.
        let buzz: [Int16] = (0..<320).map { $0 % 128 < 20 ? 12_000 : -2_000 }
        let voice = try (0..<20).map { _ in try encode(buzz) }
        #expect(!voice.suffix(10).contains(true))
    }
}
