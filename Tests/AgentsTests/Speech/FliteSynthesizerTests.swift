// The embedded synthesis with its real voice. The recogniser checks that its speech is
// intelligible.

import Agents
import Codec
import Session
import Testing

@Suite struct FliteSynthesizerTests {
    private let synthesizer = FliteSynthesizer()

    private func chunks(
        _ text: String, speed: Double = 1, wantedPieces: Int = .max
    ) async throws -> [SpeechChunk] {
        let collected = Collected<SpeechChunk>()
        try await synthesizer.speak(
            SpeechRequest(text: text, voice: "marin", speed: speed),
            on: ScriptedAgentHost(wantedPieces: wantedPieces)
        ) { collected.append($0) }
        return collected.all
    }

    private func samples(_ text: String, speed: Double = 1) async throws -> [Int16] {
        try await chunks(text, speed: speed).flatMap(\.samples)
    }

    /// How much two runs differ: the energy of the difference divided by the energy of the first.
    /// It is 2 for unrelated runs. flite's noise is random, so equal texts do not give 0.
    private func difference(_ left: [Int16], _ right: [Int16]) -> Double {
        guard left.count == right.count else { return .infinity }
        var energy = 0.0
        var difference = 0.0
        for (one, other) in zip(left, right) {
            energy += Double(one) * Double(one)
            difference += (Double(one) - Double(other)) * (Double(one) - Double(other))
        }
        return difference / energy
    }

    @Test func streamsSpeechInPieces() async throws {
        let chunks = try await chunks("Hello, I am the voice of this server.")
        #expect(chunks.count > 5)
        #expect(chunks.allSatisfy { $0.rate == .hz16000 && !$0.samples.isEmpty })
        #expect(chunks.dropLast().allSatisfy { $0.samples.count <= 3_200 })
        let samples = chunks.flatMap(\.samples)
        #expect((16_000...80_000).contains(samples.count))
        #expect(samples.contains { abs(Int($0)) > 3_000 })
    }

    @Test func itsSpeechIsRecognised() async throws {
        let text = "The quick brown fox jumps over the lazy dog."
        let recognizer = MoonshineRecognizer(modelsDirectory: modelsDirectory)
        try #require(recognizer.isInstalled, "no speech models: run `make models`")
        let transcript = try await recognizer.transcribe(
            Utterance(samples: try await samples(text)), on: ScriptedAgentHost()
        ).text
        // flite's noise is random, so one word in nine may sometimes be misrecognised.
        #expect(Recording(file: "flite", words: text).wordErrors(in: transcript) <= 1)
    }

    @Test func makesTheSameSoundForTheSameText() async throws {
        let first = try await samples("Once more.")
        let difference = difference(first, try await samples("Once more."))
        #expect(difference < 0.1)
    }

    @Test func speaksConcurrentlyWithTheSameResult() async throws {
        let texts = [
            "One two three four five.", "Something else entirely, spoken at the same time.",
            "Numbers such as 1984 and 3.14 go through the lexicon too.",
        ]
        var expected: [[Int16]] = []
        for text in texts { expected.append(try await samples(text)) }
        try await withThrowingTaskGroup(of: (Int, [Int16]).self) { group in
            for round in 0..<24 {
                group.addTask { (round % 3, try await self.samples(texts[round % 3])) }
            }
            for try await (index, samples) in group {
                #expect(difference(samples, expected[index]) < 0.1)
            }
        }
    }

    @Test func stretchesWithTheSpeed() async throws {
        let text = "How fast do I speak now?"
        let normal = Double(try await samples(text).count)
        #expect((1.7...2.3).contains(Double(try await samples(text, speed: 0.5).count) / normal))
        #expect((0.6...0.75).contains(Double(try await samples(text, speed: 1.5).count) / normal))
        // A speed out of range is clamped, and does not affect the next request.
        let fastest = try await samples(text, speed: 1.5)
        #expect(fastest.count == (try await samples(text, speed: 100).count))
        #expect(Double(try await samples(text).count) == normal)
    }

    @Test(arguments: ["", "  \n", "...", "?!", "\u{1}\u{2}", "👍"])
    func makesNoSoundForNothing(text: String) async throws {
        #expect(try await chunks(text).isEmpty)
    }

    @Test func stopsWhenItsSoundIsRefused() async throws {
        let text = String(repeating: "A long sentence that nobody listens to. ", count: 4)
        #expect(try await chunks(text).count > 10)
        #expect(try await chunks(text, wantedPieces: 3).count == 3)
        // The voice is usable after it was stopped.
        #expect(try await samples("Once more.").count > 8_000)
    }

    @Test func endsWhenTheConsumerFails() async throws {
        await #expect(throws: CancellationError.self) {
            try await synthesizer.speak(
                SpeechRequest(text: "Hello.", voice: ""), on: ScriptedAgentHost()
            ) { _ in throw CancellationError() }
        }
    }
}
