// The words of a language and its pace of speech, for the parts of a session. Each language has a
// file beside this one. Used by TurnEndEstimator, PatienceJudge, InterruptionWords, ClauseSplitter,
// ItemSpeech and RecordRedaction. Marks of punctuation are not here: many languages share them, and they stand
// where they are read.
//
// Words are in small letters, without marks around them.

import Codec

/// The words of one language, by their meaning for a turn. A class: its users store one pointer.
package final class LanguageRules: Sendable {
    /// Words at the end of a transcript that tell whether the turn is over.
    let turnEnds: TurnEndWords
    /// Whether there are such words.
    var knowsTurnEnds: Bool { !turnEnds.wantMore.isEmpty }
    /// Words that ask the speaker to go on.
    let assents: AssentWords
    /// Words that ask a speaker to stop, or begin an objection, where an utterance begins with them.
    let commands: Set<String>
    /// Words of questions that tell how long their answers are.
    let questions: QuestionWords
    /// Words that tell where a clause may end.
    let clauses: ClauseWords
    /// How long speech takes, in ms for each UTF-8 byte of its transcript, where it is not known when a
    /// word was spoken.
    let millisecondsPerByte: Int

    /// Creates the rules of a language.
    init(
        turnEnds: TurnEndWords, assents: AssentWords, commands: Set<String>,
        questions: QuestionWords, clauses: ClauseWords, millisecondsPerByte: Int
    ) {
        self.turnEnds = turnEnds
        self.assents = assents
        self.commands = commands
        self.questions = questions
        self.clauses = clauses
        self.millisecondsPerByte = millisecondsPerByte
    }

    /// The rules for a language that has none of its own. Only marks tell whether a turn is over:
    /// its words would be mistaken for English ones. Assents, commands and abbreviations are those
    /// of English, many of which are written the same elsewhere ("okay", "stop", "Dr.").
    private static let common = LanguageRules(
        turnEnds: TurnEndWords(), assents: english.assents, commands: english.commands,
        questions: QuestionWords(), clauses: english.clauses,
        millisecondsPerByte: english.millisecondsPerByte)

    /// The languages that have rules of their own, by their codes (ISO 639-1).
    private static let byCode = [
        "en": english, "fr": french, "de": german, "it": italian, "pt": portuguese, "ru": russian,
        "es": spanish,
    ]
    /// All rules but the common ones.
    static let all = Array(byCode.values)

    /// The rules for a language.
    /// - Parameter language: as a client names it, such as "en-GB". Where nil, it is not known, and
    ///   the rules are those of English.
    package static func rules(for language: String?) -> LanguageRules {
        guard let language else { return english }
        return byCode[Phrase.primary(language)] ?? common
    }

    /// The languages in which a word is a number, a bit each: a record does not tell its language.
    static let numberLanguages = all.enumerated().reduce(into: [String: UInt8]()) { bits, rules in
        let ends = rules.element.turnEnds
        for word in ends.numbers.union(ends.roundNumbers) {
            bits[word, default: 0] |= 1 << rules.offset
        }
    }
}

/// Words at the end of a transcript that tell whether the turn is over.
struct TurnEndWords {
    /// Words that must be followed by another: articles, possessives, conjunctions and fillers.
    var wantMore: Set<String> = []
    /// The same, but for a question: "What is it for?" is complete.
    var wantMoreOutsideQuestions: Set<String> = []
    /// The same for words with these ends: a subject and its verb.
    var unfinishedEnds: [String] = []
    /// Words that want more unless one of these is before them: "so", but "I think so".
    var wantMoreUnlessAfter: [String: Set<String>] = [:]
    /// Words that want more where one of these is before them: "mean", but only after "I".
    var wantMoreAfter: [String: Set<String>] = [:]
    /// Words that end a turn as often as not.
    var mayGoOn: Set<String> = []
    /// Words that begin a question, before one of the auxiliaries.
    var questionWords: Set<String> = []
    /// Verbs that begin a question, before one of the subjects.
    var auxiliaries: Set<String> = []
    /// Subjects of a sentence.
    var subjects: Set<String> = []
    /// Numbers, after which more digits may come.
    var numbers: Set<String> = []
    /// Numbers that end a number.
    var roundNumbers: Set<String> = []
}

/// Words that alone, or several together, mean "go on".
struct AssentWords {
    /// Single words.
    var words: Set<String> = []
    /// The same for phrases of more than one word.
    var phrases: [[String]] = []
}

/// Words of an agent's question that tell how long its answer is.
struct QuestionWords {
    /// What takes long to say, because the speaker looks it up, spells it or says it in groups: a
    /// number, an address, a name, a date.
    var details: Set<String> = []
    /// Words that ask for something to be said, in a question or a request: "tell", "please".
    var requests: Set<String> = []
    /// Words that join the choices of a question: it is not answered with yes or no.
    var choices: Set<String> = []
}

/// Words that tell where a clause may end.
struct ClauseWords {
    /// UTF-8 bytes of the longest abbreviation, with dots within it.
    static let maxAbbreviationBytes = 16
    /// UTF-8 bytes of the longest conjunction.
    static let maxConjunctionBytes = 16

    /// Abbreviations with a dot after which a sentence goes on.
    var abbreviations: Set<String> = []
    /// Words that begin another part of a sentence: a speaker may breathe before them.
    var conjunctions: Set<String> = []

    /// Whether a word without its last dot is an abbreviation: one of these, or letters with dots
    /// between ("e.g", "a.m", "U.S").
    func isAbbreviation(_ word: ArraySlice<UInt8>) -> Bool {
        guard word.count <= Self.maxAbbreviationBytes else { return false }
        let letters = word.drop { [UInt8(ascii: "\""), UInt8(ascii: "*")].contains($0) }
        if letters.count >= 3, letters.count.isMultiple(of: 2) == false {
            let isDotted = letters.indices.allSatisfy { index in
                let isDot = letters[index] == UInt8(ascii: ".")
                return (index - letters.startIndex).isMultiple(of: 2) ? !isDot : isDot
            }
            if isDotted { return true }
        }
        return abbreviations.contains(String(decoding: letters, as: UTF8.self).lowercased())
    }

    /// Whether a word is a conjunction.
    func isConjunction(_ word: ArraySlice<UInt8>) -> Bool {
        word.count <= Self.maxConjunctionBytes
            && conjunctions.contains(String(decoding: word, as: UTF8.self))
    }
}
