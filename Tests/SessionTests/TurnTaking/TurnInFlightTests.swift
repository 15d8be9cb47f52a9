// When a turn is in flight: what a server that wants to close a session waits for.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct TurnInFlightTests {
    private func userMessage(_ text: String) -> ClientEvent {
        .conversationItemCreate(
            item: ConversationItem(
                id: "", kind: .message(role: .user, content: [.inputText(text)])),
            previousItemID: nil)
    }

    /// Every 10 ms, whether a turn was in flight.
    private func watch(_ script: ScriptedSession, until milliseconds: Int) -> [Bool] {
        stride(from: 0, to: milliseconds, by: 10).map {
            script.run(until: $0)
            return script.session.hasTurnInFlight
        }
    }

    private func time(of type: String, in script: ScriptedSession) throws -> Int {
        let line = try #require(script.transcript.last { $0.contains("S→C \(type) ") })
        return try #require(Int(line.dropFirst().prefix { $0.isNumber }))
    }

    @Test func aSpokenTurnIsInFlightFromTheFirstWordToTheLastAudio() throws {
        let script = ScriptedSession(voiceActivity: .installed)
        script.transcripts = [.success("go forward ten meters")]
        script.replies = [.text("Going forward ten meters now. Anything else?")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        let flags = watch(script, until: 10_000)
        let started = try time(of: "input_audio_buffer.speech_started", in: script)
        let done = try time(of: "response.done", in: script)
        #expect(flags[..<(started / 10)].allSatisfy { !$0 })
        #expect(flags[(started / 10 + 1)..<(done / 10)].allSatisfy { $0 }, "without a gap")
        #expect(flags[(done / 10 + 1)...].allSatisfy { !$0 })
        // What was sent last has still to be played.
        let played = try #require(script.session.playedOut).nanoseconds / 1_000_000
        #expect((100...500).contains(Int(played) - done))
    }

    @Test func aTextReplyIsInFlightUntilItIsDone() throws {
        let script = ScriptedSession({ $0.outputModality = .text })
        script.replies = [.text("One two three.")]
        script.send(userMessage("Count."), at: 90)
        script.send(.responseCreate(ResponseParameters()), at: 100)
        let flags = watch(script, until: 1_000)
        let done = try time(of: "response.done", in: script)
        #expect(!flags[9] && flags[11] && !flags[done / 10 + 1])
        #expect(flags[11..<(done / 10)].allSatisfy { $0 })
        #expect(try #require(script.session.playedOut) <= .milliseconds(done), "nothing to play")
    }

    @Test func aTurnWithoutWordsIsOverWhenThatIsKnown() throws {
        let script = ScriptedSession(voiceActivity: .installed)
        script.transcripts = [.success("")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        script.run(until: 10_000)
        #expect(script.transcript.contains { $0.contains("input_audio_buffer.committed") })
        #expect(!script.session.hasTurnInFlight)
    }

    /// A client that ends turns itself speaks from the first 100 ms of audio until it commits or
    /// clears.
    @Test func audioHeldToTalkIsATurnUntilItIsTakenBack() {
        let script = ScriptedSession({ $0.turnDetection = nil })
        script.append([UInt8](repeating: 0, count: 2 * 24 * 99), at: 10)
        script.run(until: 20)
        #expect(!script.session.hasTurnInFlight)
        script.append([UInt8](repeating: 0, count: 2 * 24 * 2), at: 30)
        script.run(until: 40)
        #expect(script.session.hasTurnInFlight)
        script.send(.inputAudioBufferClear, at: 50)
        script.run(until: 60)
        #expect(!script.session.hasTurnInFlight)
    }

    /// Between a call and the response to its outcome nothing is in flight but the turn itself.
    @Test func aFunctionCallKeepsTheTurnInFlightUntilTheModelHasGoneOn() throws {
        let script = ScriptedSession({ $0.outputModality = .text })
        script.replies = [
            ScriptedReply(pieces: [
                (.milliseconds(10), .functionCallStarted(callID: "c", name: "f")),
                (.zero, .functionCallArguments("{}")),
            ]), .text("It is done."),
        ]
        script.send(userMessage("Do it."), at: 0)
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 1_000)
        #expect(script.session.isIdle && script.session.hasTurnInFlight)
        script.send(
            .conversationItemCreate(
                item: ConversationItem(
                    id: "", kind: .functionCallOutput(callID: "c", output: "ok")),
                previousItemID: nil), at: 1_000)
        script.run(until: 1_100)
        #expect(script.session.isIdle && script.session.hasTurnInFlight)
        script.send(.responseCreate(ResponseParameters()), at: 1_100)
        script.run(until: 3_000)
        #expect(!script.session.hasTurnInFlight)
    }
}
