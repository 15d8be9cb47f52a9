// The rules from flite's analysis to the phonemes of the natural voice, on analyses that are written
// down here: no voice is needed.

import Testing

@testable import Agents

@Suite struct PhonemeRulesTests {
    private func clauses(_ text: String, maxSymbols: Int = 240) -> [String] {
        PhonemeRules.clauses(of: [AnalysedWord](text), maxSymbols: maxSymbols)
    }

    @Test(arguments: [
        ("the [0 dh ax]/apple [1 ae][0 p ax l]", "ði ˈæpəl."),
        ("the [0 dh ax]/pear [1 p eh r]", "ðə pˈɛɹ."),
        ("better [1 b eh][0 t er]", "bˈɛɾɚ."),
        ("party [1 p aa r][0 t iy]", "pˈɑːɹɾi."),
        ("beethoven [1 b ey][0 t ow][0 v ax n]", "bˈeɪtoʊvən."),
        ("photographs [1 f ow][0 t ax][1 g r ae f s]", "fˈoʊɾəɡɹˌæfs."),
        ("invited [0 ih n][1 v ay][0 t ax d]", "ɪnvˈaɪɾᵻd."),
        ("boxes [1 b aa k][0 s ax z]", "bˈɑːksᵻz."),
        ("believed [0 b ih][1 l iy v d]", "bᵻlˈiːvd."),
        ("about [0 ax][1 b aw t]", "ɐbˈaʊt."),
        ("ever [1 eh][0 v er]/after [1 ae f][0 t er]", "ˈɛvɚɹ ˈæftɚ."),
        ("area [1 eh][0 r iy][0 ax]", "ˈɛɹiə."),
        ("age [1 ey jh]/thing [1 th ih ng]", "ˈeɪdʒ θˈɪŋ."),
    ])
    func aWordHasTheSoundsOfAmericanEnglish(text: String, expected: String) {
        #expect(clauses(text) == [expected])
    }

    @Test(arguments: [
        ("educated [1 eh][0 jh ax][1 k ey][0 t ax d]", "ˈɛdʒəkˌeɪɾᵻd."),
        ("engineer [1 eh n][0 jh ax][1 n ih r]", "ˌɛndʒənˈɪɹ."),
        ("referee [1 r eh][0 f er][1 iy]", "ɹˌɛfɚɹˈiː."),
        ("tchaikovsky [1 ch ey k][1 aa v s k][0 iy]", "tʃˌeɪkˈɑːvski."),
        ("energy [1 eh][0 n er][1 jh iy]", "ˈɛnɚdʒi."),
        ("and [1 ae n d]/him [1 hh ih m]", "ænd hɪm."),
        ("into [0 ih n][1 t uw]/a [0 ax]/house [1 hh aw s]", "ˌɪntʊ ɐ hˈaʊs."),
        ("it [1 ih t]/was [1 w aa z]/on [1 aa n]", "ɪt wʌz ɔn."),
    ])
    func oneSyllableHasTheMainStress(text: String, expected: String) {
        #expect(clauses(text) == [expected])
    }

    @Test(arguments: [
        ("bus [1 b ah s]/'s [0 z]", "bˈʌsᵻz."), ("cat [1 k ae t]/'s [0 z]", "kˈæts."),
        ("ada [1 ey][0 d ax]/'s [0 z]", "ˈeɪdəz."), ("it [1 ih t]/'d [0 d]", "ɪtᵻd."),
        ("we [1 w iy]/'ll [0 l]", "wiːl."), ("cats [1 k ae t s]/'ll [0 l]", "kˈætsəl."),
        ("they [1 dh ey]/'ve [0 v]", "ðeɪv."), ("that [1 dh ae t]/'ve [0 v]", "ðætəv."),
        ("we [1 w iy]/'re [0 r]", "wiːɹ."), ("i [1 ay]/'m [0 m]", "aɪm."),
    ])
    func anEndingJoinsTheWordBeforeIt(text: String, expected: String) {
        #expect(clauses(text) == [expected])
    }

    @Test(arguments: [
        ("yes [1 y eh s] ,/sir [1 s er] .", ["jˈɛs,", "sˈɜː."]),
        ("yes [1 y eh s] :/sir [1 s er] !", ["jˈɛs: sˈɜː!"]),
        ("yes [1 y eh s] \",/sir [1 s er] ?!", ["jˈɛs,", "sˈɜː?"]),
        ("yes [1 y eh s] )/sir [1 s er]", ["jˈɛs,", "sˈɜː."]),
        ("yes [1 y eh s] |/sir [1 s er] |", ["jˈɛs,", "sˈɜː."]),
        ("the [0 dh ax] ,/apple [1 ae][0 p ax l]", ["ðə,", "ˈæpəl."]),
    ])
    func aTextIsCutAtItsMarks(text: String, expected: [String]) {
        #expect(clauses(text) == expected)
    }

    @Test func noTextNoClause() {
        #expect(PhonemeRules.clauses(of: [], maxSymbols: 240) == [])
        let silent = [AnalysedWord(name: "", syllables: [], punctuation: ",")]
        #expect(PhonemeRules.clauses(of: silent, maxSymbols: 240) == [])
    }

    @Test func aSoundThatIsNotInTheTableIsLeftOut() {
        #expect(clauses("odd [1 pau aa xx d]") == ["ˈɑːd."])
    }

    /// A client decides on the text, so no length of it may make a clause of any length.
    @Test(arguments: [2, 10, 60, 240])
    func noClauseIsLongerThanAllowed(maxSymbols: Int) {
        let words = Array(repeating: "away [0 ax][1 w ey]", count: 200).joined(separator: "/")
        let phones = Array(repeating: "aa", count: 700).joined(separator: " ")
        for text in [words, "aah [1 \(phones)]", "aah [1 \(phones)]/'s [0 z]"] {
            let clauses = clauses(text, maxSymbols: maxSymbols)
            #expect(clauses.count > 1)
            #expect(clauses.allSatisfy { $0.unicodeScalars.count <= maxSymbols })
        }
        // Nothing is lost: as many diphthongs as words.
        let heard = clauses(words, maxSymbols: maxSymbols).joined().unicodeScalars
        #expect(heard.count { $0 == "ɪ" } == 200)
    }
}
