// The bytes of Moonshine's tokens: the file `tokens.txt` of its folder. Line N has the bytes of token N,
// in hexadecimal.

import CLinux

/// The tokens of the model, immutable.
struct MoonshineVocabulary: Sendable {
    /// Bytes of the file, at most. 1 MiB: it has 0.4.
    private static let maxFileBytes = 1 << 20
    /// The first tokens have no text: unknown, begin and end.
    private static let firstWithText = 3
    /// Between two words: U+2581.
    private static let space: [UInt8] = [0xe2, 0x96, 0x81]

    /// The bytes of all tokens, one behind the other.
    private var bytes: [UInt8] = []
    /// Where each token ends.
    private var ends: [Int32] = []

    /// Reads the file; nil where it cannot be read or is not such a file.
    init?(path: String) {
        let descriptor = parley_open_readonly(path)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var content = [UInt8](repeating: 0, count: Self.maxFileBytes)
        let count = read(descriptor, &content, content.count)
        guard count > 0, count < content.count else { return nil }
        self.init(content[..<count])
    }

    /// Reads the content of the file.
    init?(_ content: ArraySlice<UInt8>) {
        for line in content.split(separator: UInt8(ascii: "\n")) {
            guard line.count.isMultiple(of: 2) else { return nil }
            var digits = line
            while let high = digits.popFirst(), let low = digits.popFirst() {
                guard let high = Self.value(of: high), let low = Self.value(of: low) else {
                    return nil
                }
                bytes.append(high << 4 | low)
            }
            ends.append(Int32(bytes.count))
        }
        guard ends.count > Self.firstWithText else { return nil }
    }

    /// The text of tokens. A number that is no token has none, and bytes that are no UTF-8 are
    /// replaced.
    func text(of tokens: [Int64]) -> String {
        var text: [UInt8] = []
        for token in tokens where ends.indices.contains(Int(token)) {
            guard token >= Self.firstWithText else { continue }
            let token = bytes[Int(ends[Int(token) - 1])..<Int(ends[Int(token)])]
            text += token.split(separator: Self.space, omittingEmptySubsequences: false)
                .joined(separator: CollectionOfOne(UInt8(ascii: " ")))
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// The value of a digit in hexadecimal.
    private static func value(of digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}
