// The bytes of Moonshine's tokens: the file `tokens.txt` of its folder. Line N has the bytes of token N,
// in hexadecimal.

/// The tokens of the model, immutable.
struct MoonshineVocabulary: Sendable {
    /// Bytes of the file, at most. 1 MiB: it has 0.4.
    private static let maxFileBytes = 1 << 20
    /// The first tokens have no text: unknown, begin and end.
    private static let firstWithText = 3
    /// Between two words: U+2581.
    private static let space: [UInt8] = [0xe2, 0x96, 0x81]

    private var texts = TokenTexts()

    /// Reads the file; nil where it cannot be read or is not such a file.
    init?(path: String) {
        guard let content = ModelFile.bytes(path, atMost: Self.maxFileBytes) else { return nil }
        self.init(content[...])
    }

    /// Reads the content of the file.
    init?(_ content: ArraySlice<UInt8>) {
        var lines = content.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        if lines.last?.isEmpty == true { lines.removeLast() }
        guard lines.count > Self.firstWithText, lines.allSatisfy({ texts.append($0) }) else {
            return nil
        }
    }

    /// The text of tokens. A number that is no token has none, and bytes that are no UTF-8 are
    /// replaced.
    func text(of tokens: [Int64]) -> String {
        var text: [UInt8] = []
        for token in tokens where (Int64(Self.firstWithText)..<Int64(texts.count)).contains(token) {
            text += texts[Int(token)].split(separator: Self.space, omittingEmptySubsequences: false)
                .joined(separator: CollectionOfOne(UInt8(ascii: " ")))
        }
        return String(decoding: text, as: UTF8.self)
    }
}
