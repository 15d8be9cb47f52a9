// Spoken turns and spoken replies, on a real recording and the real voice activity model.

import Codec
import TestMaterial
import Testing

@testable import Session

private func script(
    _ configure: (inout SessionParameters) -> Void = { _ in }
) -> ScriptedSession {
    ScriptedSession(
        {
            $0.transcription = TranscriptionParameters(model: "scripted")
            configure(&$0)
        }, voiceActivity: .installed)
}

private func types(_ script: ScriptedSession) -> [String] {
    script.events.compactMap { $0["type"] as? String }
}

private func errorCodes(_ script: ScriptedSession) -> [String] {
    script.events.compactMap { ($0["error"] as? [String: Any])?["code"] as? String }
}

@Suite struct SpokenTurnTests {
    @Test func aSpokenTurnIsHeardAnsweredAndSpoken() throws {
        let script = script()
        script.transcripts = [.success("go forward ten meters")]
        script.replies = [.text("Going forward ten meters now. Anything else?")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        script.run(until: 10_000)
        try expectGolden(script, "spoken-turn")
        #expect(script.violations == [])
        #expect(script.measured == [.transcript, .firstToken, .firstAudio])
        #expect(script.preparations == 1)
        #expect(script.spoken.joined() == "Going forward ten meters now. Anything else?")
        #expect(script.session.isIdle)
    }

    /// A client that asks for no transcripts gets none. The server knows the words all the same.
    @Test(arguments: [false, true])
    func theServerLearnsOfWordsThatTheClientGetsNoEventOf(clientGetsThem: Bool) throws {
        let script = script { if !clientGetsThem { $0.transcription = nil } }
        script.transcripts = [.success("go forward ten meters"), .success("")]
        let packets = try SpeechRecording.goForward.packets()
        script.speak(packets, from: 0)
        script.speak(packets, from: 10_000)
        script.run(until: 20_000)
        let events = types(script).count { $0.hasSuffix("input_audio_transcription.completed") }
        #expect(events == (clientGetsThem ? 2 : 0))
        // The second turn has no words.
        #expect(script.transcribed.count == (clientGetsThem ? 0 : 1))
        for id in script.transcribed {
            guard case .message(role: .user, let content) = script.session.item(id)?.kind,
                case .inputAudio(_, let transcript) = content.first
            else {
                Issue.record("no spoken item")
                continue
            }
            #expect(transcript == "go forward ten meters")
        }
    }

    /// The model is loaded once the client has named its audio, before any of it comes. A client
    /// that only writes text does not load it.
    @Test func aClientThatWillBeHeardHasTheRecogniserLoaded() {
        let text = ScriptedSession(voiceActivity: .installed)
        var update = SessionUpdate()
        update.instructions = .value("Be short.")
        update.turnDetection = .null
        text.send(.sessionUpdate(update), at: 0)
        text.run(until: 100)
        #expect(text.preparations == 0)
        update.turnDetection = .value(TurnDetectionParameters())
        text.send(.sessionUpdate(update), at: 200)
        text.run(until: 300)
        #expect(text.preparations == 1)
        let voice = ScriptedSession()
        var format = SessionUpdate()
        format.inputFormat = .value(.pcm)
        voice.send(.sessionUpdate(format), at: 0)
        voice.run(until: 100)
        #expect(voice.preparations == 1 && voice.violations == [])
    }

    @Test func speechOverAReplyCancelsIt() throws {
        let script = script()
        script.transcripts = [.success("go forward"), .success("stop")]
        script.replies = [.text(String(repeating: "A long answer follows here. ", count: 8))]
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 800)
        script.speak(packets, from: 0)
        script.speak(packets, from: 20 * packets.count + 1_500)
        script.run(until: 20_000)
        try expectGolden(script, "barge-in")
        #expect(script.violations == [])
        let first = script.events.first { $0["type"] as? String == "response.done" }
        let response = first?["response"] as? [String: Any]
        #expect(response?["status"] as? String == "cancelled")
        let details = response?["status_details"] as? [String: Any]
        #expect(details?["reason"] as? String == "turn_detected")
        #expect(types(script).count { $0 == "response.created" } == 2)
    }

