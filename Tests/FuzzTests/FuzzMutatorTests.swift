// The mutations of a replay: the same for a seed, different for two, of every kind, and not too long.

import TestMaterial
import Testing

@Suite struct FuzzMutatorTests {
    private static let mutator = FuzzMutator(
        samples: [Array("first sample".utf8), Array("SECOND".utf8)], words: [Array("<word>".utf8)])

    private func mutations(seed: UInt64, count: Int = 500) -> [[UInt8]] {
        var draw = SeededGenerator(seed: seed)
        return (0..<count).map { _ in Self.mutator.mutation(&draw) }
    }

    @Test func aSeedDeterminesTheMutations() {
        #expect(mutations(seed: 1) == mutations(seed: 1))
        #expect(mutations(seed: 1) != mutations(seed: 2))
    }

    @Test func mutationsAreOfEveryKind() {
        let texts = mutations(seed: 1).map { String(decoding: $0, as: UTF8.self) }
        #expect(Set(texts).count > 300)
        #expect(texts.contains { $0.contains("<word>") })
        #expect(texts.contains { $0.hasPrefix("fir") && $0.hasSuffix("ND") })
        #expect(texts.contains { $0.utf8.count > 40 })
        #expect(texts.contains { $0.isEmpty })
        #expect(texts.contains { $0.hasPrefix("first") && $0.utf8.count < 12 })
        #expect(texts.contains("first sample\0SECOND"))
    }

    @Test func aMutationHasAMaximumLength() {
        let long = FuzzMutator(
            samples: [[UInt8](repeating: 7, count: FuzzMutator.maxBytes)], words: [[1, 2, 3]])
        var draw = SeededGenerator(seed: 1)
        let counts = (0..<200).map { _ in long.mutation(&draw).count }
        #expect(counts.max() == FuzzMutator.maxBytes)
    }

    @Test func aDictionaryHasWordsInQuotes() {
        let text = #"""
            # "a comment"
            "plain"
            name="\x00\xfF\"\\"

            """#
        #expect(FuzzDictionary.words(in: text) == [Array("plain".utf8), [0, 255, 0x22, 0x5C]])
    }
}
