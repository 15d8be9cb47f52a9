// Mutations of a target's samples, of the kinds that libFuzzer makes: bits, bytes, cuts, repetitions,
// words of the target's dictionary, and two samples joined or spliced.
//
// Invariant: the same generator gives the same mutations, on every machine.

import Foundation
import TestMaterial

/// Changes samples at random.
struct FuzzMutator {
    /// Maximum bytes of a mutation, as in `make fuzz`.
    static let maxBytes = 4_096
    /// Most changes of one mutation, as many as libFuzzer makes.
    private static let maxChanges = 5
    /// Most bytes of a piece that is cut out or repeated, and most copies of it.
    private static let maxPieceBytes = 64
    private static let maxCopies = 16
    /// Most bytes at the start of a sample that choose what its target does with the rest.
    private static let maxChoiceBytes = 3

    private enum Change: CaseIterable {
        case bit, byte, extreme, cut, end, repetition, word, wordOver, splice, join
    }

    let samples: [[UInt8]]
    let words: [[UInt8]]

    /// A sample with one or more changes.
    func mutation(_ draw: inout SeededGenerator) -> [UInt8] {
        var bytes = samples.randomElement(using: &draw) ?? []
        for _ in 0..<Int.random(in: 1...Self.maxChanges, using: &draw) { change(&bytes, &draw) }
        return Array(bytes.prefix(Self.maxBytes))
    }

    private func change(_ bytes: inout [UInt8], _ draw: inout SeededGenerator) {
        let change = Change.allCases.randomElement(using: &draw) ?? .bit
        let start = Int.random(in: 0...bytes.count, using: &draw)
        let length = Int.random(in: 1...Self.maxPieceBytes, using: &draw)
        let piece = start..<min(bytes.count, start + length)
        switch change {
        case .bit where !piece.isEmpty:
            bytes[start] ^= 1 << UInt8.random(in: 0..<8, using: &draw)
        case .byte where !piece.isEmpty: bytes[start] = .random(in: 0...255, using: &draw)
        case .extreme where !piece.isEmpty:
            bytes[start] = [0, 1, 0x7F, 0x80, 0xFF].randomElement(using: &draw) ?? 0
        case .cut: bytes.removeSubrange(piece)
        case .end: bytes.removeSubrange(start...)
        case .repetition:
            let copies = Int.random(in: 1...Self.maxCopies, using: &draw)
            let repeated = [[UInt8]](repeating: Array(bytes[piece]), count: copies)
            bytes.insert(contentsOf: repeated.joined(), at: start)
        case .word:
            bytes.insert(contentsOf: words.randomElement(using: &draw) ?? [], at: start)
        case .wordOver:
            let word = words.randomElement(using: &draw) ?? []
            bytes.replaceSubrange(start..<min(bytes.count, start + word.count), with: word)
        case .splice:
            let other = samples.randomElement(using: &draw) ?? []
            let from = Int.random(in: 0...other.count, using: &draw)
            bytes.replaceSubrange(start..., with: other[from...])
        case .join:
            // A zero byte ends a message of some targets.
            if Bool.random(using: &draw) { bytes.append(0) }
            let choices = Int.random(in: 0...Self.maxChoiceBytes, using: &draw)
            bytes += (samples.randomElement(using: &draw) ?? []).dropFirst(choices)
        // There is no byte at the end.
        case .bit, .byte, .extreme: bytes.append(.random(in: 0...255, using: &draw))
        }
    }
}

/// libFuzzer's dictionaries: a line for each word, in quotes, with `\xNN`, `\\` and `\"`. A line that
/// begins with `#` is a comment.
enum FuzzDictionary {
    /// The words of a target.
    static func words(of target: String) throws -> [[UInt8]] {
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let file = tests.appending(path: "Fuzz/Dictionaries/\(target).dict")
        return words(in: try String(contentsOf: file, encoding: .utf8))
    }

    /// The words of a file.
    static func words(in text: String) -> [[UInt8]] {
        text.split(separator: "\n").compactMap { line in
            guard !line.hasPrefix("#"), let start = line.firstIndex(of: "\""),
                let end = line.lastIndex(of: "\""), start < end
            else { return nil }
            return unescaped(line[line.index(after: start)..<end].utf8)
        }
    }

    private static func unescaped(_ text: Substring.UTF8View) -> [UInt8] {
        var word: [UInt8] = []
        var rest = text[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\"), let escaped = rest.popFirst() else {
                word.append(byte)
                continue
            }
            guard escaped == UInt8(ascii: "x") else {
                word.append(escaped)
                continue
            }
            word.append(UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) ?? 0)
            rest = rest.dropFirst(2)
        }
        return word
    }
}
