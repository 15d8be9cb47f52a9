// Client events in the beta's dialect: each field, and errors that name the beta's fields. Fields
// that both dialects have under the same name are in SessionUpdateParserTests.

import TestMaterial
import Testing

@testable import Codec

@Suite struct BetaParserTests {
    static func parsed(_ text: String) throws(ClientEventError) -> ClientEvent {
        var parser = ClientEventParser()
        var bytes = ByteWriter(capacity: 64)
        bytes.append(text)
        return try bytes.withUnsafeBytes { bytes throws(ClientEventError) in
            try parser.parse(bytes, in: .beta).event
        }
    }

    private static func session(_ fields: String) -> String {
        #"{"type":"session.update","session":{\#(fields)}}"#
    }

    private static func response(_ fields: String) -> String {
        #"{"type":"response.create","response":{\#(fields)}}"#
    }

    private static func item(_ role: String, _ part: String) -> String {
        #"{"type":"conversation.item.create","item":{"type":"message","role":"\#(role)","#
            + #""content":[\#(part)]}}"#
    }

    // MARK: Sessions

    static let wholeSession =
        #""model":"gpt-4o-realtime-preview","modalities":["text","audio"],"#
        + #""instructions":"Be kind.","voice":"alloy","input_audio_format":"g711_ulaw","#
        + #""output_audio_format":"g711_alaw","input_audio_transcription":{"model":"whisper-1"},"#
        + #""input_audio_noise_reduction":{"type":"far_field"},"turn_detection":"#
        + #"{"type":"server_vad","threshold":0.7,"silence_duration_ms":400},"tools":"#
        + #"[{"type":"function","name":"f"}],"tool_choice":"auto","temperature":0.65,"#
        + #""max_response_output_tokens":100,"speed":1.25,"tracing":"auto""#

