// At least one sample of every server event, with the variants of items, responses and sessions
// that are written differently.

import Codec

extension ServerEventWriterTests {
    static let address = PartAddress(
        responseID: "resp_1", itemID: "item_1", outputIndex: 0, contentIndex: 2)

    static let response = ResponseDescription(
        id: "resp_1", conversationID: "conv_1", outputModality: .audio, outputFormat: .pcm,
        voice: "marin")

    static let samples: [Sample] =
        sessionSamples + audioBufferSamples + conversationSamples + responseSamples + deltaSamples
        + MCPSamples.events.map { Sample(name: $0.wireName, event: .mcp($0)) }

    private static let items = plainItems + MCPSamples.items

    private static let plainItems: [(String, ConversationItem)] = [
        (
            "system message",
            ConversationItem(
                id: "item_1", kind: .message(role: .system, content: [.inputText("Be brief.")]))
        ),
        (
            "user message",
            ConversationItem(
                id: "item_1",
                kind: .message(
                    role: .user,
                    content: [
                        .inputText("a"), .inputAudio(bytes: [1, 2, 3], transcript: "b"),
                        .inputAudio(bytes: [], transcript: nil),
                        .inputImage(url: "https://a.test/b.png", detail: .high),
                        .inputImage(url: "data:image/png;base64,AQID", detail: .auto),
                    ]))
        ),
        (
            "assistant message",
            ConversationItem(
                id: "item_1", status: .incomplete,
                kind: .message(
                    role: .assistant, content: [.outputText("a"), .outputAudio(transcript: "b")]))
        ),
        (
            "empty message",
            ConversationItem(
                id: "item_1", status: .inProgress, kind: .message(role: .assistant, content: []))
        ),
        (
            "function call",
            ConversationItem(
                id: "item_1",
                kind: .functionCall(callID: "call_1", name: "f", arguments: "{\"a\":1}"))
        ),
        (
            "function call output",
            ConversationItem(
                id: "item_1", kind: .functionCallOutput(callID: "call_1", output: "42"))
        ),
    ]

    private static var sessionSamples: [Sample] {
        var full = SessionParameters(model: "demo")
        full.instructions = "Speak \"plainly\"."
        full.outputModality = .text
        full.tools = [
            FunctionTool(name: "f", description: "d", parameters: RawJSON("{\"type\":\"object\"}")),
            FunctionTool(name: "g"),
        ]
        full.toolChoice = .function(name: "f")
        full.maxOutputTokens = 100
        full.inputFormat = .opus
        full.outputFormat = .opus
        full.outputTransport = .binary
        full.transcription = TranscriptionParameters(model: "m", language: "en", prompt: "names")
        full.turnDetection = TurnDetectionParameters(mode: .semanticVAD(eagerness: .high))
        full.tracing = RawJSON("{\"workflow_name\":\"w\"}")
        full.truncation = .retentionRatio(0.8, postInstructionTokens: 5_000)
        full.reasoningEffort = .minimal
        full.prompt = RawJSON("{\"id\":\"pmpt_1\"}")
        var telephone = SessionParameters(model: "demo")
        telephone.inputFormat = .pcmu
        telephone.outputFormat = .pcma
        telephone.turnDetection?.idleTimeoutMilliseconds = 6_000
        telephone.transcription = TranscriptionParameters()
        telephone.toolChoice = .required
        telephone.truncation = .disabled
        full.noiseReduction = NoiseReduction(place: nil, strength: 0.25)
        var words = SessionParameters.transcription(model: "m")
        words.turnDetection = nil
        words.transcription?.languages = ["en", "de"]
        words.transcription?.keywords = ["Parley"]
        words.transcription?.delay = .minimal
        words.noiseReduction = .nearField
        var waits = SessionUpdate()
        waits.kind = .transcription
        waits.turnDetection = .value(TurnDetectionParameters(mode: .semanticVAD(eagerness: .low)))
        var patient = SessionParameters(model: "demo")
        patient.apply(waits)
        let sessions = [
            ("default", SessionParameters(model: "demo")), ("full", full), ("telephone", telephone),
            ("transcription", .transcription(model: nil)), ("transcription, full", words),
            ("transcription, semantic", patient),
        ]
        let error = ClientEventError(code: "invalid_json", message: "Not JSON.")
        return sessions.flatMap { name, parameters in
            [
                Sample(name: name, event: .sessionCreated(id: "sess_AbC", parameters)),
                Sample(name: name, event: .sessionUpdated(id: "sess_AbC", parameters)),
            ]
        } + [
            Sample(name: "bare", event: .error(error)),
            Sample(name: "empty", event: .rateLimitsUpdated([])),
            Sample(
                name: "quotas",
                event: .rateLimitsUpdated([
                    RateLimit(name: .requests, limit: 20, remaining: 0, resetMilliseconds: 1_500),
                    RateLimit(name: .tokens, limit: 1_000, remaining: 7, resetMilliseconds: 0),
                ])),
        ]
    }

