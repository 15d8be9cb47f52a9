// Phrases of the server: which of their texts is said in which language.

import Testing

@testable import Session

@Suite struct PhraseTests {
    @Test(arguments: [
        ("de", "Nein."), ("de-AT", "Nein."), ("DE", "Nein."), ("pt-BR", "Não."), ("en", "No."),
        ("fr", "No."), (nil, "No."),
    ])
    func theLanguageChoosesTheText(language: String?, text: String) throws {
        let phrase = try #require(Phrase("No.| de: Nein. |pt-PT: Não."))
        #expect(phrase.text(for: language) == text)
    }

    /// The first text is for all other languages, whether it names its own or not.
    @Test func theFirstTextIsForAllOthers() throws {
        let phrase = try #require(Phrase("fr: Non.|en: No."))
        #expect(phrase.text(for: "it") == "Non.")
        #expect(phrase.text(for: "en-GB") == "No.")
    }

    /// What stands before a colon is a language only where it looks like one.
    @Test(arguments: [
        "Note: I can't answer.", "It is 10:30.", ": so", "a: b", "Sorry – wait: now.", "en-: x",
    ])
    func aColonMayBePartOfTheText(text: String) throws {
        #expect(try #require(Phrase(text)).text(for: nil) == text)
    }

    @Test func anEmptyPhraseSaysNothing() throws {
        #expect(try #require(Phrase("")).text(for: "en") == nil)
        #expect(Phrase.none.text(for: nil) == nil)
    }

    @Test(arguments: ["|", "No.|", "|No.", "en:", "en: |de: Nein.", "No.||Nein."])
    func anEmptyTextIsRefused(text: String) { #expect(Phrase(text) == nil) }

    @Test func aPhraseHasABound() {
        #expect(Phrase(String(repeating: "a", count: Phrase.maxBytes)) != nil)
        #expect(Phrase(String(repeating: "a", count: Phrase.maxBytes + 1)) == nil)
    }
}
