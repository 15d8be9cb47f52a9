// Incoming Opus as real encoders send it and real networks lose it: every duration, bandwidth and
// channel count, silence left out, packets lost, late and corrupt.

import COpus
import Codec
import TestMaterial
import Testing

@testable import Session

/// What a stream came to.
private struct Heard {
    var samples: [Int16] = []
    var repairs = OpusInput.Repairs()
    var errors = 0
    /// Samples after each packet.
    var ends: [Int] = []
}

extension OpusInput {
    /// Decodes a whole packet, and hands `sink` its runs.
    /// - Returns: why the packet is not valid, or nil.
    mutating func decode(
        _ packet: RawSpan, missing: Int?, into room: UnsafeMutableBufferPointer<Int16>,
        _ sink: (UnsafeBufferPointer<Int16>) -> Void
    ) -> OpusError? {
        begin(packet, missing: missing)
        while let run = next(of: packet, into: room) { sink(run) }
        return error
    }
}

/// Decodes packets; nil is a lost one.
private func hear(_ packets: [[UInt8]?]) throws -> Heard {
    var input = try OpusInput()
    return hear(packets, &input)
}

private func hear(_ packets: [[UInt8]?], _ input: inout OpusInput) -> Heard {
    let scratch = AudioScratch()
    var heard = Heard()
    var missing = 0
    for packet in packets {
        guard let packet else {
            missing += 1
            heard.ends.append(heard.samples.count)
            continue
        }
        let error = input.decode(
            packet.span.bytes, missing: missing, into: scratch.decoded
        ) { heard.samples += $0 }
        heard.repairs.recovered += input.repairs.recovered
        heard.repairs.concealed += input.repairs.concealed
        heard.repairs.corrupt += input.repairs.corrupt
        missing = 0
        if error != nil { heard.errors += 1 }
        heard.ends.append(heard.samples.count)
    }
    return heard
}

private func holdsCopy(_ packet: [UInt8]) -> Bool {
    OpusDecoder.holdsPreviousPacket(packet.span.bytes)
}

/// Where the recording speaks, in packets of 20 ms: the loudest of the second second.
private func loudPacket(_ samples: [Int16]) -> Int {
    (40..<100).max {
        meanSquare(samples[$0 * 320..<($0 + 1) * 320])
            < meanSquare(samples[$1 * 320..<($1 + 1) * 320])
    }!
}

/// How alike what was heard is to a loud half second of the recording, at the best delay.
/// libopus turns the phase of low sounds, which leaves 0.65 to 0.69 at any bitrate.
private func likeness(_ heard: [Int16]) -> Double {
    let original = SpeechRecording.goForward.samples[16_000..<24_000]
    return (80...140).map { correlation(original, heard[(16_000 + $0)...]) }.max()!
}

@Suite struct OpusInputTests {
    /// Samples at 48 kHz: 2.5, 5, 10, 20, 40, 60 and 120 ms.
    private static let lengths = [120, 240, 480, 960, 1_920, 2_880, 5_760]

    @Test(arguments: zip(lengths, [1, 2, 1, 2, 1, 2, 1]))
    func everyDurationAndChannelCountIsHeard(length: Int, channels: Int) throws {
        let speech = try SpeechRecording.goForward.samplesAt48Kilohertz()
        let sender = try OpusSender(channels: channels, (OPUS_SET_BITRATE_REQUEST, 64_000))
        let heard = try hear(sender.packets(of: speech, length: length))
        #expect(heard.samples.count == speech.count / length * length / 3)
        #expect(heard.errors == 0)
        // The encoder looks ahead by 6.5 ms; the resamplers on both sides add their own.
        let best = likeness(heard.samples)
        #expect(best > 0.6, "\(best)")
    }

    @Test(arguments: [
        OPUS_BANDWIDTH_NARROWBAND, OPUS_BANDWIDTH_MEDIUMBAND, OPUS_BANDWIDTH_WIDEBAND,
        OPUS_BANDWIDTH_SUPERWIDEBAND, OPUS_BANDWIDTH_FULLBAND,
    ])
    func everyBandwidthIsHeard(bandwidth: Int32) throws {
        let speech = try SpeechRecording.goForward.samplesAt48Kilohertz()
        let sender = try OpusSender(
            (OPUS_SET_BITRATE_REQUEST, 32_000), (OPUS_SET_BANDWIDTH_REQUEST, bandwidth))
        let packets = try sender.packets(of: speech, length: 960)
        #expect(packets.allSatisfy { opus_packet_get_bandwidth($0) == bandwidth })
        let heard = try hear(packets)
        #expect(heard.samples.count == packets.count * 320)
        let best = likeness(heard.samples)
        #expect(best > 0.6, "\(best)")
    }

