// The natural voice itself, where it is installed; skipped elsewhere.

import Codec
import Session
import Testing

@testable import Agents

/// Shared by all tests: loading takes 0.2 s and 40 MB.
private let synthesizer = EmbeddedSynthesizer(modelsDirectory: modelsDirectory, engine: .natural)
private let voice = NaturalVoice(modelsDirectory: modelsDirectory) { _ in }

@Suite(.enabled(if: synthesizer.missingFile == nil, "no natural voice: run `make voice`"))
struct NaturalVoiceTests {
    private func chunks(
        _ text: String, voice: String = "marin", speed: Double = 1
    ) async throws -> [SpeechChunk] {
        let collected = Collected<SpeechChunk>()
        try await synthesizer.speak(
            SpeechRequest(text: text, voice: voice, speed: speed), on: ScriptedAgentHost()
        ) { collected.append($0) }
        return collected.all
    }

    private func seconds(_ chunks: [SpeechChunk]) -> Double {
        chunks.reduce(0) { $0 + Double($1.samples.count) / Double($1.rate.hertz) }
    }

    @Test(arguments: ["marin", "alloy", "shimmer"])
    func itsSpeechIsRecognised(name: String) async throws {
        let text = "Please send the blue folder to Doctor Tchaikovsky, and call me before seven."
        let recognizer = MoonshineRecognizer(modelsDirectory: modelsDirectory)
        try #require(recognizer.isInstalled, "no speech models: run `make models`")
        let chunks = try await chunks(text, voice: name)
        let rate = try #require(NaturalVoiceTable.rates[name])
        #expect(chunks.allSatisfy { $0.rate == rate && !$0.isSubstitute })
        #expect((3...7).contains(seconds(chunks)))
        var resampler = try Resampler(from: rate, to: .hz16000)
        let samples = chunks.flatMap(\.samples)
        var converted = [Int16](
            repeating: 0, count: resampler.maxOutputSamples(for: samples.count))
        let count = converted.withUnsafeMutableBufferPointer { output in
            samples.withUnsafeBufferPointer { resampler.process($0, into: output) }
        }
        converted.removeLast(converted.count - count)
        let transcript = try await recognizer.transcribe(
            Utterance(samples: converted), on: ScriptedAgentHost()
        ).text
        // Each run sounds a little different. "Dr." is the recogniser's spelling, and the name's is
        // free.
        #expect(Recording(file: "natural", words: text).wordErrors(in: transcript) <= 3)
    }

    @Test func theSoundComesInShortRunsWithoutTheSilenceAtItsEnds() async throws {
        let chunks = try await chunks("This is a sentence that takes a few seconds to say.")
        #expect(chunks.count > 5)
        #expect(chunks.allSatisfy { $0.samples.count <= 16 * 300 + 720 })
        #expect(chunks.dropLast().allSatisfy { $0.samples.count.isMultiple(of: 480) })
        let samples = chunks.flatMap(\.samples)
        let loud = samples.indices.filter { abs(Int(samples[$0])) > 400 }
        #expect(try #require(loud.first) < 2_400)
        #expect((4_800...9_600).contains(samples.count - (try #require(loud.last))))
        #expect((8_000...32_767).contains(samples.map { abs(Int($0)) }.max() ?? 0))
    }

    @Test func followsTheSpeed() async throws {
        let text = "How fast do I speak now, and how fast would you like me to speak?"
        let normal = seconds(try await chunks(text))
        #expect((1.6...2.5).contains(seconds(try await chunks(text, speed: 0.5)) / normal))
        #expect((0.5...0.85).contains(seconds(try await chunks(text, speed: 1.5)) / normal))
        // Another woman speaks as fast.
        #expect((0.85...1.15).contains(seconds(try await chunks(text, voice: "nova")) / normal))
    }

    @Test(arguments: ["", "  \n", "...", "?!", "\u{1}\u{2}", "👍"])
    func makesNoSoundForNothing(text: String) async throws {
        #expect(try await chunks(text).isEmpty)
    }

    @Test(arguments: ["x", "a b c d e f g", "!!!???,,,;;;a"])
    func speaksOddTexts(text: String) async throws {
        #expect(try await !chunks(text).isEmpty)
    }

    @Test func aLongTextIsSpokenInClauses() async throws {
        let text = String(repeating: "and then one more word without any mark ", count: 20)
        #expect(seconds(try await chunks(text)) > 25)
    }

    @Test func endsWhenTheConsumerFails() async throws {
        let pieces = Collected<Int>()
        await #expect(throws: CancellationError.self) {
            try await synthesizer.speak(
                SpeechRequest(text: "One long sentence that no user listens to.", voice: "marin"),
                on: ScriptedAgentHost()
            ) {
                pieces.append($0.samples.count)
                throw CancellationError()
            }
        }
        #expect(pieces.all.count == 1)
    }

    @Test func anInterruptedRunMakesNothing() throws {
        let model = try #require(voice.model())
        let interruption = ONNXInterruption()
        #expect(try model.spectra(of: "həlˈO.", speed: 1, until: interruption).count == 6)
        interruption.interrupt()
        for interruption in [interruption, ONNXInterruption()] {
            interruption.interrupt()
            #expect(throws: ONNXError.self) {
                try model.spectra(of: "həlˈO.", speed: 1, until: interruption)
            }
        }
        // Another run is not affected.
        #expect(try model.spectra(of: "həlˈO.", speed: 1).count == 6)
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
