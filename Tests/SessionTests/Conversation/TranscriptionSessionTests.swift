// Sessions of type `transcription`: what they are, what they tell, and what they refuse.

import Codec
import TestMaterial
import Testing

@testable import Session

private func types(_ script: ScriptedSession) -> [String] {
    script.events.compactMap { $0["type"] as? String }
}

private func errors(_ script: ScriptedSession) -> [String] {
    script.events.compactMap { event in
        guard let error = event["error"] as? [String: Any] else { return nil }
        return "\(error["code"] ?? "") \(error["param"] ?? "")"
    }
}

private func lastSession(_ script: ScriptedSession) -> [String: Any]? {
    script.events.last { $0["session"] != nil }?["session"] as? [String: Any]
}

private func update(_ fields: String) -> String {
    #"{"type":"session.update","session":{\#(fields)}}"#
}

@Suite struct TranscriptionSessionTests {
    private static let withVAD: VoiceActivityModel? = .installed

    private func script() -> ScriptedSession {
        ScriptedSession({ $0 = .transcription(model: "m") }, voiceActivity: Self.withVAD)
    }

    @Test func aSpokenTurnBecomesItsWordsAndNothingMore() throws {
        let script = script()
        script.transcripts = [.success("go forward ten meters")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        script.run(until: 60_000)
        try expectGolden(script, "transcription-session")
        #expect(script.violations == [])
        #expect(script.requests.isEmpty && script.session.isIdle)
        let completed = script.events.last {
            ($0["type"] as? String)?.hasSuffix("transcription.completed") == true
        }
        let usage = completed?["usage"] as? [String: Any]
        #expect(usage?["type"] as? String == "duration")
    }

    @Test func wordsComeWhileTheyAreSpoken() throws {
        let script = ScriptedSession(
            { $0 = .transcription(model: nil) }, voiceActivity: .installed, makesHypotheses: true)
        script.hypothesis = { $0 > 900 ? "go forward" : nil }
        script.transcripts = [.success("go forward ten meters")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        script.run(until: 10_000)
        #expect(types(script).contains("conversation.item.input_audio_transcription.delta"))
    }

    @Test func theSessionIsWhole() throws {
        let script = script()
        let session = try #require(lastSession(script))
        #expect(session["object"] as? String == "realtime.transcription_session")
        #expect(session["type"] as? String == "transcription")
        #expect(session["id"] as? String == script.session.id)
        #expect(session["output_modalities"] == nil && session["instructions"] == nil)
        let audio = session["audio"] as? [String: Any]
        #expect(audio.map { Array($0.keys) } == ["input"])
        let input = audio?["input"] as? [String: Any]
        #expect((input?["transcription"] as? [String: Any])?["model"] as? String == "m")
        let detection = input?["turn_detection"] as? [String: Any]
        #expect(
            detection.map { Set($0.keys) }
                == ["type", "threshold", "prefix_padding_ms", "silence_duration_ms"])
    }

    /// What the speech-to-text plugins of livekit and pipecat send.
    @Test(arguments: [
        #""format":{"type":"audio/pcm","rate":24000},"transcription":{"model":"gpt-4o-transcribe","#
            + #""prompt":"names","language":"en"},"turn_detection":{"type":"server_vad","#
            + #""threshold":0.5,"prefix_padding_ms":600,"silence_duration_ms":350},"#
            + #""noise_reduction":{"type":"near_field"}"#,
        #""format":{"type":"audio/pcm","rate":24000},"transcription":{"model":"gpt-transcribe","#
            + #""keywords":[],"languages":["en","de"]},"turn_detection":null"#,
        #""format":{"type":"audio/pcm","rate":24000},"transcription":{"model":"m","delay":"low"}"#,
    ])
    func theFirstUpdateMayChooseTheType(_ input: String) throws {
        let script = ScriptedSession(voiceActivity: Self.withVAD)
        script.send(update(#""type":"transcription","audio":{"input":{\#(input)}}"#), at: 10)
        script.run(until: 100)
        #expect(errors(script) == [] && script.violations == [])
        #expect(lastSession(script)?["type"] as? String == "transcription")
    }

    @Test func afterThatTheTypeStays() throws {
        let words = script()
        words.send(update(#""type":"realtime""#), at: 10)
        words.send(update(#""audio":{"input":{"transcription":null}}"#), at: 20)
        words.run(until: 100)
        #expect(errors(words) == ["cannot_update_session_type session.type"])
        let input = (lastSession(words)?["audio"] as? [String: Any])?["input"] as? [String: Any]
        #expect((input?["transcription"] as? [String: Any])?.isEmpty == true)
        for first in [update(#""type":"realtime""#), #"{"type":"input_audio_buffer.clear"}"#] {
            let talk = ScriptedSession()
            talk.send(first, at: 10)
            talk.send(update(#""type":"transcription""#), at: 20)
            talk.run(until: 100)
            #expect(errors(talk) == ["cannot_update_session_type session.type"])
            #expect(talk.session.parameters.kind == .realtime)
        }
    }

    @Test func audioSettlesTheTypeToo() throws {
        let script = ScriptedSession()
        script.speak([[0, 0]], from: 0)
        script.send(update(#""type":"transcription""#), at: 20)
        script.run(until: 100)
        #expect(errors(script) == ["cannot_update_session_type session.type"])
    }

    @Test(arguments: [
        #""instructions":"x""#, #""output_modalities":["text"]"#, #""tools":[]"#,
        #""tool_choice":"none""#, #""max_output_tokens":5"#, #""tracing":"auto""#,
        #""truncation":"auto""#, #""prompt":{"id":"p"}"#,
        #""audio":{"output":{"format":{"type":"audio/pcm"}}}"#,
        #""audio":{"output":{"transport":"binary"}}"#, #""audio":{"output":{"voice":"v"}}"#,
        #""audio":{"output":{"speed":1}}"#,
        #""audio":{"input":{"turn_detection":{"type":"server_vad","idle_timeout_ms":5000}}}"#,
    ])
    func fieldsOfRepliesAreRefusedByName(_ field: String) throws {
        for type in [#""type":"transcription","#, ""] {
            let script = script()
            script.send(update(type + field), at: 10)
            script.run(until: 100)
            let path = try #require(errors(script).first).split(separator: " ")
            #expect(path[0] == "unsupported_parameter")
            let names = path[1].split(separator: ".").dropFirst()
            #expect(names.allSatisfy { field.contains("\"\($0)\"") })
        }
    }

    @Test func noResponseIsEverMade() throws {
        let script = script()
        script.transcripts = [.success("hello")]
        script.send(update(#""audio":{"input":{"turn_detection":null}}"#), at: 0)
        script.append([UInt8](repeating: 1, count: 9_600), at: 10)
        script.send(.inputAudioBufferCommit, at: 20)
        script.send(.responseCreate(ResponseParameters()), at: 30)
        script.send(.responseCancel(responseID: nil), at: 40)
        script.run(until: 60_000)
        #expect(
            errors(script)
                == [
                    "unsupported_in_transcription_session type",
                    "response_cancel_not_active "
                        + "response_id",
                ])
        #expect(types(script).contains("conversation.item.input_audio_transcription.completed"))
        #expect(!types(script).contains("response.created"))
        #expect(script.violations == [] && script.session.isIdle)
    }

    /// A model that hears audio has no part in it.
    @Test func wordsAreRecognisedWhereTheModelHears() throws {
        let script = ScriptedSession(
            { $0 = .transcription(model: nil) }, voiceActivity: .installed, modelHearsAudio: true)
        script.transcripts = [.success("go forward ten meters")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        script.run(until: 20_000)
        #expect(types(script).contains("conversation.item.input_audio_transcription.completed"))
        #expect(!types(script).contains("response.created"))
    }

    @Test func hintsReachTheRecogniser() throws {
        var parameters = TranscriptionParameters(prompt: "A tour.")
        parameters.languages = ["de"]
        parameters.keywords = ["Parley", "Opus"]
        #expect(parameters.languageHint == "de")
        #expect(parameters.vocabularyHint == "A tour., Parley, Opus")
        parameters.languages = ["de", "en"]
        #expect(parameters.languageHint == nil)
        #expect(TranscriptionParameters().vocabularyHint == nil)
    }
}