    @Test func withoutInterruptionTheReplyGoesOnAndTheNewWordsAreAnsweredAfterIt() throws {
        let script = script {
            $0.turnDetection = TurnDetectionParameters(interruptResponse: false)
        }
        script.transcripts = [.success("go forward"), .success("and then left")]
        script.replies = [.text(String(repeating: "A long answer follows here. ", count: 8))]
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 800)
        script.speak(packets, from: 0)
        script.speak(packets, from: 20 * packets.count + 1_500)
        script.run(until: 60_000)
        let done = script.events.filter { $0["type"] as? String == "response.done" }
        #expect(
            done.compactMap { ($0["response"] as? [String: Any])?["status"] as? String }
                == ["completed", "completed"])
        #expect(script.requests.last?.messages.last == .user("and then left"))
    }

    @Test func aTurnWithoutWordsIsNotAnswered() throws {
        let script = script()
        script.transcripts = [.success("")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        script.run(until: 10_000)
        #expect(!types(script).contains("response.created"))
        #expect(types(script).contains("conversation.item.input_audio_transcription.completed"))
        #expect(script.session.isIdle)
    }

    @Test func wordsCutOffByANoiseAreStillAnswered() throws {
        let script = script()
        // The first transcript is late: the noise that follows comes before it.
        script.recognitionDelay = .seconds(6)
        script.transcripts = [.success("go forward"), .success("")]
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 800)
        script.speak(packets, from: 0)
        script.speak(packets, from: 20 * packets.count)
        script.run(until: 30_000)
        #expect(types(script).count { $0 == "response.created" } == 1)
        #expect(script.requests.last?.messages == [.user("go forward")])
    }

    @Test func failedRecognitionIsSaidAndTheSessionLives() throws {
        let script = script()
        script.transcripts = [.failure(.unavailable(message: "none")), .success("again")]
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 800)
        script.speak(packets, from: 0)
        script.speak(packets, from: 8_000)
        script.run(until: 20_000)
        try expectGolden(script, "recognition-failure")
        #expect(script.violations == [])
    }

    @Test func aTurnCommittedByTheClientWaitsForResponseCreate() throws {
        let script = script { $0.turnDetection = nil }
        script.transcripts = [.success("go forward ten meters")]
        script.replies = [.text("Going.")]
        script.speak(try SpeechRecording.goForward.packets(silenceMilliseconds: 20), from: 0)
        script.send(.inputAudioBufferCommit, at: 3_000)
        script.send(.responseCreate(ResponseParameters()), at: 3_010)
        script.run(until: 10_000)
        try expectGolden(script, "manual-commit")
        #expect(script.violations == [])
    }

    @Test func anEmptyBufferCannotBeCommitted() {
        let script = script { $0.turnDetection = nil }
        script.send(.inputAudioBufferCommit, at: 0)
        script.append([UInt8](repeating: 0, count: 2 * 24 * 99), at: 10)
        script.send(.inputAudioBufferCommit, at: 20)
        script.append([UInt8](repeating: 0, count: 2 * 24 * 10), at: 30)
        script.send(.inputAudioBufferCommit, at: 40)
        script.send(.inputAudioBufferClear, at: 50)
        script.send(.inputAudioBufferCommit, at: 60)
        script.run(until: 1_000)
        #expect(
            errorCodes(script)
                == Array(repeating: "input_audio_buffer_commit_empty", count: 3))
        #expect(types(script).count { $0 == "input_audio_buffer.committed" } == 1)
    }

    @Test func audioThatIsNoAudioIsRefusedAndCounted() {
        let script = script()
        script.append([1, 2, 3], at: 0)
        script.run(until: 10)
        #expect(errorCodes(script) == ["invalid_audio"])
        #expect(script.context.counters.decodeErrors == 1)
    }

    /// A relay in Node forwards text as it got it, in binary messages.
    @Test(arguments: [
        #"{"type":"session.update","session":{"type":"realtime"}}"#, #"  { "event_id" : "e" }"#,
    ])
    func anEventInABinaryMessageIsToldSo(text: String) {
        let script = script()
        // Nothing of it is heard; audio that begins likewise is.
        script.speak([Array(text.utf8), Array((text + " ").utf8)], from: 0)
        script.run(until: 100)
        #expect(errorCodes(script) == ["invalid_audio", "invalid_audio"])
        #expect(script.context.counters.samplesIn == 0)
        script.speak([Array("{\"xyz".utf8) + [0], Array("{{type\":".utf8)], from: 100)
        script.run(until: 1_000)
        #expect(errorCodes(script).count == 2)
        #expect(script.context.counters.samplesIn > 0)
    }

    @Test func theBufferIsBounded() {
        var limits = SessionLimits()
        limits.maxBufferedAudioSeconds = 1
        let script = ScriptedSession(
            { $0.turnDetection = nil }, limits: limits, voiceActivity: .installed)
        for index in 0..<2 {
            script.append([UInt8](repeating: 0, count: 2 * 24 * 700), at: index)
        }
        script.run(until: 10)
        #expect(errorCodes(script) == ["input_audio_buffer_full"])
        #expect(script.session.speechInput?.buffer.count == 16_000)
    }

    private func scriptBufferingASecond() -> ScriptedSession {
        var limits = SessionLimits()
        limits.maxBufferedAudioSeconds = 1
        return ScriptedSession(
            { $0.turnDetection = TurnDetectionParameters(prefixPaddingMilliseconds: 100) },
            limits: limits, voiceActivity: .installed)
    }

    @Test func speechLongerThanTheBufferIsCommittedInPiecesAndNothingIsLost() throws {
        let script = scriptBufferingASecond()
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        script.run(until: 6_000)
        let starts = script.events.compactMap { $0["audio_start_ms"] as? Int }
        let ends = script.events.compactMap { $0["audio_end_ms"] as? Int }
        #expect(starts.count > 1 && starts.count == ends.count)
        // What was committed in a piece ends where the next one may begin.
        for (end, next) in zip(ends, starts.dropFirst()) { #expect(next >= end - 100) }
        #expect(script.samplesTranscribed.allSatisfy { $0 <= 16_000 })
        #expect(errorCodes(script) == [])
    }

    /// 30 ms a packet do not divide the second that the buffer holds.
    @Test func whatOfAPacketFindsNoRoomBeginsTheNextPiece() throws {
        let script = scriptBufferingASecond()
        let audio = try SpeechRecording.goForward.packets().flatMap(\.self)
        let packets = stride(from: 0, to: audio.count, by: 1_440).map {
            Array(audio[$0..<min($0 + 1_440, audio.count)])
        }
        script.speak(packets, from: 0)
        script.run(until: 6_000)
        #expect(script.samplesTranscribed.contains(16_000))
        let input = try #require(script.session.speechInput)
        #expect(input.buffer.end == script.context.counters.samplesIn)
        #expect(errorCodes(script) == [])
    }

    @Test func paddingThatWouldLeaveNoRoomForSpeechIsRefused() {
        let script = script()
        var update = SessionUpdate()
        update.turnDetection = .value(
            TurnDetectionParameters(prefixPaddingMilliseconds: 60_000))
        script.send(.sessionUpdate(update), at: 0)
        script.run(until: 10)
        #expect(errorCodes(script) == ["invalid_value"])
        #expect(script.session.parameters.turnDetection?.prefixPaddingMilliseconds == 300)
    }

    @Test func moreThanTheBufferHoldsIsRefusedBeforeItIsDecoded() {
        let script = script()
        script.append([UInt8](repeating: 0, count: 2 * 24_000 * 61), at: 0)
        script.run(until: 10)
        #expect(errorCodes(script) == ["input_audio_buffer_full"])
        #expect(script.context.counters.samplesIn == 0)
    }

    @Test func fewTurnsWaitForTheirTranscriptAtOnce() {
        var limits = SessionLimits()
        limits.maxAwaitedTranscripts = 2
        let script = ScriptedSession({ $0.turnDetection = nil }, limits: limits)
        for index in 0..<3 {
            script.append([UInt8](repeating: 0, count: 2 * 24 * 100), at: index)
            script.send(.inputAudioBufferCommit, at: index)
        }
        script.run(until: 50)
        #expect(errorCodes(script) == ["too_many_transcriptions"])
        // The audio of the refused commit is still there.
        script.send(.inputAudioBufferCommit, at: 1_000)
        script.run(until: 1_100)
        #expect(types(script).count { $0 == "input_audio_buffer.committed" } == 3)
    }

    @Test func anItemCannotTakeTheIDOfTheSpeechInProgress() throws {
        let script = script()
        script.transcripts = [.success("go forward")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        script.run(until: 1_000)
        let itemID = try #require(script.session.speechInput?.speechItemID)
        let item = ConversationItem(
            id: itemID, kind: .message(role: .user, content: [.inputText("mine")]))
        script.send(.conversationItemCreate(item: item, previousItemID: nil), at: 1_000)
        script.run(until: 10_000)
        #expect(errorCodes(script) == ["item_create_duplicate_item_id"])
        #expect(types(script).contains("response.done"))
    }

    @Test func theIdleTimeoutStartsAnewAfterANoise() throws {
        let script = script {
            $0.turnDetection = TurnDetectionParameters(idleTimeoutMilliseconds: 5_000)
        }
        script.replies = [.text("Hello.")]
        script.transcripts = [.success("")]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.speak(try SpeechRecording.goForward.packets(), from: 2_000)
        script.run(until: 20_000)
        let triggered = script.transcript.filter { $0.contains("timeout_triggered") }
        // 2,000 ms + 2,740 ms until the noise is over + 120 ms of recognition + 5,000 ms.
        #expect(triggered.first?.hasPrefix("+09860ms") == true)
    }

    @Test func speechOutlivesAChangeOfTurnDetection() throws {
        let script = script()
        script.transcripts = [.success("go forward ten meters")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        var update = SessionUpdate()
        update.turnDetection = .value(
            TurnDetectionParameters(mode: .serverVAD(threshold: 0.5, silenceMilliseconds: 600)))
        script.send(.sessionUpdate(update), at: 1_400)
        script.run(until: 6_000)
        #expect(types(script).count { $0 == "input_audio_buffer.speech_started" } == 1)
        #expect(types(script).count { $0 == "input_audio_buffer.speech_stopped" } == 1)
        // From 212 ms, where the speech began, to 2,240 ms + 600 ms of silence, in whole windows.
        #expect((script.samplesTranscribed.first ?? 0) / 16 > 2_500)
    }

    @Test func speechStaysForACommitWhenTurnDetectionIsSwitchedOff() throws {
        let script = script()
        script.transcripts = [.success("go forward ten meters")]
        script.speak(try SpeechRecording.goForward.packets(), from: 0)
        var update = SessionUpdate()
        update.turnDetection = .null
        script.send(.sessionUpdate(update), at: 1_400)
        script.send(.inputAudioBufferCommit, at: 3_500)
        script.run(until: 6_000)
        let ids = script.events.filter { event in
            let type = event["type"] as? String ?? ""
            return type.hasPrefix("input_audio_buffer.speech") || type.hasSuffix(".committed")
        }.compactMap { $0["item_id"] as? String }
        #expect(ids.count == 3 && Set(ids).count == 1)
        #expect((script.samplesTranscribed.first ?? 0) / 16 > 3_000)
    }

    @Test func silenceIsNotKept() {
        let script = script()
        for piece in 0..<4 {
            script.append([UInt8](repeating: 0, count: 2 * 24_000 * 2), at: piece)
        }
        script.run(until: 100)
        #expect(script.session.speechInput!.buffer.count < 16_000)
        #expect(script.context.counters.samplesIn == 4 * 2 * 16_000)
    }
}

@Suite struct SpokenReplyTests {
    private func reply(_ text: String, _ configure: (inout SessionParameters) -> Void = { _ in })
        -> ScriptedSession
    {
        let script = ScriptedSession(configure)
        script.replies = [.text(text)]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        return script
    }

    @Test func audioIsPacedWithABoundedLead() {
        let text = "This sentence takes quite a while to say. And so does this one, I think."
        let script = reply(text)
        script.run(until: 30_000)
        let spokenMilliseconds = 50 * text.count
        // 24 kHz, 16 bit: 48 bytes a millisecond.
        let sent = script.events.compactMap { event -> Int? in
            guard event["type"] as? String == "response.output_audio.delta" else { return nil }
            return (event["delta"] as? String).map { $0.utf8.count / 4 * 3 / 48 }
        }
        #expect(abs(sent.reduce(0, +) - spokenMilliseconds) < 30)
        #expect(script.context.counters.millisecondsOut == spokenMilliseconds)
        let done = script.transcript.first { $0.contains("response.done") } ?? ""
        let milliseconds = Int(done.dropFirst().prefix { $0 != "m" }) ?? 0
        // It ends one lead before the last sample is played, not at once and not late.
        #expect(milliseconds > spokenMilliseconds - 500)
        #expect(milliseconds < spokenMilliseconds + 300)
    }

    @Test func audioThatComesJustWhenSomeIsDueHoldsNothingUp() {
        let script = reply("This sentence takes quite a while to say, does it not?")
        // The first 500 ms leave at 115 ms, and from 215 ms on 100 ms are due every 100 ms.
        for index in 0..<40 { script.append([0, 0], at: 215 + 100 * index) }
        script.run(until: 10_000)
        #expect(types(script).contains("response.done"))
    }

    @Test(arguments: [AudioFormat.pcmu, .pcma, .opus])
    func otherFormatsCarryTheSameDuration(format: AudioFormat) throws {
        let text = "Ten words are enough for this small test, I hope."
        let script = reply(text) {
            $0.outputFormat = format
            $0.outputTransport = .binary
        }
        script.run(until: 30_000)
        let packets = script.audioPackets
        #expect(packets.first?.position == 0)
        var expected = 0
        for packet in packets {
            #expect(packet.format == format)
            #expect(packet.position == expected)
            expected += format == .opus ? 960 : packet.payload.count
        }
        let milliseconds = format.sampleRate.milliseconds(ofSamples: expected)
        #expect(abs(milliseconds - 50 * text.count) <= 20)
        #expect(packets.allSatisfy { format != .opus || $0.payload.count < 400 })
    }

    @Test func truncationTellsTheModelWhatWasHeard() throws {
        let script = reply("The first sentence is here. The second one is never heard.")
        script.run(until: 10_000)
        let added = script.events.first { $0["type"] as? String == "conversation.item.added" }
        let itemID = (added?["item"] as? [String: Any])?["id"] as? String ?? ""
        script.send(
            .conversationItemTruncate(
                itemID: itemID, contentIndex: 0, audioEndMilliseconds: 50 * 27), at: 10_000)
        script.send(
            .conversationItemTruncate(
                itemID: itemID, contentIndex: 0, audioEndMilliseconds: 99_000), at: 10_010)
        script.send(.responseCreate(ResponseParameters()), at: 10_020)
        script.run(until: 20_000)
        try expectGolden(script, "truncate")
        #expect(script.requests.last?.messages == [.assistant("The first sentence is here.")])
    }

    @Test func onlyAudioThatWasSentCanHaveBeenHeard() throws {
        let script = reply("The first sentence is here. The second one is never heard.")
        script.send(.responseCancel(responseID: nil), at: 600)
        script.run(until: 700)
        let done = try #require(
            script.events.first { $0["type"] as? String == "response.output_item.done" })
        let itemID = try #require((done["item"] as? [String: Any])?["id"] as? String)
        let sent = script.context.counters.millisecondsOut
        script.send(
            .conversationItemTruncate(
                itemID: itemID, contentIndex: 0, audioEndMilliseconds: sent + 1), at: 700)
        script.send(
            .conversationItemTruncate(
                itemID: itemID, contentIndex: 0, audioEndMilliseconds: sent), at: 710)
        script.send(.responseCreate(ResponseParameters()), at: 720)
        script.run(until: 800)
        #expect(errorCodes(script) == ["invalid_value"])
        // 50 ms a character: 800 ms are 16 of them, and "sentence" was not finished.
        #expect(sent == 800)
        #expect(script.requests.last?.messages == [.assistant("The first")])
    }

    @Test(arguments: [11_025, 192_000])
    func aRateWithoutWholeFramesFailsTheResponse(hertz: Int) {
        let script = reply("Nobody will hear this, because the rate is odd.")
        script.speechRate = SampleRate(hertz: hertz)
        script.run(until: 10_000)
        let done = script.events.first { $0["type"] as? String == "response.done" }
        #expect((done?["response"] as? [String: Any])?["status"] as? String == "failed")
    }

    @Test func afterClearingTheOutputNothingMoreIsSpoken() {
        let script = reply("The first sentence is here. The second one is never heard, is it?")
        // At 230 ms the first sentence is being spoken, and the model writes the second.
        script.send(.outputAudioBufferClear, at: 230)
        script.run(until: 10_000)
        #expect(script.spoken == ["The first sentence is here."])
        #expect(script.context.counters.millisecondsOut == 500)
        #expect(types(script).contains("response.done"))
    }

    @Test func clearingTheOutputStopsItsAudioAndKeepsItsText() {
        let script = reply("The first sentence is here. The second one is never heard.")
        script.send(.outputAudioBufferClear, at: 500)
        script.run(until: 10_000)
        #expect(types(script).contains("output_audio_buffer.cleared"))
        #expect(types(script).contains("response.done"))
        #expect(script.context.counters.millisecondsOut < 1_200)
        #expect(script.session.isIdle)
    }

    @Test func failedSynthesisFailsTheResponse() {
        let script = reply("Nobody will hear this, because the voice is gone.")
        script.speechFails = true
        script.run(until: 10_000)
        let done = script.events.first { $0["type"] as? String == "response.done" }
        let response = done?["response"] as? [String: Any]
        #expect(response?["status"] as? String == "failed")
        #expect(script.session.isIdle)
    }

    @Test func withoutASynthesiserAudioIsRefusedAndTextWorks() {
        let script = ScriptedSession(hasSynthesizer: false)
        script.send(.responseCreate(ResponseParameters()), at: 0)
        var asText = ResponseParameters()
        asText.outputModality = .text
        script.send(.responseCreate(asText), at: 100)
        script.run(until: 5_000)
        let statuses = script.events.filter { $0["type"] as? String == "response.done" }
            .compactMap { ($0["response"] as? [String: Any])?["status"] as? String }
        #expect(statuses == ["failed", "completed"])
    }

    @Test func theIdleTimeoutPromptsOnceAndOnlyAfterAReply() throws {
        let script = ScriptedSession(
            { $0.turnDetection = TurnDetectionParameters(idleTimeoutMilliseconds: 5_000) },
            voiceActivity: .installed)
        script.replies = [.text("Hello."), .text("Still there?")]
        script.run(until: 20_000)
        #expect(!types(script).contains("input_audio_buffer.timeout_triggered"))
        script.send(.responseCreate(ResponseParameters()), at: 20_000)
        script.run(until: 26_500)
        try expectGolden(script, "idle-timeout")
        #expect(types(script).count { $0 == "input_audio_buffer.timeout_triggered" } == 1)
        #expect(types(script).count { $0 == "response.created" } == 2)
    }
}
