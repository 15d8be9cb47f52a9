// Names that flite spells out, as a rule on words and in its own analysis.

import Testing

@testable import Agents

@Suite struct SpelledNamesTests {
    @Test(arguments: [
        ("Tchaikovsky", "t c h _a i k o v s k y", "tchaikovsky"),
        ("Rimsky-Tchaikovsky", "rimsky t c h _a i k o v s k y", "rimsky tchaikovsky"),
        ("Mbappe's", "m b _a p p e 's", "mbappe 's"),
        ("Hrvoje-Krzysztof", "h r v o j e k r z y s z t o f", "hrvoje krzysztof"),
        ("przemysl", "p r z e m y s l", "przemysl"),
    ])
    func aNameIsJoined(token: String, words: String, expected: String) {
        let joined = SpelledNames.joined(words.split(separator: " ").map(String.init), of: token)
        #expect(joined?.joined(separator: " ") == expected)
    }

    @Test(arguments: [
        ("FBI", "f b i"), ("PhD", "p h d"), ("html", "h t m l"), ("usb", "u s b"),
        ("json", "j s o n"), ("TCHAIKOVSKY", "t c h _a i k o v s k y"), ("hmmmm", "h m m m m"),
        ("Dvorak", "dvorak"), ("Tchaikovsky", "t c h _a i k o v s k"), ("", ""), ("-", "dash"),
        ("A4", "_a four"), ("Krk", "k r k"),
    ])
    func anAbbreviationStaysSpelled(token: String, words: String) {
        let words = words.split(separator: " ").map(String.init)
        #expect(SpelledNames.joined(words, of: token) == nil)
    }

    @Test(arguments: [FliteSpeaker.slt, .rms, .awb, .kal16])
    func fliteLooksUpItsSounds(speaker: FliteSpeaker) throws {
        let words = try FliteVoicePool.withVoice(of: speaker) {
            $0.analyse("Hrvoje hears Tchaikovsky's music, and the FBI reads html.")
        }
        #expect(
            words.map(\.name) == [
                "hrvoje", "hears", "tchaikovsky", "'s", "music", "and", "the", "f", "b", "i",
                "reads", "h", "t", "m", "l",
            ])
        let name = words[2].syllables.flatMap(\.phones)
        #expect(name.starts(with: ["ch", "ey", "k"]) && name.last == "iy")
        #expect(words[4].punctuation == "," && words[4].endsPhrase)
        #expect(words.last?.punctuation == ".")
    }

    @Test func aTextOfMarksAndLongWordsIsAnalysed() throws {
        for text in [
            "", " ", "...", "'s", "'", "a-b-c-", String(repeating: "x", count: 300),
            String(repeating: "Tchaikovsky", count: 27), String(repeating: "' ", count: 150),
        ] {
            let words = try FliteVoicePool.withVoice(of: .slt) { $0.analyse(text) }
            #expect(words.allSatisfy { !GuessedSounds.sounds(of: $0).contains(" ") })
        }
    }
}
