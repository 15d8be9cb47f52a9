// The resampler: exact sample counts, the same samples for any pieces, and a clean spectrum.

import Foundation
import Testing

@testable import Codec

/// A pair of rates, in hertz.
struct RatePair: CustomTestStringConvertible, Sendable {
    let from: Int
    let to: Int

    var testDescription: String { "\(from) → \(to)" }

    func makeResampler() throws -> Resampler {
        try Resampler(from: SampleRate(hertz: from), to: SampleRate(hertz: to))
    }

    static let all = [8_000, 16_000, 24_000, 48_000].flatMap { from in
        [8_000, 16_000, 24_000, 48_000].map { RatePair(from: from, to: $0) }
    }
    static let odd = [
        RatePair(from: 44_100, to: 16_000), RatePair(from: 16_000, to: 44_100),
        RatePair(from: 22_050, to: 48_000), RatePair(from: 11_025, to: 8_000),
        RatePair(from: 47_999, to: 48_000), RatePair(from: 192_000, to: 4_000),
    ]
    static let downwards = all.filter { $0.to < $0.from }
}

/// Feeds pieces one by one and checks how many samples each gives.
private func resample(
    _ pieces: [ArraySlice<Int16>], with resampler: inout Resampler
) -> [Int16] {
    var output: [Int16] = []
    for piece in pieces {
        let expected = resampler.outputSamples(for: piece.count)
        let room = resampler.maxOutputSamples(for: piece.count)
        #expect(expected < room)
        output += Array(unsafeUninitializedCapacity: room) { samples, count in
            count = piece.withUnsafeBufferPointer { resampler.process($0, into: samples) }
        }
        #expect(output.count >= expected)
    }
    return output
}

private func resampleWhole(_ samples: [Int16], _ pair: RatePair) throws -> [Int16] {
    var resampler = try pair.makeResampler()
    return resample([samples[...]], with: &resampler)
}

@Suite struct ResamplerTests {
    @Test(arguments: RatePair.all + RatePair.odd)
    func anyPiecesGiveTheSameExactNumberOfSamples(_ pair: RatePair) throws {
        let input = tone(500, rate: pair.from, count: pair.from / 10 + 7)
        let expected = (input.count * pair.to + pair.from - 1) / pair.from
        let whole = try resampleWhole(input, pair)
        #expect(whole.count == expected)
        for (largest, seed) in [(1, 1), (7, 2), (313, 3), (5_000, 4)] as [(Int, UInt64)] {
            var resampler = try pair.makeResampler()
            let pieces = randomPieces(of: input, largest: largest, seed: seed)
            #expect(resample(pieces, with: &resampler) == whole, "pieces of 1…\(largest)")
        }
    }

    @Test(arguments: RatePair.all)
    func packetsOfTwentyMillisecondsStayThatLong(_ pair: RatePair) throws {
        var resampler = try pair.makeResampler()
        let packet = [Int16](repeating: 100, count: pair.from / 50)
        for _ in 0..<50 {
            #expect(resample([packet[...]], with: &resampler).count == pair.to / 50)
        }
    }

    @Test(arguments: RatePair.all)
    func keepsATone(_ pair: RatePair) throws {
        // 1,000 Hz, and 80% of the highest frequency at the lower rate.
        for hertz in [1_000, Double(min(pair.from, pair.to)) * 0.4] {
            let output = try resampleWhole(tone(hertz, rate: pair.from, count: pair.from), pair)
            let fit = ToneFit(output.dropFirst(pair.to / 10), hertz: hertz, rate: pair.to)
            #expect(fit.signalToNoise > 75, "at \(hertz) Hz")
            #expect(abs(fit.amplitude / 16_000 - 1) < 0.003, "at \(hertz) Hz")
        }
    }

    @Test(arguments: RatePair.downwards)
    func suppressesWhatTheLowerRateCannotHold(_ pair: RatePair) throws {
        for part in [0.55, 0.6, 0.75, 0.99] {
            let hertz = Double(pair.to) * part
            guard hertz < Double(pair.from) / 2 else { continue }
            let input = tone(hertz, rate: pair.from, count: pair.from / 2)
            let output = try resampleWhole(input, pair).dropFirst(pair.to / 10)
            let level = 10 * log10(power(output) / power(input) + 1e-12)
            #expect(level < -80, "at \(hertz) Hz")
        }
    }

    @Test(arguments: [RatePair(from: 48_000, to: 16_000), RatePair(from: 16_000, to: 48_000)])
    func lagsByItsLatency(_ pair: RatePair) throws {
        var resampler = try pair.makeResampler()
        var input = [Int16](repeating: 0, count: pair.from / 10)
        input[0] = 30_000
        let output = resample([input[...]], with: &resampler)
        let peak = output.indices.max { output[$0] < output[$1] }
        #expect(peak == resampler.latencySamples)
        #expect(resampler.latencySamples * 1_000 == pair.to * 2)
    }

    @Test func saturatesInsteadOfWrapping() throws {
        let pair = RatePair(from: 16_000, to: 48_000)
        let input = (0..<1_600).map { $0 / 40 % 2 == 0 ? Int16.max : Int16.min }
        let output = try resampleWhole(input, pair)
        let lag = 96
        for (index, sample) in output.enumerated() where index >= lag {
            // Away from the edges, overshoot must not come back with the other sign.
            let position = (index - lag) % 120
            guard (6..<114).contains(position) else { continue }
            #expect((sample > 20_000) == ((index - lag) / 120 % 2 == 0), "sample \(index)")
        }
    }

    @Test func equalRatesCopy() throws {
        var resampler = try Resampler(from: .hz24000, to: .hz24000)
        let input = tone(700, rate: 24_000, count: 1_001)
        #expect(resample([input[...]], with: &resampler) == input)
        #expect(resampler.latencySamples == 0)
    }

    @Test(arguments: RatePair.odd)
    func resetStartsAnotherStream(_ pair: RatePair) throws {
        var resampler = try pair.makeResampler()
        let input = tone(300, rate: pair.from, count: 1_003)
        let first = resample([input[...]], with: &resampler)
        resampler.reset()
        #expect(resample([input[...]], with: &resampler) == first)
    }

    @Test func emptyInputGivesNoOutput() throws {
        var resampler = try Resampler(from: .hz48000, to: .hz16000)
        #expect(resample([[]], with: &resampler).isEmpty)
    }

    @Test(arguments: [3_999, 192_001, 1, .max])
    func refusesUnreasonableRates(_ hertz: Int) {
        let rate = SampleRate(hertz: hertz)
        #expect(throws: ResamplerError.unsupportedRate(hertz: hertz)) {
            _ = try Resampler(from: rate, to: .hz16000)
        }
        #expect(throws: ResamplerError.unsupportedRate(hertz: hertz)) {
            _ = try Resampler(from: .hz16000, to: rate)
        }
    }
}
