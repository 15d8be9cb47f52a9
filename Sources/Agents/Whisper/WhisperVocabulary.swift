// The tokens of a Whisper model: their texts, the special ones by name, and the languages. The file is
// written by scripts/convert_whisper.py: a head with the numbers of layers and heads, then a line for
// each token, in hexadecimal or, for special ones, the name between <| and |>.

import CLinux

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
    /// The texts one after another, and where each ends.
    private let bytes: [UInt8]
    private let ends: [Int]

    /// Reads a file.
    /// - Returns: nil where it cannot be read, or is no such file.
    init?(path: String) {
        let descriptor = parley_open_readonly(path)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: Self.maxFileBytes)
        let count = read(descriptor, &bytes, bytes.count)
        guard count > 0, count < bytes.count else { return nil }
        self.init(String(decoding: bytes[..<count], as: UTF8.self))
    }

    /// - Returns: nil where the text is no such file.
    init?(_ text: String) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).dropLast()
        guard let head = lines.first?.split(separator: " "), head.first == "whisper",
            let layers = Self.value("layers", in: head), (1...64).contains(layers),
            let heads = Self.value("heads", in: head), (1...64).contains(heads)
        else { return nil }
        var (bytes, ends): ([UInt8], [Int]) = ([], [])
        var special: [Substring: Int] = [:]
        for (token, line) in lines.dropFirst().enumerated() {
            if line.hasPrefix("<|") {
                special[line.dropFirst(2).dropLast(2)] = token
            } else {
                guard special.isEmpty, Self.append(line, to: &bytes) else { return nil }
                ends.append(bytes.count)
            }
        }
        guard let end = special["endoftext"], end == ends.count,
            let start = special["startoftranscript"], let translate = special["translate"],
            let transcribe = special["transcribe"], let firstStamp = special["0.00"],
            start < translate, translate <= transcribe, transcribe < firstStamp
        else { return nil }
        (self.layers, self.heads, self.bytes, self.ends) = (layers, heads, bytes, ends)
        (self.end, self.start, self.transcribe) = (end, start, transcribe)
        self.firstStamp = firstStamp
        count = lines.count - 1
        var languages: [String: Int] = [:]
        for (name, token) in special where (start + 1..<translate).contains(token) {
            languages[String(name)] = token
        }
        self.languages = languages
        blank = ends.indices.first { Self.text(of: $0, bytes, ends) == [UInt8(ascii: " ")] } ?? end
    }

    private static func value(_ name: String, in head: [Substring]) -> Int? {
        head.first { $0.hasPrefix(name + "=") }.flatMap { Int($0.dropFirst(name.count + 1)) }
    }

    /// Appends bytes in hexadecimal; false where the line is not that.
    private static func append(_ line: Substring, to bytes: inout [UInt8]) -> Bool {
        var digits = line.utf8.makeIterator()
        while let high = digits.next() {
            guard let high = digit(high), let low = digits.next().flatMap(digit) else {
                return false
            }
            bytes.append(high << 4 | low)
        }
        return true
    }

    private static func digit(_ character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): character - UInt8(ascii: "a") + 10
        default: nil
        }
    }

    private static func text(of token: Int, _ bytes: [UInt8], _ ends: [Int]) -> ArraySlice<UInt8> {
        bytes[(token == 0 ? 0 : ends[token - 1])..<ends[token]]
    }

    /// The text of tokens below `end`. Bytes that are no UTF-8, as in the middle of a letter, become
    /// U+FFFD.
    func text(of tokens: [Int]) -> String {
        let bytes = tokens.flatMap { Self.text(of: $0, self.bytes, ends) }
        return String(decoding: bytes, as: UTF8.self)
    }
}
