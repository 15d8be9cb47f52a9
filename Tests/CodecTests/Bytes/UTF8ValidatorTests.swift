// UTF-8 by RFC 3629 §4: every boundary in the table of well-formed sequences, agreement with the
// standard library on all relevant short inputs, and the exact byte at which a text fails.

import Codec
import Testing

/// Bytes that are accepted before the text is known to be invalid, and whether the text may end
/// there.
private struct Outcome: Equatable {
    var isValid = true
    var isAtBoundary = true
}

private func validate(_ pieces: [[UInt8]]) -> Outcome {
    var validator = UTF8Validator()
    for piece in pieces {
        guard piece.withUnsafeBytes({ validator.append($0) }) else {
            return Outcome(isValid: false, isAtBoundary: false)
        }
    }
    return Outcome(isValid: true, isAtBoundary: validator.isAtBoundary)
}

@Suite struct UTF8ValidatorTests {
    static let complete: [[UInt8]] = [
        [], [0x00], [0x7F], [0xC2, 0x80], [0xDF, 0xBF], [0xE0, 0xA0, 0x80], [0xE0, 0xBF, 0xBF],
        [0xE1, 0x80, 0x80], [0xEC, 0xBF, 0xBF], [0xED, 0x80, 0x80], [0xED, 0x9F, 0xBF],
        [0xEE, 0x80, 0x80], [0xEF, 0xBF, 0xBF], [0xF0, 0x90, 0x80, 0x80], [0xF0, 0xBF, 0xBF, 0xBF],
        [0xF1, 0x80, 0x80, 0x80], [0xF3, 0xBF, 0xBF, 0xBF], [0xF4, 0x80, 0x80, 0x80],
        [0xF4, 0x8F, 0xBF, 0xBF], bytes("κόσμε, 日本語, 🎧 und ASCII von einiger Länge dahinter"),
    ]

    @Test(arguments: complete)
    func accepts(text: [UInt8]) {
        let padded = Array(repeating: UInt8(ascii: "a"), count: 45) + text + bytes("zz") + text
        #expect(expectChunkInvariant(padded) { validate($0) } == Outcome())
    }

    /// Each ends with the first byte that makes the text invalid.
    static let broken: [[UInt8]] = [
        [0x80], [0xBF], [0xC0], [0xC1], [0xF5], [0xFE], [0xFF], [0xC2, 0x7F], [0xC2, 0xC0],
        [0xE0, 0x9F], [0xE0, 0xC0], [0xE0, 0xA0, 0x7F], [0xE1, 0x7F], [0xE1, 0x80, 0xC0],
        [0xED, 0xA0], [0xF0, 0x8F], [0xF0, 0x90, 0x7F], [0xF0, 0x90, 0x80, 0xC0], [0xF4, 0x90],
        [0xF1, 0x80, 0x80, 0x7F], [0xC2, 0x80, 0x80],
    ]

    @Test(arguments: broken)
    func failsAtTheFirstImpossibleByte(text: [UInt8]) {
        for padding in [0, 7, 32, 45] {
            let padded = Array(repeating: UInt8(ascii: "a"), count: padding) + text
            let before = expectChunkInvariant(Array(padded.dropLast())) { validate($0) }
            #expect(before.isValid)
            #expect(!expectChunkInvariant(padded) { validate($0) }.isValid)
        }
    }

    @Test(
        arguments: [[0xC2], [0xE0, 0xA0], [0xF0], [0xF0, 0x90], [0xF0, 0x90, 0x80]] as [[UInt8]])
    func anUnfinishedCharacterIsNoTextYet(text: [UInt8]) {
        let outcome = expectChunkInvariant(text) { validate($0) }
        #expect(outcome == Outcome(isValid: true, isAtBoundary: false))
        #expect(!text.withUnsafeBytes { UTF8Validator.isValid($0) })
    }

    @Test func agreesWithTheStandardLibraryOnAllLeads() {
        for lead in UInt8.min...UInt8.max {
            for second in [0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0] as [UInt8] {
                for tail in [[], [0x80], [0x80, 0xBF], [0xBF, 0x41]] as [[UInt8]] {
                    let text = [lead, second] + tail
                    let isValid = String(validating: text, as: UTF8.self) != nil
                    guard text.withUnsafeBytes({ UTF8Validator.isValid($0) }) == isValid else {
                        Issue.record("\(text) should be \(isValid ? "valid" : "invalid")")
                        return
                    }
                }
            }
        }
    }

    @Test func findsASingleBadByteAtEveryOffset() {
        for offset in 0..<100 {
            var text = Array(repeating: UInt8(ascii: "x"), count: 100)
            text[offset] = 0xFF
            #expect(!text.withUnsafeBytes { UTF8Validator.isValid($0) }, "offset \(offset)")
        }
    }
}
