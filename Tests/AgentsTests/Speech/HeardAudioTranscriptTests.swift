// Compares the transcripts of stored user audio with those of the original samples, for both forms
// of storage and every recording.

import Codec
import Testing

@testable import Agents
@testable import Session

@Suite struct HeardAudioTranscriptTests {
    private static let recognizer = MoonshineRecognizer(modelsDirectory: modelsDirectory)

    private func words(_ samples: [Int16]) throws -> [String] {
        try #require(
            Self.recognizer.isInstalled,
            "the speech models are not in \(modelsDirectory): run `make models`")
        return Recording.normalised(try Self.recognizer.words(in: samples[...]))
    }

    @Test(arguments: Recording.all)
    func storedCodesAreRecognisedLikeSamples(recording: Recording) throws {
        let samples = try recording.samples()
        let kept = try HeardAudio(samples: samples).samples()
        let (signal, noise) = zip(samples, kept).reduce((0.0, 1.0)) { sums, pair in
            let error = Double(pair.0) - Double(pair.1)
            return (sums.0 + Double(pair.0) * Double(pair.0), sums.1 + error * error)
        }
        // A ratio of 25 is 14 dB. The lowest recording, the card games, has 15 dB.
        #expect(signal > 25 * noise, "\(signal / noise)")
        // The card games are so noisy that the recogniser is unsure of a word, whose choice depends on
        // the processor's arithmetic.
        let (stored, original) = try (words(kept), words(samples))
        let reference = Recording(file: recording.file, words: original.joined(separator: " "))
        let errors = reference.wordErrors(in: stored.joined(separator: " "))
        #expect(errors <= 1, "\(stored) instead of \(original)")
    }

    @Test(arguments: Recording.all)
    func storedPacketsAreRecognisedLikeDecodedSamples(recording: Recording) throws {
        let samples = try recording.samples()
        var encoder = try OpusEncoder(rate: .hz16000)
        var decoder = try OpusInput()
        var kept = HeardAudio()
        var heard: [Int16] = []
        let scratch = AudioScratch()
        for start in stride(from: 0, to: samples.count - 320, by: 320) {
            var packet = [UInt8](repeating: 0, count: OpusEncoder.maxPacketBytes)
            let count = try samples[start..<start + 320].withUnsafeBufferPointer { run in
                try packet.withUnsafeMutableBytes { try encoder.encode(run, into: $0) }
            }
            packet.removeSubrange(count...)
            kept.beginPacket(packet.span.bytes, missing: nil)
            decoder.begin(packet.span.bytes, missing: nil)
            while let run = decoder.next(of: packet.span.bytes, into: scratch.decoded) {
                kept.append(run)
                heard += run
            }
            kept.endPacket()
        }
        // A turn begins in the middle of the stream.
        let part = try kept.part(3_000..<kept.end).samples()
        #expect(try words(part) == words(Array(heard[3_000...])))
    }
}
