// Parsing client events: every event in its valid forms, and every kind of error with the exact
// code and path that the client gets.

import Codec
import TestMaterial
import Testing

@Suite struct ClientEventParserTests {
    static func parsed(_ text: String) throws(ClientEventError) -> ClientEvent {
        var parser = ClientEventParser()
        return try parser.parse(text).event
    }

    // MARK: Good events

    struct Good: Sendable, CustomTestStringConvertible {
        let text: String
        let event: ClientEvent
        /// Whether the text also fits the protocol's tables; false where Parley accepts more.
        var isInTable = true
        var testDescription: String { text }
    }

    @Test(arguments: simpleEvents + itemEvents)
    func accepts(_ good: Good) throws {
        #expect(try Self.parsed(good.text) == good.event)
        let violations = RealtimeSchema.shared.violations(inClientEvent: good.text)
        #expect(violations.isEmpty == good.isInTable, "\(violations)")
    }

    /// One parser serves all sessions of a thread, so the largest event's memory must not stay.
    @Test func memoryOfALargeAppendIsFreed() throws {
        var parser = ClientEventParser()
        let audio = String(repeating: "AAAA", count: 1 << 20)
        _ = try parser.parse(#"{"type":"input_audio_buffer.append","audio":"\#(audio)"}"#)
        let largest = parser.audioBufferBytes
        #expect(largest >= 3 << 20)
        _ = try parser.parse(#"{"type":"input_audio_buffer.append","audio":"AAAA"}"#)
        let kept = parser.audioBufferBytes
        #expect(kept <= 256 << 10)
    }

    static let simpleEvents: [Good] = [
        Good(
            text: #"{"type":"input_audio_buffer.append","audio":"AQID"}"#,
            event: .inputAudioBufferAppend()),
        Good(
            text: #"{"audio":"","event_id":"e","type":"input_audio_buffer.append"}"#,
            event: .inputAudioBufferAppend()),
        Good(text: #"{"type":"input_audio_buffer.commit"}"#, event: .inputAudioBufferCommit),
        Good(text: #"{"type":"input_audio_buffer.clear"}"#, event: .inputAudioBufferClear),
        Good(text: #"{"type":"output_audio_buffer.clear"}"#, event: .outputAudioBufferClear),
        Good(
            text: #"{"type":"output_audio_buffer.played","item_id":"i","content_index":0,"#
                + #""audio_end_ms":1250}"#,
            event: .outputAudioBufferPlayed(
                itemID: "i", contentIndex: 0, audioEndMilliseconds: 1_250), isInTable: false),
        Good(text: #"{"type":"parley.ping","event_id":"e"}"#, event: .ping, isInTable: false),
        Good(
            text: #"{"type":"conversation.item.delete","item_id":"i"}"#,
            event: .conversationItemDelete(itemID: "i")),
        Good(
            text: #"{"type":"conversation.item.retrieve","item_id":"i"}"#,
            event: .conversationItemRetrieve(itemID: "i")),
        Good(
            text: #"{"type":"conversation.item.truncate","item_id":"i","content_index":0,"#
                + #""audio_end_ms":1500}"#,
            event: .conversationItemTruncate(
                itemID: "i", contentIndex: 0, audioEndMilliseconds: 1_500)),
        Good(
            text: #"{"type":"conversation.item.truncate","item_id":"i","content_index":1,"#
                + #""audio_end_ms":1500.0}"#,
            event: .conversationItemTruncate(
                itemID: "i", contentIndex: 1, audioEndMilliseconds: 1_500), isInTable: false),
        Good(text: #"{"type":"response.cancel"}"#, event: .responseCancel(responseID: nil)),
        Good(
            text: #"{"type":"response.cancel","response_id":"r"}"#,
            event: .responseCancel(responseID: "r")),
        Good(
            text: #"{"type":"response.create"}"#, event: .responseCreate(ResponseParameters())),
        Good(
            text: #"{"type":"response.create","response":null}"#,
            event: .responseCreate(ResponseParameters())),
        Good(
            text: #"{"type":"session.update","session":{"type":"realtime"}}"#,
            event: .sessionUpdate(update(to: .realtime))),
        Good(
            text: #"{"type":"session.update","session":{"type":"transcription"}}"#,
            event: .sessionUpdate(update(to: .transcription))),
    ]

    static func create(_ item: String, _ rest: String = "") -> String {
        #"{"type":"conversation.item.create","item":{\#(item)}\#(rest)}"#
    }

    static func created(_ kind: ConversationItem.Kind) -> ClientEvent {
        .conversationItemCreate(item: ConversationItem(id: "", kind: kind), previousItemID: nil)
    }

    private static func update(to kind: SessionKind) -> SessionUpdate {
        var update = SessionUpdate()
        update.kind = kind
        return update
    }

    static let itemEvents: [Good] = [
        Good(
            text: create(
                #""id":"i","status":"incomplete","object":"realtime.item","type":"message","#
                    + #""role":"user","content":[{"type":"input_text","text":"h\u00e9"},"#
                    + #"{"type":"input_audio","audio":"AQID","transcript":"t"},"#
                    + #"{"type":"input_audio","transcript":"only"}]"#,
                #","previous_item_id":"root""#),
            event: .conversationItemCreate(
                item: ConversationItem(
                    id: "i", status: .incomplete,
                    kind: .message(
                        role: .user,
                        content: [
                            .inputText("hé"), .inputAudio(bytes: [1, 2, 3], transcript: "t"),
                            .inputAudio(bytes: [], transcript: "only"),
                        ])), previousItemID: "root")),
        Good(
            text: create(
                #""type":"message","role":"user","content":[{"type":"input_image","#
                    + #""image_url":"data:image/png;base64,AQID","detail":"low"},"#
                    + #"{"type":"input_image","image_url":"https://a.test/b.jpg"}]"#),
            event: created(
                .message(
                    role: .user,
                    content: [
                        .inputImage(url: "data:image/png;base64,AQID", detail: .low),
                        .inputImage(url: "https://a.test/b.jpg", detail: .auto),
                    ]))),
        Good(
            text: create(
                #""type":"message","role":"system","content":[{"type":"input_text","text":"s"}]"#),
            event: created(.message(role: .system, content: [.inputText("s")]))),
        Good(
            text: create(
                #""type":"message","role":"assistant","content":[{"type":"output_text","#
                    + #""text":"a"},{"type":"output_audio","transcript":"b"}]"#),
            event: created(
                .message(
                    role: .assistant, content: [.outputText("a"), .outputAudio(transcript: "b")]))),
        Good(
            text: create(
                #""type":"message","role":"assistant","content":[{"type":"text","text":"a"}]"#),
            event: created(.message(role: .assistant, content: [.outputText("a")])),
            isInTable: false),
        Good(
            text: create(#""type":"function_call","name":"f","arguments":"{}","call_id":"c""#),
            event: created(.functionCall(callID: "c", name: "f", arguments: "{}"))),
        Good(
            text: create(#""type":"function_call","name":"f","arguments":"""#),
            event: created(.functionCall(callID: "", name: "f", arguments: ""))),
        Good(
            text: create(#""type":"function_call_output","call_id":"c","output":"42","id":null"#),
            event: created(.functionCallOutput(callID: "c", output: "42")), isInTable: false),
    ]

    @Test func everyEventOfTheTableHasAGoodSample() {
        let names = (Self.simpleEvents + Self.itemEvents).compactMap { good in
            RealtimeSchema.shared.clientEventTypes.first { good.text.contains(#""type":"\#($0)""#) }
        }
        #expect(Set(names) == RealtimeSchema.shared.clientEventTypes)
    }

    // MARK: Audio

    @Test func appendedAudioIsKeptUntilTheNextEvent() throws {
        var parser = ClientEventParser()
        let (event, eventID) = try parser.parse(
            #"{"type":"input_audio_buffer.append","audio":"AAEC\/f7\/Bw==","event_id":"e1"}"#)
        #expect(event == .inputAudioBufferAppend() && eventID == "e1")
        #expect([UInt8](parser.audio) == [0, 1, 2, 253, 254, 255, 7])
        _ = try parser.parse(#"{"type":"input_audio_buffer.append","audio":"AQ=="}"#)
        #expect([UInt8](parser.audio) == [1])
        _ = try parser.parse(#"{"type":"input_audio_buffer.commit"}"#)
        #expect(parser.audio.isEmpty)
    }

    @Test func theAudioLimitIsExact() throws {
        // `aHugeAppendFitsAndTheNextSmallOneIsRight` has the longest audio that is accepted.
        let audio = String(repeating: "A", count: 20 << 20) + "AA=="
        let error = #expect(throws: ClientEventError.self) {
            try Self.parsed(#"{"type":"input_audio_buffer.append","audio":"\#(audio)"}"#)
        }
        #expect(error?.code == "invalid_value" && error?.param == "audio")
        #expect(
            error?.message.contains("expected at most 15728640 bytes, got 15728641") == true)
    }

    @Test func aHugeAppendFitsAndTheNextSmallOneIsRight() throws {
        var parser = ClientEventParser()
        let huge = String(repeating: "A", count: 20 << 20)
        _ = try parser.parse(#"{"type":"input_audio_buffer.append","audio":"\#(huge)"}"#)
        #expect(parser.audio.count == 15 << 20)
        _ = try parser.parse(#"{"type":"input_audio_buffer.append","audio":"AQID"}"#)
        #expect([UInt8](parser.audio) == [1, 2, 3])
    }

    // MARK: Bad events

    struct Bad: Sendable, CustomTestStringConvertible {
        let text: String
        let code: String
        let param: String?
        var testDescription: String { text }
    }

    static func bad(_ text: String, _ code: String, _ param: String?) -> Bad {
        Bad(text: text, code: code, param: param)
    }

    @Test(arguments: badEvents + badItems)
    func refuses(_ bad: Bad) throws {
        let error = #expect(throws: ClientEventError.self) { try Self.parsed(bad.text) }
        #expect(error?.code == bad.code)
        #expect(error?.param == bad.param)
        #expect(error?.kind == .invalidRequest)
        let message = try #require(error?.message)
        #expect(message.hasSuffix("."))
        if let param = bad.param, bad.code.hasPrefix("invalid") || bad.code.hasPrefix("missing") {
            #expect(message.contains("'\(param)'"))
        }
    }

    static let badEvents: [Bad] = [
        bad("", "invalid_json", nil),
        bad("hello", "invalid_json", nil),
        bad(#"{"type":"input_audio_buffer.commit""#, "invalid_json", nil),
        bad(#"{"type":"\ud800"}"#, "unknown_event_type", "type"),
        bad("[]", "invalid_type", nil),
        bad("{}", "missing_required_parameter", "type"),
        bad(#"{"type":null}"#, "missing_required_parameter", "type"),
        bad(#"{"type":5}"#, "invalid_type", "type"),
        bad(#"{"type":"conversation.create"}"#, "unknown_event_type", "type"),
        bad(#"{"type":"response.cancel","event_id":7}"#, "invalid_type", "event_id"),
        bad(#"{"type":"response.cancel","response_id":{}}"#, "invalid_type", "response_id"),
        bad(#"{"type":"input_audio_buffer.append"}"#, "missing_required_parameter", "audio"),
        bad(#"{"type":"input_audio_buffer.append","audio":[]}"#, "invalid_type", "audio"),
        bad(#"{"type":"input_audio_buffer.append","audio":"AQI"}"#, "invalid_value", "audio"),
        bad(#"{"type":"input_audio_buffer.append","audio":"A*=="}"#, "invalid_value", "audio"),
        bad(#"{"type":"session.update"}"#, "missing_required_parameter", "session"),
        bad(#"{"type":"session.update","session":"x"}"#, "invalid_type", "session"),
        bad(#"{"type":"response.create","response":[]}"#, "invalid_type", "response"),
        bad(#"{"type":"conversation.item.delete"}"#, "missing_required_parameter", "item_id"),
        bad(#"{"type":"conversation.item.delete","item_id":""}"#, "invalid_value", "item_id"),
        bad(#"{"type":"conversation.item.retrieve","item_id":1}"#, "invalid_type", "item_id"),
        bad(
            #"{"type":"conversation.item.truncate","item_id":"i","audio_end_ms":1}"#,
            "missing_required_parameter", "content_index"),
        bad(
            #"{"type":"conversation.item.truncate","item_id":"i","content_index":0}"#,
            "missing_required_parameter", "audio_end_ms"),
        bad(
            #"{"type":"conversation.item.truncate","item_id":"i","content_index":-1,"#
                + #""audio_end_ms":1}"#, "invalid_value", "content_index"),
        bad(
            #"{"type":"conversation.item.truncate","item_id":"i","content_index":0,"#
                + #""audio_end_ms":1.5}"#, "invalid_value", "audio_end_ms"),
        bad(
            #"{"type":"conversation.item.truncate","item_id":"i","content_index":0,"#
                + #""audio_end_ms":9223372036854775807}"#, "invalid_value", "audio_end_ms"),
        bad(
            #"{"type":"conversation.item.truncate","item_id":"i","content_index":0,"#
                + #""audio_end_ms":"1"}"#, "invalid_type", "audio_end_ms"),
    ]

    private static func user(_ part: String) -> String {
        create(
            #""type":"message","role":"user","content":[{"type":"input_text","text":""},\#(part)]"#)
    }

    static let badItems: [Bad] = [
        bad(
            #"{"type":"conversation.item.create"}"#, "missing_required_parameter", "item"),
        bad(create(""), "missing_required_parameter", "item.type"),
        bad(create(#""type":"note""#), "invalid_value", "item.type"),
        bad(
            create(#""type":"mcp_call""#), "missing_required_parameter", "item.server_label"),
        bad(create(#""type":"mcp_other""#), "invalid_value", "item.type"),
        bad(
            create(#""type":"mcp_approval_response","approval_request_id":"m""#),
            "missing_required_parameter", "item.approve"),
        bad(create(#""type":"item_reference","id":"i""#), "unsupported_item_type", "item.type"),
        bad(create(#""type":"message","content":[]"#), "missing_required_parameter", "item.role"),
        bad(create(#""type":"message","role":"bot","content":[]"#), "invalid_value", "item.role"),
        bad(
            create(#""type":"message","role":"user""#), "missing_required_parameter",
            "item.content"),
        bad(
            create(#""type":"message","role":"user","content":"x""#), "invalid_type",
            "item.content"),
        bad(
            create(#""type":"message","role":"user","content":[],"status":"done""#),
            "invalid_value", "item.status"),
        bad(
            create(#""type":"message","role":"user","content":[],"id":5"#), "invalid_type",
            "item.id"),
        bad(
            create(#""type":"message""#, #","previous_item_id":5"#), "missing_required_parameter",
            "item.role"),
        bad(
            create(
                #""type":"function_call_output","call_id":"c","output":"""#,
                #","previous_item_id":5"#), "invalid_type", "previous_item_id"),
        bad(user("7"), "invalid_type", "item.content[1]"),
        bad(user("{}"), "missing_required_parameter", "item.content[1].type"),
        bad(
            user(#"{"type":"input_text"}"#), "missing_required_parameter",
            "item.content[1].text"),
        bad(
            user(#"{"type":"input_text","text":5}"#), "invalid_type", "item.content[1].text"),
        bad(
            user(#"{"type":"input_audio"}"#), "missing_required_parameter",
            "item.content[1].audio"),
        bad(
            user(#"{"type":"input_audio","audio":"?"}"#), "invalid_value",
            "item.content[1].audio"),
        bad(
            user(#"{"type":"input_image"}"#), "missing_required_parameter",
            "item.content[1].image_url"),
        bad(
            user(#"{"type":"input_image","image_url":7}"#), "invalid_type",
            "item.content[1].image_url"),
        bad(
            user(#"{"type":"input_image","image_url":"data:"}"#), "invalid_value",
            "item.content[1].image_url"),
        bad(
            user(#"{"type":"input_image","image_url":"http://a.test/b.png"}"#), "invalid_value",
            "item.content[1].image_url"),
        bad(
            user(#"{"type":"input_image","image_url":"data:image/png;base64,"}"#),
            "invalid_value", "item.content[1].image_url"),
        bad(
            user(#"{"type":"input_image","image_url":"data:image/png;base64,AB"}"#),
            "invalid_value", "item.content[1].image_url"),
        bad(
            user(#"{"type":"input_image","image_url":"https://a.test/b","detail":"huge"}"#),
            "invalid_value", "item.content[1].detail"),
        bad(
            user(#"{"type":"output_text","text":""}"#), "invalid_value", "item.content[1].type"),
        bad(
            create(
                #""type":"message","role":"system","content":[{"type":"input_audio","audio":""}]"#),
            "invalid_value", "item.content[0].type"),
        bad(
            create(#""type":"message","role":"assistant","content":[{"type":"output_audio"}]"#),
            "missing_required_parameter", "item.content[0].transcript"),
        bad(
            create(#""type":"function_call","arguments":"{}""#), "missing_required_parameter",
            "item.name"),
        bad(
            create(#""type":"function_call","name":"f","arguments":{}"#), "invalid_type",
            "item.arguments"),
        bad(
            create(#""type":"function_call_output","output":"""#), "missing_required_parameter",
            "item.call_id"),
        bad(
            create(#""type":"function_call_output","call_id":"c""#),
            "missing_required_parameter", "item.output"),
    ]

    // MARK: The client's event id

    @Test(arguments: [
        #"{"event_id":"e-1"}"#,
        #"{"event_id":"e-1","type":"nonsense"}"#,
        #"{"type":"session.update","session":{"audio":{"output":{"speed":9}}},"event_id":"e-1"}"#,
        #"{"type":"input_audio_buffer.append","audio":"!","event_id":"e-1"}"#,
    ])
    func theEventIDIsEchoedWhateverIsWrong(_ text: String) {
        let error = #expect(throws: ClientEventError.self) { try Self.parsed(text) }
        #expect(error?.eventID == "e-1")
    }

    @Test func theEventIDComesWithTheEvent() throws {
        var parser = ClientEventParser()
        #expect(try parser.parse(#"{"type":"response.cancel","event_id":"e"}"#).eventID == "e")
        #expect(try parser.parse(#"{"type":"response.cancel","event_id":null}"#).eventID == nil)
        #expect(try parser.parse(#"{"type":"response.cancel"}"#).eventID == nil)
    }

    // MARK: Limits

    @Test func limitsAreNamedInTheError() throws {
        func error(_ text: String) -> ClientEventError? {
            #expect(throws: ClientEventError.self) { try Self.parsed(text) }
        }
        let id = String(repeating: "i", count: 513)
        let name = error(#"{"type":"conversation.item.delete","item_id":"\#(id)"}"#)
        #expect(name?.code == "invalid_value" && name?.param == "item_id")
        #expect(name?.message.contains("at most 512 bytes, got 513") == true)
        let text = String(repeating: "t", count: 1 << 20 + 1)
        let long = error(
            Self.create(#""type":"function_call_output","call_id":"c","output":"\#(text)""#))
        #expect(long?.param == "item.output")
        #expect(long?.message.contains("at most 1048576 bytes, got 1048577") == true)
        let part = #"{"type":"input_text","text":""}"#
        let parts = error(Self.user(Array(repeating: part, count: 128).joined(separator: ",")))
        #expect(parts?.param == "item.content")
        #expect(parts?.message.contains("at most 128 elements, got 129") == true)
    }

    @Test func longValuesAreCutInMessages() throws {
        let text = String(repeating: "x", count: 1_000)
        let error = #expect(throws: ClientEventError.self) {
            try Self.parsed(
                #"{"type":"session.update","session":{"tool_choice":"\#(text)"}}"#)
        }
        #expect(try #require(error).message.utf8.count < 250)
    }

    /// A damaged event gives an event or an error, and never traps.
    @Test func damagedEventsNeverTrap() {
        var random = SeededGenerator(seed: 2)
        var parser = ClientEventParser()
        let texts =
            (Self.simpleEvents + Self.itemEvents).map(\.text) + SessionUpdateParserTests.texts
        var refusedCount = 0
        for round in 0..<3_000 {
            var message = Array(texts[round % texts.count].utf8)
            for _ in 0...Int.random(in: 0...3, using: &random) {
                let index = Int.random(in: 0..<message.count, using: &random)
                message[index] = UInt8.random(in: 0x20...0x7E, using: &random)
            }
            do {
                _ = try parser.parse(String(decoding: message, as: UTF8.self))
            } catch {
                refusedCount += 1
                #expect(!error.code.isEmpty && !error.message.isEmpty)
            }
        }
        #expect(refusedCount > 200 && refusedCount < 3_000)
    }
}