    private static var audioBufferSamples: [Sample] {
        [
            .inputAudioBufferSpeechStarted(itemID: "item_1", audioStartMilliseconds: 0),
            .inputAudioBufferSpeechStopped(itemID: "item_1", audioEndMilliseconds: 1_234),
            .inputAudioBufferCommitted(itemID: "item_1", previousItemID: nil),
            .inputAudioBufferCommitted(itemID: "item_1", previousItemID: "item_0"),
            .inputAudioBufferCleared,
            .inputAudioBufferTimeoutTriggered(
                itemID: "item_1", audioStartMilliseconds: 1, audioEndMilliseconds: 2),
            .outputAudioBufferCleared(responseID: "resp_1"),
            .agentEvent(
                responseID: "resp_1", name: "CUSTOM",
                RawJSON(#"{"type":"CUSTOM","name":"seat","value":[1,null]}"#)),
            .dtmfReceived(digit: "#"),
            .resumed(id: "sess_AbC", SessionParameters(model: "m"), recovered: true),
            .resumeUpdated,
            .goingAway(.restart, millisecondsLeft: 1_500),
            .recordingUpdated(isActive: true),
            .pong,
        ].map { Sample(name: "plain", event: $0) }
    }

    private static var conversationSamples: [Sample] {
        items.flatMap { name, item in
            [
                Sample(name: name, event: .conversationItemAdded(item, previousItemID: nil)),
                Sample(name: name, event: .conversationItemDone(item, previousItemID: "item_0")),
                Sample(name: name, event: .conversationItemRetrieved(item)),
            ]
        }
            + [
                .conversationItemDeleted(itemID: "item_1"),
                .conversationItemTruncated(
                    itemID: "item_1", contentIndex: 0, audioEndMilliseconds: 1_500),
                .transcriptionDelta(itemID: "item_1", contentIndex: 0, delta: "go"),
                .transcriptionCompleted(
                    itemID: "item_1", contentIndex: 0, transcript: "go forward", seconds: 2),
                .transcriptionFailed(
                    itemID: "item_1", contentIndex: 0, code: "unavailable", message: "No model."),
            ].map { Sample(name: "plain", event: $0) }
    }

    private static var responseSamples: [Sample] {
        var outside = response
        outside.conversationID = nil
        outside.outputModality = .text
        outside.maxOutputTokens = 50
        outside.metadata = RawJSON("{\"topic\":\"x\"}")
        var spoken = response
        spoken.output = items.map(\.1)
        spoken.usage = ResponseUsage()
        let statuses: [ResponseDescription.Status] = [
            .completed, .cancelled(reason: "client_cancelled"),
            .incomplete(reason: "content_filter"),
            .failed(type: "server_error", code: "upstream", message: "It died."),
        ]
        let ended = statuses.map { status in
            spoken.status = status
            return Sample(name: "\(status)", event: .responseDone(spoken))
        }
        return ended + [
            Sample(name: "default", event: .responseCreated(response)),
            Sample(name: "outside the conversation", event: .responseCreated(outside)),
        ]
            + items.flatMap { name, item in
                [
                    Sample(
                        name: name,
                        event: .responseOutputItemAdded(
                            responseID: "resp_1", outputIndex: 0, item)),
                    Sample(
                        name: name,
                        event: .responseOutputItemDone(responseID: "resp_1", outputIndex: 1, item)),
                ]
            }
    }

    private static var deltaSamples: [Sample] {
        [
            .responseContentPartAdded(address, .text),
            .responseContentPartAdded(address, .audio),
            .responseContentPartDone(address, .text, text: "hello"),
            .responseContentPartDone(address, .audio, text: "hello"),
            .responseOutputTextDelta(address, delta: "he"),
            .responseOutputTextDone(address, text: "hello"),
            .responseOutputAudioTranscriptDelta(address, delta: "he"),
            .responseOutputAudioTranscriptDone(address, transcript: "hello"),
            .responseOutputAudioDelta(address, audio: [1, 2, 3]),
            .responseOutputAudioDone(address),
            .responseFunctionCallArgumentsDelta(address, callID: "call_1", delta: "{"),
            .responseFunctionCallArgumentsDone(
                address, callID: "call_1", name: "f", arguments: "{}"),
        ].map { Sample(name: "plain", event: $0) }
    }
}
