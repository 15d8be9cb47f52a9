// The recognition of other languages with its real model on real speech: a Frenchwoman's prompts and an
// American's, from Debian's asterisk-core-sounds. Without the models these tests fail instead of being
// skipped. `make bench-languages` has five languages.

import Agents
import Codec
import Foundation
import Session
import Synchronization
import TestMaterial
import Testing

@Suite struct WhisperRecognizerTests {
    private static let voiceActivity = try? VoiceActivityModel(
        weights: InstalledModels.voiceActivityWeights)
    /// Shared by all tests: loading takes a second and 170 MB.
    private static let whisper = WhisperRecognizer(
        modelsDirectory: modelsDirectory, voiceActivity: voiceActivity)
    private static let choosing = LanguageRecognizer(
        languages: ["en", "es", "fr", "it", "ru"],
        single: [
            "en": MoonshineRecognizer(
                modelsDirectory: modelsDirectory, voiceActivity: voiceActivity)
        ], whisper: whisper)

    /// French prompts, with their words.
    private static let french = [
        ("agent-loginok", "vous êtes maintenant en ligne"),
        ("agent-newlocation", "le nouveau numéro de poste"),
        ("all-circuits-busy-now", "toutes les lignes sont occupées pour l'instant"),
    ]

    private func heard(
        _ samples: [Int16], language: String? = nil,
        by recognizer: any SpeechRecognizer = choosing, on host: any AgentHost = ScriptedAgentHost()
    ) async throws -> Transcript {
        let missing = Self.whisper.missingFile
        try #require(missing == nil, "run `make languages`: \(missing ?? "")")
        return try await recognizer.transcribe(
            Utterance(samples: samples, language: language), on: host)
    }

    @Test(arguments: french)
    func hearsFrench(prompt: String, words: String) async throws {
        let samples = try SpokenPrompts.samples(of: [prompt], in: "fr")
        for language in [nil, "fr", "fr-CA"] {
            let transcript = try await heard(samples, language: language)
            #expect(transcript.language == "fr")
            let text = transcript.text.lowercased()
            let missed = words.split(separator: " ").filter { !text.contains($0) }
            #expect(missed.count <= 1, "\(transcript.text)")
        }
    }

    @Test func leavesEnglishToTheEnglishModel() async throws {
        let samples = SpeechRecording.sentence.samples
        let transcript = try await heard(samples)
        let english = try await heard(samples, language: "en")
        #expect(transcript == english && english.language == "en" && !english.text.isEmpty)
    }

    @Test func choosesAmongTheLanguagesThatAreNamed() async throws {
        let samples = try SpokenPrompts.samples(of: ["agent-newlocation"], in: "fr")
        let others = LanguageRecognizer(
            languages: ["it", "ru"], single: [:], whisper: Self.whisper)
        let transcript = try await heard(samples, by: others)
        #expect(["it", "ru"].contains(transcript.language))
        // A client may expect others than the operator.
        var utterance = Utterance(samples: samples)
        utterance.languages = ["de", "fr"]
        let named = try await others.transcribe(utterance, on: ScriptedAgentHost())
        #expect(named.language == "fr")
    }

    @Test func hearsAllOfALongUtteranceThatIsCut() async throws {
        let prompts = Self.french.map(\.0)
        let pause = [Int16](repeating: 0, count: 8_000)
        var samples: [Int16] = []
        while samples.count < 20 * 16_000 {
            for prompt in prompts {
                samples += try SpokenPrompts.samples(of: [prompt], in: "fr") + pause
            }
        }
        let text = try await heard(samples, language: "fr").text.lowercased()
        #expect(text.split(separator: " ").count > 40, "\(text)")
        #expect(text.ranges(of: "toutes les lignes").count >= 2, "\(text)")
    }

    @Test(arguments: [0, 100, 1_600, 16_000, 80_000])
    func hearsNothingInSilence(sampleCount: Int) async throws {
        var noise = SeededGenerator(seed: 1)
        let samples = (0..<sampleCount).map { _ in Int16.random(in: -30...30, using: &noise) }
        #expect(try await heard(samples, language: "fr").text == "")
        #expect(try await heard(samples).text == "")
    }

