// The parts of `parley talk` that need no server: addresses, the end of a turn, the end of speech,
// and the binary audio header.

import Codec
import Foundation
import Testing

@testable import parley

@Suite struct RealtimeURLTests {
    @Test(arguments: [
        ("ws://127.0.0.1:8080/v1/realtime", "127.0.0.1", 8080, "/v1/realtime?model=m"),
        ("ws://[::1]:9/", "::1", 9, "/v1/realtime?model=m"),
        ("http://host", "host", 80, "/v1/realtime?model=m"),
        ("ws://h:1/x?model=other&a=b", "h", 1, "/x?model=other&a=b"),
        ("ws://h?a=b#part", "h", 80, "/v1/realtime?a=b&model=m"),
        ("ws://h:/a b", "h", 80, "/a%20b?model=m"),
    ])
    func addressesAreParsed(text: String, host: String, port: Int, target: String) throws {
        let url = try RealtimeURL(text, model: "m")
        #expect(url.host == host)
        #expect(url.port == port)
        #expect(url.target == target)
        #expect(!url.isSecure)
    }

    @Test(arguments: [("wss://h/", 443), ("https://h:80/", 80)])
    func securedAddressesAreParsed(text: String, port: Int) throws {
        let url = try RealtimeURL(text, model: "m")
        #expect(url.isSecure && url.host == "h" && url.port == port)
    }

    @Test func fieldsAreAddedToTheQuery() throws {
        let url = try RealtimeURL("ws://h/?model=m", model: "")
        #expect(
            url.adding([("resume", "sess_a.b-_"), ("item_id", "a b")]).target
                == "/v1/realtime?model=m&resume=sess_a.b-_&item_id=a%20b")
    }

    @Test func namesOfModelsAreEscaped() throws {
        #expect(try RealtimeURL("ws://h/", model: "a b&c").target == "/v1/realtime?model=a%20b%26c")
    }

    @Test(arguments: [
        "", "127.0.0.1:8080", "wss:/h/", "ftp://h/", "ws://", "ws://:80/", "ws://[::1/",
        "ws://[::1]9/", "ws://h:0/", "ws://h:65536/", "ws://h:1x/", "ws://a b/", "ws://a@h/",
    ])
    func otherAddressesAreRefused(text: String) {
        #expect(throws: CommandFailure.self) { try RealtimeURL(text, model: "m") }
    }
}

@Suite struct ConversationProgressTests {
    private let parser = JSONParser()

    /// Feeds events given as `type item_id`.
    private func progress(after events: [String]) throws -> ConversationProgress {
        var progress = ConversationProgress()
        for event in events {
            let words = event.split(separator: " ").map(String.init)
            let body = words.count > 1 ? "{\"item_id\":\"\(words[1])\"}" : "{}"
            _ = progress.handle(type: words[0], body: try parser.parse(body))
        }
        return progress
    }

    private let committed = [
        "input_audio_buffer.speech_started i1", "input_audio_buffer.speech_stopped i1",
        "input_audio_buffer.committed i1",
    ]
    private let transcribed = "conversation.item.input_audio_transcription.completed i1"

    @Test func aTurnIsOverOnceItIsTranscribedAndAnswered() throws {
        let events = committed + ["response.created", transcribed, "response.done"]
        for length in events.indices {
            #expect(try !progress(after: Array(events[..<length])).isTurnOver)
        }
        #expect(try progress(after: events).isTurnOver)
    }

    @Test func aTranscriptMayComeAfterTheResponse() throws {
        let events = committed + ["response.created", "response.done"]
        #expect(try !progress(after: events).isTurnOver)
        #expect(try progress(after: events + [transcribed]).isTurnOver)
    }

    @Test func speechAfterAResponseOpensTheTurnAgain() throws {
        let events =
            committed + [
                transcribed, "response.created", "response.done",
                "input_audio_buffer.speech_started i2",
            ]
        #expect(try !progress(after: events).isTurnOver)
    }

