// A phrase that the server itself says, in the languages that the operator has written it in.
//
//   Sorry, I did not understand that.|de: Das habe ich nicht verstanden.|fr: …

/// One phrase in one or several languages.
public struct Phrase: Equatable, Sendable, LosslessStringConvertible {
    /// Bytes of all its languages together. 4,096: a sentence in 20 languages.
    public static let maxBytes = 4_096

    /// The phrase as it was written. It is empty for a phrase that is not spoken.
    public let description: String
    /// The language of each text, as ISO 639 names it. Empty where the text has none.
    private let texts: [(language: String, text: String)]

    /// The empty phrase, which is not spoken.
    public static let none = Phrase(unchecked: "")

    /// Reads a phrase: texts with `|` between, each with its language and a colon before it, or
    /// without. Nil where it is longer than `maxBytes`, or a text is empty.
    public init?(_ description: String) {
        guard description.utf8.count <= Self.maxBytes else { return nil }
        self.init(unchecked: description)
        guard texts.allSatisfy({ !$0.text.isEmpty }) else { return nil }
    }

    private init(unchecked description: String) {
        self.description = description
        texts =
            description.isEmpty
            ? []
            : description.split(separator: "|", omittingEmptySubsequences: false).map(Self.text)
    }

    /// Two phrases that were written alike are the same.
    public static func == (one: Phrase, other: Phrase) -> Bool {
        one.description == other.description
    }

    /// The text for a session.
    /// - Parameter language: the language of its user, as `en` or `en-GB`. Nil means that it is not
    ///   known.
    /// - Returns: the text in that language, or otherwise the first one. Nil means that there is
    ///   none.
    public func text(for language: String?) -> String? {
        let wanted = language.map(Self.primary)
        return (texts.first { $0.language == wanted } ?? texts.first)?.text
    }

    private static func text(_ part: Substring) -> (language: String, text: String) {
        let colon = part.firstIndex(of: ":")
        guard let colon, isLanguage(trimmed(part[..<colon])) else { return ("", trimmed(part)) }
        return (primary(trimmed(part[..<colon])), trimmed(part[colon...].dropFirst()))
    }

    /// Whether a text is `en`, `deu` or `pt-BR`.
    private static func isLanguage(_ text: String) -> Bool {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        return parts.count <= 2 && (2...3).contains(parts[0].utf8.count)
            && parts.allSatisfy { !$0.isEmpty && $0.utf8.allSatisfy(\.isASCIIAlphanumeric) }
    }

    /// The language without its region, in small letters.
    public static func primary(_ language: String) -> String {
        String(language.prefix { $0 != "-" && $0 != "_" }).lowercased()
    }

    private static func trimmed(_ text: Substring) -> String {
        var rest = text
        while rest.first == " " { rest.removeFirst() }
        while rest.last == " " { rest.removeLast() }
        return String(rest)
    }
}
