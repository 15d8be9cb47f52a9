// The end of a turn with `semantic_vad`, by what the agent has asked and what the user says. A real
// recording, whose words the script makes up.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct PatienceTests {
    /// How long after the end of the speech the turn ends, in ms.
    private func wait(
        after question: String, saying words: String,
        _ patience: TurnDetectionParameters.PatienceChoice? = nil
    ) throws -> Int {
        let script = ScriptedSession(
            {
                $0.outputModality = .text
                $0.transcription = TranscriptionParameters(model: "scripted")
                $0.turnDetection = TurnDetectionParameters(mode: .semanticVAD(eagerness: .auto))
                $0.turnDetection?.patience = patience
            }, voiceActivity: .installed, makesHypotheses: true)
        script.replies = [.text(question), .text("Thank you.")]
        script.hypothesis = { _ in words }
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.speak(try SpeechRecording.goForward.packets(silenceMilliseconds: 6_000), from: 1_000)
        script.run(until: 10_000)
        let line = try #require(script.lines("input_audio_buffer.committed").first)
        #expect(script.requests.count == 2)
        // The speech ends at 3,240 ms.
        return try #require(Int(line.dropFirst().prefix { $0 != "m" })) - 3_240
    }

    @Test func theTurnWaitsLongerAfterAQuestionForANumber() throws {
        let usual = try wait(after: "Hello.", saying: "It's blue.")
        let long = try wait(after: "What is your phone number?", saying: "It's blue.")
        let brief = try wait(after: "Shall I book it?", saying: "It's blue.")
        #expect(brief < usual && usual < long)
    }

    @Test func numbersWaitLongerWhateverWasAsked() throws {
        let one = try wait(after: "Hello.", saying: "I have four")
        let several = try wait(after: "Hello.", saying: "It is four four")
        #expect(one < several)
        #expect(try wait(after: "Hello.", saying: "It is four four", .usual) == one)
    }

    @Test func theSettingOverrulesTheQuestion() throws {
        let question = "What is your phone number?"
        let waits = try [.brief, .usual, .long].map {
            try wait(after: question, saying: "It's blue.", $0)
        }
        #expect(waits == waits.sorted() && Set(waits).count == 3)
        #expect(try wait(after: question, saying: "It's blue.", .auto) == waits[2])
    }
}
