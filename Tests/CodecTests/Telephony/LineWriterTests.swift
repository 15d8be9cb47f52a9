// Messages to carriers: the names of each, and audio in the line's coding.

import Testing

@testable import Codec

@Suite struct LineWriterTests {
    private func writer(
        _ carrier: TelephoneCarrier, _ coding: LineCoding = .mulaw, isPlain: Bool = false
    ) -> LineWriter {
        var call = TelephoneCall(carrier: carrier)
        call.streamID = "S1"
        var start = TelephoneStart(call: call, coding: coding)
        start.usesPlainText = isPlain
        return LineWriter(start, coding)
    }

    private func written(_ write: (inout ByteWriter) -> Void) -> String {
        var bytes = ByteWriter(capacity: 16)
        write(&bytes)
        return String(decoding: bytes.copiedBytes, as: UTF8.self)
    }

    private let mark = PlayoutMark(itemID: "item_1", milliseconds: 200, generation: 1)

    @Test(arguments: [
        (
            TelephoneCarrier.twilio,
            #"{"event":"media","streamSid":"S1","media":{"payload":"/38A"}}"#,
            #"{"event":"mark","streamSid":"S1","mark":{"name":"item_1:200:1"}}"#,
            #"{"event":"clear","streamSid":"S1"}"#
        ),
        (
            .telnyx, #"{"event":"media","stream_id":"S1","media":{"payload":"/38A"}}"#,
            #"{"event":"mark","stream_id":"S1","mark":{"name":"item_1:200:1"}}"#,
            #"{"event":"clear","stream_id":"S1"}"#
        ),
        (
            .exotel, #"{"event":"media","stream_sid":"S1","media":{"payload":"/38A"}}"#,
            #"{"event":"mark","stream_sid":"S1","mark":{"name":"item_1:200:1"}}"#,
            #"{"event":"clear","stream_sid":"S1"}"#
        ),
        (
            .vobiz,
            #"{"event":"playAudio","streamId":"S1","media":{"contentType":"audio/x-mulaw","sampleRate":8000,"payload":"/38A"}}"#,
            #"{"event":"checkpoint","streamId":"S1","name":"item_1:200:1"}"#,
            #"{"event":"clearAudio","streamId":"S1"}"#
        ),
    ])
    func streamsOfMedia(
        carrier: TelephoneCarrier, media: String, marked: String, cleared: String
    ) {
        let line = writer(carrier)
        let audio: [UInt8] = [0xFF, 0x7F, 0x00]
        #expect(
            written { bytes in audio.withUnsafeBytes { line.media($0, into: &bytes) } } == media)
        #expect(written { line.mark(mark, into: &$0) } == marked)
        #expect(written { line.clear(into: &$0) } == cleared)
        #expect(!line.sendsBinaryMedia && line.hasQueue)
        let hangUp = written { _ = line.hangUp(into: &$0) }
        #expect(hangUp.isEmpty)
    }

    @Test func asteriskGetsCommands() {
        let json = writer(.asterisk)
        #expect(
            written { json.mark(mark, into: &$0) }
                == #"{"command":"MARK_MEDIA","correlation_id":"item_1:200:1"}"#)
        #expect(written { json.clear(into: &$0) } == #"{"command":"FLUSH_MEDIA"}"#)
        #expect(written { _ = json.hangUp(into: &$0) } == #"{"command":"HANGUP"}"#)
        let plain = writer(.asterisk, isPlain: true)
        #expect(written { plain.mark(mark, into: &$0) } == "MARK_MEDIA item_1:200:1")
        #expect(written { plain.clear(into: &$0) } == "FLUSH_MEDIA")
        #expect(written { _ = plain.hangUp(into: &$0) } == "HANGUP")
        #expect(json.sendsBinaryMedia && json.hasQueue)
        #expect(!writer(.asterisk, .opus).hasQueue)
    }

    @Test func asterisksQueueIsPaused() {
        for (isPlain, form) in [(true, { $0 }), (false, { #"{"command":"\#($0)"}"# })]
            as [(Bool, (String) -> String)]
        {
            let line = writer(.asterisk, isPlain: isPlain)
            #expect(line.canPause)
            #expect(written { _ = line.open(into: &$0) } == form("START_MEDIA_BUFFERING"))
            #expect(written { line.pause(into: &$0) } == form("PAUSE_MEDIA"))
            #expect(written { line.goOn(into: &$0) } == form("CONTINUE_MEDIA"))
        }
        for line in [writer(.asterisk, .opus), writer(.twilio), writer(.plivo)] {
            let opening = written { _ = line.open(into: &$0) }
            #expect(!line.canPause && opening.isEmpty)
        }
    }

    /// Asterisk ignores a command of more than 128 bytes.
    @Test func aMarkIsShortEnough() {
        let longest = PlayoutMark(
            itemID: "item_01234567890", milliseconds: 86_400_000, generation: .max)
        #expect(longest.name.utf8.count <= TelephoneLimits.maxMarkBytes)
        #expect(written { writer(.asterisk).mark(longest, into: &$0) }.utf8.count <= 128)
    }

    @Test func aRelayGetsText() {
        #expect(
            written { ConversationRelayWriter.text("Hi \"you\"", isLast: false, into: &$0) }
                == #"{"type":"text","token":"Hi \"you\"","last":false}"#)
        #expect(
            written { ConversationRelayWriter.language("sv-SE", into: &$0) }
                == #"{"type":"language","ttsLanguage":"sv-SE","transcriptionLanguage":"sv-SE"}"#)
        #expect(written { ConversationRelayWriter.end(into: &$0) } == #"{"type":"end"}"#)
    }

    @Test(arguments: [LineCoding.mulaw, .alaw, .linear16, .linear24, .opus])
    func audioInAFormatOfTheSessionsIsNotTouched(coding: LineCoding) {
        let audio: [UInt8] = [1, 2, 3, 4]
        for convert in [coding.appendHeard, coding.appendPlayed] {
            var bytes = ByteWriter(capacity: 16)
            audio.withUnsafeBytes { convert($0, &bytes) }
            #expect(bytes.copiedBytes == audio)
        }
    }

    @Test func linearSamplesAreCompandedAndExpanded() {
        let samples: [Int16] = [0, 100, -100, 8_000, -32_768, 32_767]
        var codes = ByteWriter(capacity: 16)
        samples.withUnsafeBytes { LineCoding.linear8.appendHeard($0, to: &codes) }
        #expect(codes.count == samples.count)
        var expanded = ByteWriter(capacity: 16)
        codes.withUnsafeBytes { LineCoding.linear8.appendPlayed($0, to: &expanded) }
        let back = expanded.withUnsafeBytes { Array($0.bindMemory(to: Int16.self)) }
        for (sample, heard) in zip(samples, back) {
            // A step of µ-law is a sixteenth of its segment at most, and its ends are clipped.
            #expect(abs(Int(sample) - Int(heard)) <= max(8, abs(Int(sample)) / 16))
        }
    }
}
