// Server events in the beta's dialect, against the types of a client of that time.

import TestMaterial
import Testing

@testable import Codec

@Suite struct BetaWriterTests {
    static func written(_ event: ServerEvent) -> String {
        var bytes = ByteWriter(capacity: 16)
        ServerEventWriter(sessionID: "sess_AbC").write(
            event, number: 7, in: .beta, resume: ServerEventWriterTests.note(for: event),
            into: &bytes)
        return String(decoding: bytes.copiedBytes, as: UTF8.self)
    }

    private static func body(_ event: ServerEvent) throws -> JSONValue {
        try JSONParser().parse(written(event))
    }

    /// What the beta does not have, and a client gets only where it has asked for it: MCP servers,
    /// images, Opus and other extensions, and the agents' events.
    private static let extensions = [
        "mcp", "input_image", "image_url", "detail", "\"opus\"", "parley.agent.event",
        "timeout_triggered", "an object expected",
    ]

    @Test(arguments: ServerEventWriterTests.samples)
    func followsTheBetasTypes(_ sample: ServerEventWriterTests.Sample) {
        guard RealtimeDialect.beta.has(sample.event) else { return }
        let text = Self.written(sample.event)
        let violations = RealtimeSchema.beta.violations(inServerEvent: text)
            .filter { violation in
                !Self.extensions.contains { violation.contains($0) || text.contains("\"\($0)") }
            }
        #expect(violations.isEmpty, "\(violations)\n\(text)")
    }

    // MARK: Names

    @Test(
        arguments: [
            (.conversationItemAdded(item, previousItemID: nil), "conversation.item.created"),
            (.responseOutputTextDelta(address, delta: "a"), "response.text.delta"),
            (.responseOutputTextDone(address, text: "a"), "response.text.done"),
            (
                .responseOutputAudioTranscriptDelta(address, delta: "a"),
                "response.audio_transcript.delta"
            ),
            (
                .responseOutputAudioTranscriptDone(address, transcript: "a"),
                "response.audio_transcript.done"
            ),
            (.responseOutputAudioDelta(address, audio: [1]), "response.audio.delta"),
            (.responseOutputAudioDone(address), "response.audio.done"),
            (.sessionCreated(id: "sess_1", SessionParameters(model: "m")), "session.created"),
            (
                .sessionCreated(id: "sess_1", .transcription(model: nil)),
                "transcription_session.created"
            ),
            (
                .sessionUpdated(id: "sess_1", .transcription(model: nil)),
                "transcription_session.updated"
            ),
            (.responseContentPartAdded(address, .audio), "response.content_part.added"),
            (.rateLimitsUpdated([]), "rate_limits.updated"),
        ] as [(ServerEvent, String)])
    func hasItsNames(_ event: ServerEvent, _ name: String) throws {
        #expect(try Self.body(event)["type"]?.string == name)
    }

    @Test func anItemIsAnnouncedOnce() {
        #expect(!RealtimeDialect.beta.has(.conversationItemDone(Self.item, previousItemID: nil)))
        #expect(RealtimeDialect.beta.has(.conversationItemAdded(Self.item, previousItemID: nil)))
        #expect(RealtimeDialect.ga.has(.conversationItemDone(Self.item, previousItemID: nil)))
    }

    private static let address = ServerEventWriterTests.address
    private static let item = ConversationItem(
        id: "item_1",
        kind: .message(
            role: .assistant, content: [.outputText("a"), .outputAudio(transcript: "b")]))

    // MARK: Objects

    @Test func writesTheWholeEffectiveSession() {
        let text = Self.written(.sessionCreated(id: "sess_AbC", SessionParameters(model: "demo")))
        let expected = [
            #"{"type":"session.created","event_id":"event_AbC_7","session":{"id":"sess_AbC","#,
            #""object":"realtime.session","model":"demo","modalities":["audio","text"],"#,
            #""instructions":"","voice":"marin","output_audio_format":"pcm16","tools":[],"#,
            #""tool_choice":"auto","temperature":0.8,"max_response_output_tokens":"inf","#,
            #""speed":1.0,"tracing":null,"input_audio_format":"pcm16","#,
            #""input_audio_transcription":null,"input_audio_noise_reduction":null,"#,
            #""turn_detection":{"type":"server_vad","threshold":0.5,"prefix_padding_ms":300,"#,
            #""silence_duration_ms":500,"create_response":true,"interrupt_response":true},"#,
            #""include":null}}"#,
        ]
        #expect(text == expected.joined())
    }

