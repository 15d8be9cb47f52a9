// Opus through libopus: round trips, every packet duration, and every kind of invalid packet.

import COpus
import Codec
import Testing

private let rates: [SampleRate] = [
    .hz8000, SampleRate(hertz: 12_000), .hz16000, .hz24000, .hz48000,
]

private func packet(
    of samples: ArraySlice<Int16>, from encoder: inout OpusEncoder
) throws(OpusError) -> [UInt8] {
    let room = UnsafeMutableRawBufferPointer.allocate(
        byteCount: OpusEncoder.maxPacketBytes, alignment: 1)
    defer { room.deallocate() }
    let count = try samples.span.withUnsafeBufferPointer { samples throws(OpusError) in
        try encoder.encode(samples, into: room)
    }
    return Array(room.prefix(count))
}

private func packets(
    of samples: [Int16], rate: SampleRate, packetSamples: Int, bitrate: Int = 24_000
) throws -> [[UInt8]] {
    var encoder = try OpusEncoder(rate: rate, bitrate: bitrate)
    return try stride(from: 0, to: samples.count - packetSamples + 1, by: packetSamples).map {
        try packet(of: samples[$0..<$0 + packetSamples], from: &encoder)
    }
}

private func decode(
    _ packet: [UInt8], with decoder: inout OpusDecoder, room: Int? = nil
) throws(OpusError) -> [Int16] {
    let size = decoder.rate.samples(inMilliseconds: OpusDecoder.maxPacketMilliseconds)
    let samples = UnsafeMutableBufferPointer<Int16>.allocate(capacity: room ?? size)
    defer { samples.deallocate() }
    samples.initialize(repeating: 0)
    let count = try decoder.decode(packet.span.bytes, into: samples)
    return Array(samples.prefix(count))
}

private func conceal(
    _ count: Int, with decoder: inout OpusDecoder, room: Int = 5_760
) throws(OpusError) -> [Int16] {
    let samples = UnsafeMutableBufferPointer<Int16>.allocate(capacity: room)
    defer { samples.deallocate() }
    samples.initialize(repeating: 0)
    return Array(samples.prefix(try decoder.conceal(samples: count, into: samples)))
}

/// One packet of 20 ms of two channels at 48 kHz.
private func stereoPackets(left: [Int16], right: [Int16]) throws -> [[UInt8]] {
    let encoder = try #require(opus_encoder_create(48_000, 2, OPUS_APPLICATION_AUDIO, nil))
    defer { opus_encoder_destroy(encoder) }
    _ = parley_opus_set(encoder, OPUS_SET_BITRATE_REQUEST, 128_000)
    _ = parley_opus_set(encoder, OPUS_SET_FORCE_CHANNELS_REQUEST, 2)
    let interleaved = zip(left, right).flatMap { [$0, $1] }
    return stride(from: 0, to: interleaved.count - 1_919, by: 1_920).map { start in
        let samples = Array(interleaved[start..<start + 1_920])
        var bytes = [UInt8](repeating: 0, count: 4_000)
        let count = opus_encode(encoder, samples, 960, &bytes, Int32(bytes.count))
        return Array(bytes.prefix(max(0, Int(count))))
    }
}

/// Several packets of the same kind joined into one (RFC 6716 §3.2.5).
private func joined(_ packets: [[UInt8]]) throws -> [UInt8] {
    let repacketizer = try #require(opus_repacketizer_create())
    defer { opus_repacketizer_destroy(repacketizer) }
    // The repacketizer keeps pointers into the packets until its output is written.
    let copies = packets.map { packet in
        let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: packet.count)
        _ = copy.initialize(from: packet)
        return copy
    }
    defer { copies.forEach { $0.deallocate() } }
    for copy in copies {
        let code = opus_repacketizer_cat(repacketizer, copy.baseAddress!, Int32(copy.count))
        try #require(code == OPUS_OK)
    }
    var bytes = [UInt8](repeating: 0, count: 8_000)
    let count = opus_repacketizer_out(repacketizer, &bytes, Int32(bytes.count))
    return Array(bytes.prefix(max(0, Int(count))))
}

