// Parts of speech: an averaged perceptron, left to right. A word with one tag has it from a table;
// for another, the weights of its features are added up. The features are those that the tagger of
// the voice's package was trained with.

/// Finds the part of speech of each token of a sentence.
struct Tagger: Sendable {
    /// What stands for the words before a sentence and after it.
    private static let start: [Substring] = ["-START2-", "-START-"]
    private static let end: [Substring] = ["-END-", "-END2-"]

    let table: TaggerTable

    /// The tags of the tokens of one sentence, in order.
    func tags(of tokens: [Substring]) -> [PennTag] {
        let words = Self.start + tokens.map(known) + Self.end
        var tags: [PennTag] = []
        tags.reserveCapacity(tokens.count)
        var before = PennTag(String(Self.start[1]))
        var secondBefore = PennTag(String(Self.start[0]))
        for (index, token) in tokens.enumerated() {
            let tag =
                table.fixedTag(of: token)
                ?? best(token, words: words[index...], tags: (before, secondBefore), index: index)
            tags.append(tag)
            (before, secondBefore) = (tag, before)
        }
        return tags
    }

    /// The tag with the highest sum of weights.
    /// - Parameter words: the five around the token, itself the third.
    private func best(
        _ token: Substring, words: ArraySlice<Substring>, tags: (PennTag, PennTag), index: Int
    ) -> PennTag {
        var scores = [Int](repeating: 0, count: TaggerTable.maxTags)
        var isKnown = false
        func add(_ kind: TaggerTable.Kind, _ text: some Sequence<UInt8>) {
            var key = TaggerTable.Key(kind)
            key.append(text)
            isKnown = table.add(key, to: &scores) || isKnown
        }
        let first = words.startIndex
        add(.bias, EmptyCollection())
        add(index == 0 ? .isFirst : .isLater, EmptyCollection())
        add(.ending, token.utf8.suffix(3))
        add(.firstLetter, token.utf8.prefix(1))
        add(.word, words[first + 2].utf8)
        add(.shape, Self.shape(of: token).utf8)
        add(.tagBefore, tags.0.name.utf8)
        add(.secondTagBefore, tags.1.name.utf8)
        add(.bothTagsBefore, "\(tags.0.name),\(tags.1.name)".utf8)
        add(.wordBefore, words[first + 1].utf8)
        add(.endingBefore, words[first + 1].utf8.suffix(3))
        add(.secondWordBefore, words[first].utf8)
        add(.wordAfter, words[first + 3].utf8)
        add(.endingAfter, words[first + 3].utf8.suffix(3))
        add(.secondWordAfter, words[first + 4].utf8)
        guard isKnown else { return "NN" }
        // Of equal tags, the last one by name.
        var best = 0
        for tag in table.tags.indices where scores[tag] >= scores[best] { best = tag }
        return table.tags[best]
    }

    /// A word as the features have it: in lower case, or as its shape where the tagger has not learnt
    /// it.
    private func known(_ token: Substring) -> Substring {
        let word =
            token.utf8.dropFirst().contains(UInt8(ascii: "-")) && token.utf8.first != 0x2D
            ? "!HYPHEN" : Substring(token.lowercased())
        return table.knows(word) ? word : "<\(Self.shape(of: token))>"
    }

    /// Which kinds of letters a word has: small ones "x", capitals "XX", one capital "X1", a capital
    /// at the start "Xx", others "xX". A word with other characters has an x for each of its first
    /// four that is a letter, and the characters themselves.
    private static func shape(of token: Substring) -> Substring {
        let word = String(token)
        guard word.isAllLetters else {
            return Substring(
                String(
                    decoding: token.utf8.prefix(4).map { $0.isASCIILetter ? 0x78 : $0 },
                    as: UTF8.self))
        }
        if word.isLowercased { return "x" }
        if word.isUppercased { return word.utf8.count > 1 ? "XX" : "X1" }
        return word.isCapitalisedWord ? "Xx" : "xX"
    }
}
