// The natural voice itself, where `make voice` has installed it; skipped elsewhere.

import Codec
import Session
import Testing

@testable import Agents

/// Shared by all tests: loading takes a second and 100 MB.
private let synthesizer = EmbeddedSynthesizer(modelsDirectory: modelsDirectory, engine: .flite)

@Suite(.enabled(if: synthesizer.missingFile == nil, "no natural voice: run `make voice`"))
struct NaturalVoiceTests {
    private func chunks(
        _ text: String, speed: Double = 1, on host: ScriptedAgentHost = ScriptedAgentHost()
    ) async throws -> [SpeechChunk] {
        let collected = Collected<SpeechChunk>()
        try await synthesizer.speak(
            SpeechRequest(text: text, voice: "natural", speed: speed), on: host
        ) { collected.append($0) }
        return collected.all
    }

    private func seconds(_ chunks: [SpeechChunk]) -> Double {
        Double(chunks.reduce(0) { $0 + $1.samples.count }) / 22_050
    }

    @Test func itsSpeechIsRecognised() async throws {
        let text = "Please send the blue folder to Doctor Tchaikovsky, and call me before seven."
        let recognizer = MoonshineRecognizer(modelsDirectory: modelsDirectory)
        try #require(recognizer.isInstalled, "no speech models: run `make models`")
        let chunks = try await chunks(text)
        #expect(chunks.allSatisfy { $0.rate.hertz == 22_050 && !$0.isSubstitute })
        var resampler = try Resampler(from: chunks[0].rate, to: .hz16000)
        let samples = chunks.flatMap(\.samples)
        var converted = [Int16](
            repeating: 0, count: resampler.maxOutputSamples(for: samples.count))
        let count = converted.withUnsafeMutableBufferPointer { output in
            samples.withUnsafeBufferPointer { resampler.process($0, into: output) }
        }
        converted.removeLast(converted.count - count)
        let transcript = try await recognizer.transcribe(
            Utterance(samples: converted), on: ScriptedAgentHost())
        // Each run sounds a little different. "Dr." is the recogniser's spelling, and the name's is
        // free.
        #expect(Recording(file: "natural", words: text).wordErrors(in: transcript) <= 3)
    }

    @Test func theFirstRunsAreShort() async throws {
        let chunks = try await chunks("This is a sentence that takes a few seconds to say.")
        // 16 frames, rounded down to 20 ms; then 32.
        let first: Int = 16 * 256 / 441 * 441
        #expect(chunks[0].samples.count == first)
        #expect(chunks[1].samples.count <= 32 * 256 + 441)
        #expect(chunks.dropLast().allSatisfy { $0.samples.count.isMultiple(of: 441) })
        let peak = chunks.flatMap(\.samples).map { abs(Int($0)) }.max() ?? 0
        #expect(peak > 3_000)
    }

    @Test func theWindowsJoinToTheWhole() throws {
        let model = try NaturalVoice(modelsDirectory: modelsDirectory).model()
        let frames = try model.frames(of: "ðɪs ɪz ɐ hˈoʊl sˈɛntəns.", speed: 1)
        let whole = DecodingWindow(frames: 0..<frames.count, input: 0..<frames.count)
        let expected = try model.sound(of: whole, in: frames)
        let joined = try DecodingWindows(frames: frames.count).flatMap {
            try model.sound(of: $0, in: frames)
        }
        try #require(joined.count == expected.count)
        #expect(zip(joined, expected).allSatisfy { abs(Int($0) - Int($1)) <= 2 })
    }

    @Test func followsTheSpeed() async throws {
        let text = "How fast do I speak now, and how fast would you like me to speak?"
        let normal = seconds(try await chunks(text))
        #expect((1.6...2.5).contains(seconds(try await chunks(text, speed: 0.5)) / normal))
        #expect((0.5...0.85).contains(seconds(try await chunks(text, speed: 1.5)) / normal))
    }

    @Test(arguments: ["", "  \n", "...", "?!", "\u{1}\u{2}", "👍"])
    func makesNoSoundForNothing(text: String) async throws {
        #expect(try await chunks(text).isEmpty)
    }

    @Test(arguments: ["x", "a b c d e f g", "!!!???,,,;;;a", "'s 'd 'll"])
    func speaksOddTexts(text: String) async throws {
        #expect(try await !chunks(text).isEmpty)
    }

    @Test func aLongTextIsSpokenInClausesWhoseMemoryIsCharged() async throws {
        let host = ScriptedAgentHost()
        let text = String(repeating: "and then one more word without any mark ", count: 20)
        let chunks = try await chunks(text, on: host)
        #expect(seconds(chunks) > 25)
        #expect(host.charged.now == 0)
        #expect((200_000...4_000_000).contains(host.charged.most))
    }

    @Test func endsWhenTheConsumerFails() async throws {
        let pieces = Collected<Int>()
        await #expect(throws: CancellationError.self) {
            try await synthesizer.speak(
                SpeechRequest(text: "One long sentence that nobody listens to.", voice: "natural"),
                on: ScriptedAgentHost()
            ) {
                pieces.append($0.samples.count)
                throw CancellationError()
            }
        }
        #expect(pieces.all.count == 1)
    }

    @Test func speaksOnSeveralThreads() async throws {
        try await withThrowingTaskGroup(of: Double.self) { group in
            for _ in 0..<4 {
                group.addTask { self.seconds(try await self.chunks("One two three four five.")) }
            }
            for try await length in group { #expect((0.8...4).contains(length)) }
        }
    }
}
