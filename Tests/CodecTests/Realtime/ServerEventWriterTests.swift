// Writing server events: every case is checked against the protocol's tables, and the details on
// which client libraries depend are compared literally.

import Codec
import Foundation
import TestMaterial
import Testing

@Suite struct ServerEventWriterTests {
    static func written(_ event: ServerEvent, number: UInt64 = 7) -> String {
        var bytes = ByteWriter(capacity: 16)
        ServerEventWriter(sessionID: "sess_AbC")
            .write(event, number: number, resume: note(for: event), into: &bytes)
        return String(decoding: bytes.copiedBytes, as: UTF8.self)
    }

    /// The members that the event never comes without.
    static func note(for event: ServerEvent) -> ResumeNote? {
        switch event {
        case .resumed: ResumeNote(offset: nil, grant: grant)
        case .resumeUpdated: ResumeNote(offset: 1, grant: grant)
        default: nil
        }
    }

    private static let grant = ResumeNote.Grant(
        handle: "sess_AbC.def", expiresAt: 1_800_000_000, epoch: 3)

    // MARK: The tables

    struct Sample: Sendable, CustomTestStringConvertible {
        let name: String
        let event: ServerEvent
        var testDescription: String { "\(event.wireName), \(name)" }
    }

    @Test(arguments: samples)
    func followsTheSchema(_ sample: Sample) throws {
        let text = Self.written(sample.event)
        let violations = RealtimeSchema.shared.violations(inServerEvent: text)
        #expect(violations.isEmpty, "\(violations)\n\(text)")
        // Foundation checks the JSON itself.
        let object = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
        #expect(object?["type"] as? String == sample.event.wireName)
        #expect(object?["event_id"] as? String == "event_AbC_7")
    }

    @Test func everyEventHasASample() {
        let sampled = Set(Self.samples.map(\.event.wireName))
        let tables = Set(ServerEventTables.all.map(\.name))
        #expect(tables.subtracting(sampled) == [], "no sample in ServerEventSamples")
        #expect(sampled.subtracting(tables) == [], "no table in ServerEventTables")
    }

    // MARK: Literal texts

    @Test func aTextDelta() {
        let event = ServerEvent.responseOutputTextDelta(Self.address, delta: "say \"hi\"\n")
        #expect(
            Self.written(event)
                == #"{"type":"response.output_text.delta","event_id":"event_AbC_7","#
                + #""response_id":"resp_1","item_id":"item_1","output_index":0,"#
                + #""content_index":2,"delta":"say \"hi\"\n"}"#)
    }

    @Test func anAudioDelta() {
        let event = ServerEvent.responseOutputAudioDelta(Self.address, audio: [1, 2, 3, 4])
        #expect(Self.written(event).hasSuffix(#","delta":"AQIDBA=="}"#))
    }