@Suite struct OpusTests {
    @Test(arguments: rates)
    func aToneSurvivesTheRoundTrip(_ rate: SampleRate) throws {
        let input = tone(440, rate: rate.hertz, count: rate.hertz)
        let frame = rate.samples(inMilliseconds: 20)
        var decoder = try OpusDecoder(rate: rate)
        var output: [Int16] = []
        for packet in try packets(of: input, rate: rate, packetSamples: frame) {
            let samples = try decode(packet, with: &decoder)
            #expect(samples.count == frame)
            output += samples
        }
        let fit = ToneFit(output.dropFirst(rate.hertz / 5), hertz: 440, rate: rate.hertz)
        #expect(fit.signalToNoise > 20)
        #expect(abs(fit.amplitude / 16_000 - 1) < 0.1)
    }

    @Test(arguments: rates)
    func decodesToAnyRate(_ rate: SampleRate) throws {
        let input = tone(440, rate: 48_000, count: 48_000)
        var decoder = try OpusDecoder(rate: rate)
        var output: [Int16] = []
        for packet in try packets(of: input, rate: .hz48000, packetSamples: 960) {
            output += try decode(packet, with: &decoder)
        }
        #expect(output.count == rate.hertz)
        let fit = ToneFit(output.dropFirst(rate.hertz / 5), hertz: 440, rate: rate.hertz)
        #expect(fit.signalToNoise > 20)
    }

    /// Durations in tenths of milliseconds.
    @Test(arguments: [25, 50, 100, 200, 400, 600], rates)
    func everyDurationHasExactlyItsSamples(_ tenths: Int, _ rate: SampleRate) throws {
        let input = tone(300, rate: 48_000, count: 14_400)
        var decoder = try OpusDecoder(rate: rate)
        let expected = rate.hertz * tenths / 10_000
        let all = try packets(of: input, rate: .hz48000, packetSamples: 48 * tenths / 10)
        for packet in all {
            #expect(try OpusDecoder.sampleCount(of: packet.span.bytes, at: rate) == expected)
            #expect(try decode(packet, with: &decoder).count == expected)
        }
        #expect(all.count == 3_000 / tenths)
    }