    @Test func readsEverySessionField() throws {
        let text = Self.session(Self.wholeSession)
        #expect(RealtimeSchema.beta.violations(inClientEvent: text) == [])
        guard case .sessionUpdate(let update) = try Self.parsed(text) else {
            Issue.record("not a session.update")
            return
        }
        var expected = SessionUpdate()
        expected.outputModality = .value(.audio)
        expected.instructions = .value("Be kind.")
        expected.voice = .value("alloy")
        expected.inputFormat = .value(.pcmu)
        expected.inputIsNumbered = .null
        expected.outputFormat = .value(.pcma)
        expected.outputOpus = .null
        expected.transcription = .value(TranscriptionParameters(model: "whisper-1"))
        expected.noiseReduction = .value(.farField)
        expected.turnDetection = .value(
            TurnDetectionParameters(mode: .serverVAD(threshold: 0.7, silenceMilliseconds: 400)))
        expected.tools = .value([FunctionTool(name: "f")])
        expected.mcpTools = .value([])
        expected.toolChoice = .value(.auto)
        expected.mcpToolChoice = .null
        expected.temperature = .value(Temperature(0.65))
        expected.maxOutputTokens = .value(100)
        expected.speed = .value(1.25)
        expected.tracing = .value(RawJSON(#""auto""#))
        #expect(update == expected)
    }

    @Test(
        arguments: [
            (#""modalities":["text"]"#, .value(.text)),
            (#""modalities":["audio","text"]"#, .value(.audio)),
            (#""modalities":["audio"]"#, .value(.audio)), (#""modalities":null"#, .null),
            ("", .absent),
            // The name of today's protocol.
            (#""output_modalities":["text"]"#, .absent),
        ] as [(String, Patch<OutputModality>)])
    func readsModalities(_ fields: String, _ expected: Patch<OutputModality>) throws {
        guard case .sessionUpdate(let update) = try Self.parsed(Self.session(fields)) else {
            Issue.record("not a session.update")
            return
        }
        #expect(update.outputModality == expected)
    }

    @Test(
        arguments: [
            (#""required""#, .required), (#""f""#, .function(name: "f")),
            (#"{"type":"function","name":"f"}"#, .function(name: "f")),
            (#"{"name":"f"}"#, .function(name: "f")),
        ] as [(String, ToolChoice)])
    func readsToolChoices(_ value: String, _ choice: ToolChoice) throws {
        guard
            case .sessionUpdate(let update) = try Self.parsed(
                Self.session(#""tool_choice":\#(value)"#))
        else {
            Issue.record("not a session.update")
            return
        }
        #expect(update.toolChoice == .value(choice))
    }

    @Test func readsATranscriptionSession() throws {
        let text =
            #"{"type":"transcription_session.update","session":{"modalities":["text"],"#
            + #""input_audio_format":"pcm16","input_audio_transcription":{"model":"whisper-1"},"#
            + #""input_audio_noise_reduction":{"type":"near_field"},"turn_detection":"#
            + #"{"type":"semantic_vad","eagerness":"low"},"include":[]}}"#
        #expect(RealtimeSchema.beta.violations(inClientEvent: text) == [])
        var expected = SessionUpdate()
        expected.kind = .transcription
        expected.inputFormat = .value(.pcm)
        expected.inputIsNumbered = .null
        expected.transcription = .value(TranscriptionParameters(model: "whisper-1"))
        expected.noiseReduction = .value(.nearField)
        expected.turnDetection = .value(
            TurnDetectionParameters(mode: .semanticVAD(eagerness: .low)))
        #expect(try Self.parsed(text) == .sessionUpdate(expected))
    }

    // MARK: Responses and items

    @Test func readsEveryResponseField() throws {
        let text = Self.response(
            #""modalities":["text"],"instructions":"Whisper.","voice":"echo","#
                + #""output_audio_format":"pcm16","tools":[],"tool_choice":"none","#
                + #""conversation":"none","metadata":{"k":"v"},"temperature":1.2,"#
                + #""max_response_output_tokens":"inf","input":[{"type":"item_reference","#
                + #""id":"i"},{"type":"message","role":"assistant","content":"#
                + #"[{"type":"text","text":"hi"}]}]"#)
        #expect(RealtimeSchema.beta.violations(inClientEvent: text) == [])
        var expected = ResponseParameters()
        expected.outputModality = .text
        expected.instructions = "Whisper."
        expected.voice = "echo"
        expected.outputFormat = .pcm
        expected.outputOpus = OpusSettings()
        expected.tools = []
        expected.mcpTools = []
        expected.toolChoice = ToolChoice.none
        expected.isInConversation = false
        expected.metadata = RawJSON(#"{"k":"v"}"#)
        expected.temperature = Temperature(1.2)
        expected.maxOutputTokens = .null
        expected.input = [
            ConversationItem(id: "i", kind: .reference),
            ConversationItem(
                id: "", kind: .message(role: .assistant, content: [.outputText("hi")])),
        ]
        #expect(try Self.parsed(text) == .responseCreate(expected))
        #expect(
            try Self.parsed(#"{"type":"response.create"}"#) == .responseCreate(ResponseParameters())
        )
    }

    @Test func eitherNameLimitsAResponse() throws {
        var expected = ResponseParameters()
        expected.maxOutputTokens = .value(7)
        for name in ["max_response_output_tokens", "max_output_tokens"] {
            #expect(
                try Self.parsed(Self.response(#""\#(name)":7"#)) == .responseCreate(expected))
        }
    }

    @Test(
        arguments: [
            (#"{"type":"text","text":"a"}"#, .outputText("a")),
            (#"{"type":"audio","transcript":"a"}"#, .outputAudio(transcript: "a")),
        ] as [(String, ContentPart)])
    func readsWhatTheAgentSaid(_ part: String, _ expected: ContentPart) throws {
        let text = Self.item("assistant", part)
        #expect(RealtimeSchema.beta.violations(inClientEvent: text) == [])
        let item = ConversationItem(
            id: "", kind: .message(role: .assistant, content: [expected]))
        #expect(
            try Self.parsed(text) == .conversationItemCreate(item: item, previousItemID: nil))
    }

    /// Events that are the same in both dialects.
    @Test func readsAllOtherEvents() throws {
        for good in ClientEventParserTests.simpleEvents where !good.text.contains("session.update")
        {
            let isSame = !["response.create\"", "item.create\""].contains { good.text.contains($0) }
            guard isSame else { continue }
            #expect(try Self.parsed(good.text) == good.event, "\(good.text)")
        }
    }

    // MARK: Errors

    struct Bad: Sendable, CustomTestStringConvertible {
        let text: String
        let code: String
        let param: String
        var testDescription: String { text }

        init(_ text: String, _ code: String, _ param: String) {
            self.text = text
            self.code = code
            self.param = param
        }
    }

    private static let bad: [Bad] = [
        Bad(session(#""modalities":["video"]"#), "invalid_value", "session.modalities"),
        Bad(session(#""modalities":[]"#), "invalid_value", "session.modalities"),
        Bad(
            session(#""modalities":["text","text","audio"]"#), "invalid_value", "session.modalities"
        ),
        Bad(session(#""modalities":"audio""#), "invalid_type", "session.modalities"),
        Bad(session(#""voice":5"#), "invalid_type", "session.voice"),
        Bad(
            session(#""input_audio_format":"mp3""#), "invalid_value",
            "session.input_audio_format"
        ),
        Bad(
            session(#""output_audio_format":{"type":"audio/pcm"}"#), "invalid_type",
            "session.output_audio_format"
        ),
        Bad(
            session(#""input_audio_transcription":{"model":1}"#), "invalid_type",
            "session.input_audio_transcription.model"
        ),
        Bad(
            session(#""input_audio_noise_reduction":{"type":"loud"}"#), "invalid_value",
            "session.input_audio_noise_reduction.type"
        ),
        Bad(
            session(#""turn_detection":{"type":"server_vad","threshold":2}"#), "invalid_value",
            "session.turn_detection.threshold"
        ),
        Bad(session(#""temperature":0.5"#), "invalid_value", "session.temperature"),
        Bad(session(#""temperature":1.3"#), "invalid_value", "session.temperature"),
        Bad(session(#""temperature":"hot""#), "invalid_type", "session.temperature"),
        Bad(
            session(#""max_response_output_tokens":5000"#), "invalid_value",
            "session.max_response_output_tokens"
        ),
        Bad(session(#""speed":2"#), "invalid_value", "session.speed"),
        Bad(session(#""tool_choice":1"#), "invalid_type", "session.tool_choice"),
        Bad(
            session(#""tool_choice":{}"#), "missing_required_parameter", "session.tool_choice.name"),
        Bad(response(#""modalities":["x"]"#), "invalid_value", "response.modalities"),
        Bad(
            response(#""output_audio_format":"x""#), "invalid_value",
            "response.output_audio_format"
        ),
        Bad(response(#""temperature":9"#), "invalid_value", "response.temperature"),
        Bad(response(#""max_output_tokens":0"#), "invalid_value", "response.max_output_tokens"),
        Bad(response(#""input":[{"type":"x"}]"#), "invalid_value", "response.input[0].type"),
        Bad(
            item("assistant", #"{"type":"output_text","text":"a"}"#), "invalid_value",
            "item.content[0].type"
        ),
        Bad(
            #"{"type":"transcription_session.update","session":{"include":["#
                + #""item.input_audio_transcription.logprobs"]}}"#,
            "unsupported_include", "session.include"
        ),
        Bad(#"{"type":"transcription_session.update"}"#, "missing_required_parameter", "session"),
        Bad(#"{"type":"session.update"}"#, "missing_required_parameter", "session"),
        Bad(#"{"type":"response.create","response":1}"#, "invalid_type", "response"),
        Bad(#"{"type":"response.text"}"#, "unknown_event_type", "type"),
    ]

    @Test(arguments: bad)
    func namesTheBetasFields(_ bad: Bad) {
        let error = #expect(throws: ClientEventError.self) { try Self.parsed(bad.text) }
        #expect(error?.code == bad.code)
        #expect(error?.param == bad.param)
    }

    @Test func messagesSayWhatTheBetaWouldTake() {
        func message(_ text: String) -> String? {
            #expect(throws: ClientEventError.self) { try Self.parsed(text) }?.message
        }
        #expect(
            message(Self.session(#""output_audio_format":"wav""#))
                == "Invalid value for 'session.output_audio_format': expected one of 'pcm16', "
                + #"'g711_ulaw', 'g711_alaw', 'opus', got "wav"."#)
        #expect(
            message(Self.item("assistant", #"{"type":"output_text","text":"a"}"#))
                == "Invalid value for 'item.content[0].type': expected 'text' or 'audio' in a "
                + "assistant message, got 'output_text'.")
        #expect(
            message(#"{"type":"x"}"#)?.hasSuffix("'transcription_session.update'.") == true)
    }

    /// The beta's own event and names are no part of today's protocol.
    @Test func theBetaIsNotSpokenUnasked() throws {
        #expect(throws: ClientEventError.self) {
            try ClientEventParserTests.parsed(
                #"{"type":"transcription_session.update","session":{}}"#)
        }
        #expect(throws: ClientEventError.self) {
            try ClientEventParserTests.parsed(Self.session(#""modalities":["text"]"#))
        }
    }

    // MARK: Ephemeral keys

    @Test func aRequestForAKeyIsTheSessionItself() throws {
        let body =
            "{\(Self.wholeSession),"
            + #""client_secret":{"expires_after":{"anchor":"created_at","seconds":60}}}"#
        let request = try ClientSecretRequest(body: Array(body.utf8), in: .betaSession)
        #expect(request.seconds == 60)
        #expect(request.model == "gpt-4o-realtime-preview")
        guard case .sessionUpdate(let update) = try Self.parsed(Self.session(Self.wholeSession))
        else { return }
        #expect(request.session == update)
        let empty = try ClientSecretRequest(body: [], in: .betaSession)
        #expect(empty.seconds == 600 && empty.model == nil && empty.session == SessionUpdate())
    }

    @Test func aTranscriptionSessionHasItsOwnRequest() throws {
        let body = #"{"input_audio_format":"pcm16","client_secret":{"expires_at":{"seconds":30}}}"#
        let request = try ClientSecretRequest(body: Array(body.utf8), in: .betaTranscription)
        #expect(request.seconds == 30)
        #expect(request.session.kind == .transcription)
        #expect(request.session.inputFormat == .value(.pcm))
    }

    @Test(arguments: [
        (
            #"{"client_secret":{"expires_after":{"seconds":9}}}"#,
            "client_secret.expires_after.seconds"
        ),
        (#"{"modalities":["x"]}"#, "modalities"), (#"{"client_secret":1}"#, "client_secret"),
    ])
    func aWrongRequestForAKeyIsNamed(_ body: String, _ param: String) {
        let error = #expect(throws: ClientEventError.self) {
            try ClientSecretRequest(body: Array(body.utf8), in: .betaSession)
        }
        #expect(error?.param == param)
    }

    /// The schemas of the generated document, compared with the parser.
    @Test func theDocumentedRequestsAreThoseThatAreRead() {
        for (schema, form) in [
            (BetaSecretTables.request, ClientSecretForm.betaSession),
            (BetaSecretTables.transcriptionRequest, .betaTranscription),
        ] {
            guard case .object(let table) = schema else { return }
            for text in table.examples {
                #expect(throws: Never.self, "\(text)") {
                    try ClientSecretRequest(body: Array(text.utf8), in: form)
                }
            }
            for text in table.counterexamples {
                #expect(throws: ClientEventError.self, "\(text)") {
                    try ClientSecretRequest(body: Array(text.utf8), in: form)
                }
            }
        }
    }
}