    @Test func eventIDsCountUp() {
        #expect(Self.written(.inputAudioBufferCleared, number: 0).contains(#""event_AbC_0""#))
        #expect(
            Self.written(.inputAudioBufferCleared, number: .max)
                .contains(#""event_AbC_18446744073709551615""#))
    }

    @Test(arguments: [SessionParameters(model: "m"), .transcription(model: nil)])
    func aSessionWithAnEndNamesIt(_ parameters: SessionParameters) throws {
        let writer = ServerEventWriter(sessionID: "sess_AbC")
        for event in [
            ServerEvent.sessionCreated(id: "sess_AbC", parameters),
            .sessionUpdated(id: "sess_AbC", parameters),
        ] {
            var bytes = ByteWriter(capacity: 1_024)
            writer.write(event, number: 1, expiresAt: 1_800_000_000, into: &bytes)
            let text = String(decoding: bytes.copiedBytes, as: UTF8.self)
            let session = try JSONParser().parse(text)["session"]
            #expect(session?["expires_at"]?.int == 1_800_000_000)
            #expect(RealtimeSchema.shared.violations(inServerEvent: text).isEmpty)
        }
    }

    @Test func theDefaultSessionIsWhole() throws {
        let parser = JSONParser()
        let event = try parser.parse(
            Self.written(.sessionCreated(id: "sess_AbC", SessionParameters(model: "demo"))))
        let session = try #require(event["session"])
        #expect(session["object"]?.string == "realtime.session")
        #expect(session["type"]?.string == "realtime" && session["id"]?.string == "sess_AbC")
        #expect(session["max_output_tokens"]?.string == "inf")
        #expect(session["truncation"]?.string == "auto" && session["tracing"]?.isNull == true)
        let input = session["audio"]?["input"]
        #expect(input?["format"]?.raw.text == #"{"type":"audio/pcm","rate":24000}"#)
        #expect(input?["transcription"]?.isNull == true)
        #expect(input?["noise_reduction"]?.isNull == true)
        #expect(
            input?["turn_detection"]?.raw.text
                == #"{"type":"server_vad","threshold":0.5,"prefix_padding_ms":300,"#
                + #""silence_duration_ms":500,"idle_timeout_ms":null,"create_response":true,"#
                + #""interrupt_response":true}"#)
        #expect(
            session["audio"]?["output"]?.raw.text
                == #"{"format":{"type":"audio/pcm","rate":24000},"voice":"marin","speed":1.0}"#)
    }

    @Test func noiseReductionIsReported() throws {
        var parameters = SessionParameters(model: "demo")
        parameters.noiseReduction = .farField
        let text = Self.written(.sessionUpdated(id: "sess_1", parameters))
        #expect(text.contains(#""noise_reduction":{"type":"far_field"}"#))
    }

    @Test func speculativeResponseIsWrittenOnlyIfItIsOn() throws {
        var parameters = SessionParameters(model: "demo")
        parameters.turnDetection?.speculativeResponse = true
        let text = Self.written(.sessionUpdated(id: "sess_1", parameters))
        #expect(text.contains(#""interrupt_response":true,"speculative_response":true}"#))
    }

    @Test func onlyPCMNamesItsRateAndOnlyBinaryTransportIsNamed() {
        var parameters = SessionParameters(model: "demo")
        parameters.inputFormat = .opus
        parameters.outputFormat = .pcmu
        parameters.outputTransport = .binary
        parameters.turnDetection = nil
        let text = Self.written(.sessionUpdated(id: "sess_AbC", parameters))
        #expect(text.contains(#""input":{"format":{"type":"audio/opus"},"#))
        #expect(text.contains(#""turn_detection":null"#))
        #expect(text.contains(#""format":{"type":"audio/pcmu"},"voice""#))
        #expect(text.contains(#""transport":"binary""#))
    }

    @Test func schemasAndMetadataGoOutAsTheyCame() {
        var parameters = SessionParameters(model: "demo")
        let schema = "{ \"type\" : \"object\", \"x\": 1.50e0 }"
        parameters.tools = [FunctionTool(name: "f", parameters: RawJSON(schema))]
        let session = Self.written(.sessionUpdated(id: "sess_AbC", parameters))
        #expect(session.contains(#"{"type":"function","name":"f","parameters":\#(schema)}"#))
        var response = Self.response
        response.metadata = RawJSON("{\"client_event_id\" : \"e1\"}")
        #expect(
            Self.written(.responseCreated(response))
                .contains(#""metadata":{"client_event_id" : "e1"}"#))
    }

    @Test func itemsHaveNoNullsAndNoEmptyIDs() {
        let message = ConversationItem(
            id: "", kind: .message(role: .user, content: [.inputAudio(bytes: [], transcript: nil)])
        )
        #expect(
            Self.written(.conversationItemDone(message, previousItemID: "item_0")).hasSuffix(
                #""previous_item_id":"item_0","item":{"object":"realtime.item","type":"message","#
                    + #""status":"completed","role":"user","content":[{"type":"input_audio"}]}}"#))
        let call = ConversationItem(
            id: "i", status: .inProgress, kind: .functionCall(callID: "", name: "f", arguments: ""))
        #expect(
            Self.written(.responseOutputItemAdded(responseID: "r", outputIndex: 0, call)).hasSuffix(
                #""item":{"id":"i","object":"realtime.item","type":"function_call","#
                    + #""status":"in_progress","name":"f","arguments":""}}"#))
    }

    @Test(
        arguments: [
            ([1, 2], "t", #"{"type":"input_audio","audio":"AQI=","transcript":"t"}"#),
            ([], "t", #"{"type":"input_audio","transcript":"t"}"#),
            ([], nil, #"{"type":"input_audio"}"#),
        ] as [([UInt8], String?, String)])
    func audioIsWrittenWhereTheItemHasIt(bytes: [UInt8], transcript: String?, part: String) {
        let item = ConversationItem(
            id: "i",
            kind: .message(
                role: .user, content: [.inputAudio(bytes: bytes, transcript: transcript)]))
        #expect(Self.written(.conversationItemRetrieved(item)).contains(#""content":[\#(part)]"#))
    }

    @Test func anImageComesBackAsItsURLAndNeverAsItsData() {
        let item = ConversationItem(
            id: "i",
            kind: .message(
                role: .user,
                content: [
                    .inputImage(url: "data:image/png;base64,AQID", detail: .low),
                    .inputImage(url: "https://a.test/b", detail: .auto),
                ]))
        let parts =
            #""content":[{"type":"input_image","detail":"low"},"#
            + #"{"type":"input_image","image_url":"https://a.test/b","detail":"auto"}]"#
        #expect(Self.written(.conversationItemDone(item, previousItemID: nil)).contains(parts))
    }

    @Test(
        arguments: [
            (.inProgress, #""status":"in_progress","status_details":null"#),
            (.completed, #""status":"completed","status_details":null"#),
            (
                .cancelled(reason: "turn_detected"),
                #""status":"cancelled","status_details":{"type":"cancelled","#
                    + #""reason":"turn_detected"}"#
            ),
            (
                .incomplete(reason: "max_output_tokens"),
                #""status_details":{"type":"incomplete","reason":"max_output_tokens"}"#
            ),
            (
                .failed(type: "server_error", code: "c", message: "m"),
                #""status_details":{"type":"failed","error":{"type":"server_error","code":"c","#
                    + #""message":"m"}}"#
            ),
        ] as [(ResponseDescription.Status, String)])
    func statusesCarryTheirDetails(_ status: ResponseDescription.Status, _ expected: String) {
        var response = Self.response
        response.status = status
        #expect(Self.written(.responseDone(response)).contains(expected))
    }

    @Test func usageAddsUp() {
        var response = Self.response
        var usage = ResponseUsage()
        usage.inputTextTokens = 10
        usage.inputAudioTokens = 5
        usage.cachedTokens = 4
        usage.outputTextTokens = 3
        usage.outputAudioTokens = 20
        response.usage = usage
        #expect(
            Self.written(.responseDone(response)).contains(
                #""usage":{"total_tokens":38,"input_tokens":15,"output_tokens":23,"#
                    + #""input_token_details":{"text_tokens":10,"audio_tokens":5,"#
                    + #""image_tokens":0,"cached_tokens":4},"#
                    + #""output_token_details":{"text_tokens":3,"audio_tokens":20}}"#))
    }

    @Test func anErrorEchoesTheClientsEventID() {
        let error = ClientEventError(
            code: "invalid_value", message: "Wrong.", param: "session.voice", eventID: "evt_9")
        #expect(
            Self.written(.error(error)).hasSuffix(
                #""error":{"type":"invalid_request_error","code":"invalid_value","#
                    + #""message":"Wrong.","param":"session.voice","event_id":"evt_9"}}"#))
    }

    // MARK: The checker itself

    @Test(arguments: [
        (#"{"event_id":"e"}"#, "no type"),
        (#"{"type":"response.audio.delta","event_id":"e"}"#, "is not an event"),
        (#"{"type":"input_audio_buffer.cleared"}"#, "event_id: is missing"),
        (#"{"type":"input_audio_buffer.cleared","event_id":1}"#, "a string expected"),
        (#"{"type":"input_audio_buffer.cleared","event_id":"e","x":1}"#, "not a field"),
        (#"{"type":"input_audio_buffer.cleared","event_id":"e","event_id":"e"}"#, "is there twice"),
        (
            #"{"type":"input_audio_buffer.speech_started","event_id":"e","item_id":"i","#
                + #""audio_start_ms":1.0}"#, "an integer expected"
        ),
        (
            #"{"type":"conversation.item.added","event_id":"e","item":{"type":"message","#
                + #""role":"user","content":[{"type":"input_audio","transcript":null}]}}"#,
            "transcript: is null"
        ),
        (
            #"{"type":"conversation.item.added","event_id":"e","item":{"type":"message","#
                + #""role":"user"}}"#, "content: is missing"
        ),
        (
            #"{"type":"session.created","event_id":"e","session":{"type":"realtime","audio":{"#
                + #""input":{"format":{"type":"audio/pcm","rate":44100}}}}}"#, "24000"
        ),
        (
            #"{"type":"rate_limits.updated","event_id":"e","rate_limits":[{"name":"x"}]}"#,
            "requests|tokens"
        ),
    ])
    func theSchemaFindsDefects(_ text: String, _ expected: String) {
        let violations = RealtimeSchema.shared.violations(inServerEvent: text)
        // The protocol's table comes first. The documents, which come from Parley's own tables, may
        // agree.
        #expect(violations.first?.contains(expected) == true, "\(violations)")
    }
}
