// The phonemes of a sentence: its tokens are tagged, put together to words, and read from the last
// to the first. WordReader reads what the lexicon has; what it lacks is guessed by flite's
// letter-to-sound rules (GuessedSounds).

/// Reads sentences.
struct SentenceReader: Sendable {
    /// Marks that the voice knows and that end what a word sounds like before another.
    static let marks = Set(";:,.!?".unicodeScalars)
    /// Characters within a word that have no sound.
    private static let silent = Set("',-._/".utf8)
    /// Parts that are looked up together, at most. 8: all entries of the lexicon but one have fewer.
    private static let maxJoinedParts = 8
    /// Parts of a word from which only 2 are looked up together, so that a long word of hyphens does
    /// not take seconds.
    private static let manyParts = 20
    private static let markTags: Set<String> = [
        ".", ",", "-LRB-", "-RRB-", "``", "\"\"", "''", ":", "$", "#", "NFP",
    ]

    let tokens: SpeechTokens
    let tagger: Tagger
    let words: WordReader
    let guess: @Sendable (String) -> String

    /// A part of a word, with its sounds once it has them.
    private struct Part {
        let text: Substring
        let tag: PennTag
        var sounds: String?
        /// Whether the voice reads it as a mark.
        var isMark = false
    }

    /// What is between two spaces, or a mark.
    private struct Word {
        var parts: [Part]
        var hasSpace: Bool
    }

    /// The phonemes of a sentence of ASCII, with its marks, and a space between two words.
    func sounds(of sentence: Substring) -> String {
        let tokens = tokens.tokens(of: sentence)
        let tags = tagger.tags(of: tokens.map(\.text))
        let words = Self.words(of: zip(tokens, tags))
        var next = FollowingSound()
        var read: [String] = []
        for word in words.reversed() {
            let sounds = sounds(of: word.parts, before: &next)
            // A mark without a sound leaves one space, not two.
            if word.hasSpace, read.last != " " { read.append(" ") }
            if !sounds.isEmpty { read.append(sounds) }
        }
        let text = read.reversed().joined()
        return Stress.text(
            text.unicodeScalars.drop { $0 == " " }.map { $0 == "ɾ" ? "T" : $0 == "ʔ" ? "t" : $0 })
    }

    // MARK: Words

    /// The words of a sentence: parts without a space between them are one.
    private static func words(of tokens: some Sequence<(SpeechToken, PennTag)>) -> [Word] {
        var words: [Word] = []
        var isOpen = false
        for (token, tag) in tokens {
            if let mark = mark(token.text, tag) {
                let part = Part(text: token.text, tag: tag, sounds: mark, isMark: true)
                words.append(Word(parts: [part], hasSpace: token.hasSpace))
                isOpen = false
                continue
            }
            let parts = WordParts.parts(of: token.text).map { Part(text: $0, tag: tag) }
            if isOpen {
                words[words.count - 1].parts += parts
                words[words.count - 1].hasSpace = token.hasSpace
            } else {
                words.append(Word(parts: parts, hasSpace: token.hasSpace))
            }
            isOpen = !token.hasSpace
        }
        return words
    }

    /// What the voice reads of a mark; nil for a word.
    private static func mark(_ text: Substring, _ tag: PennTag) -> String? {
        guard markTags.contains(tag.name), !text.utf8.contains(where: \.isASCIIAlphanumeric) else {
            return nil
        }
        switch tag.name {
        case ":" where text == "-": return "—"
        case "-LRB-": return "("
        case "-RRB-": return ")"
        default: return Stress.text(text.unicodeScalars.filter { marks.contains($0) })
        }
    }

    // MARK: Reading

    /// The phonemes of a word's parts.
    private func sounds(of parts: [Part], before next: inout FollowingSound) -> String {
        if let first = parts.first, first.isMark {
            next.note(first.sounds ?? "", of: first.text)
            return first.sounds ?? ""
        }
        guard let read = lookedUp(parts, before: &next) else {
            return guessed(parts, before: &next)
        }
        return Self.joined(read)
    }

    /// The parts with the phonemes that the lexicon has: the longest run of parts from the left
    /// first, until all are read. Nil where a part is unknown.
    private func lookedUp(_ parts: [Part], before next: inout FollowingSound) -> [Part]? {
        var parts = parts
        let most = parts.count < Self.manyParts ? Self.maxJoinedParts : 2
        var left = max(0, parts.count - most)
        var right = parts.count
        while left < right {
            let run = parts[left..<right]
            let text = run.count == 1 ? String(run[left].text) : run.map(\.text).joined()
            if let sounds = words.sounds(of: text, tag: Self.tag(of: run), before: next) {
                next.note(sounds, of: text[...])
                parts[left].sounds = sounds
                right = left
            } else if left + 1 < right {
                left += 1
                continue
            } else {
                guard run[left].text.utf8.allSatisfy(Self.silent.contains) else { return nil }
                right -= 1
            }
            left = max(0, right - most)
        }
        return parts
    }

    /// The part of speech of joined parts: that of the longest one. A capital counts twice.
    private static func tag(of parts: ArraySlice<Part>) -> PennTag {
        func weight(_ part: Part) -> Int {
            part.text.utf8.reduce(0) { $0 + ((0x41...0x5A).contains($1) ? 2 : 1) }
        }
        var longest = parts[parts.startIndex]
        for part in parts.dropFirst() where weight(part) > weight(longest) { longest = part }
        return longest.tag
    }

