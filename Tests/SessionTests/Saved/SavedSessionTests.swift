// A saved session as a store gives it back: everything that was saved, and a typed error for anything
// else.

import Codec
import Testing

@testable import Session

@Suite struct SavedSessionTests {
    private func fields(_ saved: SavedSession) -> [String: [UInt8]] {
        Dictionary(
            saved.fields().map { ($0.name, $0.value) }, uniquingKeysWith: { first, _ in first })
    }

    private func saved(_ parameters: SessionParameters) -> SavedSession {
        SavedSession(
            id: "sess_1", conversationID: "conv_1", parameters: parameters, itemIDs: [])
    }

    /// Settings of every kind, each other than its default.
    private var unusualParameters: SessionParameters {
        var parameters = SessionParameters(model: "m")
        parameters.instructions = "Say \"hé\".\n"
        parameters.outputModality = .text
        parameters.tools = [
            FunctionTool(name: "f", description: "d", parameters: RawJSON("{\"type\":\"object\"}"))
        ]
        var server = MCPTool(serverLabel: "s", serverURL: "https://mcp.example/")
        server.authorization = "secret"
        server.headers = [.init(name: "X-Key", value: "another")]
        server.allowedTools = .init(toolNames: ["t"])
        server.allowedToolsIsList = true
        server.requireApproval = .filtered(always: .init(readOnly: false), never: nil)
        parameters.mcpTools = [server]
        parameters.mcpToolChoice = MCPToolChoice(serverLabel: "s", name: "t")
        parameters.parallelToolCalls = false
        parameters.maxOutputTokens = 77
        parameters.inputFormat = .opus
        parameters.inputIsNumbered = true
        parameters.noiseReduction = NoiseReduction(place: .farField, strength: 0.25)
        var transcription = TranscriptionParameters(model: "w", language: "en", prompt: "p")
        transcription.languages = ["en", "de"]
        transcription.keywords = ["Parley"]
        transcription.delay = .low
        parameters.transcription = transcription
        var turnDetection = TurnDetectionParameters(
            mode: .serverVAD(threshold: 0.625, silenceMilliseconds: 700),
            prefixPaddingMilliseconds: 250, createResponse: false, interruptResponse: false,
            idleTimeoutMilliseconds: 6_000)
        turnDetection.minInterruptionMilliseconds = 300
        turnDetection.interruption = .words
        turnDetection.speculativeResponse = true
        parameters.turnDetection = turnDetection
        parameters.outputFormat = .opus
        parameters.outputOpus = OpusSettings(bitrate: 24_000, complexity: 3, usesDTX: true)
        parameters.outputTransport = .binary
        parameters.voice = "cedar"
        parameters.speed = 1.25
        parameters.temperature = Temperature(0.7)
        parameters.tracing = RawJSON("\"auto\"")
        parameters.truncation = .retentionRatio(0.5, postInstructionTokens: 5_000)
        parameters.reasoningEffort = .low
        parameters.prompt = RawJSON("{\"id\":\"p\"}")
        return parameters
    }

    @Test func settingsComeBackAsTheyWere() throws {
        var semantic = SessionParameters(model: "m")
        semantic.turnDetection = TurnDetectionParameters(mode: .semanticVAD(eagerness: .high))
        semantic.turnDetection?.patience = .long
        var plain = SessionParameters(model: "m")
        plain.turnDetection = nil
        for parameters in [
            unusualParameters, semantic, plain, SessionParameters(model: "m"),
            .transcription(model: "w"), .transcription(model: nil),
        ] {
            let read = try SavedSession(fields: fields(saved(parameters)))
            #expect(read.parameters == parameters)
        }
    }

