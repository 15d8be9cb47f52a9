// Which transcripts have words, and what follows from one that has none.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct TranscriptWordsTests {
    static let wordless = [
        "", " ", ".", "...", "…", "[BLANK_AUDIO]", "[Music]", "♪", "♪ ♪", "(applause)", "*coughs*",
        "<|nospeech|>", "[ Silence ]", " (upbeat music) ", "[Musik] [Applaus]", "?", "।", "[音楽]",
        "（笑）", "【音楽】", "［拍手］（笑い声）",
    ]

    @Test(arguments: wordless)
    func noWords(transcript: String) {
        #expect(!TranscriptWords.has(in: transcript))
        #expect(TurnEndEstimator.ending(of: transcript) == nil)
        #expect(InterruptionWords.judge(transcript, over: "one two three", in: .english) == .none)
    }

    @Test(arguments: [
        "yes", "5", "(555) 123-4567", "[Music] Hello", "(laughs) Yes.", "नमस्ते।", "はい", "a [",
        "5 * 3",
        "♪ la la ♪", "(5)", "（笑）はい", "（５５５）", "（あ",
    ])
    func words(transcript: String) { #expect(TranscriptWords.has(in: transcript)) }

    /// Such a turn is transcribed and not answered, and no model is shown it.
    @Test(arguments: [".", "[BLANK_AUDIO]", "♪", "(applause)"])
    func aTurnWithoutWordsIsNotAnswered(transcript: String) throws {
        let script = ScriptedSession(
            { $0.transcription = TranscriptionParameters(model: "scripted") },
            voiceActivity: .installed)
        script.transcripts = [.success(transcript), .success("Hello there.")]
        script.replies = [.text("Hi.")]
        let packets = try SpeechRecording.goForward.packets()
        script.speak(packets, from: 0)
        script.run(until: 8_000)
        #expect(script.requests.isEmpty)
        script.speak(packets, from: 8_000)
        script.run(until: 16_000)
        #expect(script.requests.map(\.messages) == [[.user("Hello there.")]])
    }

    @Test(arguments: [
        ("वह आ गया।", TurnEndEstimator.Ending.sentence), ("آپ کیسے ہیں؟", .question),
        ("وہ گھر گیا۔", .sentence), ("これはペンです。", .sentence), ("元気ですか？", .question),
    ])
    func sentencesOfOtherScriptsEndTurns(transcript: String, ending: TurnEndEstimator.Ending) {
        #expect(TurnEndEstimator.ending(of: transcript) == ending)
    }
}
