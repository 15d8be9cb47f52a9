// Analysed texts as tests write them: one word after another, each with its syllables in brackets, as
// in "hello [0 hh ax][1 l ow] ,". A mark after the syllables is the word's punctuation, and a
// vertical bar a pause of flite's.

@testable import Agents

extension [AnalysedWord] {
    /// - Precondition: every word has a syllable.
    init(_ text: String) {
        self = []
        for word in text.split(separator: "/") {
            guard let start = word.firstIndex(of: "["), let end = word.lastIndex(of: "]") else {
                preconditionFailure("\(word) has no syllable")
            }
            let syllables = word[start...end].split { "[]".contains($0) }.map { syllable in
                let fields = syllable.split(separator: " ").map(String.init)
                return AnalysedWord.Syllable(
                    isStressed: fields[0] == "1", phones: Array<String>(fields.dropFirst()))
            }
            let rest = word[word.index(after: end)...].filter { $0 != " " }
            append(
                AnalysedWord(
                    name: word[..<start].filter { $0 != " " }, syllables: syllables,
                    punctuation: rest.filter { $0 != "|" }, endsPhrase: rest.contains("|")))
        }
    }
}