    /// An item of every kind.
    private var items: [SavedItem] {
        var call = MCPCall(serverLabel: "s", name: "t", arguments: "{}", approvalRequestID: "a")
        call.error = .http(code: 502, message: "down")
        let kinds: [ConversationItem.Kind] = [
            .message(role: .system, content: [.inputText("Be brief.")]),
            .message(role: .user, content: [.inputText("é\u{1F600}"), .inputText("more")]),
            .message(role: .user, content: [.inputAudio(bytes: [], transcript: nil)]),
            .message(role: .user, content: [.inputAudio(bytes: [], transcript: "")]),
            .message(role: .user, content: [.inputAudio(bytes: [], transcript: "words")]),
            .message(
                role: .user,
                content: [.inputImage(url: "data:image/png;base64,iVBORw0KGgo=", detail: .low)]),
            .message(role: .assistant, content: [.outputText("text")]),
            .message(role: .assistant, content: []),
            .functionCall(callID: "c", name: "f", arguments: "{\"a\":1}"),
            .functionCallOutput(callID: "c", output: "42"),
            .mcp(
                .listTools(
                    serverLabel: "s",
                    tools: [MCPToolDescription(name: "t", description: "d", isReadOnly: false)])),
            .mcp(.call(call)),
            .mcp(.approvalRequest(serverLabel: "s", name: "t", arguments: "{}")),
            .mcp(.approvalResponse(requestID: "a", isApproved: false, reason: "no")),
        ]
        var items = kinds.enumerated().map {
            SavedItem(item: ConversationItem(id: "item_\($0)", kind: $1))
        }
        items.append(
            SavedItem(
                item: ConversationItem(
                    id: "item_running", status: .inProgress,
                    kind: .mcp(.call(MCPCall(serverLabel: "s", name: "t", arguments: "{}"))))))
        var speech = Conversation.Speech()
        speech.marks = [.init(transcriptBytes: 4, audioMilliseconds: 300)]
        speech.sentMilliseconds = 500
        speech.wholeTranscript = "One two three."
        speech.cutMilliseconds = 310
        speech.isCut = true
        items.append(
            SavedItem(
                item: ConversationItem(
                    id: "item_spoken", status: .incomplete,
                    kind: .message(role: .assistant, content: [.outputAudio(transcript: "One")])),
                speech: speech))
        return items
    }

    @Test func itemsComeBackAsTheyWere() throws {
        for item in items {
            #expect(try SavedItem(item.bytes, JSONParser()) == item)
        }
    }

    @Test func allOfAStateComesBack() throws {
        var state = saved(unusualParameters)
        state.itemIDs = items.map(\.item.id)
        state.items = Dictionary(uniqueKeysWithValues: items.map { ($0.item.id, $0) })
        state.hiddenItems = 2
        state.hasSpoken = true
        state.isQuiet = true
        state.isTurnUnanswered = true
        state.awaitedIDs = ["item_2"]
        state.responseID = "resp_1"
        state.otherResponseIDs = ["resp_2", "resp_3"]
        state.memory = [
            .init(provider: "p", text: "t", lastItemID: "item_6", wasHeard: true),
            .init(provider: "p", text: "u", lastItemID: "item_spoken", wasHeard: false),
        ]
        var reply = UnheardReply()
        reply.parts = [.init(itemID: "item_spoken", heard: 310)]
        reply.itemIDs = ["item_spoken"]
        reply.isSpoken = true
        reply.isWritten = false
        reply.incompleteReason = "max_output_tokens"
        reply.hasToolResults = true
        reply.usage.inputTextTokens = 7
        reply.usage.outputTextTokens = 3
        reply.overrides.instructions = "i"
        reply.overrides.outputModality = .audio
        reply.overrides.tools = [FunctionTool(name: "g")]
        reply.overrides.mcpTools = []
        reply.overrides.toolChoice = .function(name: "g")
        reply.overrides.maxOutputTokens = .null
        reply.overrides.voice = "ash"
        reply.overrides.outputFormat = .pcmu
        reply.overrides.outputOpus = OpusSettings()
        reply.overrides.input = [ConversationItem(id: "item_0", kind: .reference)]
        reply.overrides.metadata = RawJSON("{\"k\":\"v\"}")
        state.reply = reply
        #expect(try SavedSession(fields: fields(state)) == state)
        // Only what has changed is written again.
        state.items = ["item_0": items[0]]
        let item = SavedSession.fieldName(ofItem: "item_0")
        #expect(state.fields(.head).map(\.name) == ["head", item])
        #expect(state.fields([.settings, .order]).map(\.name) == ["settings", "order", item])
    }

