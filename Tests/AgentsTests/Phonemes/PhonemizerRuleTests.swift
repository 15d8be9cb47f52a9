// Each rule from a text to phonemes, on tables of a few words. A word that the tables lack is in angle
// brackets, so that a test shows what would be guessed.

import Testing

@testable import Agents

@Suite struct PhonemizerRuleTests {
    private static let tables = SmallTables(
        words: [
            "apple": "ˈæpᵊl", "pear": "pˈɛɹ", "eat": "ˈit", "go": "ɡˈO", "the": "ði", "to": "tu",
            "am": "æm", "at": "æt", "and": "ænd", "cat": "kˈæt", "box": "bˈɑks", "dog": "dˈɔɡ",
            "class": "klˈæs", "city": "sˈɪTi", "wait": "wˈAt", "want": "wˈɑnt", "need": "nˈid",
            "play": "plˈA", "make": "mˈAk", "run": "ɹˈʌn", "walk": "wˈɔk", "be": "bi",
            "do": "dˈu", "don't": "dˈOnt", "it": "ɪt", "is": "ɪz", "Paris": "pˈɛɹɪs",
            "well": "wˈɛl", "known": "nˈOn", "sea": "sˈi", "side": "sˈId", "seaside": "sˈisˌId",
            "iced": "ˈIst", "water": "wˈɔɾəɹ", "button": "bˈʌʔn", "percent": "pəɹsˈɛnt",
            "versus": "vˈɜɹsəs", "equal": "ˈikwəl", "A": "ˈA", "B": "bˈi", "F": "ˈɛf", "I": "ˈI",
            "M": "ˈɛm", "P": "pˈi", "X": "ˈɛks", "'s": "s", "'ll": "əl", "hm": "hm", "with": "wɪð",
        ],
        variants: [
            "read": [(.standard, "ɹˈid"), (.past, "ɹˈɛd"), (.participle, "ɹˈɛd")],
            "use": [(.standard, "jˈuz"), (.noun, "jˈus")],
            "used": [(.standard, "jˈuzd"), (.past, "jˈust")],
            "that": [(.standard, "ðæt"), (.beforePause, "ðˈæt")],
            "ABI": [(.standard, "ˈæb"), (.noun, nil)],
        ],
        tags: [
            "the": "DT", "The": "DT", "THE": "DT", "a": "DT", "A": "NN", "to": "TO", "in": "IN",
            "I": "PRP", "am": "VBP", "by": "IN", "By": "RB", "vs.": "IN", "use": "VB", "Use": "NN",
            "read": "VB", "Read": "VBD", "used": "VBD", "Used": "VBN", ".": ".", ",": ",",
            "(": "-LRB-", ")": "-RRB-", ":": ":", "--": ":", "?": ".", "!": ".", "PAM": "NNP",
            "FAB": "NNP", "'": "''", "ABI": "NN", "...": ":", ";": ":",
        ],
        splits: [["do", "n't"], ["vs."], ["it", "'ll"], ["'s"]])

    private func expect(
        _ text: String, _ sounds: String, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let clauses = try Self.tables.phonemizer().clauses(of: text)
        #expect(clauses.joined(separator: " | ") == sounds, sourceLocation: sourceLocation)
    }

    @Test(arguments: [
        ("the apple", "ði ˈæpᵊl"), ("the pear", "ðə pˈɛɹ"), ("The pear", "ðə pˈɛɹ"),
        ("the, apple", "ðə, ˈæpᵊl"), ("to eat", "tʊ ˈit"), ("to go", "tə ɡˈO"), ("to", "tu"),
        ("a pear", "ɐ pˈɛɹ"), ("a, A, go", "ɐ, ˈA, ɡˈO"), ("an apple", "ɐn ˈæpᵊl"),
        ("in the box", "ɪn ðə bˈɑks"),
        ("go in", "ɡˈO ˈɪn"), ("I am the cat", "ˌI ɐm ðə kˈæt"), ("I am", "ˌI æm"),
        ("go By", "ɡˈO bˈI"), ("used to go", "jˈust tə ɡˈO"), ("used the box", "jˈuzd ðə bˈɑks"),
        ("Used to go", "jˈuzd tə ɡˈO"), ("cat vs. dog", "kˈæt vˈɜɹsəs dˈɔɡ"),
    ])
    func littleWordsFollowTheNextSound(text: String, sounds: String) throws {
        try expect(text, sounds)
    }