    /// Other sessions' jobs run between, and a cancellation takes effect.
    @Test func worksInPieces() async throws {
        let samples = try SpokenPrompts.samples(of: ["agent-newlocation"], in: "fr")
        let host = CountingHost()
        _ = try await heard(samples, language: "fr", by: Self.whisper, on: host)
        let pieces = host.pieces
        #expect(pieces > 5)
        let stopped = CountingHost(stopsAfter: 4)
        await #expect(throws: CancellationError.self) {
            _ = try await heard(samples, language: "fr", by: Self.whisper, on: stopped)
        }
        #expect(stopped.pieces == 4)
    }

    @Test func aCancellationEndsTheRunOfTheModel() async throws {
        let samples = try SpokenPrompts.samples(of: ["agent-newlocation"], in: "fr")
        let task = Task {
            try await heard(samples, language: "fr", by: Self.whisper, on: CancellingHost())
        }
        await #expect(throws: CancellationError.self) { try await task.value }
    }

    @Test func tokensOfAnotherModelAreAnError() async throws {
        try #require(Self.whisper.missingFile == nil, "run `make languages`")
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "whisper-\(UInt64.random(in: 0...(.max)))")
        defer { try? FileManager.default.removeItem(at: folder) }
        let own = folder.appending(path: "whisper-base")
        try FileManager.default.createDirectory(at: own, withIntermediateDirectories: true)
        for file in ["whisper-base/encoder.onnx", "whisper-base/decoder.onnx", "sherpa-onnx"] {
            try FileManager.default.createSymbolicLink(
                atPath: folder.appending(path: file).path(),
                withDestinationPath: "\(modelsDirectory)/\(file)")
        }
        let tokens = try String(
            contentsOfFile: "\(modelsDirectory)/whisper-base/tokens.txt", encoding: .utf8)
        try Data((tokens + "<|one more|>\n").utf8).write(to: own.appending(path: "tokens.txt"))
        let recognizer = WhisperRecognizer(modelsDirectory: folder.path())
        await #expect(
            throws: AgentError.malformedReply(
                message: "The speech recognition model failed.",
                detail: "the tokens are of another model")
        ) {
            try await recognizer.transcribe(
                Utterance(samples: SpeechRecording.goForward.samples), on: ScriptedAgentHost())
        }
    }

    @Test func aLargerModelCountsMore() throws {
        let folder = FileManager.default.temporaryDirectory.appending(
            path: "whisper-\(UInt64.random(in: 0...(.max)))")
        defer { try? FileManager.default.removeItem(at: folder) }
        let own = folder.appending(path: "recognizers/multilingual")
        try FileManager.default.createDirectory(at: own, withIntermediateDirectories: true)
        let recognizer = WhisperRecognizer(
            folder: "recognizers/multilingual", modelsDirectory: folder.path())
        #expect(recognizer.serverBytes(workers: 2) == 290_000_000)
        let file = own.appending(path: "decoder.onnx")
        try Data().write(to: file)
        try FileHandle(forWritingTo: file).truncate(atOffset: 215_400_000)
        #expect(recognizer.serverBytes(workers: 2) == 580_000_000)
    }

    /// A server that hears English only may have no Whisper.
    @Test func aModelThatIsNotInstalledCountsNothing() {
        let english = MoonshineRecognizer(modelsDirectory: "/nonexistent")
        let choosing = LanguageRecognizer(
            languages: ["en"], single: ["en": english],
            whisper: WhisperRecognizer(modelsDirectory: "/nonexistent"))
        #expect(choosing.serverBytes(workers: 2) == english.serverBytes(workers: 2))
    }

    @Test func theErrorSaysHowToInstallTheModel() async throws {
        let recognizer = WhisperRecognizer(modelsDirectory: "/nonexistent")
        #expect(recognizer.missingFile?.contains("No such file") == true)
        do {
            _ = try await recognizer.transcribe(
                Utterance(samples: [Int16](repeating: 9_000, count: 16_000)),
                on: ScriptedAgentHost())
            Issue.record("it has no model")
        } catch AgentError.unavailable(let message) {
            #expect(message.contains("make languages") && !message.contains("/nonexistent"))
        }
    }
}

/// Counts the jobs, and throws instead of some of them.
private final class CountingHost: AgentHost {
    private let inner = ScriptedAgentHost()
    private let count = Mutex(0)
    private let last: Int

    init(stopsAfter last: Int = .max) { self.last = last }

    var pieces: Int { count.withLock { $0 } }

    func sleep(for duration: Duration) async throws { try await inner.sleep(for: duration) }

    func compute<Result: Sendable>(
        _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        guard count.withLock({ $0 < last }) else { throw CancellationError() }
        count.withLock { $0 += 1 }
        return try await inner.compute(work)
    }

    func compute<Element: Sendable>(
        yielding work: @escaping @Sendable (_ yield: (Element) -> Bool) throws -> Void,
        each: @Sendable (Element) async throws -> Void
    ) async throws { try await inner.compute(yielding: work, each: each) }

    func send(_ request: UpstreamRequest) async throws -> any UpstreamResponse {
        try await inner.send(request)
    }
}
