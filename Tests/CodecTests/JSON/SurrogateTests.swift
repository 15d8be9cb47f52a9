// Halves of surrogate pairs in JSON: read as U+FFFD, and joined where a stream has cut them. And what a
// text that is no JSON can still tell.

import Testing

@testable import Codec

@Suite struct SurrogateTests {
    private let parser = JSONParser()

    @Test(arguments: [
        (#"\ud83d"#, "\u{FFFD}"), (#"a\uDE00b"#, "a\u{FFFD}b"),
        (#"\ud83d\ud83d\ude00"#, "\u{FFFD}😀"),
        (#"\ude00\ud83d"#, "\u{FFFD}\u{FFFD}"), (#"\\ud83d"#, #"\ud83d"#),
        (#"\ud83d\n"#, "\u{FFFD}\n"),
        (#"\ud83d\u0041"#, "\u{FFFD}A"), (#"\ufffd"#, "\u{FFFD}"),
    ])
    func aHalfIsReplaced(escaped: String, text: String) throws {
        let value = try parser.parse(#"{"a":["\#(escaped)"],"\#(escaped)":1}"#)
        #expect(value["a"]?.elements?.map(\.string) == [text])
        #expect(value.members?.map(\.key).last == text)
        // What is forwarded is JSON for every reader.
        #expect(try JSONParser().parse(value.raw.text)["a"]?.elements?.map(\.string) == [text])
    }

    @Test func whatIsWrittenAnewHasNoHalves() throws {
        let value = try parser.parse(
            #" { "a\ud83d" : [ 1.50 , -2e3, true,null , "\ude00\"" , {} , [ ] ] } "#)
        #expect(
            RawJSON(rewriting: value).text
                == "{\"a\u{FFFD}\":[1.50,-2e3,true,null,\"\u{FFFD}\\\"\",{},[]]}")
        let changed = RawJSON(rewriting: value) { $0.replacing("1", with: "x") }
        #expect(changed.text.hasPrefix("{\"a\u{FFFD}\":[\"x.50\",-2e3,"))
    }

    @Test func theHalvesAtTheEndsAreKnown() throws {
        let texts =
            #"["\ud83d","x\ud83d","\ude00","\ude00x","\ud83d\ude00","\ufffd","\\ud83d","\ud83dx"]"#
        let values = try #require(try parser.parse(texts).elements).map(\.self)
        #expect(values.map(\.lastHalf) == [0xD83D, 0xD83D, nil, nil, nil, nil, nil, nil])
        #expect(values.map(\.firstHalf) == [nil, nil, 0xDE00, 0xDE00, nil, nil, nil, nil])
    }

    @Test(arguments: [
        ([#"a\ud83d"#, #"\ude00b"#], "a😀b"), ([#"\ud83d"#, #"\ude00"#], "😀"),
        // The first and the last character that are pairs.
        ([#"\ud800"#, #"\udc00"#], "\u{10000}"), ([#"\udbff"#, #"\udfff"#], "\u{10FFFF}"),
        ([#"\ud83d"#, "", #"\ude00\ud83d"#, #"\ude00"#], "😀😀"), ([#"a\ud83d"#, "b"], "a\u{FFFD}b"),
        ([#"\ud83d"#, #"\ud83d"#, #"\ude00"#], "\u{FFFD}😀"), ([#"\ud83d"#], "\u{FFFD}"),
        (["a", #"\ude00"#], "a\u{FFFD}"), (["plain"], "plain"),
    ])
    func textsOfAStreamAreJoined(escaped: [String], text: String) throws {
        var halves = SurrogateHalves()
        var joined = ""
        for escaped in escaped {
            joined +=
                halves.text(of: try parser.parse(#"["\#(escaped)"]"#).elements?.first { _ in true })
                ?? ""
        }
        #expect(joined + halves.finish() == text)
    }

    @Test(arguments: [
        (#"{"type":"x","event_id":"e1","a":"\x"}"#, "e1"), (#"{"event_id" : "e2", "a":tru}"#, "e2"),
        (#"{"a":{"event_id":"no"},"event_id":"e3","b":"never closed"#, "e3"),
        (#"{"a":"event_id","event_id":"e4",}"#, "e4"), (#"{"event_id":5,"a":"#, nil),
        (#"{"a":"\"event_id\":\"no\"","#, nil), ("hello", nil), (#"{"event_id":"e\u0035","#, nil),
    ])
    func aBrokenEventIsNamed(text: String, eventID: String?) {
        var events = ClientEventParser()
        let error = #expect(throws: ClientEventError.self) {
            _ = try Array(text.utf8).withUnsafeBytes { try events.parse($0) }
        }
        #expect(error?.code == "invalid_json")
        #expect(error?.eventID == eventID)
    }

    @Test(arguments: [
        ("{\"a\":\"b\u{1}c\"}", 7), ("{\"a\":\"bc", 5), (#"{"a":"\x"}"#, 5),
    ])
    func theErrorSaysWhere(text: String, offset: Int) {
        let error = #expect(throws: JSONError.self) { _ = try parser.parse(text) }
        #expect(error?.byteOffset == offset)
        #expect(error?.explanation.hasSuffix("near byte \(offset)") == true)
    }

    @Test func theFirstByteThatIsNoUTF8IsNamed() {
        let error = #expect(throws: JSONError.self) {
            _ = try parser.parse(Array("{\"a\":\"é".utf8) + [0xED, 0xA0, 0x80] + Array("\"}".utf8))
        }
        #expect(error?.reason == .invalidUTF8 && error?.byteOffset == 8)
    }
}