    @Test(arguments: [
        ("I read it", "ˌI ɹˈid ɪt"), ("I Read it", "ˌI ɹˈɛd ɪt"), ("use it", "jˈuz ɪt"),
        ("the Use", "ðə jˈus"), ("that cat", "ðæt kˈæt"), ("it is that.", "ɪt ɪz ðˈæt."),
    ])
    func readingsFollowThePartOfSpeech(text: String, sounds: String) throws {
        try expect(text, sounds)
    }

    @Test(arguments: [
        ("cats", "kˈæts"), ("dogs", "dˈɔɡz"), ("boxes", "bˈɑksᵻz"), ("cities", "sˈɪTiz"),
        ("classes", "klˈæsᵻz"), ("dog's", "dˈɔɡz"), ("dogs'", "dˈɔɡz"), ("walked", "wˈɔkt"),
        ("played", "plˈAd"), ("needed", "nˈidᵻd"), ("wanted", "wˈɑntᵻd"), ("waited", "wˈATᵻd"),
        ("baked", "<baked>"), ("making", "mˈAkɪŋ"), ("running", "ɹˈʌnɪŋ"),
        ("waiting", "wˈATɪŋ"), ("withing", "wˌɪðɪŋ"), ("eating", "ˈiTɪŋ"), ("sing", "<sing>"),
    ])
    func endingsFollowTheStem(text: String, sounds: String) throws { try expect(text, sounds) }

    @Test(arguments: [
        ("It is", "ˌɪt ɪz"), ("IT is", "ˈɪt ɪz"), ("Cats", "kˈæts"), ("CATS", "kˈæts"),
        ("paris", "pˈɛɹɪs"), ("PAM", "pˌiˌAˈɛm"), ("FAB", "ˌɛfˌAbˈi"), ("ABI", "ˌAbˌiˈI"),
        ("AF", "ˌAˈɛf"), ("A.M.", "ˌAˈɛm."), ("x", "ˈɛks"), ("hm", "hm"), ("HM", "hm"),
    ])
    func capitalsStressOrSpell(text: String, sounds: String) throws { try expect(text, sounds) }

    @Test(arguments: [
        ("don't", "dˈOnt"), ("it'll", "ɪtəl"), ("Bob's", "<Bob>z"), ("Max's", "<Max>z"),
        ("Bob'll go", "<Bob>əl ɡˈO"), ("who're", "<who>əɹ"), ("cat'll", "kˈætəl"),
        ("well-known", "wˌɛlnˈOn"), ("sea-side", "sˌisˈId"), ("SeaSide", "sˌisˈId"),
        ("A-side", "ˈAsˌId"), ("Bob-like", "<Bob> <like>"), ("box-Bob", "bˈɑks <Bob>"),
        ("cat/dog", "kˈæt dˈɔɡ"), ("A&B", "ˈA ænd bˈi"), ("cat%", "kˈæt pəɹsˈɛnt"),
        ("x = x", "ˈɛks ˈikwəlz ˈɛks"), ("O'Brien", "<OBrien>"),
    ])
    func partsAreReadTogetherOrOneByOne(text: String, sounds: String) throws {
        try expect(text, sounds)
    }

    @Test(arguments: [
        ("go, cat!", "ɡˈO, kˈæt!"), ("\"go\" 'cat'", "ɡˈO kˈæt"), ("go (cat)", "ɡˈO (kˈæt)"),
        ("go -- cat", "ɡˈO kˈæt"), ("go... cat", "ɡˈO... kˈæt"), ("go? Cat.", "ɡˈO? | kˈæt."),
        ("go; cat: dog", "ɡˈO; kˈæt: dˈɔɡ"), ("water button", "wˈɔTəɹ bˈʌtn"),
        ("A. B. Paris.", "ˈA bˈi pˈɛɹɪs."), ("cat. dog", "kˈæt. dˈɔɡ"),
        ("go at A.M. Cat", "ɡˈO æt ˌAˈɛm. | kˈæt"),
    ])
    func marksStayAndQuotesGo(text: String, sounds: String) throws { try expect(text, sounds) }

