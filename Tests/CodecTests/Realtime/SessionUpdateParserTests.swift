// `session.update` in full: each field's valid values, null, and each kind of error.
// ResponseParametersParserTests has the fields of `response.create` alone.

import Codec
import TestMaterial
import Testing

@Suite struct SessionUpdateParserTests {
    static func update(_ session: String) -> String {
        #"{"type":"session.update","session":{\#(session)}}"#
    }

    static func parsedUpdate(_ session: String) throws -> SessionUpdate {
        let event = try ClientEventParserTests.parsed(update(session))
        guard case .sessionUpdate(let update) = event else {
            Issue.record("not a session.update")
            return SessionUpdate()
        }
        return update
    }

    /// A session.update and a response.create with every field, which other tests damage.
    static let texts = [
        update(wholeSession), #"{"type":"response.create","response":{\#(wholeResponse)}}"#,
    ]

    // MARK: Sessions

    static let wholeSession =
        #""type":"realtime","model":"gpt-realtime","instructions":"Be kind.","#
        + #""output_modalities":["text"],"max_output_tokens":4096,"tool_choice":"required","#
        + #""tools":[{"type":"function","name":"f","description":"d","#
        + #""parameters":{ "type":"object", "properties":{} }},{"name":"g"}],"#
        + #""tracing":{"workflow_name":"w","group_id":"g","metadata":{"k":1}},"#
        + #""truncation":{"type":"retention_ratio","retention_ratio":0.8,"#
        + #""token_limits":{"post_instructions":1000}},"reasoning":{"effort":"high"},"#
        + #""prompt":{"id":"pmpt_1","version":"2","variables":{"a":"b"}},"#
        + #""include":[],"audio":{"input":{"format":{"type":"audio/pcmu"},"#
        + #""noise_reduction":{"type":"near_field","strength":0.5},"#
        + #""transcription":{"model":"whisper-1","language":"en","prompt":"names","#
        + #""languages":["en","de"],"keywords":["Parley"],"delay":"low"},"#
        + #""turn_detection":{"type":"server_vad","threshold":0.7,"prefix_padding_ms":200,"#
        + #""silence_duration_ms":400,"idle_timeout_ms":6000,"create_response":false,"#
        + #""interrupt_response":false}},"#
        + #""output":{"format":{"type":"audio/pcm","rate":24000},"voice":{"id":"v_1"},"#
        + #""speed":1.25}}"#

    @Test func readsEveryField() throws {
        let update = try Self.parsedUpdate(Self.wholeSession)
        #expect(update.instructions == .value("Be kind."))
        #expect(update.outputModality == .value(.text))
        #expect(update.maxOutputTokens == .value(4_096))
        #expect(update.toolChoice == .value(.required))
        let schema = RawJSON(#"{ "type":"object", "properties":{} }"#)
        #expect(
            update.tools
                == .value([
                    FunctionTool(name: "f", description: "d", parameters: schema),
                    FunctionTool(name: "g"),
                ]))
        #expect(
            update.tracing
                == .value(RawJSON(#"{"workflow_name":"w","group_id":"g","metadata":{"k":1}}"#)))
        #expect(
            update.truncation == .value(.retentionRatio(0.8, postInstructionTokens: 1_000)))
        #expect(update.reasoningEffort == .value(.high))
        #expect(
            update.prompt
                == .value(RawJSON(#"{"id":"pmpt_1","version":"2","variables":{"a":"b"}}"#)))
        #expect(update.inputFormat == .value(.pcmu))
        #expect(
            update.noiseReduction == .value(NoiseReduction(place: .nearField, strength: 0.5)))
        var transcription = TranscriptionParameters(
            model: "whisper-1", language: "en", prompt: "names")
        transcription.languages = ["en", "de"]
        transcription.keywords = ["Parley"]
        transcription.delay = .low
        #expect(update.transcription == .value(transcription))
        #expect(
            update.turnDetection
                == .value(
                    TurnDetectionParameters(
                        mode: .serverVAD(threshold: 0.7, silenceMilliseconds: 400),
                        prefixPaddingMilliseconds: 200, createResponse: false,
                        interruptResponse: false, idleTimeoutMilliseconds: 6_000)))
        #expect(update.outputFormat == .value(.pcm) && update.outputTransport == .absent)
        #expect(update.voice == .value("v_1") && update.speed == .value(1.25))
        #expect(
            RealtimeSchema.shared.violations(inClientEvent: Self.update(Self.wholeSession)).isEmpty)
    }

