// Noise reduction: steady noise is suppressed, a voice stays, and samples keep their order.

import Codec
import TestMaterial
import Testing

private func reduce(_ samples: [Int16], inPiecesOf size: Int) -> [Int16] {
    guard var reducer = NoiseReducer(decibels: 10) else { preconditionFailure("no memory") }
    var output: [Int16] = []
    var room = [Int16](repeating: 0, count: size + NoiseReducer.frameSamples)
    for start in stride(from: 0, to: samples.count, by: size) {
        let count = samples[start..<min(start + size, samples.count)].withUnsafeBufferPointer {
            piece in room.withUnsafeMutableBufferPointer { reducer.process(piece, into: $0) }
        }
        output += room[..<count]
    }
    return output
}

private func meanSquare(_ samples: some Collection<Int16>) -> Double {
    samples.reduce(0) { $0 + Double($1) * Double($1) } / Double(samples.count)
}

@Suite struct NoiseReducerTests {
    private let noise: [Int16] = {
        var numbers = SeededGenerator(seed: 11)
        return (0..<48_000).map { _ in Int16.random(in: -1_000...1_000, using: &numbers) }
    }()

    @Test func steadyNoiseIsSuppressed() throws {
        let output = reduce(noise, inPiecesOf: 320)
        // After one second, in which the noise is estimated: 10 dB are a factor of 10.
        let ratio = meanSquare(noise[32_000...]) / meanSquare(output[32_000...])
        #expect(ratio > 6 && ratio < 14)
    }

    @Test func aVoiceInNoiseStays() throws {
        // A buzz of 125 Hz that comes and goes four times a second, as syllables do.
        let voice = noise.indices.map { index in
            index / 2_000 % 2 == 0 ? 0 : (index % 128 < 20 ? 12_000 : -2_000)
        }
        let mixture = zip(noise, voice).map { Int16(clamping: Int($0) / 4 + $1) }
        let output = reduce(mixture, inPiecesOf: 320)
        #expect(meanSquare(output[16_000...]) > 0.5 * meanSquare(mixture[16_000...]))
    }

    @Test(arguments: [1, 37, 160, 320, 500, 2_880])
    func piecesOfAnySizeMakeTheSameStream(size: Int) throws {
        let input = Array(noise[..<8_000])
        let whole = reduce(input, inPiecesOf: 8_000)
        #expect(reduce(input, inPiecesOf: size) == whole)
        #expect(whole.count == 8_000)
    }

    @Test func whatIsNotAFrameWaits() throws {
        #expect(reduce(Array(noise[..<159]), inPiecesOf: 159).isEmpty)
        #expect(reduce(Array(noise[..<479]), inPiecesOf: 479).count == 320)
    }
}
