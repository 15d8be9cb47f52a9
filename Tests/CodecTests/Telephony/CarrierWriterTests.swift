// Both ends of a line understand each other: what a carrier writes the server reads, and back.

import Testing

@testable import Codec

@Suite struct CarrierWriterTests {
    private static let codings: [(TelephoneCarrier, LineCoding)] = [
        (.twilio, .mulaw), (.signalwire, .mulaw), (.telnyx, .alaw), (.telnyx, .opus),
        (.exotel, .linear8), (.plivo, .mulaw), (.vobiz, .linear8), (.asterisk, .mulaw),
        (.asterisk, .linear24),
    ]

    private func call(_ carrier: TelephoneCarrier) -> TelephoneCall {
        var call = TelephoneCall(carrier: carrier)
        call.callID = "c1"
        call.streamID = "s1"
        call.parameters = [TelephoneParameter("voice", "ash"), TelephoneParameter("from", "+1")]
        return call
    }

    private func heard(
        by carrier: TelephoneCarrier, _ write: (inout ByteWriter) -> Void
    ) throws -> (message: TelephoneMessage, audio: [UInt8]) {
        var bytes = ByteWriter(capacity: 16)
        write(&bytes)
        var parser = TelephoneParser()
        let message = try bytes.copiedBytes.withUnsafeBytes {
            try parser.parse($0, from: carrier)
        }
        return (message, Array(parser.audio))
    }

    @Test(arguments: codings)
    func theServerReadsWhatACarrierWrites(
        carrier: TelephoneCarrier, coding: LineCoding
    ) throws {
        let writer = CarrierWriter(call(carrier), coding)
        var expected = call(carrier)
        expected.from = "+1"
        guard case .started(let start) = try heard(by: carrier, writer.start).message else {
            Issue.record("no start")
            return
        }
        #expect(start.call == expected)
        #expect(start.coding == coding)
        #expect(try heard(by: carrier) { writer.digit("*", into: &$0) }.message == .digit("*"))
        let mark = PlayoutMark(itemID: "item_1", milliseconds: 20, generation: 0)
        #expect(
            try heard(by: carrier) { writer.played(mark.name, into: &$0) }.message
                == .played(mark: mark))
        guard carrier != .asterisk else { return }
        let codes: [UInt8] = [0xFF, 0x80, 0x7F, 0x00]
        let (message, audio) = try heard(by: carrier) { bytes in
            codes.withUnsafeBytes { writer.media($0, chunk: 3, into: &bytes) }
        }
        #expect(message == .media(chunk: 3))
        var samples = ByteWriter(capacity: 16)
        codes.withUnsafeBytes { coding.appendPlayed($0, to: &samples) }
        #expect(audio == samples.copiedBytes)
        #expect(try heard(by: carrier) { _ = writer.stop(into: &$0) }.message == .stopped)
    }

    @Test(arguments: codings)
    func aCarrierReadsWhatTheServerWrites(
        carrier: TelephoneCarrier, coding: LineCoding
    ) throws {
        let line = LineWriter(TelephoneStart(call: call(carrier), coding: coding), coding)
        var parser = CarrierParser()
        func command(_ write: (inout ByteWriter) -> Void) throws -> CarrierCommand {
            var bytes = ByteWriter(capacity: 16)
            write(&bytes)
            return try parser.parse(bytes.copiedBytes, of: carrier)
        }
        let mark = PlayoutMark(itemID: "item_1", milliseconds: 20, generation: 0)
        #expect(try command { line.mark(mark, into: &$0) } == .mark(mark.name))
        #expect(try command { line.clear(into: &$0) } == .clear)
        guard carrier != .asterisk else {
            #expect(try command { _ = line.hangUp(into: &$0) } == .hangUp)
            #expect(try command { line.pause(into: &$0) } == .pause)
            #expect(try command { line.goOn(into: &$0) } == .goOn)
            return
        }
        let codes: [UInt8] = [0xFF, 0x7F]
        #expect(
            try command { bytes in codes.withUnsafeBytes { line.media($0, into: &bytes) } } == .play
        )
        #expect(parser.audio.count == codes.count * (coding == .linear8 ? 2 : 1))
    }

    @Test func aRelayIsUnderstoodInBothDirections() throws {
        let writer = CarrierWriter(call(.conversationRelay))
        guard case .started(let start) = try heard(by: .conversationRelay, writer.start).message
        else {
            Issue.record("no start")
            return
        }
        #expect(start.coding == nil)
        #expect(start.call.parameter("voice") == "ash")
        #expect(
            try heard(by: .conversationRelay) { writer.prompt("hi", into: &$0) }.message
                == .prompt("hi", isLast: true))
        var parser = CarrierParser()
        var bytes = ByteWriter(capacity: 16)
        ConversationRelayWriter.text("hello", isLast: true, into: &bytes)
        #expect(
            try parser.parse(bytes.copiedBytes, of: .conversationRelay)
                == .speak("hello", isLast: true))
        bytes.removeAll()
        ConversationRelayWriter.language("de", into: &bytes)
        #expect(
            try parser.parse(bytes.copiedBytes, of: .conversationRelay) == .language("de"))
    }

    @Test func otherMessagesHaveNoMeaningForACarrier() throws {
        var parser = CarrierParser()
        #expect(try parser.parse(Array("{}".utf8), of: .twilio) == .other)
        #expect(try parser.parse(Array(#"{"event":"x"}"#.utf8), of: .plivo) == .other)
        #expect(throws: TelephoneError.notJSON) { try parser.parse([], of: .twilio) }
        #expect(throws: TelephoneError.payload) {
            try parser.parse(Array(#"{"event":"media"}"#.utf8), of: .twilio)
        }
    }
}