    @Test func anUnansweredSecondTurnIsNotOver() throws {
        let events =
            committed + [
                transcribed, "response.created", "input_audio_buffer.committed i2",
                "response.done", "conversation.item.input_audio_transcription.failed i2",
            ]
        #expect(try !progress(after: events).isTurnOver)
        #expect(try progress(after: events + ["response.created", "response.done"]).isTurnOver)
    }

    private func handle(_ json: String, in progress: inout ConversationProgress) throws
        -> ConversationNotice
    {
        let body = try parser.parse(json)
        return progress.handle(type: body["type"]?.string ?? "", body: body)
    }

    private func handle(_ types: [String], in progress: inout ConversationProgress) throws
        -> [ConversationNotice]
    {
        try types.map { try handle("{\"type\":\"\($0)\",\"delta\":\"a\"}", in: &progress) }
    }

    @Test func theRestOfAnInterruptedReplyIsNoNews() throws {
        var progress = ConversationProgress()
        let rest = [
            "response.output_text.delta", "response.output_audio.delta",
            "response.function_call_arguments.done", "response.done",
        ]
        progress.handleTextSent()
        _ = try handle(["response.created"], in: &progress)
        progress.beginInterruption()
        #expect(try handle(rest, in: &progress) == rest.map { _ in .other })
        #expect(progress.isTurnOver && !progress.isInterrupting)
        // The next reply is.
        _ = try handle(["response.created"], in: &progress)
        #expect(try handle([rest[0]], in: &progress) == [.replyText("a")])
    }

    @Test func aReplyThatWasOverWhenItWasInterruptedIsNoFailure() throws {
        let error = """
            {"type":"error","error":{"message":"none",\
            "event_id":"\(ConversationProgress.interruptionID)"}}
            """
        var progress = ConversationProgress()
        progress.handleTextSent()
        _ = try handle(["response.created", "response.done"], in: &progress)
        #expect(try handle(error, in: &progress) == .other && progress.isTurnOver)
        // After a lost connection the end itself may not come again.
        _ = try handle(["response.created"], in: &progress)
        progress.beginInterruption()
        #expect(try handle(error, in: &progress) == .other && !progress.isInterrupting)
    }

    @Test func anInterruptionLastsWhereTheReplyIsHandedOver() throws {
        var progress = ConversationProgress()
        progress.handleTextSent()
        _ = try handle(["response.created"], in: &progress)
        progress.beginInterruption()
        let done = """
            {"type":"response.done","response":{"status":"incomplete",\
            "status_details":{"reason":"handed_over"}}}
            """
        #expect(try handle(done, in: &progress) == .other)
        #expect(progress.isInterrupting && !progress.isTurnOver)
    }

    private func item(_ id: String, _ role: String, _ text: String) -> String {
        """
        "item":{"id":"\(id)","type":"message","role":"\(role)","content":[{"text":"\(text)"}]}
        """
    }

    @Test func theAnswerToASearchTellsWhetherTheServerHasTheLine() throws {
        var progress = ConversationProgress()
        func retrieved(_ id: String) throws -> ConversationNotice {
            let type = #""type":"conversation.item.retrieved""#
            return try handle("{\(type),\(item(id, "user", "a"))}", in: &progress)
        }
        func refused(_ event: String) throws -> ConversationNotice {
            let error = #"{"type":"error","error":{"message":"none","event_id":"\#(event)"}}"#
            return try handle(error, in: &progress)
        }
        #expect(try retrieved("mine") == .other)
        progress.handleTextSent(itemID: "mine")
        #expect(try retrieved("mine") == .lineIsKnown(true))
        #expect(try retrieved("other") == .other)
        #expect(try refused(ConversationProgress.searchID(of: "mine")) == .lineIsKnown(false))
        #expect(try refused(ConversationProgress.searchID(of: "other")) == .failed("none"))
    }

