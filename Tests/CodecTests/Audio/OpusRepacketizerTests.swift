// Packets of other durations, repacked to 20 ms and decoded to the same sound.

import Codec
import Testing

@Suite struct OpusRepacketizerTests {
    private static let rate = SampleRate.hz48000

    /// A tone in packets of the given duration, made by the real encoder.
    private func packets(milliseconds: Double, count: Int) throws -> [[UInt8]] {
        var encoder = try OpusEncoder(rate: Self.rate, bitrate: 64_000)
        let size = Int(48 * milliseconds)
        return try (0..<count).map { index in
            let samples = (0..<size).map { offset in
                Int16((index * size + offset) % 96 * 100)
            }
            var packet = [UInt8](repeating: 0, count: 4_000)
            let length = try samples.withUnsafeBufferPointer { samples in
                try packet.withUnsafeMutableBytes { try encoder.encode(samples, into: $0) }
            }
            return Array(packet[..<length])
        }
    }

    private func decoded(_ packets: [[UInt8]]) throws -> [Int16] {
        var decoder = try OpusDecoder(rate: Self.rate)
        var sound: [Int16] = []
        var room = [Int16](repeating: 0, count: 5_760)
        for packet in packets {
            let count = try room.withUnsafeMutableBufferPointer {
                try decoder.decode(packet.span.bytes, into: $0)
            }
            sound += room[..<count]
        }
        return sound
    }

    private func repacketized(_ packets: [[UInt8]]) throws -> [[UInt8]] {
        var repacketizer = OpusRepacketizer()
        var result: [[UInt8]] = []
        for packet in packets { try repacketizer.append(packet) { result.append($0) } }
        let isWaiting = repacketizer.isWaiting
        #expect(!isWaiting)
        return result
    }

    @Test(arguments: [(2.5, 16), (5.0, 8), (10.0, 6), (20.0, 5)])
    func joinsShortPacketsToTwentyMilliseconds(milliseconds: Double, count: Int) throws {
        let packets = try packets(milliseconds: milliseconds, count: count)
        let result = try repacketized(packets)
        #expect(result.count == Int(Double(count) * milliseconds / 20))
        for packet in result {
            #expect(try OpusDecoder.sampleCount(of: packet.span.bytes, at: Self.rate) == 960)
        }
        #expect(try decoded(result) == decoded(packets))
    }

    @Test func cutsLongPacketsOfTwentyMillisecondFrames() throws {
        // 64 kb/s selects CELT, whose frames last at most 20 ms, so a packet of 60 ms has three.
        let single = try packets(milliseconds: 20, count: 6)
        let long = try packets(milliseconds: 60, count: 2)
        let result = try repacketized(long)
        #expect(result.count == single.count)
        #expect(try decoded(result) == decoded(long))
    }

    @Test func refusesFramesThatCannotBeCut() throws {
        var repacketizer = OpusRepacketizer()
        // SILK, one frame of 60 ms (configuration 11).
        #expect(throws: OpusRepacketizingError.indivisible) {
            try repacketizer.append([11 << 3, 1, 2, 3]) { _ in }
        }
        #expect(throws: OpusRepacketizingError.invalidPacket) {
            try repacketizer.append([]) { _ in }
        }
    }

    @Test func refusesFramesThatDoNotFit() throws {
        var repacketizer = OpusRepacketizer()
        // 10 ms of SILK, then 10 ms of CELT.
        try repacketizer.append([8 << 3, 1, 2, 3]) { _ in }
        #expect(throws: OpusRepacketizingError.indivisible) {
            try repacketizer.append([30 << 3, 1, 2, 3]) { _ in }
        }
        // The waiting frames are lost; the next packet of 20 ms is whole by itself.
        let isWaiting = repacketizer.isWaiting
        #expect(!isWaiting)
    }

    @Test func aWholePacketBehindAnIncompleteOneIsRefused() throws {
        var repacketizer = OpusRepacketizer()
        try repacketizer.append([8 << 3, 1, 2, 3]) { _ in }
        #expect(throws: OpusRepacketizingError.indivisible) {
            try repacketizer.append([9 << 3, 1, 2, 3]) { _ in Issue.record("a packet came out") }
        }
    }
}
