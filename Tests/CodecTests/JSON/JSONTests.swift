// Reading JSON: accepted documents and their values, each kind of refusal, the limits, and that
// documents do not leak into each other. Foundation's parser serves as reference.

import Codec
import Foundation
import TestMaterial
import Testing

@Suite struct JSONTests {
    // MARK: Values

    @Test func readsEveryKindOfValue() throws {
        let parser = JSONParser()
        let root = try parser.parse(
            #"{"n":null,"t":true,"f":false,"i":-7,"d":2.5,"s":"x","a":[1,[]],"o":{"k":{}}}"#)
        #expect(root.kind == .object && root.count == 8)
        #expect(root["n"]?.isNull == true && root["n"]?.kind == .null)
        #expect(root["t"]?.bool == true && root["f"]?.bool == false)
        #expect(root["i"]?.int == -7 && root["i"]?.double == -7)
        #expect(root["d"]?.double == 2.5 && root["d"]?.int == nil)
        #expect(root["s"]?.string == "x" && root["s"]?.isString("x") == true)
        #expect(root["s"]?.isString("y") == false && root["s"]?.isString("xx") == false)
        #expect(root["a"]?.elements?.map(\.kind) == [.number, .array])
        #expect(root["o"]?.members?.map(\.key) == ["k"])
        #expect(root["absent"] == nil)
    }

    @Test func readingAsAnotherTypeGivesNil() throws {
        let parser = JSONParser()
        let root = try parser.parse(#"{"s":"1","i":1}"#)
        let text = try #require(root["s"])
        let number = try #require(root["i"])
        #expect(text.int == nil && text.double == nil && text.bool == nil)
        #expect(text.elements == nil && text.members == nil && text["k"] == nil && text.count == 0)
        #expect(number.string == nil && number.utf8 == nil && !number.isNull)
    }

    @Test(
        arguments: [
            ("0", 0), ("-0", 0), ("5.0", 5), ("1e3", 1_000), ("9223372036854775807", Int.max),
            ("-9223372036854775808", Int.min), ("9223372036854775808", nil), ("0.5", nil),
            ("123456789012345678901234567890", nil),
        ] as [(String, Int?)])
    func integersAreExactOrNil(_ text: String, _ expected: Int?) throws {
        let root = try JSONParser().parse("[\(text)]")
        let number = try #require(root.elements?.first { _ in true })
        #expect(number.int == expected)
        #expect(number.double == Double(text))
    }

    @Test(arguments: [
        (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"),
        (#""\u00e9\u20AC\ud83d\ude00""#, "\u{E9}\u{20AC}\u{1F600}"),
        (#""\u0000""#, "\0"),
        ("\"\u{1F600}\u{FFFF}\"", "\u{1F600}\u{FFFF}"),
        ("\"\"", ""),
    ])
    func stringsAreDecoded(_ text: String, _ expected: String) throws {
        let parser = JSONParser()
        let root = try parser.parse("{\(text):\(text)}")
        let member = try #require(root.members?.first { _ in true })
        #expect(member.key == expected)
        #expect(member.value.string == expected)
    }

    @Test func theLastOfARepeatedKeyCounts() throws {
        let parser = JSONParser()
        let root = try parser.parse(#"{"a":1,"b":0,"\u0061":{"a":2},"b":3}"#)
        #expect(root["a"]?["a"]?.int == 2)
        #expect(root["b"]?.int == 3)
        #expect(root.count == 4)
    }

    @Test func rawTextIsWhatWasReceived() throws {
        let parser = JSONParser()
        let document =
            " {\"a\" : [ 1.50 , {\"\\u0041\":1e2} ] ,\n\"b\":\"\\u00e9\" ,\"c\": null }\t"
        let root = try parser.parse(document)
        #expect(root.raw.text == document.trimmingCharacters(in: .whitespaces))
        #expect(root["a"]?.raw.text == "[ 1.50 , {\"\\u0041\":1e2} ]")
        let elements = try #require(root["a"]?.elements).map(\.raw.text)
        #expect(elements == ["1.50", "{\"\\u0041\":1e2}"])
        #expect(root["b"]?.raw.text == "\"\\u00e9\"")
        #expect(root["c"]?.raw.text == "null")
    }

    // MARK: Refusals

    struct Refusal: Sendable, CustomTestStringConvertible {
        let text: String
        let reason: JSONError.Reason
        var testDescription: String { text.debugDescription }
    }

    static let refusals: [Refusal] =
        of(.empty, "", "  \n")
        + of(.notAContainer, "1", "\"a\"", "true", "]", "}", ":", "\u{FEFF}{}")
        + of(.invalidStructure, "{", "[", "[1,]", "[,1]", "[1 2]", "{\"a\" 1}", "{\"a\":1,}")
        + of(.invalidStructure, "{a:1}", "{\"a\":}", "{\"a\"}", "{:1}", "[1}", "{\"a\":1]")
        + of(.invalidStructure, "{\"a\":1 \"b\":2}", "[\"a\"b]", "[\"a\",\n", "{1:2}", "{,}")
        + of(.invalidLiteral, "[tru]", "[truex]", "[nul]", "[falsee]", "[NaN]", "[True]", "[']")
        + of(.invalidLiteral, "[+1]", "[.5]")
        + of(.invalidNumber, "[01]", "[1.]", "[1a]", "[-]", "[1e]", "[1e400]", "[--1]", "[0x1]")
        + of(
            .invalidString, "[\"a]", "[\"\\x\"]", "[\"\\u12\"]", "[\"\\",
            "[\"\t\"]")
        + of(.invalidString, "{\"\\x\":1}")
        + of(.trailingContent, "{}{}", "[1]]", "[1],[2]")

    static func of(_ reason: JSONError.Reason, _ texts: String...) -> [Refusal] {
        texts.map { Refusal(text: $0, reason: reason) }
    }

    @Test(arguments: refusals)
    func refuses(_ refusal: Refusal) {
        let parser = JSONParser()
        let error = #expect(throws: JSONError.self) { _ = try parser.parse(refusal.text) }
        #expect(error?.reason == refusal.reason)
        // After a refusal the parser can read the next document.
        #expect((try? parser.parse("[1]"))?.count == 1)
    }

    @Test func refusesInvalidUTF8() {
        let parser = JSONParser()
        for bytes: [UInt8] in [[0xFF], [0xC0, 0x80], [0xED, 0xA0, 0x80], [0xF0, 0x9F]] {
            let document = Array("[\"".utf8) + bytes + Array("\"]".utf8)
            let error = #expect(throws: JSONError.self) {
                _ = try document.withUnsafeBytes { try parser.parse($0) }
            }
            #expect(error?.reason == .invalidUTF8)
        }
    }

    @Test func anErrorSaysWhere() {
        let error = #expect(throws: JSONError.self) { _ = try JSONParser().parse("[10, 20, 03]") }
        #expect(error == JSONError(.invalidNumber, byteOffset: 9))
        #expect(error?.explanation == "a number is malformed or out of range near byte 9")
    }

    // MARK: Limits

    @Test func limitsHold() throws {
        var limits = JSONLimits()
        limits.maxDocumentBytes = 40
        limits.maxDepth = 3
        limits.maxValues = 6
        let parser = JSONParser(limits: limits)
        func reason(_ text: String) -> JSONError.Reason? {
            do {
                _ = try parser.parse(text)
                return nil
            } catch {
                return error.reason
            }
        }
        #expect(reason("[\"\(String(repeating: "x", count: 36))\"]") == nil)
        #expect(reason("[\"\(String(repeating: "x", count: 37))\"]") == .tooLarge)
        #expect(reason("[[[]],{\"a\":{}}]") == nil)
        #expect(reason("[[[[]]]]") == .tooDeep)
        #expect(reason("{\"a\":{\"a\":{\"a\":{}}}}") == .tooDeep)
        #expect(reason("[1,2,3,4,5]") == nil)
        #expect(reason("[1,2,3,4,5,6]") == .tooManyValues)
        #expect(reason("{\"a\":1,\"b\":2,\"c\":3}") == .tooManyValues)
    }

    @Test func deepNestingIsRefusedWithoutRecursingIntoIt() {
        let depth = 1_000_000
        let text = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        let error = #expect(throws: JSONError.self) { _ = try JSONParser().parse(text) }
        #expect(error?.reason == .tooDeep)
    }

    // MARK: Reuse

    @Test func documentsDoNotLeakIntoEachOther() throws {
        let parser = JSONParser()
        for size in [10, 5_000, 1_000_000, 20, 70_000, 3] {
            let text = String(repeating: "y", count: size)
            let root = try parser.parse("{\"size\":\(size),\"text\":\"\(text)\",\"end\":[]}")
            #expect(root["size"]?.int == size)
            #expect(root["text"]?.utf8?.count == size)
            #expect(root["end"]?.count == 0)
        }
    }

    @Test func manyValuesThenFew() throws {
        let parser = JSONParser()
        for count in [3, 60_000, 2, 5_000, 64, 65] {
            let root = try parser.parse("[\((1...count).map(String.init).joined(separator: ","))]")
            #expect(root.elements?.map(\.int) == (1...count).map(Optional.some))
        }
    }

    @Test func aValueOfAnEarlierDocumentTraps() async {
        await #expect(processExitsWith: .failure) {
            let parser = JSONParser()
            let old = try parser.parse("[1]")
            _ = try parser.parse("[2]")
            _ = old.count
        }
    }

    @Test func aValueKeepsItsParserAlive() throws {
        func parsed() throws -> JSONValue { try JSONParser().parse("{\"a\":[\"still here\"]}") }
        let value = try parsed()
        #expect(value["a"]?.elements?.first { _ in true }?.string == "still here")
    }

    // MARK: Reference parser

    /// Randomly damaged documents: Foundation must agree on which are JSON, and every value of a
    /// valid one must read the same again from its raw text.
    @Test func agreesWithFoundationOnDamagedDocuments() throws {
        let original = Array(
            #"{"a":[1,-2.5e3,true,null,"x\n\u00e9"],"b\t":{"c":[[],{}],"d":"é€"},"e":0}"#.utf8)
        let damage = Array("{}[]:,\"\\ 0123-+.eEtrufalsn\u{1}\u{C3}x".utf8)
        var random = SeededGenerator(seed: 1)
        let parser = JSONParser()
        var acceptedCount = 0
        for _ in 0..<3_000 {
            var document = original
            for _ in 0...Int.random(in: 0...2, using: &random) {
                let index = Int.random(in: 0..<document.count, using: &random)
                switch Int.random(in: 0...2, using: &random) {
                case 0: document[index] = damage.randomElement(using: &random)!
                case 1: document.remove(at: index)
                default: document.insert(damage.randomElement(using: &random)!, at: index)
                }
            }
            let value = try? document.withUnsafeBytes { try parser.parse($0) }
            let opinion = try? JSONSerialization.jsonObject(with: Data(document))
            let text = String(decoding: document, as: UTF8.self)
            // Foundation accepts a comma before a closing bracket; RFC 8259 does not.
            let hasTrailingComma = text.contains(/,\s*[\]}]/)
            let isAccepted = opinion != nil && !hasTrailingComma
            #expect((value != nil) == isAccepted || hasTrailingComma && value != nil, "\(text)")
            if let value {
                acceptedCount += 1
                try expectRawTextReadsTheSame(value)
            }
        }
        #expect(acceptedCount > 200, "the damage left too few documents to compare")
    }

    private func expectRawTextReadsTheSame(_ value: JSONValue) throws {
        switch value.kind {
        case .array:
            for element in try #require(value.elements) { try expectRawTextReadsTheSame(element) }
        case .object:
            for member in try #require(value.members) {
                try expectRawTextReadsTheSame(member.value)
            }
        case .null, .bool, .number, .string:
            let parser = JSONParser()
            let again = try parser.parse("[\(value.raw.text)]")
            let copy = try #require(again.elements?.first { _ in true })
            #expect(copy.kind == value.kind && copy.string == value.string)
            #expect(copy.double == value.double && copy.bool == value.bool)
        }
    }
}
