// The embedded recogniser with its real model on real speech. Without the models these tests fail
// instead of being skipped.

import Agents
import Session
import Synchronization
import TestMaterial
import Testing

@Suite struct MoonshineRecognizerTests {
    /// Shared by all tests: loading takes half a second and 120 MB.
    private static let recognizer = MoonshineRecognizer(
        modelsDirectory: modelsDirectory,
        voiceActivity: try? VoiceActivityModel(weights: InstalledModels.voiceActivityWeights))

    private func transcript(of samples: [Int16]) async throws -> String {
        try #require(
            Self.recognizer.isInstalled,
            "the speech models are not in \(modelsDirectory): run `make models`")
        return try await Self.recognizer.transcribe(
            Utterance(samples: samples), on: ScriptedAgentHost()
        ).text
    }

    /// A push-to-talk client sends what is silent before the first word, too.
    @Test(arguments: [0, 8_000, 16_000, 48_000])
    func recognisesSpeechAfterSilenceWithAWordErrorRateOfAtMostEightPercent(
        silentSamples: Int
    ) async throws {
        let silence = [Int16](repeating: 0, count: silentSamples)
        var errors = 0
        var words = 0
        var report: [String] = []
        for recording in Recording.all {
            let transcript = try await transcript(of: silence + recording.samples())
            let missed = recording.wordErrors(in: transcript)
            errors += missed
            words += recording.wordCount
            if missed > 0 { report.append("\(recording.file): \(transcript)") }
        }
        #expect(errors * 100 <= words * 8, "\(errors) of \(words) words; \(report)")
    }

    @Test func recognisesEveryWordOfALongUtteranceThatIsCut() async throws {
        let parts = Recording.all.filter { $0.file.hasPrefix("librivox") }
        let pause = [Int16](repeating: 0, count: 4_000)
        var samples: [Int16] = []
        // Twice the five recordings: about 50 s.
        for part in parts + parts { samples += try part.samples() + pause }
        #expect(samples.count > 15 * 16_000)
        let whole = Recording(
            file: "whole", words: (parts + parts).map(\.words).joined(separator: " "))
        let errors = whole.wordErrors(in: try await transcript(of: samples))
        #expect(errors * 100 <= whole.wordCount * 8, "\(errors) of \(whole.wordCount) words")
    }

    @Test func decodesConcurrentlyWithTheSameResult() async throws {
        let recording = Recording.all[0]
        let samples = try recording.samples()
        let expected = try await transcript(of: samples)
        let transcripts = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<6 { group.addTask { try await self.transcript(of: samples) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(transcripts == Array(repeating: expected, count: 6))
        #expect(recording.wordErrors(in: expected) == 0)
    }

    /// The tokens of a beginning save time, and change no word, right or wrong.
    @Test func hearsTheSameAfterABeginningWasRecognised() async throws {
        let samples = try Recording.all[0].samples()
        let (growing, wrong) = (EarlierRecognition(), EarlierRecognition())
        wrong.tokens = [5_000, 400, 2, 1, 29_000]
        for end in stride(from: 16_000, through: samples.count, by: 8_000) {
            var utterance = Utterance(samples: Array(samples[..<end]))
            let alone = try await transcript(of: Array(samples[..<end]))
            for earlier in [growing, wrong] {
                utterance.earlier = earlier
                let text = try await Self.recognizer.transcribe(
                    utterance, on: ScriptedAgentHost()
                ).text
                #expect(text == alone)
            }
        }
        #expect(!growing.tokens.isEmpty && growing.tokens == wrong.tokens)
    }

    @Test func aCancellationEndsTheRunOfTheModel() async throws {
        let utterance = Utterance(samples: SpeechRecording.goForward.samples)
        let task = Task {
            try await Self.recognizer.transcribe(utterance, on: CancellingHost())
        }
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test(arguments: [0, 1, 1_599, 1_600, 16_000, 80_000])
    func recognisesNothingInSilence(sampleCount: Int) async throws {
        let silence = [Int16](repeating: 0, count: sampleCount)
        #expect(try await transcript(of: silence) == "")
    }

    @Test func theErrorSaysHowToInstallTheModels() async throws {
        let recognizer = MoonshineRecognizer(modelsDirectory: "/nonexistent")
        let expected = AgentError.unavailable(
            message: "Speech recognition is not installed: run `make models`.")
        #expect(!recognizer.isInstalled)
        #expect(throws: expected) { try recognizer.prepare() }
        for count in [10, 16_000] {
            await #expect(throws: expected) {
                try await recognizer.transcribe(
                    Utterance(samples: [Int16](repeating: 0, count: count)),
                    on: ScriptedAgentHost())
            }
        }
    }

    /// All event loops ask for the model when the first session that will be heard opens on each.
    @Test func onlyOneWorkerLoadsTheModelAheadOfItsUse() async {
        let recognizer = MoonshineRecognizer(modelsDirectory: "/nonexistent")
        let host = WorkCountingHost()
        for _ in 0..<3 { await recognizer.prepare(on: host) }
        #expect(host.jobs == 1)
    }
}

/// Counts the jobs for the worker pool.
private final class WorkCountingHost: HostWithoutServices {
    private let count = Atomic(0)

    var jobs: Int { count.load(ordering: .relaxed) }

    func sleep(for duration: Duration) async throws {}

    func compute<Result: Sendable>(
        _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        count.add(1, ordering: .relaxed)
        return try work()
    }
}
