// The messages of carriers, as their documents show them, become the same values for all carriers;
// and bad messages become errors.

import TestMaterial
import Testing

@testable import Codec

@Suite struct TelephoneParserTests {
    private func parsed(
        _ text: String, from carrier: TelephoneCarrier
    ) throws -> (message: TelephoneMessage, audio: [UInt8]) {
        var parser = TelephoneParser()
        let message = try Array(text.utf8).withUnsafeBytes {
            try parser.parse($0, from: carrier)
        }
        return (message, Array(parser.audio))
    }

    private func started(_ text: String, by carrier: TelephoneCarrier) throws -> TelephoneStart {
        guard case .started(let start) = try parsed(text, from: carrier).message else {
            throw TelephoneError.notAnObject
        }
        return start
    }

    @Test func twilioStartsACall() throws {
        let start = try started(
            """
            {"event":"start","sequenceNumber":"1","start":{"accountSid":"AC1","streamSid":"MZ1",
            "callSid":"CA1","tracks":["inbound"],"mediaFormat":{"encoding":"audio/x-mulaw",
            "sampleRate":8000,"channels":1},"customParameters":{"voice":"ash","from":"+1555"}},
            "streamSid":"MZ1"}
            """, by: .twilio)
        #expect(start.call.callID == "CA1")
        #expect(start.call.streamID == "MZ1")
        #expect(start.call.from == "+1555")
        #expect(start.call.to == nil)
        #expect(start.call.parameter("voice") == "ash")
        #expect(start.coding == .mulaw)
    }

