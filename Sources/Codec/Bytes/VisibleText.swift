// Text of others on its way to a terminal or a log: what a terminal would obey, or what hides or
// reorders text, becomes a visible escape. Bytes that are no UTF-8 are U+FFFD by then, which
// `String(decoding:as:)` puts in their place, and that is visible.
//
// Invariant: each scalar is judged alone, so that a sequence split over two pieces of a stream is
// escaped as it is in one piece. What is visible stays as it is: escaping twice changes nothing.

extension Unicode.Scalar {
    /// Whether a terminal obeys it or a reader does not see it: the controls of C0 and C1 and DEL
    /// (ECMA-48 §5), line and paragraph separators, and the format characters that reorder text
    /// (marks, embeddings, overrides and isolates: Unicode UAX #9 §2; deprecated ones beside them)
    /// or have no width. Joiners of letters and emoji stay.
    public var isUnseen: Bool {
        switch value {
        case 0...0x1F, 0x7F...0x9F, 0x061C, 0x200B, 0x200E...0x200F, 0x2028...0x2029,
            0x202A...0x202E, 0x2060...0x206F, 0xFEFF:
            true
        default: false
        }
    }
}

/// What of a text may stay as it is.
public enum VisibleText: Sendable {
    /// All that can be seen: the text stays one line.
    case line
    /// Line feeds and tabs as well, for text that has lines of its own.
    case lines
    /// Visible ASCII and blanks, each of which is one column wide: for tables.
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
    /// The text with every other scalar as an escape: `\u{1b}`.
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

    /// A JSON document as one line that shows everything: inside strings the escapes of JSON
    /// (RFC 8259 §7), which leave its meaning as it is, and blanks for white space between tokens.
    public var visibleJSON: String {
        guard unicodeScalars.contains(where: \.isUnseen) else { return String(self) }
        var text = ""
        for scalar in unicodeScalars {
            if !scalar.isUnseen {
                text.unicodeScalars.append(scalar)
            } else if scalar == "\n" || scalar == "\r" || scalar == "\t" {
                // Strings have these as escapes only, so that this one stands between tokens.
                text += " "
            } else {
                text += scalar.jsonEscape
            }
        }
        return text
    }
}

extension Unicode.Scalar {
    /// `\u001b`, for a scalar of the first plane, where all unseen ones are.
    public var jsonEscape: String {
        let digits = String(value, radix: 16)
        return "\\u" + String(repeating: "0", count: Swift.max(0, 4 - digits.count)) + digits
    }
}