    @Test(arguments: [true, false])
    func aConversationThatIsToldAgainTellsWhetherTheLastTurnWasAnswered(isAnswered: Bool) throws {
        var progress = ConversationProgress()
        let first = #"{"type":"conversation.item.done",\#(item("a1", "assistant", "old"))}"#
        #expect(try handle(first, in: &progress) == .other)
        progress.handleTextSent(itemID: "u2")
        _ = try handle(#"{"type":"response.created"}"#, in: &progress)
        progress.beginRetelling()
        var shown: [ConversationNotice] = []
        let roles = ["user", "assistant", "user", "assistant"].dropLast(isAnswered ? 0 : 1)
        for (id, role) in zip(["u1", "a1", "u2", "a2"], roles) {
            for type in ["added", "done"] {
                let event = #"{"type":"conversation.item.\#(type)",\#(item(id, role, "new"))}"#
                shown.append(try handle(event, in: &progress))
            }
        }
        progress.endRetelling()
        #expect(shown.filter { $0 != .other } == (isAnswered ? [.replyText("new")] : []))
        #expect(progress.isTurnOver == isAnswered && progress.hasResponse == isAnswered)
    }

    @Test func aTurnIsNotOverWhereAnotherServerSaysTheRest() throws {
        var progress = ConversationProgress()
        progress.handleTextSent()
        let done = #"{"type":"response.done","response":{"status":"incomplete","status_details":"#
        for (reason, isOver) in [("handed_over", false), ("interrupted_by_restart", true)] {
            _ = try handle(#"{"type":"response.created"}"#, in: &progress)
            _ = try handle(done + #"{"reason":"\#(reason)"}}}"#, in: &progress)
            #expect(progress.isTurnOver == isOver)
        }
    }

    @Test(arguments: ["hel", "hello"])
    func aStreamedTranscriptIsShownAgainOnlyWhereItIsCorrected(shown: String) throws {
        var progress = ConversationProgress()
        let prefix = "conversation.item.input_audio_transcription"
        let delta = progress.handle(
            type: "\(prefix).delta",
            body: try parser.parse(#"{"item_id":"i","delta":"\#(shown)"}"#))
        let done = progress.handle(
            type: "\(prefix).completed",
            body: try parser.parse(#"{"item_id":"i","transcript":"hello"}"#))
        #expect(delta == .transcript(shown))
        #expect(done == .transcriptDone("hello", isShown: shown == "hello"))
    }

    @Test func failuresNameTheirReason() throws {
        var progress = ConversationProgress()
        let done = progress.handle(
            type: "response.done",
            body: try parser.parse(
                """
                {"response":{"status":"failed","status_details":
                {"error":{"code":"upstream_error","message":"gone"}}}}
                """))
        #expect(done == .responseDone(status: "failed", reason: "gone"))
        let refused = progress.handle(
            type: "error",
            body: try parser.parse(#"{"error":{"code":"invalid_value","message":"no"}}"#))
        #expect(refused == .failed("no [invalid_value]"))
    }
}

@Suite struct ReplyAudioTests {
    @Test func gapsBecomeSilenceAndItemsFollowEachOther() throws {
        func message(item: UInt8, position: UInt8, sample: UInt8) -> [UInt8] {
            [1, 0, 0, 0, position, 0, 0, 0, item] + [UInt8](repeating: 0, count: 15) + [sample, 0]
        }
        var reply = try ReplyAudio(format: .pcm)
        _ = try reply.append(binary: message(item: 1, position: 0, sample: 5))
        _ = try reply.append(binary: message(item: 1, position: 3, sample: 6))
        _ = try reply.append(binary: message(item: 2, position: 0, sample: 7))
        #expect(reply.samples == [5, 0, 0, 6, 7])
    }

    @Test func audioThatIsSentAgainReplacesTheEarlierAudio() throws {
        var reply = try ReplyAudio(format: .pcm)
        let zeros = [UInt8](repeating: 0, count: 2 * 24 * 10)
        for start in [nil, nil, 10] {
            _ = try reply.append(
                base64: Data(zeros).base64EncodedString(), itemID: "a", start: start)
        }
        #expect(reply.samples.count == 24 * 20)
        #expect(reply.itemEnd.samples == 24 * 20)
    }

    /// A server may send any number.
    @Test(arguments: [-1, 86_400_001, .max, .min])
    func audioOutOfItsPlaceIsRefused(start: Int) throws {
        var reply = try ReplyAudio(format: .pcm)
        #expect(throws: CommandFailure.self) {
            try reply.append(base64: "AAAA", itemID: "a", start: start)
        }
    }

    @Test func heardAudioIsReceivedAudioLessWhatIsNotPlayed() throws {
        var playback = PlaybackEstimate(rate: .hz24000)
        #expect(playback.stop(at: 0) == nil)
        playback.handle(12_000, of: "a", end: 12_000, at: 1)
        playback.handle(12_000, of: "a", end: 24_000, at: 1.25)
        let heard = playback.stop(at: 1.75)
        #expect(heard?.itemID == "a" && heard?.milliseconds == 750)
        #expect(playback.stop(at: 1.75) == nil, "it is silent")
    }

    @Test func whatWaitedWhenPlayingStoppedIsNotKept() throws {
        var playback = PlaybackEstimate(rate: .hz24000)
        #expect(playback.kept == nil)
        playback.handle(24_000, of: "a", end: 24_000, at: 1)
        #expect(playback.kept == .init(itemID: "a", milliseconds: 1_000))
        _ = playback.stop(at: 1.25)
        #expect(playback.kept == .init(itemID: "a", milliseconds: 250))
        playback.handle(2_400, of: "a", end: 8_400, at: 2)
        #expect(playback.kept == .init(itemID: "a", milliseconds: 350))
    }
}

@Suite struct SessionUpdateTests {
    private func update(
        _ format: AudioFormat, isSpoken: Bool, wantsAudio: Bool, language: String? = nil
    ) -> String {
        let parameters = TalkParameters(
            format: format, transport: .binary, language: language, instructions: nil,
            isSpoken: isSpoken, wantsAudio: wantsAudio)
        var json = JSONWriter(ByteWriter(capacity: 256))
        json.beginObject()
        parameters.writeSessionUpdate(to: &json)
        json.endObject()
        return String(decoding: json.finish().copiedBytes, as: UTF8.self)
    }

    @Test func aTypedConversationConfiguresNoAudio() {
        #expect(
            update(.opus, isSpoken: false, wantsAudio: false)
                == #"{"session":{"type":"realtime","output_modalities":["text"]}}"#)
    }

    @Test func aSpokenConversationConfiguresItsAudioFormat() {
        let format = #""format":{"type":"audio/pcm","rate":24000}"#
        let input =
            "{\(format)," + #""transcription":{"model":"default"},"#
            + #""turn_detection":{"type":"server_vad"}}"#
        #expect(
            update(.pcm, isSpoken: true, wantsAudio: true)
                == #"{"session":{"type":"realtime","output_modalities":["audio"],"#
                + "\"audio\":{\"input\":\(input),\"output\":{\(format),\"transport\":\"binary\"}}}}"
        )
        #expect(
            update(.opus, isSpoken: true, wantsAudio: false, language: "fr")
                .contains(#""transcription":{"model":"default","language":"fr"}"#))
    }
}

@Suite struct RecordingTests {
    @Test func speechEndsWhereTheRecordingFallsSilent() throws {
        // 100 ms of a loud tone, 300 ms of noise 40 dB below it.
        let loud = (0..<1_600).map { Int16($0 % 16 < 8 ? 10_000 : -10_000) }
        let quiet = (0..<4_800).map { Int16($0 % 3 - 1) * 50 }
        let file = WAVFile(rate: .hz16000, channels: 1, samples: loud + quiet)
        let url = FileManager.default.temporaryDirectory.appending(path: "\(UUID()).wav")
        try Data(file.encoded()).write(to: url)
        defer { try? FileManager.default.removeItem(at: url) }
        let recording = try Recording(path: url.path, format: .opus)
        #expect(recording.rate == .hz48000)
        #expect(abs(recording.samples.count - 19_200) <= 48)
        #expect(abs(recording.samplesOfSpeech - 4_800) <= 960)
    }

    @Test func missingAndBrokenFilesAreNamed() {
        let line = "cannot read /no/such.wav: No such file or directory"
        #expect(throws: CommandFailure(description: line)) {
            try Recording(path: "/no/such.wav", format: .pcm)
        }
    }
}
