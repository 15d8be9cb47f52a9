// The tokens of a Whisper model: their texts, the special ones by name, and the languages. The file is
// written by scripts/convert_whisper.py: a head with the numbers of layers and heads, then a line for
// each token, in hexadecimal or, for special ones, the name between <| and |>.

/// The tokens of a model.
struct WhisperVocabulary: Sendable {
    /// Most bytes of the file: 4 MiB, six times those of the base model.
    private static let maxFileBytes = 4 << 20
    /// A time stamp stands for a multiple of 20 ms.
    static let secondsPerStamp = 0.02

    /// Layers of the decoder.
    let layers: Int
    /// Heads of a layer, each of 64 numbers.
    let heads: Int
    /// The end of the text. All tokens below it are text.
    let end: Int
    /// The beginning of every text.
    let start: Int
    /// The text is in the language that is spoken.
    let transcribe: Int
    /// The time stamp of the beginning. Later ones follow it, to the last token.
    let firstStamp: Int
    /// A text that is one space: no text begins with it.
    let blank: Int
    /// The tokens of the languages, by their codes (ISO 639).
    let languages: [String: Int]
    /// How many tokens there are.
    let count: Int
    private let texts: TokenTexts

    /// Reads a file.
    /// - Returns: nil where it cannot be read, or is no such file.
    init?(path: String) {
        guard let bytes = ModelFile.bytes(path, atMost: Self.maxFileBytes) else { return nil }
        self.init(String(decoding: bytes, as: UTF8.self))
    }

    /// - Returns: nil where the text is no such file.
    init?(_ text: String) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        guard let head = lines.first?.split(separator: " "), head.first == "whisper",
            let layers = Self.value("layers", in: head), (1...64).contains(layers),
            let heads = Self.value("heads", in: head), (1...64).contains(heads)
        else { return nil }
        var texts = TokenTexts()
        var special: [Substring: Int] = [:]
        for (token, line) in lines.dropFirst().enumerated() {
            if line.hasPrefix("<|") {
                special[line.dropFirst(2).dropLast(2)] = token
            } else {
                guard special.isEmpty, texts.append(line.utf8) else { return nil }
            }
        }
        guard let end = special["endoftext"], end == texts.count,
            let start = special["startoftranscript"], let translate = special["translate"],
            let transcribe = special["transcribe"], let firstStamp = special["0.00"],
            start < translate, translate <= transcribe, transcribe < firstStamp
        else { return nil }
        (self.layers, self.heads, self.texts) = (layers, heads, texts)
        (self.end, self.start, self.transcribe) = (end, start, transcribe)
        self.firstStamp = firstStamp
        count = lines.count - 1
        var languages: [String: Int] = [:]
        for (name, token) in special where (start + 1..<translate).contains(token) {
            languages[String(name)] = token
        }
        self.languages = languages
        blank = (0..<end).first { texts[$0] == [UInt8(ascii: " ")] } ?? end
    }

    private static func value(_ name: String, in head: [Substring]) -> Int? {
        head.first { $0.hasPrefix(name + "=") }.flatMap { Int($0.dropFirst(name.count + 1)) }
    }

    /// The text of tokens below `end`. Bytes that are no UTF-8, as in the middle of a letter, become
    /// U+FFFD.
    func text(of tokens: [Int]) -> String {
        let bytes = tokens.flatMap { texts[$0] }
        return String(decoding: bytes, as: UTF8.self)
    }
}