    @Test func writesATranscriptionSession() {
        let text = Self.written(
            .sessionUpdated(id: "sess_AbC", .transcription(model: "whisper-1")))
        let expected = [
            #"{"type":"transcription_session.updated","event_id":"event_AbC_7","#,
            #""session":{"id":"sess_AbC","object":"realtime.transcription_session","#,
            #""input_audio_format":"pcm16","#,
            #""input_audio_transcription":{"model":"whisper-1"},"#,
            #""input_audio_noise_reduction":null,"turn_detection":{"type":"server_vad","#,
            #""threshold":0.5,"prefix_padding_ms":300,"silence_duration_ms":500},"#,
            #""include":null}}"#,
        ]
        #expect(text == expected.joined())
    }

    /// What a session reports, a client may send back.
    @Test func whatIsReportedIsRead() throws {
        guard
            case .sessionUpdate(let update) = try BetaParserTests.parsed(
                #"{"type":"session.update","session":{\#(BetaParserTests.wholeSession)}}"#)
        else { return }
        var parameters = SessionParameters(model: "gpt-4o-realtime-preview")
        parameters.apply(update)
        let session = try Self.body(.sessionUpdated(id: "sess_1", parameters))["session"]
        let text = try #require(session?.raw.text)
        guard
            case .sessionUpdate(let again) = try BetaParserTests.parsed(
                #"{"type":"session.update","session":\#(text)}"#)
        else { return }
        var copy = SessionParameters(model: "gpt-4o-realtime-preview")
        copy.apply(again)
        #expect(copy == parameters)
        #expect(session?["temperature"]?.double == 0.65)
        #expect(session?["input_audio_format"]?.string == "g711_ulaw")
    }

    @Test func writesTheSettingsOfAResponse() {
        var response = ServerEventWriterTests.response
        response.temperature = Temperature(1.1)
        response.maxOutputTokens = 50
        response.output = [Self.item]
        let expected = [
            #""output":[{"id":"item_1","object":"realtime.item","type":"message","#,
            #""status":"completed","role":"assistant","content":[{"type":"text","text":"a"},"#,
            #"{"type":"audio","transcript":"b"}]}],"modalities":["audio","text"],"#,
            #""voice":"marin","output_audio_format":"pcm16","temperature":1.1,"#,
            #""max_output_tokens":50,"usage":null,"metadata":null}}"#,
        ]
        #expect(Self.written(.responseCreated(response)).hasSuffix(expected.joined()))
    }

    @Test(arguments: [(ToolChoice.required, "required"), (.function(name: "f"), "f")])
    func aToolChoiceIsAText(_ choice: ToolChoice, _ text: String) throws {
        var parameters = SessionParameters(model: "m")
        parameters.toolChoice = choice
        let body = try Self.body(.sessionUpdated(id: "sess_1", parameters))
        #expect(body["session"]?["tool_choice"]?.string == text)
    }

    // MARK: Errors

    /// The session names the fields of today's protocol: it knows no dialect.
    @Test(arguments: BetaPaths.table)
    func anErrorOfTheSessionNamesTheBetasField(_ path: (ga: String, beta: String)) throws {
        for rest in ["", ".threshold"] {
            let error = ClientEventError(
                code: "c", message: "'\(path.ga)\(rest)' is wrong.", param: path.ga + rest)
            let body = try Self.body(.error(error))["error"]
            #expect(body?["param"]?.string == path.beta + rest)
            #expect(body?["message"]?.string == "'\(path.beta)\(rest)' is wrong.")
        }
    }

    @Test func anErrorWithoutAFieldStaysAsItIs() {
        let error = ClientEventError(
            code: "c", message: "session.audio.output.voice", param: "item_id", eventID: "e")
        #expect(RealtimeDialect.beta.wording(of: error) == error)
    }

    // MARK: The choice

    @Test(
        arguments: [
            ([("OpenAI-Beta", "realtime=v1")], .beta),
            ([("openai-beta", "assistants=v2, Realtime=v1")], .beta),
            ([("Sec-WebSocket-Protocol", "realtime, openai-beta.realtime-v1")], .beta),
            ([("OpenAI-Beta", "assistants=v2")], .ga), ([("OpenAI-Beta", "realtime=v2")], .ga),
            ([("Sec-WebSocket-Protocol", "realtime")], .ga), ([], .ga),
        ] as [([(String, String)], RealtimeDialect)])
    func theHandshakeChooses(_ headers: [(String, String)], _ dialect: RealtimeDialect) {
        var fields = HTTPFields()
        for (name, value) in headers { fields.append(name, value) }
        #expect(RealtimeDialect(askedForBy: fields) == dialect)
    }
}
