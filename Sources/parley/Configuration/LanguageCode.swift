// A language as an operator writes it.

/// The code of a language, without a region (ISO 639): two or three small letters.
struct LanguageCode: LosslessStringConvertible, Equatable, Sendable {
    /// The letters.
    let description: String

    /// English, which is installed with every server.
    static let english = LanguageCode(unchecked: "en")

    private init(unchecked code: String) { description = code }

    /// Nil where the text is no such code.
    init?(_ text: String) {
        guard (2...3).contains(text.utf8.count),
            text.utf8.allSatisfy({ (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0) })
        else { return nil }
        description = text
    }
}
