// Which voice speaks: by name, by what is installed, and by how busy the workers are. No natural
// voice is needed; NaturalVoiceTests use it where it is installed.

import Session
import Testing

@testable import Agents

@Suite struct EmbeddedSynthesizerTests {
    private func synthesizer(_ engine: VoiceEngine) -> EmbeddedSynthesizer {
        EmbeddedSynthesizer(modelsDirectory: "/nonexistent", engine: engine)
    }

    private func speak(
        _ voice: String, with synthesizer: EmbeddedSynthesizer, backlog: Int = 0
    ) async throws -> [SpeechChunk] {
        let collected = Collected<SpeechChunk>()
        try await synthesizer.speak(
            SpeechRequest(text: "Hello.", voice: voice), on: BusyHost(computeBacklog: backlog)
        ) { collected.append($0) }
        return collected.all
    }

    @Test func theEngineDecidesOnTheDefaultNameAndOnUnknownOnes() {
        for (name, isNatural) in [
            ("natural", true), ("marin", true), ("whoever", true), ("", true), ("alloy", false),
            ("cedar", false), ("slt", false),
        ] {
            #expect(synthesizer(.natural).isNatural(name) == isNatural, "\(name)")
            #expect(synthesizer(.flite).isNatural(name) == (name == "natural"), "\(name)")
        }
    }

    @Test func thePageOffersEachVoiceOnceWithItsSound() {
        let voices = synthesizer(.flite).voices
        #expect(
            voices.map { "\($0.name): \($0.description)" } == [
                "marin: a woman, medium", "alloy: a woman, low", "sage: a woman, a little low",
                "coral: a woman, a little high", "nova: a woman, high",
                "shimmer: a woman, very high", "cedar: a man, medium", "ash: a Scottish man, low",
                "verse: a Scottish man, medium", "ballad: a Scottish man, high",
                "fable: a Scottish man, very high", "onyx: a man, artificial, low",
                "echo: a man, artificial, medium",
            ])
        #expect(
            synthesizer(.natural).voices.first
                == PageVoice(name: "marin", description: "a man, the most natural"))
    }

    @Test func theErrorSaysHowToInstallTheVoice() async throws {
        let expected = AgentError.unavailable(
            message: "The natural voice is not installed: run `make voice`.")
        let flite = synthesizer(.flite)
        #expect(flite.missingFile?.hasPrefix("/nonexistent/natural-voice/encoder.onnx: ") == true)
        for backlog in [0, 100] {
            await #expect(throws: expected) {
                try await speak("natural", with: flite, backlog: backlog)
            }
        }
        #expect(flite.substitutedClauses == 0)
        #expect(flite.serverBytes(workers: 4) == 0)
        #expect(try await !speak("marin", with: flite).isEmpty)
    }

    @Test func busyWorkersGetTheOtherVoice() async throws {
        let folder = try VoiceFolder()
        let synthesizer = EmbeddedSynthesizer(modelsDirectory: folder.path, engine: .natural)
        #expect(synthesizer.missingFile == nil)
        #expect(synthesizer.serverBytes(workers: 2) > 100_000_000)
        let chunks = try await speak("marin", with: synthesizer, backlog: 3)
        #expect(!chunks.isEmpty && chunks.allSatisfy { $0.isSubstitute && $0.rate == .hz16000 })
        #expect(synthesizer.substitutedClauses == 1)
        // A voice of flite's is what was asked for.
        let own = try await speak("cedar", with: synthesizer, backlog: 3)
        #expect(!own.isEmpty && own.allSatisfy { !$0.isSubstitute })
        #expect(synthesizer.substitutedClauses == 1)
        // Two jobs for each thread are no load. The files of this folder are no voice.
        await #expect(throws: AgentError.self) {
            try await speak("marin", with: synthesizer, backlog: 2)
        }
    }

    @Test func aDamagedVoiceIsATypedErrorUntilItIsReplaced() async throws {
        let folder = try VoiceFolder()
        try folder.write("natural-voice/SHA256SUMS", "00  encoder.onnx\n")
        let synthesizer = EmbeddedSynthesizer(modelsDirectory: folder.path, engine: .natural)
        let damaged = AgentError.unavailable(
            message: "The natural voice is damaged (encoder.onnx): run `make voice`.")
        for _ in 0..<2 {
            await #expect(throws: damaged) { try await speak("natural", with: synthesizer) }
        }
        try folder.remove("natural-voice/SHA256SUMS")
        let unreadable = AgentError.unavailable(
            message: "The natural voice cannot be read (phonemes.txt): run `make voice`.")
        await #expect(throws: unreadable) { try await speak("natural", with: synthesizer) }
        try folder.write(
            "natural-voice/phonemes.txt",
            "20 3\n2C 8\n2E 10\n3F 13\n2C8 120\n259 59\n26A 74\n74 32\n")
        await #expect {
            try await speak("natural", with: synthesizer)
        } throws: { error in
            // The library is none. Where the models are is not for the client.
            guard case .unavailable(let message)? = error as? AgentError else { return false }
            return message.contains("cannot be loaded") && !message.contains(folder.path)
        }
    }
}

/// A host whose worker pool has as many jobs as a test wants.
private struct BusyHost: HostWithoutServices {
    let computeBacklog: Int

    func sleep(for duration: Duration) async throws {}

    func compute<Element: Sendable>(
        yielding work: @escaping @Sendable (_ yield: (Element) -> Bool) throws -> Void,
        each: @Sendable (Element) async throws -> Void
    ) async throws {
        try await ScriptedAgentHost().compute(yielding: work, each: each)
    }
}