    @Test func nullIsNotAbsence() throws {
        let update = try Self.parsedUpdate(
            #""instructions":null,"output_modalities":null,"tools":null,"tool_choice":null,"#
                + #""max_output_tokens":null,"tracing":null,"truncation":null,"prompt":null,"#
                + #""reasoning":null,"#
                + #""include":null,"audio":{"input":{"format":null,"transcription":null,"#
                + #""turn_detection":null,"noise_reduction":null},"output":{"format":null,"#
                + #""voice":null,"speed":null,"transport":null}}"#)
        var expected = SessionUpdate()
        expected.instructions = .null
        expected.outputModality = .null
        expected.tools = .null
        expected.toolChoice = .null
        expected.maxOutputTokens = .null
        expected.mcpTools = .null
        expected.mcpToolChoice = .null
        expected.tracing = .null
        expected.truncation = .null
        expected.reasoningEffort = .null
        expected.prompt = .null
        expected.inputFormat = .null
        expected.inputIsNumbered = .null
        expected.noiseReduction = .null
        expected.transcription = .null
        expected.turnDetection = .null
        expected.outputFormat = .null
        expected.outputOpus = .null
        expected.voice = .null
        expected.speed = .null
        expected.outputTransport = .null
        #expect(update == expected)
    }

    @Test(arguments: ["", #""audio":null"#, #""audio":{}"#, #""audio":{"input":null,"output":{}}"#])
    func absenceChangesNothing(_ session: String) throws {
        #expect(try Self.parsedUpdate(session) == SessionUpdate())
    }

    @Test(arguments: [
        (#""type":"server_vad""#, TurnDetectionParameters()),
        (
            #""type":"server_vad","threshold":1,"idle_timeout_ms":null"#,
            TurnDetectionParameters(mode: .serverVAD(threshold: 1, silenceMilliseconds: 500))
        ),
        (
            #""type":"semantic_vad""#,
            TurnDetectionParameters(mode: .semanticVAD(eagerness: .auto))
        ),
        (
            #""type":"semantic_vad","eagerness":"low","interrupt_response":false"#,
            TurnDetectionParameters(mode: .semanticVAD(eagerness: .low), interruptResponse: false)
        ),
    ])
    func partialTurnDetectionGetsDefaults(
        _ fields: String, _ expected: TurnDetectionParameters
    ) throws {
        let update = try Self.parsedUpdate(#""audio":{"input":{"turn_detection":{\#(fields)}}}"#)
        #expect(update.turnDetection == .value(expected))
    }

    @Test(arguments: ["server_vad", "semantic_vad"])
    func speculativeResponseIsOffUnlessRequested(_ mode: String) throws {
        let update = try Self.parsedUpdate(
            #""audio":{"input":{"turn_detection":{"type":"\#(mode)","speculative_response":true}}}"#
        )
        guard case .value(let turnDetection) = update.turnDetection else {
            Issue.record("no turn detection")
            return
        }
        #expect(turnDetection.speculativeResponse)
    }

    @Test(arguments: AudioFormat.allCases)
    func everyFormatIsKnownInBothDirections(_ format: AudioFormat) throws {
        let name = format.wireName
        let rate = format.sampleRate.hertz
        // The protocol's rate need not be named.
        let isStandard = format == .pcm || !format.isPCM
        let input = isStandard ? "" : #","rate":\#(rate)"#
        let update = try Self.parsedUpdate(
            #""audio":{"input":{"format":{"type":"\#(name)"\#(input)}},"#
                + #""output":{"format":{"type":"\#(name)","rate":\#(rate)},"transport":"binary"}}"#)
        #expect(update.inputFormat == .value(format) && update.outputFormat == .value(format))
        #expect(update.outputTransport == .value(.binary))
    }

    @Test func smallVariants() throws {
        #expect(try Self.parsedUpdate(#""max_output_tokens":"inf""#).maxOutputTokens == .null)
        #expect(try Self.parsedUpdate(#""max_output_tokens":1"#).maxOutputTokens == .value(1))
        #expect(
            try Self.parsedUpdate(#""output_modalities":["audio"]"#).outputModality
                == .value(.audio))
        #expect(try Self.parsedUpdate(#""tools":[]"#).tools == .value([]))
        #expect(try Self.parsedUpdate(#""tool_choice":"auto""#).toolChoice == .value(.auto))
        #expect(try Self.parsedUpdate(#""tool_choice":"none""#).toolChoice == .value(.none))
        #expect(
            try Self.parsedUpdate(#""tool_choice":{"type":"function","name":"f"}"#).toolChoice
                == .value(.function(name: "f")))
        #expect(try Self.parsedUpdate(#""tracing":"auto""#).tracing == .value(RawJSON("\"auto\"")))
        #expect(
            try Self.parsedUpdate(#""truncation":"disabled""#).truncation
                == .value(.disabled))
        let output = try Self.parsedUpdate(#""audio":{"output":{"voice":"cedar","speed":0.25}}"#)
        #expect(output.voice == .value("cedar") && output.speed == .value(0.25))
    }

    // MARK: Bad sessions

    struct BadFields: Sendable, CustomTestStringConvertible {
        let fields: String
        let code: String
        /// Path below `session` or `response`.
        let param: String
        var testDescription: String { fields }
    }

    static func bad(_ fields: String, _ code: String, _ param: String) -> BadFields {
        BadFields(fields: fields, code: code, param: param)
    }

    private static func input(_ fields: String, _ code: String, _ param: String) -> BadFields {
        bad(#""audio":{"input":{\#(fields)}}"#, code, "audio.input." + param)
    }

    private static func vad(_ fields: String, _ code: String, _ param: String) -> BadFields {
        input(
            #""turn_detection":{"type":"server_vad",\#(fields)}"#, code, "turn_detection." + param)
    }

    /// Invalid in a session and in a response alike.
    static let badGenerationFields: [BadFields] = [
        bad(#""instructions":5"#, "invalid_type", "instructions"),
        bad(#""output_modalities":"audio""#, "invalid_type", "output_modalities"),
        bad(#""output_modalities":[]"#, "invalid_value", "output_modalities"),
        bad(#""output_modalities":["audio","text"]"#, "invalid_value", "output_modalities"),
        bad(#""output_modalities":["video"]"#, "invalid_value", "output_modalities"),
        bad(#""output_modalities":[5]"#, "invalid_value", "output_modalities"),
        bad(#""max_output_tokens":0"#, "invalid_value", "max_output_tokens"),
        bad(#""max_output_tokens":4097"#, "invalid_value", "max_output_tokens"),
        bad(#""max_output_tokens":1.5"#, "invalid_value", "max_output_tokens"),
        bad(#""max_output_tokens":"many""#, "invalid_value", "max_output_tokens"),
        bad(#""max_output_tokens":true"#, "invalid_type", "max_output_tokens"),
        bad(#""tools":{}"#, "invalid_type", "tools"),
        bad(#""tools":[5]"#, "invalid_type", "tools[0]"),
        bad(#""tools":[{"name":"f"},{}]"#, "missing_required_parameter", "tools[1].name"),
        bad(#""tools":[{"name":""}]"#, "invalid_value", "tools[0].name"),
        bad(#""tools":[{"name":"f","description":5}]"#, "invalid_type", "tools[0].description"),
        bad(#""tools":[{"name":"f","parameters":"x"}]"#, "invalid_type", "tools[0].parameters"),
        bad(#""tools":[{"type":"mcp"}]"#, "missing_required_parameter", "tools[0].server_label"),
        bad(#""tools":[{"type":"web"}]"#, "invalid_value", "tools[0].type"),
        bad(#""tools":[{"type":1}]"#, "invalid_type", "tools[0].type"),
        bad(#""tool_choice":5"#, "invalid_type", "tool_choice"),
        bad(#""tool_choice":"maybe""#, "invalid_value", "tool_choice"),
        bad(#""tool_choice":{"name":"f"}"#, "missing_required_parameter", "tool_choice.type"),
        bad(
            #""tool_choice":{"type":"mcp"}"#, "missing_required_parameter",
            "tool_choice.server_label"),
        bad(
            #""tool_choice":{"type":"function"}"#, "missing_required_parameter",
            "tool_choice.name"),
        bad(#""audio":5"#, "invalid_type", "audio"),
        bad(#""audio":{"output":[]}"#, "invalid_type", "audio.output"),
        bad(#""audio":{"output":{"format":"pcm16"}}"#, "invalid_type", "audio.output.format"),
        bad(
            #""audio":{"output":{"format":{"type":"audio/mp3"}}}"#, "invalid_value",
            "audio.output.format.type"),
        bad(#""audio":{"output":{"voice":5}}"#, "invalid_type", "audio.output.voice"),
        bad(#""audio":{"output":{"voice":""}}"#, "invalid_value", "audio.output.voice"),
        bad(
            #""audio":{"output":{"voice":{}}}"#, "missing_required_parameter",
            "audio.output.voice.id"),
    ]

    static let badSessionFields: [BadFields] = [
        bad(#""type":"translation""#, "unsupported_session_type", "type"),
        bad(#""type":"live""#, "invalid_value", "type"),
        bad(#""type":5"#, "invalid_type", "type"),
        bad(#""model":5"#, "invalid_type", "model"),
        bad(#""tracing":5"#, "invalid_type", "tracing"),
        bad(#""tracing":"on""#, "invalid_value", "tracing"),
        bad(#""tracing":{"group_id":5}"#, "invalid_type", "tracing.group_id"),
        bad(#""truncation":5"#, "invalid_type", "truncation"),
        bad(#""truncation":"some""#, "invalid_value", "truncation"),
        bad(#""truncation":{}"#, "missing_required_parameter", "truncation.type"),
        bad(
            #""truncation":{"type":"retention_ratio"}"#, "missing_required_parameter",
            "truncation.retention_ratio"),
        bad(
            #""truncation":{"type":"retention_ratio","retention_ratio":2}"#, "invalid_value",
            "truncation.retention_ratio"),
        bad(#""reasoning":"low""#, "invalid_type", "reasoning"),
        bad(#""reasoning":{"effort":"most"}"#, "invalid_value", "reasoning.effort"),
        bad(#""prompt":"pmpt_1""#, "invalid_type", "prompt"),
        bad(#""prompt":{}"#, "missing_required_parameter", "prompt.id"),
        bad(#""include":"x""#, "invalid_type", "include"),
        bad(#""include":["x"]"#, "invalid_value", "include"),
        bad(#""audio":{"output":{"speed":0.2}}"#, "invalid_value", "audio.output.speed"),
        bad(#""audio":{"output":{"speed":1.6}}"#, "invalid_value", "audio.output.speed"),
        bad(#""audio":{"output":{"speed":"fast"}}"#, "invalid_type", "audio.output.speed"),
        bad(#""audio":{"output":{"transport":"udp"}}"#, "invalid_value", "audio.output.transport"),
        input(#""format":{}"#, "missing_required_parameter", "format.type"),
        input(#""format":{"type":"audio/pcm","rate":44100}"#, "invalid_value", "format.rate"),
        input(#""format":{"type":"audio/pcm","rate":"24k"}"#, "invalid_type", "format.rate"),
        input(#""format":{"type":"audio/pcmu","rate":16000}"#, "invalid_value", "format.rate"),
        input(#""transcription":"whisper""#, "invalid_type", "transcription"),
        input(#""transcription":{"model":5}"#, "invalid_type", "transcription.model"),
        input(
            #""noise_reduction":{"type":"studio"}"#, "invalid_value", "noise_reduction.type"),
        input(#""noise_reduction":"far_field""#, "invalid_type", "noise_reduction"),
        input(#""noise_reduction":{"strength":2}"#, "invalid_value", "noise_reduction.strength"),
        input(
            #""transcription":{"languages":"en"}"#, "invalid_type", "transcription.languages"),
        input(#""transcription":{"keywords":[5]}"#, "invalid_type", "transcription.keywords[0]"),
        input(#""transcription":{"delay":"long"}"#, "invalid_value", "transcription.delay"),
        bad(
            #""include":["item.input_audio_transcription.logprobs"]"#, "unsupported_include",
            "include"),
        input(#""turn_detection":"server_vad""#, "invalid_type", "turn_detection"),
        input(#""turn_detection":{}"#, "missing_required_parameter", "turn_detection.type"),
        input(#""turn_detection":{"type":"none"}"#, "invalid_value", "turn_detection.type"),
        input(
            #""turn_detection":{"type":"semantic_vad","eagerness":"max"}"#, "invalid_value",
            "turn_detection.eagerness"),
        vad(#""threshold":1.01"#, "invalid_value", "threshold"),
        vad(#""threshold":-0.1"#, "invalid_value", "threshold"),
        vad(#""threshold":"0.5""#, "invalid_type", "threshold"),
        vad(#""prefix_padding_ms":-1"#, "invalid_value", "prefix_padding_ms"),
        vad(#""prefix_padding_ms":0.5"#, "invalid_value", "prefix_padding_ms"),
        vad(#""silence_duration_ms":-1"#, "invalid_value", "silence_duration_ms"),
        vad(#""silence_duration_ms":1e300"#, "invalid_value", "silence_duration_ms"),
        vad(#""silence_duration_ms":[]"#, "invalid_type", "silence_duration_ms"),
        vad(#""idle_timeout_ms":4999"#, "invalid_value", "idle_timeout_ms"),
        vad(#""idle_timeout_ms":30001"#, "invalid_value", "idle_timeout_ms"),
        vad(#""create_response":1"#, "invalid_type", "create_response"),
        vad(#""interrupt_response":"yes""#, "invalid_type", "interrupt_response"),
    ]

    @Test(arguments: badGenerationFields + badSessionFields)
    func refusesSession(_ bad: BadFields) {
        let error = #expect(throws: ClientEventError.self) {
            try ClientEventParserTests.parsed(Self.update(bad.fields))
        }
        #expect(error?.code == bad.code)
        #expect(error?.param == "session.\(bad.param)")
    }

    @Test func messagesSayWhatWouldBeRight() {
        func message(_ fields: String) -> String? {
            #expect(throws: ClientEventError.self) {
                try ClientEventParserTests.parsed(Self.update(fields))
            }?.message
        }
        #expect(
            message(#""audio":{"output":{"speed":2}}"#)
                == "Invalid value for 'session.audio.output.speed': "
                + "expected a number from 0.25 to 1.5, got 2.")
        #expect(
            message(#""audio":{"input":{"format":"pcm16"}}"#)
                == "Invalid type for 'session.audio.input.format': "
                + "expected an object such as {\"type\":\"audio/pcm\",\"rate\":24000}, "
                + "got a string."
        )
    }

    // MARK: Round trip

    /// The next `session.updated` reports what a client has set.
    @Test func theWrittenSessionReadsBackAsItself() throws {
        var session = SessionParameters(model: "demo")
        session.apply(try Self.parsedUpdate(Self.wholeSession))
        let event = ServerEvent.sessionUpdated(id: "sess_1", session)
        let root = try JSONParser().parse(ServerEventWriterTests.written(event))
        let reported = try #require(root["session"]?.raw.text)
        var again = SessionParameters(model: "demo")
        again.apply(try Self.parsedUpdate(String(reported.dropFirst().dropLast())))
        #expect(again == session)
    }
}
