// Escapes text of a peer before it is shown in a terminal or a log. Control characters that a
// terminal obeys, and characters that hide or reorder text, become visible escapes. Invalid UTF-8
// has become U+FFFD before that, by `String(decoding:as:)`, and stays visible.
//
// Invariant: each scalar is judged alone, so a sequence that is split over two pieces of a stream
// is escaped as in one piece. Visible text is unchanged, so escaping twice equals escaping once.

extension Unicode.Scalar {
    /// Whether a terminal obeys it or a reader does not see it. These are the C0 and C1 controls
    /// and DEL (ECMA-48 §5), line and paragraph separators, and format characters without width.
    /// Format characters that reorder text are among them, too: marks, embeddings, overrides and
    /// isolates (Unicode UAX #9 §2), and deprecated ones. Joiners of letters and emoji are not.
    public var isUnseen: Bool {
        switch value {
        case 0...0x1F, 0x7F...0x9F, 0x061C, 0x200B, 0x200E...0x200F, 0x2028...0x2029,
            0x202A...0x202E, 0x2060...0x206F, 0xFEFF:
            true
        default: false
        }
    }
}

/// Which characters of a text are kept unescaped.
public enum VisibleText: Sendable {
    /// All visible characters. The result is one line.
    case line
    /// All visible characters, line feeds and tabs, for text of several lines.
    case lines
    /// Visible ASCII and blanks, each one column wide: for tables.
    case ascii

    fileprivate func keeps(_ scalar: Unicode.Scalar) -> Bool {
        switch self {
        case .line: !scalar.isUnseen
        case .lines: !scalar.isUnseen || scalar == "\n" || scalar == "\t"
        case .ascii: (0x20...0x7E).contains(scalar.value)
        }
    }
}

extension StringProtocol {
    /// The text with every character outside `kept` escaped as `\u{1b}`.
    public func visible(_ kept: VisibleText = .line) -> String {
        guard !unicodeScalars.allSatisfy(kept.keeps) else { return String(self) }
        var text = ""
        for scalar in unicodeScalars {
            if kept.keeps(scalar) {
                text.unicodeScalars.append(scalar)
            } else {
                text += "\\u{\(String(scalar.value, radix: 16))}"
            }
        }
        return text
    }

    /// A JSON document as one line in which everything is visible. Inside strings it uses JSON's
    /// own escapes (RFC 8259 §7), which keep the meaning; white space between tokens becomes
    /// blanks.
    public var visibleJSON: String {
        guard unicodeScalars.contains(where: \.isUnseen) else { return String(self) }
        var text = ""
        for scalar in unicodeScalars {
            if !scalar.isUnseen {
                text.unicodeScalars.append(scalar)
            } else if scalar == "\n" || scalar == "\r" || scalar == "\t" {
                // Inside strings these are always escaped, so this one stands between tokens.
                text += " "
            } else {
                text += scalar.jsonEscape
            }
        }
        return text
    }
}

extension Unicode.Scalar {
    /// `\u001b`, for a scalar of the Basic Multilingual Plane, which contains all unseen ones.
    public var jsonEscape: String {
        let digits = String(value, radix: 16)
        return "\\u" + String(repeating: "0", count: Swift.max(0, 4 - digits.count)) + digits
    }
}