    @Test func aPacketMayHoldUpTo120Milliseconds() throws {
        let input = tone(300, rate: 16_000, count: 16_000)
        let frames = try packets(of: input, rate: .hz16000, packetSamples: 960)
        var decoder = try OpusDecoder(rate: .hz16000)
        let two = try joined(Array(frames.prefix(2)))
        #expect(try OpusDecoder.sampleCount(of: two.span.bytes, at: .hz16000) == 1_920)
        #expect(try decode(two, with: &decoder).count == 1_920)
        // Three times 60 ms: the second byte is the number of frames (RFC 6716 §3.2.5).
        let three = [two[0] | 3, 3] + [UInt8](repeating: 0, count: 30)
        #expect(throws: OpusError.invalidPacket) {
            try OpusDecoder.sampleCount(of: three.span.bytes, at: .hz16000)
        }
        #expect(throws: OpusError.invalidPacket) { try decode(three, with: &decoder) }
    }

    @Test func aPacketOfNoFramesIsInvalid() throws {
        let packet: [UInt8] = [19 << 3 | 3, 0] + [UInt8](repeating: 0, count: 30)
        #expect(throws: OpusError.invalidPacket) {
            try OpusDecoder.sampleCount(of: packet.span.bytes, at: .hz16000)
        }
        var decoder = try OpusDecoder(rate: .hz16000)
        #expect(throws: OpusError.invalidPacket) { try decode(packet, with: &decoder) }
    }

    @Test func stereoIsMixedDown() throws {
        let left = tone(440, rate: 48_000, count: 48_000)
        let silence = [Int16](repeating: 0, count: left.count)
        for (right, amplitude) in [(left, 16_000.0), (silence, 8_000.0)] {
            var decoder = try OpusDecoder(rate: .hz16000)
            var output: [Int16] = []
            for packet in try stereoPackets(left: left, right: right) {
                try #require(opus_packet_get_nb_channels(packet) == 2)
                output += try decode(packet, with: &decoder)
            }
            #expect(output.count == 16_000)
            let fit = ToneFit(output.dropFirst(3_200), hertz: 440, rate: 16_000)
            #expect(fit.signalToNoise > 20)
            #expect(abs(fit.amplitude / amplitude - 1) < 0.1)
        }
    }

    @Test func bitrateAndComplexityTakeEffect() throws {
        var numbers = RepeatableNumbers(seed: 5)
        let noise = (0..<16_000).map { _ in Int16.random(in: -9_000...9_000, using: &numbers) }
        func bytes(_ bitrate: Int) throws -> Int {
            try packets(of: noise, rate: .hz16000, packetSamples: 320, bitrate: bitrate)
                .reduce(0) { $0 + $1.count }
        }
        #expect(abs(Double(try bytes(16_000)) / 2_000 - 1) < 0.2)
        #expect(abs(Double(try bytes(48_000)) / 6_000 - 1) < 0.2)
    }

    // MARK: - Concealment

    @Test func aLostPacketIsContinuedAndFadesOut() throws {
        let input = tone(200, rate: 16_000, count: 16_000)
        var decoder = try OpusDecoder(rate: .hz16000)
        var last: [Int16] = []
        for packet in try packets(of: input, rate: .hz16000, packetSamples: 320) {
            last = try decode(packet, with: &decoder)
        }
        let first = try conceal(320, with: &decoder)
        #expect(first.count == 320)
        #expect(power(first) > power(last) * 0.1)
        for _ in 0..<30 { _ = try conceal(320, with: &decoder) }
        #expect(power(try conceal(320, with: &decoder)) < power(last) * 0.001)
    }

    @Test(arguments: [40, 80, 160, 320, 960, 1_920])
    func concealsMultiplesOfTwoAndAHalfMilliseconds(_ count: Int) throws {
        var decoder = try OpusDecoder(rate: .hz16000)
        #expect(try conceal(count, with: &decoder).count == count)
    }

    @Test(arguments: [0, -1, 1, 39, 41, 321, .min])
    func concealsNothingElse(_ count: Int) throws {
        var decoder = try OpusDecoder(rate: .hz16000)
        #expect(throws: OpusError.badArgument) { try conceal(count, with: &decoder) }
        #expect(throws: OpusError.bufferTooSmall) { try conceal(.max, with: &decoder) }
        #expect(throws: OpusError.bufferTooSmall) { try conceal(320, with: &decoder, room: 319) }
    }

    // MARK: - Bad packets

    /// Packets that break the rules R1…R7 of RFC 6716 §3.4 that a receiver can check.
    static let malformed: [(String, [UInt8])] = [
        ("R1: no bytes", []),
        ("R2: a frame of more than 1,275 bytes", [0x08] + [UInt8](repeating: 1, count: 1_276)),
        ("R3: two equal frames in an odd number of bytes", [0x09, 1, 2, 3]),
        ("R4: two frames without a length", [0x0A]),
        ("R4: a length of two bytes, cut off", [0x0A, 252]),
        ("R4: the first frame longer than the packet", [0x0A, 5, 1, 2]),
        ("R5: no frames", [0x0B, 0, 1]),
        ("R5: 49 frames of 2.5 ms", [0xE3, 49] + [UInt8](repeating: 1, count: 49)),
        ("R5: 7 frames of 20 ms", [0x0B, 7] + [UInt8](repeating: 1, count: 7)),
        ("R6: a frame count that is missing", [0x0B]),
        ("R6: padding longer than the packet", [0x0B, 0x41, 200, 1]),
        ("R6: frames of unequal size", [0x0B, 2, 1, 2, 3]),
        ("R7: variable sizes longer than the packet", [0x0B, 0x82, 9, 1]),
    ]

    @Test(arguments: malformed)
    func refusesPacketsThatBreakARule(_ rule: String, _ packet: [UInt8]) throws {
        var decoder = try OpusDecoder(rate: .hz16000)
        #expect(throws: OpusError.invalidPacket) { try decode(packet, with: &decoder) }
        // The decoder continues as if the refused packet had not arrived.
        let good = try packets(
            of: tone(440, rate: 16_000, count: 320), rate: .hz16000, packetSamples: 320)
        #expect(try decode(good[0], with: &decoder).count == 320)
    }

    @Test func anyBytesEndInSamplesOrAnError() throws {
        var numbers = RepeatableNumbers(seed: 7)
        var decoder = try OpusDecoder(rate: .hz16000)
        let input = tone(440, rate: 16_000, count: 32_000)
        let good = try packets(of: input, rate: .hz16000, packetSamples: 320)
        var (accepted, refused) = (0, 0)
        func offer(_ packet: [UInt8]) throws {
            do throws(OpusError) {
                let samples = try decode(packet, with: &decoder)
                let count = try OpusDecoder.sampleCount(of: packet.span.bytes, at: .hz16000)
                #expect(samples.count == count)
                accepted += 1
            } catch {
                #expect(error == .invalidPacket)
                refused += 1
            }
        }
        for packet in good {
            try offer(Array(packet.prefix(Int.random(in: 0..<packet.count, using: &numbers))))
            var flipped = packet
            for _ in 0..<Int.random(in: 1...8, using: &numbers) {
                let index = flipped.indices.randomElement(using: &numbers)!
                flipped[index] ^= 1 << UInt8.random(in: 0...7, using: &numbers)
            }
            try offer(flipped)
            try offer(numbers.bytes(Int.random(in: 1...200, using: &numbers)))
        }
        #expect(accepted > 50 && refused > 20)
        #expect(try decode(good[0], with: &decoder).count == 320)
    }

    @Test func neverWritesBeyondTheRoom() throws {
        var decoder = try OpusDecoder(rate: .hz16000)
        let good = try packets(
            of: tone(440, rate: 16_000, count: 320), rate: .hz16000, packetSamples: 320)
        for room in [0, 1, 319] {
            #expect(throws: OpusError.bufferTooSmall) {
                try decode(good[0], with: &decoder, room: room)
            }
        }
        #expect(try decode(good[0], with: &decoder, room: 320).count == 320)
    }

    // MARK: - Our own mistakes

    @Test(arguments: [1, 7_999, 11_025, 44_100, 96_000, .max])
    func refusesOtherRates(_ hertz: Int) {
        let rate = SampleRate(hertz: hertz)
        #expect(throws: OpusError.badArgument) { _ = try OpusDecoder(rate: rate) }
        #expect(throws: OpusError.badArgument) { _ = try OpusEncoder(rate: rate) }
    }

    @Test(arguments: [(5_999, 5), (510_001, 5), (.max, 5), (24_000, -1), (24_000, 11)])
    func refusesOtherSettings(_ bitrate: Int, _ complexity: Int) {
        #expect(throws: OpusError.badArgument) {
            _ = try OpusEncoder(rate: .hz16000, bitrate: bitrate, complexity: complexity)
        }
    }

    @Test(arguments: [0, 1, 319, 321, 16_000])
    func encodesNoOtherDuration(_ count: Int) throws {
        var encoder = try OpusEncoder(rate: .hz16000)
        let samples = [Int16](repeating: 0, count: count)
        #expect(throws: OpusError.badArgument) { try packet(of: samples[...], from: &encoder) }
    }

    @Test func errorsSayWhatHappened() {
        #expect(OpusError.invalidPacket.description == "opus: corrupted stream")
        #expect(OpusError.badArgument.message == "invalid argument")
    }
}
