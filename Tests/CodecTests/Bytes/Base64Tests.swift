// Base64 against RFC 4648: its test vectors, an encoder that works bit by bit, and every kind of
// invalid text.

import Codec
import Testing

private func encode(_ bytes: [UInt8]) -> String {
    var writer = ByteWriter(capacity: 1)
    Base64.encode(bytes.span.bytes, into: &writer)
    return String(decoding: writer.copiedBytes, as: UTF8.self)
}

private func decode(_ text: [UInt8]) throws(Base64Error) -> [UInt8] {
    var writer = ByteWriter(capacity: 1)
    try text.span.bytes.withUnsafeBytes { bytes throws(Base64Error) in
        try Base64.decode(bytes, into: &writer)
    }
    return writer.copiedBytes
}

private func refusal(_ text: [UInt8]) -> Base64Error? {
    do throws(Base64Error) {
        _ = try decode(text)
        return nil
    } catch { return error }
}

private let alphabet = Array(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

/// Encodes by the definition in §4, one bit at a time.
private func encodeByDefinition(_ bytes: [UInt8]) -> String {
    var bits = bytes.flatMap { byte in (0..<8).map { byte >> (7 - $0) & 1 } }
    while bits.count % 6 != 0 { bits.append(0) }
    var text = stride(from: 0, to: bits.count, by: 6).map { start in
        alphabet[bits[start..<start + 6].reduce(0) { $0 << 1 | Int($1) }]
    }
    while text.count % 4 != 0 { text.append(UInt8(ascii: "=")) }
    return String(decoding: text, as: UTF8.self)
}

@Suite struct Base64Tests {
    /// RFC 4648 §10.
    static let vectors = [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="),
        ("fooba", "Zm9vYmE="), ("foobar", "Zm9vYmFy"),
    ]

    @Test(arguments: vectors)
    func matchesTheVectors(_ plain: String, _ text: String) throws {
        #expect(encode(Array(plain.utf8)) == text)
        #expect(try decode(Array(text.utf8)) == Array(plain.utf8))
    }

    @Test func everyLengthSurvivesTheRoundTrip() throws {
        var numbers = RepeatableNumbers(seed: 1)
        for count in 0...100 {
            let bytes = numbers.bytes(count)
            let text = encode(bytes)
            #expect(text == encodeByDefinition(bytes))
            #expect(text.utf8.count == Base64.encodedCount(ofBytes: count))
            #expect(try decode(Array(text.utf8)) == bytes)
        }
        let long = numbers.bytes(100_000)
        #expect(try decode(Array(encode(long).utf8)) == long)
    }

    @Test func piecesOfWholeGroupsJoin() throws {
        var numbers = RepeatableNumbers(seed: 2)
        let bytes = numbers.bytes(601)
        let text = Array(encode(bytes).utf8)
        for groups in [1, 2, 5, 64] {
            var writer = ByteWriter(capacity: 1)
            for start in stride(from: 0, to: text.count, by: groups * 4) {
                let piece = text[start..<min(start + groups * 4, text.count)]
                try piece.withUnsafeBytes { try Base64.decode($0, into: &writer) }
            }
            #expect(writer.copiedBytes == bytes, "\(groups) groups at a time")
        }
    }

    @Test(arguments: 0..<12)
    func onlyTheAlphabetIsAccepted(at offset: Int) {
        for byte in UInt8.min...UInt8.max {
            var text = Array("AAAAAAAAAAAA".utf8)
            text[offset] = byte
            let isPadding = byte == UInt8(ascii: "=") && offset == 11
            let expected: Base64Error? =
                alphabet.contains(byte) || isPadding ? nil : .invalidCharacter(offset: offset)
            #expect(refusal(text) == expected, "byte \(byte)")
        }
    }

    static let invalid: [(String, Base64Error)] = [
        ("A", .invalidLength(1)), ("AA", .invalidLength(2)), ("AAA", .invalidLength(3)),
        ("AAAAA", .invalidLength(5)), ("Zg=", .invalidLength(3)), ("Zg==\n", .invalidLength(5)),
        ("A===", .invalidCharacter(offset: 1)), ("====", .invalidCharacter(offset: 0)),
        ("AA=A", .invalidCharacter(offset: 2)), ("=AAA", .invalidCharacter(offset: 0)),
        ("A=AA", .invalidCharacter(offset: 1)), ("A=A=", .invalidCharacter(offset: 1)),
        ("Zg==Zg==", .invalidCharacter(offset: 2)), ("Zm8=Zm8=", .invalidCharacter(offset: 3)),
        ("AAA\n", .invalidCharacter(offset: 3)), ("AA A", .invalidCharacter(offset: 2)),
        ("ab-_", .invalidCharacter(offset: 2)), ("AAAAé=", .invalidLength(7)),
        ("AAAAAé=", .invalidCharacter(offset: 5)), ("AAA\u{0}", .invalidCharacter(offset: 3)),
        ("Zh==", .nonzeroTrailingBits), ("Z/==", .nonzeroTrailingBits),
        ("Zm9=", .nonzeroTrailingBits), ("AAAAZm+=", .nonzeroTrailingBits),
    ]

    @Test(arguments: invalid)
    func refusesWhatBreaksARule(_ text: String, _ error: Base64Error) {
        #expect(refusal(Array(text.utf8)) == error)
    }

    @Test func aRefusedTextLeavesTheWriterAlone() throws {
        var writer = ByteWriter(capacity: 2)
        try Array("Zm9v".utf8).withUnsafeBytes { try Base64.decode($0, into: &writer) }
        for text in ["Zm9vZm9vZh==", "Zm9vZm?vZg==", "Zm9"] {
            #expect(throws: Base64Error.self) {
                try Array(text.utf8).withUnsafeBytes { try Base64.decode($0, into: &writer) }
            }
            #expect(writer.copiedBytes == Array("foo".utf8))
        }
        try Array("YmE=".utf8).withUnsafeBytes { try Base64.decode($0, into: &writer) }
        #expect(writer.copiedBytes == Array("fooba".utf8))
    }
}
