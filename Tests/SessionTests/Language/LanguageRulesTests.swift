// Which rules a language has, and what becomes of words that mean something else in another.

import Codec
import Testing

@testable import Session

@Suite struct LanguageRulesTests {
    @Test(arguments: [nil, "en", "en-GB", "EN_us"])
    func englishHasItsRules(language: String?) {
        #expect(LanguageRules.rules(for: language) === LanguageRules.english)
    }

    /// Words that mean something else in English, and words that end no sentence.
    @Test(arguments: [
        ("de", "Ich komme an.", TurnEndEstimator.Ending.sentence), ("de", "Er sah was.", .open),
        ("de", "Kommst du mit?", .question), ("de", "Ich hätte gern ein", .unfinished),
        ("de", "Ich nehme den Zug, weil", .unfinished), ("de", "Und dann.", .unfinished),
        ("de", "Wann kommt der Zug", .open), ("de", "Können Sie mir helfen", .question),
        ("de", "Meine Nummer ist fünfundfünfzig.", .number), ("de", "Das weiß ich.", .sentence),
        ("fr", "Je voudrais une table pour deux.", .number), ("fr", "et puis", .unfinished),
        ("fr", "C'est fini.", .sentence), ("fr", "Est-ce que vous êtes ouverts", .question),
        ("fr", "J'habite à la", .unfinished), ("fr", "Mon numéro est le zéro six.", .number),
        ("es", "Quiero una mesa.", .sentence), ("es", "y luego", .unfinished),
        ("es", "Vivo en el", .unfinished), ("es", "Es el veintidós.", .number),
        ("es", "¿Dónde está?", .question), ("it", "Vorrei un tavolo.", .sentence),
        ("it", "e poi", .unfinished), ("it", "Abito nella", .unfinished),
        ("it", "Sono ventitré.", .number), ("pt", "Quero uma mesa.", .sentence),
        ("pt", "e depois", .unfinished), ("pt", "Moro na", .unfinished),
        ("ru", "Я хочу столик.", .sentence), ("ru", "и потом", .unfinished),
        ("ru", "Я живу в", .unfinished), ("ru", "Мой номер двадцать два.", .number),
        ("ru", "Где вокзал?", .question),
        ("it", "Perché?", .question), ("ru", "Когда?", .question), ("pt", "Quando?", .question),
        ("ru", "Он сказал, что", .unfinished), ("ru", "потому что", .unfinished),
        ("es", "Quiero este.", .sentence), ("it", "Mi piace molto.", .sentence),
        ("es", "No.", .sentence), ("es", "Sí.", .sentence), ("pt", "Não.", .sentence),
        ("pt", "Sim.", .sentence), ("de", "Ich weiß es nicht.", .sentence),
        ("de", "Nein.", .sentence), ("de", "Ja.", .sentence), ("fr", "Je ne sais pas.", .sentence),
        ("fr", "Oui.", .sentence), ("fr", "Non.", .sentence), ("it", "Sì.", .sentence),
        ("it", "No.", .sentence), ("ru", "Да.", .sentence), ("ru", "Нет.", .sentence),
    ])
    func wordsEndTurnsByLanguage(
        language: String, transcript: String, ending: TurnEndEstimator.Ending
    ) {
        let rules = LanguageRules.rules(for: language)
        #expect(TurnEndEstimator.ending(of: transcript, in: rules) == ending)
    }

    @Test(arguments: [
        ("de", "Ja, genau.", InterruptionWords.Judgement.backchannel),
        ("de", "Alles klar!", .backchannel), ("de", "Moment mal.", .command),
        ("de", "Was kostet das?", .command), ("de", "Ich brauche zwei.", .words(3)),
        ("fr", "D'accord, très bien.", .backchannel), ("fr", "Attendez !", .command),
        ("es", "Sí, claro.", .backchannel), ("es", "Un momento.", .words(2)),
        ("it", "Va bene, ho capito.", .backchannel), ("it", "Aspetti.", .command),
        ("pt", "Tá bom.", .backchannel), ("pt", "Não, espera.", .command),
        ("ru", "Да, понятно.", .backchannel), ("ru", "Подождите!", .command),
    ])
    func nodsAndCommandsByLanguage(
        language: String, transcript: String, expected: InterruptionWords.Judgement
    ) {
        let rules = LanguageRules.rules(for: language)
        #expect(InterruptionWords.judge(transcript, over: "", in: rules) == expected)
    }

    @Test(arguments: [
        ("Ich komme an.", TurnEndEstimator.Ending.sentence), ("Ik kom eraan", .open),
        ("Kom je?", .question),
    ])
    func marksAloneEndTurnsOfALanguageWithoutRules(
        transcript: String, ending: TurnEndEstimator.Ending
    ) {
        let dutch = LanguageRules.rules(for: "nl-BE")
        #expect(TurnEndEstimator.ending(of: transcript, in: dutch) == ending)
    }

    @Test func assentsAndAbbreviationsAreSharedWithoutRules() {
        let dutch = LanguageRules.rules(for: "nl")
        #expect(InterruptionWords.judge("Okay, mhm.", over: "", in: dutch) == .backchannel)
        #expect(InterruptionWords.judge("Stop.", over: "", in: dutch) == .command)
        #expect(InterruptionWords.judge("Momentje graag.", over: "", in: dutch) == .words(2))
        var splitter = ClauseSplitter(.rules(for: "de"))
        #expect(
            splitter.append("Dr. Maier ist heute nicht da. Und") == [
                "Dr. Maier ist heute nicht da."
            ])
    }

    /// The tables of words are looked up in small letters, and longer ones are never looked for.
    @Test(arguments: LanguageRules.all)
    func wordsCanBeFound(rules: LanguageRules) {
        let ends = rules.turnEnds
        for words in [
            ends.wantMore, ends.wantMoreOutsideQuestions, ends.mayGoOn, ends.questionWords,
            ends.auxiliaries, ends.subjects, ends.numbers, ends.roundNumbers, rules.assents.words,
            rules.commands, rules.questions.details, rules.questions.requests,
            rules.questions.choices, rules.clauses.abbreviations, rules.clauses.conjunctions,
        ] {
            #expect(words.allSatisfy { $0 == $0.lowercased() && !$0.contains(" ") })
        }
        // Speech over a reply is cut into words at hyphens, too.
        #expect(
            (rules.commands.union(rules.assents.words)).allSatisfy { !$0.contains("-") })
        #expect(rules.assents.words.isDisjoint(with: rules.commands))
        #expect(ends.wantMore.isDisjoint(with: ends.numbers))
        #expect(
            rules.clauses.abbreviations.allSatisfy {
                $0.utf8.count <= ClauseWords.maxAbbreviationBytes
            })
        #expect(
            rules.clauses.conjunctions.allSatisfy {
                $0.utf8.count <= ClauseWords.maxConjunctionBytes
            })
    }
}
