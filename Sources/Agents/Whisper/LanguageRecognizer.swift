// Who hears what: recognisers of one language each, and Whisper for the others. Where the client has
// named no language, Whisper finds out which of the operator's languages is spoken. The session
// remembers it and sends it with later utterances (VoiceSession+Language).

import Session

/// A recogniser that chooses among recognisers by language.
public final class LanguageRecognizer: SpeechRecognizer {
    /// The languages to choose from, by their codes (ISO 639), the most expected one first.
    public let languages: [String]
    /// The recognisers of one language each.
    private let single: [String: any SpeechRecognizer]
    /// Hears all other languages, and tells which is spoken.
    private let whisper: WhisperRecognizer
    /// All that are installed.
    private let all: [any SpeechRecognizer]

    /// Creates a recogniser.
    /// - Parameters:
    ///   - languages: at least one.
    ///   - single: by the languages that they hear. They hear these better than `whisper`.
    public init(
        languages: [String], single: [String: any SpeechRecognizer], whisper: WhisperRecognizer
    ) {
        precondition(!languages.isEmpty)
        self.languages = languages
        self.single = single
        self.whisper = whisper
        // A server of one language may have no Whisper.
        let others: [any SpeechRecognizer] = whisper.missingFile == nil ? [whisper] : []
        all = languages.compactMap { single[$0] } + others
    }

    /// Whether all of them may be asked repeatedly.
    public var makesHypotheses: Bool { all.allSatisfy(\.makesHypotheses) }

    /// The memory of all of them. A worker thread runs one at a time, but the runtime keeps the work
    /// space of each.
    public func serverBytes(workers: Int) -> Int {
        all.reduce(0) { $0 + $1.serverBytes(workers: workers) }
    }

    /// The heap that their models take.
    public var loadedBytes: Int { all.reduce(0) { $0 + $1.loadedBytes } }

    /// Loads the models of all of them.
    public func prepare(on host: any AgentHost) async {
        for recognizer in all { await recognizer.prepare(on: host) }
    }

    /// Checks the services of those that have one.
    public func checkRecognizer(on host: any AgentHost) async {
        for recognizer in all { await recognizer.checkRecognizer(on: host) }
    }

    /// Transcribes an utterance in its language. Where it has none, the language is identified among
    /// those that the client expects, otherwise the operator: up to two words are often taken for
    /// another language, five seldom.
    public func transcribe(
        _ utterance: Utterance, on host: any AgentHost
    ) async throws -> Transcript {
        let only = languages.count == 1 && utterance.languages.isEmpty ? languages[0] : nil
        if let language = utterance.language.map(Phrase.primary) ?? only {
            var utterance = utterance
            utterance.language = language
            return try await (single[language] ?? whisper).transcribe(utterance, on: host)
        }
        let segments = try await whisper.segments(of: utterance, on: host)
        guard let first = segments.first else { return Transcript("") }
        let heard = try await whisper.hear(first, on: host)
        let expected = utterance.languages.isEmpty ? languages : utterance.languages
        let language = try await whisper.language(of: heard, among: expected, on: host)
        if let recognizer = single[language] {
            return try await recognizer.transcribe(utterance, on: host)
        }
        let words = try await whisper.words(of: segments, in: language, first: heard, on: host)
        return Transcript(words, language: language)
    }
}