    @Test(arguments: ["", " ", "...", "!?", "\u{1F600}", "Привет, мир!", "你好", "--", "()", "'"])
    func textWithoutASoundHasNoClause(text: String) throws {
        #expect(try Self.tables.phonemizer().clauses(of: text).isEmpty)
    }

    @Test func charactersBeyondASCIIAreLeftOut() throws {
        try expect("мир go \u{1F600}cat", "ɡˈO kˈæt")
    }

    @Test func theTaggerAddsUpTheWeightsOfAWordAndItsNeighbours() throws {
        var tables = Self.tables
        tables.weights = [
            (.bias, "", [("NN", 10)]), (.tagBefore, "TO", [("VB", 30)]),
            (.wordAfter, "<x>", [("VBD", 30)]), (.ending, "ead", [("NN", -20)]),
        ]
        tables.tags["read"] = nil
        let phonemizer = try tables.phonemizer()
        #expect(phonemizer.clauses(of: "to read.") == ["tə ɹˈid."])
        #expect(phonemizer.clauses(of: "apple read cat") == ["ˈæpᵊl ɹˈɛd kˈæt"])
    }

    // MARK: Clauses

    @Test func aLongSentenceIsCutAtTheLastMarkOrSpace() throws {
        let phonemizer = try Self.tables.phonemizer()
        #expect(
            phonemizer.clauses(of: "go, cat, dog go", maxSymbols: 12) == ["ɡˈO, kˈæt,", "dˈɔɡ ɡˈO"])
        #expect(phonemizer.clauses(of: "cat cat cat", maxSymbols: 10) == ["kˈæt kˈæt", "kˈæt"])
        #expect(phonemizer.clauses(of: "apple", maxSymbols: 3) == ["ˈæp", "ᵊl"])
    }

    @Test func textWithoutMarksIsCutToo() throws {
        let phonemizer = try Self.tables.phonemizer { $0 }
        for text in [
            String(repeating: "water ", count: 200), String(repeating: "z", count: 9_600),
            String(repeating: "a-", count: 200), String(repeating: "(", count: 300),
        ] {
            let clauses = phonemizer.clauses(of: text)
            #expect(clauses.allSatisfy { (1...100).contains($0.unicodeScalars.count) })
            #expect(clauses.isEmpty == text.hasPrefix("("))
        }
    }

    // MARK: Guesses

    /// The mark is before the vowel. Of several stressed syllables, the last one that does not end
    /// the word has the main one.
    @Test(arguments: [
        ("frodo [1 f r ow][0 d ow]", "fɹˈOdO"), ("x [0 k ax][0 t]", "kˈət"),
        ("bird [1 b er d]", "bˈɜɹd"), ("letter [1 l eh][0 t er]", "lˈɛtəɹ"),
        ("y [1 k ax][1 b er][1 n iy t s]", "kˌəbˈɜɹnˌits"), ("z [1 ch ay][1 jh oy]", "ʧˈIʤˌY"),
    ])
    func aGuessIsFlitesWithTheVoicesSymbols(word: String, sounds: String) {
        let syllables = word.split { "[]".contains($0) }.dropFirst().map { syllable in
            let fields = syllable.split(separator: " ").map(String.init)
            return AnalysedWord.Syllable(
                isStressed: fields[0] == "1", phones: Array(fields.dropFirst()))
        }
        let analysed = AnalysedWord(name: word, syllables: syllables)
        #expect(GuessedSounds.sounds(of: analysed) == sounds)
    }

    @Test func fliteGuessesNamesAndSpellsWhatIsNoWord() {
        #expect(GuessedSounds.byFlite("Frodo") == "fɹˈOdO")
        #expect(GuessedSounds.byFlite("html").isEmpty)
    }

    @Test func whatIsNotGuessedIsSpelled() throws {
        let phonemizer = try Self.tables.phonemizer { _ in "" }
        #expect(phonemizer.clauses(of: "the mpx.") == ["ði ˌɛmpˌiˈɛks."])
        #expect(phonemizer.clauses(of: "bapXM") == ["bˌiˌApˈi ˌɛksˈɛm"])
    }

    @Test func aStretchedWordIsTheShortOne() throws {
        try expect("hmmm, gooo", "hm, ɡˈO")
        try expect("bob boob booob xxx", "<bob> <boob> <booob> <xxx>")
    }
}
