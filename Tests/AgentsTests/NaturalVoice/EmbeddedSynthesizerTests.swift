// Which voice speaks: by name, and by what can be loaded. No natural voice is needed;
// NaturalVoiceTests use it where it is installed.

import Session
import Testing

@testable import Agents

@Suite struct EmbeddedSynthesizerTests {
    private let reports = Collected<String>()

    private func synthesizer(
        _ engine: VoiceEngine = .natural, in folder: String = "/nonexistent"
    ) -> EmbeddedSynthesizer {
        EmbeddedSynthesizer(modelsDirectory: folder, engine: engine) { [reports] in
            reports.append($0)
        }
    }

    private func speak(
        _ voice: String, with synthesizer: EmbeddedSynthesizer
    ) async throws -> [SpeechChunk] {
        let collected = Collected<SpeechChunk>()
        try await synthesizer.speak(
            SpeechRequest(text: "Hello.", voice: voice), on: ScriptedAgentHost()
        ) { collected.append($0) }
        return collected.all
    }

    @Test func theNaturalVoiceSpeaksTheWomenAndUnknownNames() {
        for (name, hertz) in [
            ("alloy", 21_000), ("sage", 22_500), ("marin", 24_000), ("coral", 25_200),
            ("nova", 26_400), ("shimmer", 27_600), ("nobody", 24_000), ("", 24_000),
        ] {
            #expect(synthesizer().naturalRate(of: name)?.hertz == hertz, "\(name)")
            #expect(synthesizer(.flite).naturalRate(of: name) == nil, "\(name)")
        }
        for name in ["cedar", "ash", "ballad", "verse", "fable", "onyx", "echo", "slt", "rms"] {
            #expect(synthesizer().naturalRate(of: name) == nil, "\(name)")
        }
        // 20 ms are whole samples.
        #expect(NaturalVoiceTable.rates.values.allSatisfy { $0.hertz.isMultiple(of: 50) })
    }

    @Test(arguments: VoiceEngine.allCases)
    func thePageOffersEachVoiceOnceWithItsSound(engine: VoiceEngine) {
        let voices = synthesizer(engine).voices
        #expect(
            voices.map { "\($0.name): \($0.description)" } == [
                "marin: a woman, medium", "alloy: a woman, low", "sage: a woman, a little low",
                "coral: a woman, a little high", "nova: a woman, high",
                "shimmer: a woman, very high", "cedar: a man, medium", "ash: a Scottish man, low",
                "verse: a Scottish man, medium", "ballad: a Scottish man, high",
                "fable: a Scottish man, very high", "onyx: a man, artificial, low",
                "echo: a man, artificial, medium",
            ])
    }

    @Test func withoutTheNaturalVoiceFliteSpeaksAndOneReportSaysWhy() async throws {
        let synthesizer = synthesizer()
        #expect(
            synthesizer.missingFile?.hasPrefix("/nonexistent/natural-voice/hibari.onnx: ") == true)
        #expect(synthesizer.serverBytes(workers: 4) == 0)
        for count in 1...2 {
            let chunks = try await speak("marin", with: synthesizer)
            #expect(!chunks.isEmpty && chunks.allSatisfy { $0.isSubstitute && $0.rate == .hz16000 })
            #expect(synthesizer.substitutedClauses == count)
        }
        // A voice of flite's is what was asked for.
        let own = try await speak("cedar", with: synthesizer)
        #expect(!own.isEmpty && own.allSatisfy { !$0.isSubstitute })
        #expect(synthesizer.substitutedClauses == 2)
        #expect(reports.all == [synthesizer.missingFile])
        let flite = self.synthesizer(.flite)
        #expect(try await speak("marin", with: flite).allSatisfy { !$0.isSubstitute })
        #expect(reports.all.count == 1)
    }

    @Test func aDamagedVoiceIsReportedOnceUntilItIsReplaced() async throws {
        let folder = try VoiceFolder()
        try folder.write("natural-voice/SHA256SUMS", "00  hibari.onnx\n")
        let synthesizer = synthesizer(in: folder.path)
        #expect(synthesizer.missingFile == nil)
        #expect(synthesizer.serverBytes(workers: 2) > 40_000_000)
        #expect(
            EmbeddedSynthesizer(modelsDirectory: folder.path, engine: .flite)
                .serverBytes(workers: 2) == 0)
        for _ in 0..<2 {
            #expect(try await speak("nova", with: synthesizer).allSatisfy(\.isSubstitute))
        }
        #expect(reports.all == ["hibari.onnx is damaged"])
        // Without checksums the files are tried. The library is none.
        try folder.remove("natural-voice/SHA256SUMS")
        await synthesizer.prepareVoice(on: ScriptedAgentHost())
        #expect(reports.all.count == 2)
        #expect(try await !speak("nova", with: synthesizer).isEmpty)
        #expect(reports.all.count == 2)
    }
}