    @Test func itemsThatAreMissingOrStrangeAreLeftOut() throws {
        var state = saved(SessionParameters(model: "m"))
        state.itemIDs = ["item_0", "item_1", "item_1", "item_6", "item_8"]
        state.hiddenItems = 3
        state.items = Dictionary(uniqueKeysWithValues: items.map { ($0.item.id, $0) })
        var written = fields(state)
        written["item:item_0"] = nil
        written["item:item_6"] = Array("{\"item\":{\"type\":\"message\"}}".utf8)
        written["item:item_8"] = written["item:item_1"]
        let read = try SavedSession(fields: written)
        #expect(read.itemIDs == ["item_1"] && Array(read.items.keys) == ["item_1"])
        #expect(read.hiddenItems == 1)
    }

    /// What is wrong with a record in which one field is another; nil: nothing.
    private func error(_ name: String, _ text: String?) -> SavedSessionError? {
        var fields = fields(saved(SessionParameters(model: "m")))
        fields[name] = text.map { Array($0.utf8) }
        do throws(SavedSessionError) {
            _ = try SavedSession(fields: fields)
            return nil
        } catch {
            #expect(!error.explanation.isEmpty)
            return error
        }
    }

    private func text(_ name: String) -> String {
        String(
            decoding: fields(saved(SessionParameters(model: "m")))[name] ?? [], as: UTF8.self)
    }

    @Test func whatIsNoStateIsATypedError() throws {
        for name in ["head", "settings", "order", "memory"] {
            #expect(error(name, text(name)) == nil)
            #expect(error(name, nil) == .missing(name))
            #expect(error(name, "{") == .notJSON(JSONError(.invalidStructure)))
            #expect(error(name, "[]") == .malformed("a field of the record"))
        }
        #expect(error("head", "{}") == .version(nil))
        #expect(error("head", "{\"version\":2}") == .version(2))
        #expect(error("head", "{\"version\":1}") == .malformed("id"))
        let broken = [
            ("head", "\"hidden_items\":0", "\"hidden_items\":-1", "hidden_items"),
            ("head", "\"has_spoken\":false", "\"has_spoken\":1", "has_spoken"),
            ("head", "\"id\":\"sess_1\"", "\"id\":\"\"", "id"),
            ("head", "\"awaited\":[]", "\"awaited\":[7]", "awaited"),
            ("order", "[]", "[\"\"]", "items"),
            ("memory", "[]", "[{}]", "provider"),
        ]
        for (field, part, other, name) in broken {
            let changed = text(field).replacing(part, with: other)
            #expect(changed != text(field) && error(field, changed) == .malformed(name), "\(name)")
        }
        let loud = text("settings").replacing("\"speed\":1", with: "\"speed\":9")
        guard case .settings? = error("settings", loud) else {
            Issue.record("settings out of range are accepted")
            return
        }
        let large = String(repeating: " ", count: SavedSession.maxFieldBytes + 1)
        #expect(error("head", large) == .tooLarge(bytes: large.utf8.count))
    }

    @Test func settingsThatThisServerCannotMeetAreRefused() throws {
        let context = SessionContext(
            voiceActivityModel: nil, hasRecognizer: true, hasSynthesizer: true)
        var state = saved(SessionParameters(model: "m"))
        #expect(throws: SavedSessionError.self) {
            try VoiceSession(restoring: state, context: context, seed: 1)
        }
        state.parameters.turnDetection = nil
        let session = try VoiceSession(restoring: state, context: context, seed: 1)
        #expect(session.id == "sess_1" && session.parameters.turnDetection == nil)
        state.parameters.mcpTools = [MCPTool(serverLabel: "s")]
        #expect(throws: SavedSessionError.self) {
            try VoiceSession(restoring: state, context: context, seed: 1)
        }
    }
}
