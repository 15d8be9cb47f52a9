// 4-bit ADPCM codes: the decoder reaches the encoder's state wherever decoding begins, and every
// sample can be encoded.

import Codec
import Testing

@Suite struct ADPCMTests {
    private func coded(_ samples: [Int16], pieces: Int) -> (codes: [UInt8], end: ADPCM) {
        var coder = ADPCM()
        var codes = [UInt8](repeating: 0, count: (samples.count + 1) / 2)
        codes.withUnsafeMutableBytes { codes in
            samples.withUnsafeBufferPointer { samples in
                for start in stride(from: 0, to: samples.count, by: pieces) {
                    let end = min(samples.count, start + pieces)
                    coder.encode(
                        UnsafeBufferPointer(rebasing: samples[start..<end]), into: codes, at: start)
                }
            }
        }
        return (codes, coder)
    }

    private func decoded(
        _ codes: [UInt8], count: Int, from state: ADPCM = ADPCM()
    ) -> (samples: [Int16], end: ADPCM) {
        var decoder = state
        let samples = [Int16](unsafeUninitializedCapacity: count) { room, filled in
            codes.withUnsafeBytes {
                decoder.decode($0, into: UnsafeMutableBufferPointer(rebasing: room[..<count]))
            }
            filled = count
        }
        return (samples, decoder)
    }

    private let tone = (0..<4_001).map { index in
        // A sweep without trigonometry: a triangle whose period shrinks.
        let period = 160 - index / 40
        let place = index % period
        return Int16((abs(2 * place - period) - period / 2) * 120)
    }

    @Test func silenceStaysSilent() {
        let silence = [Int16](repeating: 0, count: 1_000)
        #expect(decoded(coded(silence, pieces: 320).codes, count: 1_000).samples == silence)
    }

    @Test func aDecoderEndsWhereTheCoderDoes() {
        let whole = coded(tone, pieces: tone.count)
        let (samples, end) = decoded(whole.codes, count: tone.count)
        #expect(end == whole.end)
        let noise = zip(tone, samples).reduce(0.0) { sum, pair in
            let error = Double(pair.0) - Double(pair.1)
            return sum + error * error
        }
        let signal = tone.reduce(0.0) { $0 + Double($1) * Double($1) }
        #expect(noise * 10 < signal, "\(signal / noise)")
    }

    @Test(arguments: [1, 7, 320, 1_919])
    func piecesMakeTheSameCodes(length: Int) {
        #expect(coded(tone, pieces: length).codes == coded(tone, pieces: tone.count).codes)
    }

    @Test func aDecoderMayBeginAnywhereWithTheCodersState() {
        let (first, state) = coded(Array(tone[..<2_000]), pieces: 320)
        #expect(decoded(first, count: 2_000).end == state)
        let whole = coded(tone, pieces: 320).codes
        let rest = decoded(Array(whole[1_000...]), count: 2_001, from: state).samples
        #expect(rest == Array(decoded(whole, count: 4_001).samples[2_000...]))
    }

    @Test func theLoudestSoundDoesNotOverflow() {
        let loud = (0..<2_000).map { $0 / 25 % 2 == 0 ? Int16.min : Int16.max }
        let samples = decoded(coded(loud, pieces: 320).codes, count: 2_000).samples
        // Once the step has grown, each half wave is reached in full.
        #expect(samples[1_000...].min()! < -30_000 && samples[1_000...].max()! > 30_000)
    }

    @Test func anyBytesDecode() {
        let bytes = (0..<1_000).map { UInt8(truncatingIfNeeded: $0 * 167 + 13) }
        let state = ADPCM(predictor: .min, stepIndex: 255)
        #expect(decoded(bytes, count: 2_000, from: state).samples.count == 2_000)
    }
}
