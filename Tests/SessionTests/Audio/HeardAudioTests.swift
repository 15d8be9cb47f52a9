// A user's audio in compact form: both forms decode to what was heard, at its place, whatever is
// dropped and taken in between, and the memory stays within its bounds.

import COpus
import Codec
import TestMaterial
import Testing

@testable import Session

/// A stream of packets as it was heard live, and as it is kept.
private final class KeptStream {
    var kept = HeardAudio()
    /// What the live decoder said, from the stream's beginning.
    var heard: [Int16] = []
    /// Where samples may differ: after a decoder had to begin in the middle of the stream.
    private var unsure: [Range<Int>] = []
    private var input: OpusInput
    private let scratch = AudioScratch()

    init() throws { input = try OpusInput() }

    func receive(_ packet: [UInt8], missing: Int? = nil) {
        let before = heard.count
        var (kept, heard) = (self.kept, self.heard)
        self.kept = HeardAudio()
        kept.beginPacket(packet.span.bytes, missing: missing)
        _ = input.decode(
            packet.span.bytes, missing: missing, into: scratch.decoded
        ) {
            kept.append($0)
            heard += $0
        }
        kept.endPacket()
        (self.kept, self.heard) = (kept, heard)
        // Concealed audio is partly random, and differs where the decoder began elsewhere.
        if missing ?? 0 > 0 { unsure.append(before..<heard.count + 4_800) }
    }

    func append(_ samples: [Int16]) {
        samples.withUnsafeBufferPointer { kept.append($0) }
        heard += samples
    }

    /// Forgets what lies before a position; at the end, everything.
    func discard(before position: Int) {
        kept.discard(before: position)
        if position == heard.count { unsure.append(position..<position + 4_800) }
    }

    /// The signal-to-noise ratio of the kept audio against what was heard, in decibels.
    func fidelity(_ audio: HeardAudio) throws -> Double {
        let samples = try audio.samples()
        try #require(samples.count == audio.sampleCount)
        var (signal, noise) = (1e4 * Double(samples.count), 1.0)
        for (index, sample) in samples.enumerated() {
            let position = audio.start + index
            guard !unsure.contains(where: { $0.contains(position) }) else { continue }
            let (was, error) = (Double(heard[position]), Double(heard[position]) - Double(sample))
            signal += was * was
            noise += error * error
        }
        return decibels(signal / noise)
    }
}

private func decibels(_ ratio: Double) -> Double {
    // Ten times the decimal logarithm, from the exponent and a line: exact enough for bounds.
    3.0103 * (Double(ratio.exponent) + ratio.significand - 1)
}

@Suite struct HeardAudioTests {
    private static func packets(bitrate: Int32 = 24_000, channels: Int = 1) throws -> [[UInt8]] {
        try OpusSender(channels: channels, (OPUS_SET_BITRATE_REQUEST, bitrate))
            .packets(of: SpeechRecording.goForward.samplesAt48Kilohertz(), length: 960)
    }

    @Test func packetsDecodeToWhatWasHeard() throws {
        let stream = try KeptStream()
        for packet in try Self.packets() { stream.receive(packet) }
        #expect(try stream.kept.samples() == stream.heard)
        // A tenth of the samples, in whole pieces.
        #expect(stream.kept.heldBytes * 7 < stream.heard.count * 2)
    }

    @Test func aPartDecodesToWhatWasHeardThere() throws {
        let stream = try KeptStream()
        for packet in try Self.packets() { stream.receive(packet) }
        for start in stride(from: 1_000, to: 40_000, by: 4_321) {
            let part = stream.kept.part(start..<start + 4_000)
            #expect(try stream.fidelity(part) > 25, "at \(start)")
        }
    }

    @Test func lossesSilenceAndRefusedPacketsAreKeptToo() throws {
        let stream = try KeptStream()
        for (index, packet) in try Self.packets().enumerated() {
            switch index % 20 {
            case 7: stream.receive(packet, missing: 3)
            case 8...11: continue
            case 12: stream.receive([], missing: 0)
            case 15: stream.receive([0xFF, 0xFF, 1, 2, 3], missing: nil)
            case 18: stream.receive(packet, missing: index == 98 ? 400 : 1)
            default: stream.receive(packet, missing: 0)
            }
        }
        #expect(try stream.kept.samples() == stream.heard)
    }

    @Test func samplesAreCodedInAQuarterOfTheirSize() throws {
        for recording in [SpeechRecording.goForward, .sentence] {
            let stream = try KeptStream()
            stream.append(recording.samples)
            #expect(try stream.fidelity(stream.kept) > 20)
            #expect(stream.kept.heldBytes < recording.samples.count * 2 * 30 / 100)
        }
    }

