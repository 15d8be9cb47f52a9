// What services bring into a session: turns given to a model as audio, transcripts that come in
// parts, failures that hide where a service is, and one voice per conversation.

import Codec
import TestMaterial
import Testing

@testable import Session

private func errorCodes(_ script: ScriptedSession) -> [String] {
    script.events.compactMap { ($0["error"] as? [String: Any])?["code"] as? String }
}

private func types(_ script: ScriptedSession) -> [String] {
    script.events.compactMap { $0["type"] as? String }
}

private func speech(milliseconds: Int) -> [UInt8] {
    [UInt8](repeating: 0, count: 2 * 24 * milliseconds)
}

private let secret = "No answer from http://10.0.0.7:9000 with sk-123"

@Suite struct SpeechServiceSessionTests {
    // MARK: One voice

    private func voice(_ name: String) -> ClientEvent {
        var update = SessionUpdate()
        update.voice = .value(name)
        return .sessionUpdate(update)
    }

    @Test func theVoiceIsFixedOnceAReplyWasHeard() {
        let script = ScriptedSession()
        script.replies = [.text("Here is a reply for you.")]
        script.send(voice("cedar"), at: 0)
        script.send(.responseCreate(ResponseParameters()), at: 10)
        script.send(voice("cedar"), at: 9_000)
        script.send(voice("ash"), at: 9_010)
        var other = ResponseParameters()
        other.voice = "ash"
        script.send(.responseCreate(other), at: 9_020)
        script.run(until: 12_000)
        #expect(errorCodes(script) == ["cannot_update_voice", "cannot_update_voice"])
        #expect(types(script).count { $0 == "session.updated" } == 2)
        #expect(script.session.parameters.voice == "cedar")
    }

    @Test func aReplyInTextFixesNoVoice() {
        let script = ScriptedSession { $0.outputModality = .text }
        script.replies = [.text("Here is a reply for you.")]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.send(voice("ash"), at: 5_000)
        script.run(until: 6_000)
        #expect(errorCodes(script) == [])
    }

    // MARK: Failures

    @Test func whatAServiceSaysDoesNotReachTheClient() {
        let script = ScriptedSession { $0.transcription = TranscriptionParameters(model: "m") }
        script.transcripts = [.failure(.upstream(status: 0, message: secret))]
        script.replies = [
            ScriptedReply(pieces: [], end: .some(.upstream(status: 401, message: secret)))
        ]
        script.append(speech(milliseconds: 500), at: 0)
        script.send(.inputAudioBufferCommit, at: 10)
        script.send(.responseCreate(ResponseParameters()), at: 2_000)
        script.run(until: 5_000)
        #expect(types(script).contains("conversation.item.input_audio_transcription.failed"))
        let done = script.events.last { $0["type"] as? String == "response.done" }
        let details = (done?["response"] as? [String: Any])?["status_details"] as? [String: Any]
        #expect((details?["error"] as? [String: Any])?["code"] as? String == "upstream_error")
        let everything = script.events.map { "\($0)" }.joined()
        #expect(!everything.contains("10.0.0.7") && !everything.contains("sk-123"))
        #expect(script.session.isIdle)
    }

    // MARK: Transcripts in parts

    @Test func partsOfATranscriptAreShownAsTheyCome() {
        let script = ScriptedSession { $0.transcription = TranscriptionParameters(model: "m") }
        script.append(speech(milliseconds: 500), at: 0)
        script.send(.inputAudioBufferCommit, at: 10)
        script.transcriptParts = ["go", " forward"]
        script.transcripts = [.success("go forward")]
        script.run(until: 5_000)
        let deltas = script.events.compactMap { $0["delta"] as? String }
        #expect(deltas == ["go", " forward"])
        #expect(types(script).last == "conversation.item.input_audio_transcription.completed")
        #expect(script.violations == [])
    }

    @Test func partsAreNotShownToWhoDidNotAsk() {
        let script = ScriptedSession()
        script.append(speech(milliseconds: 500), at: 0)
        script.send(.inputAudioBufferCommit, at: 10)
        script.transcriptParts = ["go"]
        script.transcripts = [.success("go forward")]
        script.run(until: 5_000)
        #expect(script.events.compactMap { $0["delta"] as? String } == [])
    }

    // MARK: Models that hear

    private func hearing(
        _ configure: (inout SessionParameters) -> Void = { _ in }
    ) -> ScriptedSession {
        ScriptedSession(configure, voiceActivity: .installed, modelHearsAudio: true)
    }

    @Test func aModelThatHearsIsGivenTheTurnAndWaitsForNoTranscript() throws {
        let script = hearing()
        script.replies = [.text("I heard you very well.")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        script.run(until: 12_000)
        let request = try #require(script.requests.first)
        guard case .userAudio(let audio)? = request.messages.last else {
            Issue.record("no audio: \(request.messages)")
            return
        }
        #expect(audio.sampleCount > 16_000)
        #expect(try audio.samples().count == audio.sampleCount)
        // The client did not ask for the words.
        #expect(script.samplesTranscribed == [])
        #expect(script.spoken.joined() == "I heard you very well.")
        #expect(script.session.isIdle)
    }

    @Test func itsReplyDoesNotWaitForWordsThatAreOnlyShown() throws {
        let script = hearing { $0.transcription = TranscriptionParameters(model: "m") }
        script.recognitionDelay = .seconds(3)
        script.transcripts = [.success("go forward ten meters")]
        script.replies = [.text("I heard you very well.")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        script.run(until: 12_000)
        let order = types(script)
        let created = try #require(order.firstIndex(of: "response.created"))
        let completed = try #require(
            order.firstIndex(of: "conversation.item.input_audio_transcription.completed"))
        #expect(created < completed)
        #expect(order.count { $0 == "response.created" } == 1)
    }

    @Test func earlierTurnsAreTheirWordsWhereThereAreAny() throws {
        let script = hearing {
            $0.turnDetection = nil
            $0.outputModality = .text
            $0.transcription = TranscriptionParameters(model: "m")
        }
        script.transcripts = [.success("first words"), .success("second words")]
        script.replies = [.text("One."), .text("Two.")]
        for start in [0, 5_000] {
            script.append(speech(milliseconds: 500), at: start)
            script.send(.inputAudioBufferCommit, at: start + 10)
            script.send(.responseCreate(ResponseParameters()), at: start + 20)
        }
        script.run(until: 10_000)
        #expect(script.requests.count == 2)
        #expect(script.requests.last?.messages.first == .user("first words"))
        guard case .userAudio(let audio)? = script.requests.last?.messages.last else {
            Issue.record("no audio: \(script.requests)")
            return
        }
        #expect(try audio.samples() == [Int16](repeating: 0, count: 8_000))
    }

    @Test func audioIsForgottenBeyondItsLimit() {
        var limits = SessionLimits()
        limits.maxHeardAudioSeconds = 1
        let script = ScriptedSession(
            {
                $0.turnDetection = nil
                $0.outputModality = .text
            }, limits: limits, modelHearsAudio: true)
        for start in [0, 1_000, 2_000] {
            script.append(speech(milliseconds: 500), at: start)
            script.send(.inputAudioBufferCommit, at: start + 10)
        }
        script.replies = [.text("One.")]
        script.send(.responseCreate(ResponseParameters()), at: 3_000)
        script.run(until: 6_000)
        #expect(script.requests.last?.messages.count == 2)
    }
}