    /// The phonemes of a word that the lexicon lacks. Its letters are guessed where they are no word
    /// either.
    private func guessed(_ parts: [Part], before next: inout FollowingSound) -> String {
        let text = parts.map(\.text).joined()
        let tag = Self.tag(of: parts[...])
        var read: [String] = []
        for piece in Self.pieces(of: text).reversed() {
            let sounds =
                words.sounds(of: piece, tag: tag, before: next)
                ?? guessed(piece, tag, before: next)
            guard !sounds.isEmpty else { continue }
            next.note(sounds, of: piece[...])
            read.append(sounds)
        }
        return read.reversed().joined(separator: " ")
    }

    /// The words of a text with other characters, and these one by one.
    private static func pieces(of text: String) -> [String] {
        var pieces: [String] = []
        var isOpen = false
        for character in text {
            let isInWord =
                character.isASCIILetter || character.isASCIIDigit || character == "'"
            if isOpen, isInWord {
                pieces[pieces.count - 1].append(character)
            } else {
                pieces.append(String(character))
            }
            isOpen = isInWord
        }
        return pieces
    }

    /// The phonemes of an unknown word, whose ending after an apostrophe is no part of the guess.
    private func guessed(_ word: String, _ tag: PennTag, before next: FollowingSound) -> String {
        guard word.utf8.contains(where: \.isASCIIAlphanumeric) else { return "" }
        guard let apostrophe = word.lastIndex(of: "'"), apostrophe > word.startIndex else {
            return guessedOrSpelled(word)
        }
        let stem = String(word[..<apostrophe])
        let sounds =
            words.sounds(of: stem, tag: tag, before: next) ?? guessedOrSpelled(stem)
        switch word[apostrophe...].lowercased() {
        case "'": return sounds
        case "'s": return StemRule.s.applied(to: sounds)
        case "'d": return StemRule.ed.applied(to: sounds)
        case "'ll": return sounds + "əl"
        case "'ve": return sounds + "əv"
        case "'re": return sounds + "əɹ"
        default: return guessedOrSpelled(word)
        }
    }

    /// The guess for a word. "Hmmm" is "hmm", and "PostgreSQL" has two parts; where flite has no
    /// guess, either, the letters are named.
    private func guessedOrSpelled(_ word: String) -> String {
        let word = word.filter { $0 != "'" }
        for most in [2, 1] {
            guard let shorter = Self.shortened(word, runs: most) else { break }
            let next = FollowingSound()
            if let sounds = words.sounds(of: shorter, tag: "UH", before: next) { return sounds }
        }
        let sounds = guess(word)
        guard sounds.isEmpty else { return sounds }
        let parts = WordParts.parts(of: word[...])
        guard parts.count > 1 else { return words.letters(of: word) }
        return parts.map { part in
            words.sounds(of: String(part), tag: "NN", before: FollowingSound())
                ?? guessedOrSpelled(String(part))
        }.joined(separator: " ")
    }

    /// A word whose runs of one letter are shortened; nil where it has no run of three,
    /// or is one ("www").
    private static func shortened(_ word: String, runs most: Int) -> String? {
        var result = ""
        var run = 0
        var longest = 0
        for letter in word {
            run = result.last == letter ? run + 1 : 1
            longest = max(longest, run)
            if run <= most { result.append(letter) }
        }
        return longest > 2 && result.utf8.count > 1 ? result : nil
    }

    // MARK: Joining

    /// The phonemes of a word in parts. Parts of another kind than letters have a space between
    /// them; others share one main stress.
    private static func joined(_ parts: [Part]) -> String {
        let letters = parts.flatMap(\.text.utf8).filter { !silent.contains($0) }
        let isMixed =
            parts.contains { $0.text.utf8.contains(UInt8(ascii: "/")) }
            || letters.contains { !$0.isASCIILetter } && letters.contains(where: \.isASCIILetter)
        let read = parts.filter { $0.sounds?.isEmpty == false }
        if isMixed { return read.compactMap(\.sounds).joined(separator: " ") }
        return sharedStress(read).joined()
    }

    private static func sharedStress(_ parts: [Part]) -> [String] {
        var sounds = parts.compactMap(\.sounds)
        if sounds.count == 2, parts[0].text.utf8.count == 1 {
            sounds[1] = Stress.weakened(sounds[1])
            return sounds
        }
        let stressed = sounds.filter(Stress.hasMain).count
        guard sounds.count > 1, stressed > (sounds.count + 1) / 2 else { return sounds }
        // The lighter half of the parts, those without a stress first.
        let order = sounds.indices.sorted { first, second in
            let isLater = [first, second].map { Stress.hasMain(sounds[$0]) ? 1 : 0 }
            let weights = [first, second].map { Stress.weight(sounds[$0]) }
            return (isLater[0], weights[0], first) < (isLater[1], weights[1], second)
        }
        for index in order.prefix(sounds.count / 2) {
            sounds[index] = Stress.weakened(sounds[index])
        }
        return sounds
    }
}

extension FollowingSound {
    /// Takes a word into account that has been read.
    fileprivate mutating func note(_ sounds: String, of text: Substring) {
        let first = sounds.unicodeScalars.first {
            SentenceReader.marks.contains($0) || Stress.vowels.contains($0)
                || Stress.consonants.contains($0)
        }
        if let first {
            isVowel = SentenceReader.marks.contains(first) ? nil : Stress.vowels.contains(first)
        }
        isTo = text == "to" || text == "To" || text == "TO"
    }
}