    @Test func aLostPacketIsTakenFromTheNextWhereThatHasACopy() throws {
        let speech = try SpeechRecording.goForward.samplesAt48Kilohertz()
        let sender = try OpusSender(
            (OPUS_SET_BITRATE_REQUEST, 32_000), (OPUS_SET_INBAND_FEC_REQUEST, 1),
            (OPUS_SET_PACKET_LOSS_PERC_REQUEST, 25),
            (OPUS_SET_BANDWIDTH_REQUEST, OPUS_BANDWIDTH_WIDEBAND))
        let packets = try sender.packets(of: speech, length: 960)
        let clean = try hear(packets)
        let plainSender = try OpusSender(
            (OPUS_SET_BITRATE_REQUEST, 32_000),
            (OPUS_SET_BANDWIDTH_REQUEST, OPUS_BANDWIDTH_WIDEBAND))
        let plain = try plainSender.packets(of: speech, length: 960)
        #expect(!plain.contains(where: holdsCopy))
        var (recovered, concealed): ([Double], [Double]) = ([], [])
        for lost in 40..<100 where holdsCopy(packets[lost + 1]) {
            guard meanSquare(clean.samples[lost * 320..<(lost + 1) * 320]) > 100_000 else {
                continue
            }
            let place = lost * 320..<(lost + 1) * 320
            let heard = try hear(packets.indices.map { $0 == lost ? nil : packets[$0] })
            #expect(heard.samples.count == clean.samples.count)
            #expect(heard.repairs.recovered == 1 && heard.repairs.concealed == 0)
            recovered.append(correlation(heard.samples[place], clean.samples[place]))
            let without = try hear(plain.indices.map { $0 == lost ? nil : plain[$0] })
            #expect(without.repairs.recovered == 0 && without.repairs.concealed == 1)
            concealed.append(
                correlation(without.samples[place], try hear(plain).samples[place]))
        }
        try #require(recovered.count > 5)
        let copy = recovered.reduce(0, +) / Double(recovered.count)
        let guess = concealed.reduce(0, +) / Double(concealed.count)
        #expect(copy > 0.8, "\(copy)")
        #expect(copy > guess + 0.2, "\(copy) against \(guess)")
    }

    @Test func aLostPacketWithoutACopyIsNoSilence() throws {
        let speech = try SpeechRecording.goForward.samplesAt48Kilohertz()
        let packets = try OpusSender((OPUS_SET_BITRATE_REQUEST, 32_000))
            .packets(of: speech, length: 960)
        let clean = try hear(packets)
        let lost = loudPacket(clean.samples)
        let heard = try hear(packets.indices.map { $0 == lost ? nil : packets[$0] })
        #expect(heard.samples.count == clean.samples.count)
        let place = lost * 320..<(lost + 1) * 320
        #expect(meanSquare(heard.samples[place]) > 0.1 * meanSquare(clean.samples[place]))
        // What comes after is as good as if nothing had been lost.
        let after = (lost + 10) * 320..<(lost + 20) * 320
        #expect(correlation(heard.samples[after], clean.samples[after]) > 0.9)
    }

    @Test func aLongGapFadesIntoSilenceAndIsAsLongAsIt() throws {
        let speech = try SpeechRecording.goForward.samplesAt48Kilohertz()
        let packets = try OpusSender((OPUS_SET_BITRATE_REQUEST, 32_000))
            .packets(of: speech, length: 960)
        let clean = try hear(packets)
        let lost = loudPacket(clean.samples)
        let gap = lost..<lost + 20
        let heard = try hear(packets.indices.map { gap.contains($0) ? nil : packets[$0] })
        #expect(heard.samples.count == clean.samples.count)
        #expect(heard.repairs.concealed == 20)
        let start = lost * 320
        #expect(meanSquare(heard.samples[start..<start + 320]) > 1_000)
        #expect(heard.samples[start + 1_600..<start + 20 * 320].allSatisfy { $0 == 0 })
    }

    @Test(arguments: [51, 3_000, Int.max])
    func aGapIsFilledForASecondAtMost(missing: Int) throws {
        var input = try OpusInput()
        let scratch = AudioScratch()
        let packets = try OpusSender().packets(
            of: SpeechRecording.goForward.samplesAt48Kilohertz(), length: 960)
        let (first, second) = (packets[0], packets[1])
        var count = 0
        _ = input.decode(
            first.span.bytes, missing: 0, into: scratch.decoded
        ) { count += $0.count }
        _ = input.decode(
            second.span.bytes, missing: missing, into: scratch.decoded
        ) { count += $0.count }
        #expect(count == 320 + 16_000 + 320)
    }

    /// A gap of 200 ms before a packet that DTX has left out: 100 ms concealed, 100 ms of silence, and then the
    /// background noise of the packet itself.
    @Test func noiseOfAPacketThatDTXLeavesOutFollowsTheGapBeforeIt() throws {
        var input = try OpusInput()
        let scratch = AudioScratch()
        let packets = try OpusSender().packets(
            of: SpeechRecording.goForward.samplesAt48Kilohertz(), length: 960)
        for packet in packets[..<60] {
            _ = input.decode(packet.span.bytes, missing: 0, into: scratch.decoded) { _ in }
        }
        var samples: [Int16] = []
        _ = input.decode([UInt8]().span.bytes, missing: 10, into: scratch.decoded) { samples += $0 }
        #expect(samples.count == 3_200 + 320)
        #expect(samples[1_600..<3_200].allSatisfy { $0 == 0 })
        #expect(samples[..<1_600].contains { $0 != 0 })
        #expect(samples[3_200...].contains { $0 != 0 })
    }

