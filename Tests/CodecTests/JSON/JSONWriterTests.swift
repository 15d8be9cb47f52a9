// Writing JSON: escapes, numbers, commas, closures, and that written values read back unchanged.

import Codec
import Testing

@Suite struct JSONWriterTests {
    /// The JSON that `body` writes.
    static func written(_ body: (inout JSONWriter) -> Void) -> String {
        var json = JSONWriter(ByteWriter(capacity: 1))
        body(&json)
        let bytes = json.finish()
        return String(decoding: bytes.copiedBytes, as: UTF8.self)
    }

    @Test func commasStandBetweenValuesOnly() {
        let text = Self.written { json in
            json.beginObject()
            json.member("a", 1)
            json.key("b")
            json.beginArray()
            json.integer(-1)
            json.beginObject()
            json.endObject()
            json.bool(true)
            json.null()
            json.endArray()
            json.key("c")
            json.beginArray()
            json.endArray()
            json.member("d", RawJSON("{ \"as\": \"it stands\" }"))
            json.member("e", "x")
            json.endObject()
        }
        #expect(
            text == #"{"a":1,"b":[-1,{},true,null],"c":[],"d":{ "as": "it stands" },"e":"x"}"#)
    }

    @Test func closuresWriteBalancedObjectsAndArrays() {
        let text = Self.written { json in
            json.object { json in
                json.array("a") { json in
                    json.object { $0.member("b", 1) }
                    json.array { _ in }
                }
                json.object("c") { _ in }
                json.member("d", true)
            }
        }
        #expect(text == #"{"a":[{"b":1},[]],"c":{},"d":true}"#)
    }

    @Test func absentOptionalsAreNull() {
        let text = Self.written { json in
            json.beginObject()
            json.member("s", nil as String?)
            json.member("i", nil as Int?)
            json.member("r", nil as RawJSON?)
            json.endObject()
        }
        #expect(text == #"{"s":null,"i":null,"r":null}"#)
    }

    @Test(arguments: [
        ("", #""""#),
        ("\"\\/", #""\"\\/""#),
        ("\u{8}\t\n\u{C}\r", #""\b\t\n\f\r""#),
        ("\0\u{1}\u{1F}\u{7F}", "\"\\u0000\\u0001\\u001f\u{7F}\""),
        ("\u{E9}\u{20AC}\u{1F600}\u{2028}", "\"\u{E9}\u{20AC}\u{1F600}\u{2028}\""),
    ])
    func escapes(_ text: String, _ expected: String) {
        #expect(Self.written { $0.string(text) } == expected)
    }

    @Test(arguments: [0, 1, -1, 9, 10, 4_096, Int.max, Int.min])
    func integers(_ value: Int) {
        #expect(Self.written { $0.integer(value) } == String(value))
    }

    @Test(arguments: [
        (0.0, "0.0"), (1.0, "1.0"), (0.1, "0.1"), (-2.5, "-2.5"), (1e22, "1e+22"),
        (5e-300, "5e-300"),
    ])
    func numbersAreShortest(_ value: Double, _ expected: String) throws {
        let text = Self.written { $0.number(value) }
        #expect(text == expected)
        let root = try JSONParser().parse("[\(text)]")
        #expect(root.elements?.first { _ in true }?.double == value)
    }

    @Test func base64IsAString() {
        let bytes: [UInt8] = [0, 1, 2, 253, 254, 255, 7]
        #expect(Self.written { $0.base64(bytes.span.bytes) } == "\"AAEC/f7/Bw==\"")
        let none: [UInt8] = []
        #expect(Self.written { $0.base64(none.span.bytes) } == "\"\"")
    }

    @Test func aStringInPieces() {
        let text = Self.written { json in
            json.beginArray()
            json.beginString()
            json.continueString("sess_a\"b", droppingPrefix: "sess_")
            json.continueString("other", droppingPrefix: "sess_")
            json.continueString(decimal: .max)
            json.endString()
            json.integer(1)
            json.endArray()
        }
        #expect(text == #"["a\"bother18446744073709551615",1]"#)
    }

    @Test func writesAfterWhatTheBufferHolds() {
        var bytes = ByteWriter(capacity: 8)
        bytes.append("data: ")
        var json = JSONWriter(bytes)
        json.beginArray()
        json.endArray()
        bytes = json.finish()
        #expect(String(decoding: bytes.copiedBytes, as: UTF8.self) == "data: []")
    }

    // MARK: Round trips

    /// All of the first 12,288 scalars, which include the escapes and all UTF-8 lengths but one,
    /// and a sample of the others.
    @Test func scalarsReadBack() throws {
        let codes = Array(0..<0x3000) + Array(stride(from: 0x3000, through: 0x10_FFFF, by: 257))
        let scalars = codes.compactMap { Unicode.Scalar(UInt32($0)) }
        let parser = JSONParser()
        for start in stride(from: 0, to: scalars.count, by: 4_096) {
            let chunk = scalars[start..<min(start + 4_096, scalars.count)]
            let text = String(String.UnicodeScalarView(chunk))
            let root = try parser.parse("[" + Self.written { $0.string(text) } + "]")
            // Compared as bytes, because `==` on strings treats equivalent texts as equal.
            let copy = try #require(root.elements?.first { _ in true }?.utf8)
            #expect(copy.elementsEqual(text.utf8))
        }
    }

    /// The scan for escapes works in blocks of eight bytes: a special byte at each position in and
    /// around a block.
    @Test(arguments: ["\"", "\\", "\n", "\u{1F}"])
    func specialsAtEveryOffsetReadBack(_ special: String) throws {
        let parser = JSONParser()
        for before in 0...40 {
            for after in [0, 1, 15, 16, 17] {
                let text =
                    String(repeating: "x", count: before) + special
                    + String(repeating: "é", count: after)
                let root = try parser.parse("[" + Self.written { $0.string(text) } + "]")
                #expect(root.elements?.first { _ in true }?.string == text)
            }
        }
    }

    // MARK: Misuse

    @Test func anOpenObjectTraps() async {
        await #expect(processExitsWith: .failure) {
            var json = JSONWriter(ByteWriter(capacity: 8))
            json.beginObject()
            _ = json.finish()
        }
    }

    @Test func anInfiniteNumberTraps() async {
        await #expect(processExitsWith: .failure) {
            var json = JSONWriter(ByteWriter(capacity: 8))
            json.number(.infinity)
            _ = json.finish()
        }
    }
}
