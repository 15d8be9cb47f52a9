// A word as flite's text analysis sees it: its syllables and phones, and what follows it. Numbers,
// dates and abbreviations have been replaced by words before.

/// One word of a text.
struct AnalysedWord: Equatable, Sendable {
    /// One syllable.
    struct Syllable: Equatable, Sendable {
        /// Whether flite stresses it. flite knows no secondary stress.
        var isStressed: Bool
        /// flite's names of its sounds, for example "hh", "ax".
        var phones: [String]
    }

    /// In lower case and without an apostrophe: "dont". The endings `'s`, `'d`, `'ll`, `'ve`, `'re`
    /// and `'m` are words of their own, and keep theirs.
    var name: String
    /// In order. A word may have none.
    var syllables: [Syllable]
    /// The marks directly after the word; often empty.
    var punctuation = ""
    /// Whether flite makes a pause after it.
    var endsPhrase = false
}
