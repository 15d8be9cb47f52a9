// When a turn model is asked about a silence, and what its answers do.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct TurnEndChecksTests {
    /// At which silences, in milliseconds, the model is asked, one window after another; each answer comes
    /// after so many windows.
    private func asked(answerWindows: Int) -> [Int] {
        var checks = TurnEndChecks()
        var asked: [Int] = []
        var due: Int?
        for window in 1...40 {
            if due == window {
                let counts = checks.handleAnswer(speechEnd: 0)
                #expect(counts)
            }
            guard checks.isDue(speechEnd: 0, end: 512 * window) else { continue }
            checks.handleAsked(speechEnd: 0, end: 512 * window)
            asked.append(32 * window)
            due = window + answerWindows
        }
        return asked
    }

    @Test func theModelIsAskedThreeTimes() {
        #expect(asked(answerWindows: 2) == [224, 416, 704])
    }

    @Test func aLateAnswerPutsTheNextQuestionOff() {
        #expect(asked(answerWindows: 10) == [224, 544, 864])
        // The second question is late by so much that it is the third as well.
        #expect(asked(answerWindows: 20) == [224, 864])
    }

    @Test func anAnswerAboutAnEarlierSilenceDoesNotCount() {
        var checks = TurnEndChecks()
        checks.handleAsked(speechEnd: 0, end: 3_200)
        #expect(!checks.isDue(speechEnd: 5_120, end: 8_320), "one question at a time")
        let counts = checks.handleAnswer(speechEnd: 5_120)
        #expect(!counts)
        #expect(checks.isDue(speechEnd: 5_120, end: 8_320))
    }

    /// A session with a turn model that hears "go forward ten meters". It ends at 2,240 ms.
    private func script(
        language: String?, probability: Float?, type: TurnDetectionParameters.Mode
    ) throws -> ScriptedSession {
        let script = ScriptedSession(
            {
                $0.transcription = TranscriptionParameters(model: "scripted", language: language)
                $0.turnDetection = TurnDetectionParameters(mode: type)
            }, voiceActivity: .installed, hasTurnModel: true)
        script.turnEnd = { _ in probability }
        script.speak(try SpeechRecording.goForward.packets(silenceMilliseconds: 4_000), from: 0)
        script.run(until: 6_500)
        #expect(script.violations == [])
        return script
    }

    private func stopped(_ script: ScriptedSession) throws -> Int {
        let line = try #require(script.lines("input_audio_buffer.speech_stopped").first)
        return try #require(Int(line.dropFirst().prefix { $0 != "m" }))
    }

    private let medium = TurnDetectionParameters.Mode.semanticVAD(eagerness: .medium)

    @Test func itsAnswersMoveTheEndOfATurn() throws {
        let unsure = try script(language: "nl", probability: nil, type: medium)
        let over = try script(language: "nl", probability: 0.98, type: medium)
        let open = try script(language: "nl", probability: 0.02, type: medium)
        #expect(try stopped(over) < stopped(unsure))
        #expect(try stopped(unsure) < stopped(open))
        #expect(open.turnEndsAsked.count == 3)
        // All of the turn, and the silence after it.
        let asked = try #require(open.turnEndsAsked.first)
        #expect((asked.at - 300...asked.at + 20).contains(asked.milliseconds + 212))
    }

    @Test func itIsNotAskedWhereItDoesNotCount() throws {
        let silence = TurnDetectionParameters.Mode.serverVAD(
            threshold: 0.5, silenceMilliseconds: 800)
        #expect(
            try script(language: "nl", probability: 0.5, type: silence).turnEndsAsked.isEmpty)
        // English has words of its own.
        #expect(
            try script(language: "en", probability: 0.5, type: medium).turnEndsAsked.isEmpty)
    }
}