    @Test(arguments: [
        ("CA02a4a2b4", TelephoneCarrier.twilio, true), ("b77e037d-52a1", .plivo, true),
        ("v3:MdI91X4l_WF-Es7Igb==", .telnyx, true), ("", .exotel, true),
        ("PJSIP/alice-00000001", .asterisk, true), ("Local/5@default-00000002;1", .asterisk, true),
        ("v3:MdI91X4l", .conversationRelay, true),
        ("<img src=x>", .twilio, false), ("CA1\\u0000", .twilio, false),
        ("CA1\\r\\nX: y", .telnyx, false),
        ("CA 1", .asterisk, false), ("CÄ1", .signalwire, false), ("a\\u202eb", .vobiz, false),
        ("'", .exotel, false),
    ])
    func anIDHasTheCharactersOfItsCarrier(
        id: String, carrier: TelephoneCarrier, isValid: Bool
    ) throws {
        let text =
            switch carrier {
            case .asterisk: #"{"event":"MEDIA_START","channel_id":"\#(id)","format":"ulaw"}"#
            case .conversationRelay: #"{"type":"setup","callSid":"\#(id)"}"#
            case .telnyx: #"{"event":"start","start":{"call_control_id":"\#(id)"}}"#
            case .exotel: #"{"event":"start","start":{"call_sid":"\#(id)"}}"#
            case .plivo, .vobiz: #"{"event":"start","start":{"callId":"\#(id)"}}"#
            case .twilio, .signalwire: #"{"event":"start","start":{"callSid":"\#(id)"}}"#
            }
        guard isValid else {
            #expect(throws: TelephoneError.name(.init("call id"))) {
                try started(text, by: carrier)
            }
            return
        }
        #expect(try started(text, by: carrier).call.callID == id)
    }

    @Test func aNumberHasNoControlCharacters() {
        #expect(throws: TelephoneError.name(.init("number"))) {
            try started(#"{"event":"start","start":{"from":"+1\n2"}}"#, by: .twilio)
        }
    }

    @Test(arguments: [
        ("PCMU", 8_000, LineCoding.mulaw), ("PCMA", 8_000, .alaw), ("OPUS", 16_000, .opus),
        ("L16", 8_000, .linear8), ("L16", 16_000, .linear16), ("L16", 24_000, .linear24),
    ])
    func telnyxNamesItsCodec(encoding: String, rate: Int, coding: LineCoding) throws {
        let start = try started(
            """
            {"event":"start","sequence_number":"1","start":{"user_id":"u","call_control_id":"v2:1",
            "from":"+1","to":"+2","media_format":{"encoding":"\(encoding)","sample_rate":\(rate),
            "channels":1}},"stream_id":"32DE"}
            """, by: .telnyx)
        #expect(start.coding == coding)
        #expect(start.call.callID == "v2:1")
        #expect(start.call.streamID == "32DE")
        #expect(start.call.from == "+1")
        #expect(start.call.to == "+2")
    }

    @Test(arguments: [("G722", 8_000), ("L16", 32_000), ("AMR-WB", 16_000), ("PCMU", 16_000)])
    func aCodecThatThisServerLacksIsAnError(encoding: String, rate: Int) {
        #expect(throws: TelephoneError.coding("\(encoding) at \(rate) Hz")) {
            try parsed(
                """
                {"event":"start","start":{"call_control_id":"v2:1","media_format":
                {"encoding":"\(encoding)","sample_rate":\(rate)}},"stream_id":"s"}
                """, from: .telnyx)
        }
    }

    @Test func exotelStartsACallInLinearPCM() throws {
        let start = try started(
            """
            {"event":"start","sequence_number":"1","stream_sid":"MZ","start":{"stream_sid":"MZ",
            "call_sid":"CA","account_sid":"AC","from":"+91","to":"+92",
            "custom_parameters":{"key1":"value1"},
            "media_format":{"encoding":"audio/x-raw","sample_rate":"8000","bit_rate":"16"}}}
            """, by: .exotel)
        #expect(start.coding == .linear8)
        #expect(start.call.streamID == "MZ")
        #expect(start.call.parameters == [TelephoneParameter("key1", "value1")])
    }

    @Test(arguments: [
        (#""model=large;name=J%C3%B6rg;empty""#, [("model", "large"), ("name", "Jörg")]),
        (#""{\"model\":\"large\",\"speed\":1.25}""#, [("model", "large"), ("speed", "1.25")]),
        (#"{"model":"large"}"#, [("model", "large")]), (#""{}""#, []), ("null", []),
    ])
    func plivoPassesParametersOnAsText(headers: String, expected: [(String, String)]) throws {
        let start = try started(
            """
            {"event":"start","sequenceNumber":0,"start":{"callId":"c","streamId":"s","accountId":"a",
            "tracks":["inbound"],"mediaFormat":{"encoding":"audio/x-l16","sampleRate":8000}},
            "extra_headers":\(headers)}
            """, by: .plivo)
        #expect(start.call.parameters == expected.map { TelephoneParameter($0.0, $0.1) })
        #expect(start.coding == .linear8)
    }

    @Test(arguments: [TelephoneCarrier.twilio, .signalwire, .telnyx, .exotel, .plivo, .vobiz])
    func mediaIsDecoded(carrier: TelephoneCarrier) throws {
        let (message, audio) = try parsed(
            #"{"event":"media","media":{"track":"inbound","chunk":"7","timestamp":"140","payload":"/38A"}}"#,
            from: carrier)
        #expect(message == .media(chunk: 7))
        #expect(audio == [0xFF, 0x7F, 0x00])
    }

    @Test func theReplysOwnTrackIsNotHeard() throws {
        let (message, audio) = try parsed(
            #"{"event":"media","media":{"track":"outbound","chunk":"7","payload":"/38A"}}"#,
            from: .telnyx)
        #expect(message == .other)
        #expect(audio.isEmpty)
    }

    @Test(arguments: [
        (TelephoneCarrier.twilio, #"{"event":"mark","mark":{"name":"item_1:1200:3"}}"#),
        (.vobiz, #"{"event":"playedStream","name":"item_1:1200:3"}"#),
        (.asterisk, #"{"event":"MEDIA_MARK_PROCESSED","correlation_id":"item_1:1200:3"}"#),
        (.asterisk, "MEDIA_MARK_PROCESSED item_1:1200:3"),
    ])
    func aMarkComesBack(carrier: TelephoneCarrier, text: String) throws {
        let mark = PlayoutMark(itemID: "item_1", milliseconds: 1_200, generation: 3)
        #expect(try parsed(text, from: carrier).message == .played(mark: mark))
        #expect(PlayoutMark(name: mark.name) == mark)
    }

    @Test(arguments: [
        (
            TelephoneCarrier.twilio,
            #"{"event":"dtmf","dtmf":{"track":"inbound_track","digit":"5"}}"#
        ),
        (.plivo, #"{"event":"dtmf","dtmf":{"digit":"5","timestamp":"1"},"streamId":"s"}"#),
        (.asterisk, #"{"event":"DTMF_END","digit":"5","channel_id":"1.2"}"#),
        (.asterisk, "DTMF_END digit:5 channel_id:1.2"),
        (.conversationRelay, #"{"type":"dtmf","digit":"5"}"#),
    ])
    func aKeyIsPressed(carrier: TelephoneCarrier, text: String) throws {
        #expect(try parsed(text, from: carrier).message == .digit("5"))
    }

    @Test(arguments: [
        (
            #"{"event":"MEDIA_START","connection_id":"m1","channel":"WebSocket/m1/0x1","channel_id":"1.2","format":"ulaw","optimal_frame_size":160,"ptime":20,"channel_variables":{"PARLEY_VOICE":"ash","DIALSTATUS":"x"}}"#,
            LineCoding.mulaw, false
        ),
        (
            "MEDIA_START connection_id:m1 channel:WebSocket/m1/0x1 channel_id:1.2 format:slin optimal_frame_size:320 ptime:20",
            .linear8, true
        ),
    ])
    func asteriskStartsACall(text: String, coding: LineCoding, isPlain: Bool) throws {
        let start = try started(text, by: .asterisk)
        #expect(start.call.callID == "1.2")
        #expect(start.call.streamID == "m1")
        #expect(start.coding == coding)
        #expect(start.usesPlainText == isPlain)
        #expect(start.call.parameters == (isPlain ? [] : [TelephoneParameter("voice", "ash")]))
    }

    @Test func asteriskSaysWhetherItHasRoom() throws {
        #expect(try parsed("MEDIA_XOFF", from: .asterisk).message == .queue(hasRoom: false))
        #expect(
            try parsed(#"{"event":"MEDIA_XON","channel_id":"1"}"#, from: .asterisk).message
                == .queue(hasRoom: true))
    }

    @Test func aRelayIsSpokenToInText() throws {
        let start = try started(
            """
            {"type":"setup","sessionId":"VX1","accountSid":"AC","callSid":"CA1","from":"+1","to":"+2",
            "callType":"PSTN","direction":"inbound","customParameters":{"model":"m"}}
            """, by: .conversationRelay)
        #expect(start.coding == nil)
        #expect(start.call.callID == "CA1")
        #expect(start.call.parameter("model") == "m")
        #expect(
            try parsed(
                #"{"type":"prompt","voicePrompt":"hi there","lang":"en-US","last":true}"#,
                from: .conversationRelay
            ).message == .prompt("hi there", isLast: true))
        #expect(
            try parsed(
                #"{"type":"interrupt","utteranceUntilInterrupt":"Life is","durationUntilInterruptMs":460}"#,
                from: .conversationRelay
            ).message == .interrupted(heard: "Life is"))
    }

    @Test(arguments: [
        (
            TelephoneCarrier.twilio, #"{"event":"stop","stop":{"callSid":"CA"}}"#,
            TelephoneMessage.stopped
        ),
        (.twilio, #"{"event":"connected","protocol":"Call","version":"1.0.0"}"#, .other),
        (.twilio, #"{"event":"mark","mark":{"name":"somebody else's"}}"#, .other),
        (.twilio, #"{"event":"dtmf","dtmf":{"digit":"flash"}}"#, .other),
        (.plivo, #"{"event":"clearedAudio","streamId":"s"}"#, .other),
        (.asterisk, "QUEUE_DRAINED", .other),
        (.conversationRelay, #"{"type":"error","description":"bad"}"#, .failed("bad")),
    ])
    func otherMessages(
        carrier: TelephoneCarrier, text: String, expected: TelephoneMessage
    ) throws {
        #expect(try parsed(text, from: carrier).message == expected)
    }

    @Test(arguments: [
        (TelephoneCarrier.twilio, "", TelephoneError.notJSON), (.twilio, "{", .notJSON),
        (.twilio, "[]", .notAnObject), (.twilio, "{}", .missing(.init("event"))),
        (.twilio, #"{"event":"media"}"#, .missing(.init("media.payload"))),
        (.twilio, #"{"event":"media","media":{"payload":7}}"#, .missing(.init("media.payload"))),
        (.twilio, #"{"event":"media","media":{"payload":"?"}}"#, .payload),
        (.twilio, #"{"event":"start"}"#, .missing(.init("start"))),
        (.twilio, #"{"event":"mark"}"#, .missing(.init("name"))),
        (.conversationRelay, #"{"type":"prompt"}"#, .missing(.init("voicePrompt"))),
        (.asterisk, "MEDIA_START channel_id:1", .missing(.init("format"))),
        (.asterisk, "MEDIA_START channel_id:1 format:g722", .coding("g722")),
        (.asterisk, "MEDIA_START channel_id:1 format:slin12", .coding("slin12")),
        // A rate that no number holds.
        (
            .asterisk, "MEDIA_START channel_id:1 format:slin9300000000000000",
            .coding("slin9300000000000000")
        ),
    ])
    func badMessages(carrier: TelephoneCarrier, text: String, error: TelephoneError) {
        #expect(throws: error) { try parsed(text, from: carrier) }
    }

    @Test func parametersAreBounded() {
        let many = (0...TelephoneLimits.maxParameters).map { #""p\#($0)":"""# }
        let long = String(repeating: "x", count: TelephoneLimits.maxParameterBytes)
        for parameters in ["{\(many.joined(separator: ","))}", #"{"a":"\#(long)"}"#] {
            #expect(throws: TelephoneError.tooLong(.init("parameters"))) {
                try parsed(
                    #"{"event":"start","start":{"customParameters":\#(parameters)}}"#,
                    from: .twilio)
            }
        }
        let name = String(repeating: "x", count: TelephoneLimits.maxNameBytes + 1)
        #expect(throws: TelephoneError.tooLong(.init("callSid"))) {
            try parsed(#"{"event":"start","start":{"callSid":"\#(name)"}}"#, from: .twilio)
        }
    }

    @Test func damagedMessagesAreMessagesOrErrors() {
        let samples: [(TelephoneCarrier, String)] = [
            (.twilio, #"{"event":"start","start":{"callSid":"CA","customParameters":{"a":"b"}}}"#),
            (.plivo, #"{"event":"start","start":{"callId":"CA"},"extra_headers":"a=b;c=%d"}"#),
            (.asterisk, "MEDIA_START connection_id:m channel_id:1.2 format:slin24 ptime:20"),
            (.conversationRelay, #"{"type":"prompt","voicePrompt":"hello","last":false}"#),
        ]
        var generator = SeededGenerator(seed: 16)
        var parser = TelephoneParser()
        for _ in 0..<2_000 {
            let (carrier, text) = samples[Int(generator.next() % UInt64(samples.count))]
            var bytes = Array(text.utf8)
            for _ in 0..<3 {
                let place = Int(generator.next() % UInt64(bytes.count))
                bytes[place] = UInt8(truncatingIfNeeded: generator.next())
            }
            bytes.removeLast(Int(generator.next() % 4))
            bytes.withUnsafeBytes { _ = try? parser.parse($0, from: carrier) }
        }
    }
}
