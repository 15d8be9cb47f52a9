// Spoken responses whose model or recogniser fails: what the user hears, and how the response ends.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct ApologyTests {
    private static let apology = "I am sorry."
    private static let failure = AgentError.upstream(status: 500, message: "out of memory")

    private func script(
        _ pieces: [ModelDelta] = [], apology: String = Self.apology,
        voiceActivity: VoiceActivityModel? = nil,
        _ configure: (inout SessionParameters) -> Void = { _ in }
    ) -> ScriptedSession {
        let script = ScriptedSession(
            configure, voiceActivity: voiceActivity, apology: Phrase(apology) ?? .none)
        script.replies = [
            ScriptedReply(
                pieces: pieces.map { (.milliseconds(100), $0) }, end: .some(Self.failure))
        ]
        return script
    }

    private func ask(_ script: ScriptedSession, _ parameters: ResponseParameters = .init()) {
        script.send(.responseCreate(parameters), at: 0)
        script.run(until: 20_000)
        #expect(script.violations == [])
        #expect(script.session.isIdle)
    }

    private func responses(of script: ScriptedSession) -> [[String: Any]] {
        script.events.filter { $0["type"] as? String == "response.done" }
            .compactMap { $0["response"] as? [String: Any] }
    }

    /// The only response, its items' words and statuses.
    private func end(
        of script: ScriptedSession
    ) throws -> (status: String?, code: String?, items: [(words: String?, status: String?)]) {
        let responses = responses(of: script)
        #expect(responses.count == 1)
        let response = try #require(responses.first)
        let details = response["status_details"] as? [String: Any]
        let items = (response["output"] as? [[String: Any]] ?? []).map { item in
            let content = (item["content"] as? [[String: Any]])?.first
            return (content?["transcript"] as? String, item["status"] as? String)
        }
        return (
            response["status"] as? String,
            (details?["error"] as? [String: Any])?["code"] as? String, items
        )
    }

    @Test func aFailedModelIsApologisedFor() throws {
        let script = script()
        ask(script)
        #expect(script.spoken == [Self.apology])
        let end = try end(of: script)
        #expect(end.status == "failed" && end.code == "upstream_error")
        #expect(end.items.map(\.words) == [Self.apology])
        #expect(end.items.map(\.status) == ["completed"])
        #expect(script.context.counters.apologies == 1)
        #expect(script.context.counters.responsesFailed == 1)
        #expect(script.answered.isEmpty, "an apology is no answer")
    }

    /// Half a sentence is heard, and then the apology; the model sees both as two messages.
    @Test func theHalfBeforeItIsIncomplete() throws {
        let script = script([.text("The price is twelve")])
        ask(script)
        #expect(script.spoken == ["The price is twelve", Self.apology])
        let end = try end(of: script)
        #expect(end.items.map(\.words) == ["The price is twelve", Self.apology])
        #expect(end.items.map(\.status) == ["incomplete", "completed"])
        #expect(end.status == "failed")
    }

    /// A function whose arguments broke off is never called.
    @Test func aBrokenCallStaysIncomplete() throws {
        let script = script([
            .functionCallStarted(callID: "call_1", name: "pay"),
            .functionCallArguments(#"{"amount": 1"#),
        ])
        ask(script)
        let end = try end(of: script)
        #expect(end.items.map(\.status) == ["incomplete", "completed"])
        #expect(script.spoken == [Self.apology])
    }

    @Test(arguments: [OutputModality.text, .audio])
    func whatIsNotSpokenOrOutOfBandSaysNothing(modality: OutputModality) throws {
        let script = script()
        var parameters = ResponseParameters()
        parameters.outputModality = modality
        parameters.isInConversation = modality == .text
        ask(script, parameters)
        #expect(script.spoken.isEmpty)
        let end = try end(of: script)
        #expect(end.status == "failed" && end.items.isEmpty)
    }

    @Test func withoutAPhraseNothingIsSaid() throws {
        let script = script(apology: "")
        ask(script)
        #expect(script.spoken.isEmpty)
        #expect(try end(of: script).status == "failed")
    }

    @Test func theLanguageOfTheUserChoosesTheWords() throws {
        let script = script(apology: "Sorry.|de: Verzeihung.") {
            $0.transcription = TranscriptionParameters(language: "de")
        }
        ask(script)
        #expect(script.spoken == ["Verzeihung."])
    }

    /// The synthesiser that has failed is not asked again.
    @Test func aFailedVoiceDoesNotApologise() throws {
        let script = script()
        script.replies = [.text("Hello there.")]
        script.speechFails = true
        ask(script)
        #expect(script.spoken.count == 1 && script.context.counters.apologies == 0)
        #expect(try end(of: script).status == "failed")
    }

    /// Neither is it asked for ever, where it fails in the apology.
    @Test func aVoiceThatFailsInTheApologyEndsTheResponse() throws {
        let script = script()
        script.speechFails = true
        ask(script)
        #expect(script.spoken == [Self.apology])
        let end = try end(of: script)
        #expect(end.status == "failed" && end.code == "upstream_error")
    }

    /// A model that was stopped before its first word leaves the user as much alone as one that failed.
    @Test func anAnswerThatStopsBeforeItsFirstWordIsApologisedFor() throws {
        let script = script()
        script.replies = [
            ScriptedReply(pieces: [(.milliseconds(50), .incomplete(reason: "content_filter"))])
        ]
        ask(script)
        #expect(script.spoken == [Self.apology])
        #expect(try end(of: script).status == "incomplete")
    }

    /// The response does not last until the words were played, so that the client can ask again.
    @Test func theClientNeedNotWaitForThePlaying() throws {
        let script = script(apology: String(repeating: "So sorry. ", count: 20)) {
            $0.outputTransport = .binary
        }
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 2_000)
        #expect(try end(of: script).status == "failed")
        let bytes = script.audioPackets.reduce(0) { $0 + $1.payload.count }
        #expect(bytes / 48 > 5_000, "20 sentences last longer than that")
    }

    @Test func aFailedRecogniserIsApologisedFor() throws {
        let script = script(voiceActivity: .installed)
        script.transcripts = [.failure(Self.failure)]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        script.run(until: 15_000)
        #expect(script.requests.isEmpty && script.spoken == [Self.apology])
        #expect(try end(of: script).status == "failed")
        #expect(script.session.isIdle && script.violations == [])
    }

    /// Speech over the apology interrupts it as it does any reply; the response has failed all the same.
    @Test func itCanBeInterrupted() throws {
        let script = script(apology: String(repeating: "So sorry. ", count: 40))
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.send(.responseCancel(responseID: nil), at: 160)
        script.run(until: 10_000)
        let end = try end(of: script)
        #expect(end.status == "failed" && end.code == "upstream_error")
        #expect(script.session.isIdle)
    }
}