    @Test func silenceThatDTXLeavesOutGoesOn() throws {
        let sender = try OpusSender(
            (OPUS_SET_DTX_REQUEST, 1), (OPUS_SET_BITRATE_REQUEST, 24_000))
        let speech = try SpeechRecording.goForward.samplesAt48Kilohertz()
        let silence = [Int16](repeating: 0, count: 48_000 * 2)
        let packets = try sender.packets(of: speech + silence, length: 960)
        let small = packets.indices.filter { packets[$0].count <= 2 }
        try #require(small.count > 50)
        // As they are, and as empty packets of a numbered stream.
        let kept = try hear(packets)
        let empty = try hear(packets.map { $0.count <= 2 ? [] : $0 })
        for heard in [kept, empty] {
            #expect(heard.errors == 0)
            #expect(heard.repairs.concealed == 0)
            #expect(heard.samples.count == packets.count * 320)
            #expect(meanSquare(heard.samples.suffix(16_000)) < 1_000)
        }
    }

    @Test func aCorruptPacketIsConcealed() throws {
        var packets = try OpusSender().packets(
            of: SpeechRecording.goForward.samplesAt48Kilohertz(), length: 960)
        let clean = try hear(packets)
        let lost = loudPacket(clean.samples)
        packets[lost] = [0xFF, 0xFF, 0xFF]
        let heard = try hear(packets)
        #expect(heard.errors == 1 && heard.repairs.corrupt == 1)
        #expect(heard.repairs.concealed == 1)
        #expect(heard.samples.count == clean.samples.count)
        #expect(meanSquare(heard.samples[lost * 320..<(lost + 1) * 320]) > 1_000)
    }

    @Test func aResetDecoderIsAsGoodAsNew() throws {
        let speech = try SpeechRecording.goForward.samplesAt48Kilohertz()
        for (channels, length) in [(1, 960), (2, 960), (1, 120)] {
            let packets = try OpusSender(channels: channels).packets(of: speech, length: length)
            var used = try OpusInput()
            _ = hear(packets.reversed(), &used)
            used.reset()
            #expect(hear(packets, &used).samples == (try hear(packets)).samples)
        }
    }
}

@Suite struct PacketOrderTests {
    /// What becomes of packets with these numbers: how many are missing before each; nil: late.
    private static func missing(_ numbers: [UInt16]) -> [Int?] {
        var order = PacketOrder()
        return numbers.map {
            switch order.handle($0) {
            case .next(let missing): missing
            case .late: nil
            }
        }
    }

    @Test func gapsAreCounted() {
        #expect(Self.missing([7, 8, 9, 11, 15]) == [0, 0, 0, 1, 3])
    }

    @Test func numbersWrapAround() {
        #expect(Self.missing([65_534, 65_535, 0, 1, 3]) == [0, 0, 0, 0, 1])
        #expect(Self.missing([65_535, 2]) == [0, 2])
    }

    @Test func duplicatesAndLatePacketsAreDropped() {
        #expect(Self.missing([10, 11, 11, 13, 12, 14]) == [0, 0, nil, 1, nil, 0])
        #expect(Self.missing([0, 65_535, 1]) == [0, nil, 0])
    }

    @Test func aSenderThatBeginsAnewIsFollowedFromItsSecondPacketOn() {
        #expect(Self.missing([5_000, 5_001, 10, 11, 12]) == [0, 0, nil, 0, 0])
        #expect(Self.missing([100, 101, 20_000, 20_001]) == [0, 0, nil, 0])
    }

    @Test func oneWrongNumberChangesNothing() {
        #expect(Self.missing([100, 101, 20_000, 102, 103]) == [0, 0, nil, 0, 0])
        // Two wrong ones are no beginning when a right one came between them.
        #expect(Self.missing([100, 20_000, 101, 20_001, 102]) == [0, nil, 0, nil, 0])
        #expect(Self.missing([100, 20_000, 20_000, 101]) == [0, nil, nil, 0])
    }

    @Test func aMinuteIsAGapAndTwoSecondsAreLate() {
        let last = UInt16(PacketOrder.maxMissing)
        #expect(Self.missing([9, 10 + last]) == [0, Int(last)])
        #expect(Self.missing([9, 11 + last]) == [0, nil])
        let late = UInt16(PacketOrder.maxLateness)
        // A late one begins nothing, whatever follows it.
        #expect(Self.missing([999, 1_000 - late, 1_001 - late]) == [0, nil, nil])
        #expect(Self.missing([999, 999 - late, 1_000 - late]) == [0, nil, nil])
        #expect(Self.missing([999, 998 - late, 999 - late]) == [0, nil, 0])
    }
}