    /// 128 kb/s take twice what codes do: from some point on, codes go on.
    @Test func packetsAboveTheRateOfCodesAreCoded() throws {
        let stream = try KeptStream()
        let packets = try Self.packets(bitrate: 128_000, channels: 2)
        for packet in packets + packets + packets + packets { stream.receive(packet) }
        let seconds = stream.heard.count / 16_000
        #expect(stream.kept.heldBytes < 8_192 * seconds + 16_384)
        #expect(try stream.fidelity(stream.kept) > 20)
    }

    @Test func aFloodOfLargeRefusedPacketsTakesNoMoreThanCodes() throws {
        let stream = try KeptStream()
        let junk = [UInt8](repeating: 0xFF, count: 900)
        for _ in 0..<1_000 { stream.receive(junk) }
        for _ in 0..<1_000 { stream.receive([UInt8](repeating: 0xFF, count: 60_000)) }
        #expect(stream.kept.sampleCount == 2_000 * 320)
        #expect(stream.kept.heldBytes < 2_000 * 320 / 2 + 32_768)
    }

    /// The buffer against a plain array: sizes exactly, sound closely.
    @Test(arguments: 1...12)
    func randomOperationsKeepTheTimeline(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let packets = try Self.packets(bitrate: seed % 3 == 0 ? 96_000 : 24_000)
        let stream = try KeptStream()
        var start = 0
        var next = 0
        let usesSamples = seed % 2 == 0
        // Sounds that begin and end anywhere are what codes follow least.
        let leastFidelity = usesSamples ? 8.0 : 15
        for _ in 0..<400 {
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<85:
                let missing = Int.random(in: 0..<40, using: &random) == 0 ? 2 : 0
                next += 1 + missing
                stream.receive(packets[next % packets.count], missing: missing)
            case 85..<88 where usesSamples:
                let count = Int.random(in: 0..<3_000, using: &random)
                let from = Int.random(in: 0..<40_000, using: &random)
                stream.append(Array(SpeechRecording.goForward.samples[from..<from + count]))
            case 88..<95:
                start = Int.random(in: start...stream.heard.count, using: &random)
                stream.discard(before: start)
            case 95..<96:
                let taken = stream.kept.part(start..<stream.heard.count)
                if taken.sampleCount > 4_000 {
                    #expect(try stream.fidelity(taken) > leastFidelity, "seed \(seed)")
                }
                stream.discard(before: stream.heard.count)
                start = stream.heard.count
            default:
                let first = Int.random(in: start...stream.heard.count, using: &random)
                let last = Int.random(in: first...stream.heard.count, using: &random)
                let part = stream.kept.part(first..<last)
                #expect(part.start == first && part.sampleCount == last - first)
                // The first codes of all have a long way to go.
                guard last - first > 4_000 else { continue }
                #expect(try stream.fidelity(part) > leastFidelity, "seed \(seed)")
            }
            #expect(stream.kept.start == start && stream.kept.end == stream.heard.count)
            // Codes, the slack, pieces begun at either end, and packets before the first sample.
            #expect(stream.kept.heldBytes < stream.kept.sampleCount * 6 / 10 + 16_000)
        }
    }

    @Test func aTurnTakenInTheMiddleOfAPacketHasItsBeginningAndTheNextTurnItsRest() throws {
        let stream = try KeptStream()
        let packets = try Self.packets()
        for packet in packets[..<60] { stream.receive(packet) }
        var decoder = try OpusInput()
        let scratch = AudioScratch()
        for packet in packets[..<60] {
            _ = decoder.decode(
                packet.span.bytes, missing: nil, into: scratch.decoded
            ) { _ in }
        }
        var kept = stream.kept
        var taken: HeardAudio?
        var live: [Int16] = []
        let packet = packets[60]
        kept.beginPacket(packet.span.bytes, missing: nil)
        _ = decoder.decode(
            packet.span.bytes, missing: nil, into: scratch.decoded
        ) { samples in
            live += samples
            kept.append(UnsafeBufferPointer(rebasing: samples[..<100]))
            taken = kept.part(kept.end - 1_000..<kept.end)
            kept.removeAll()
            kept.append(UnsafeBufferPointer(rebasing: samples[100...]))
        }
        kept.endPacket()
        let beginning = try #require(taken).samples().suffix(100)
        #expect(correlation(beginning, live[..<100]) > 0.99)
        #expect(correlation(try kept.samples(), Array(live[100...])) > 0.99)
    }
}
