// Text in a form that an English synthesiser can speak: ASCII words and punctuation, in pieces of
// bounded length. SpokenMarkdown of Session removes the marks of Markdown, and SpokenWords replaces numbers
// and addresses by words; this file changes only the spelling. The synthesisers are
// FliteSynthesizer and NaturalSynthesizer.

import Codec
import Session

/// Converts a model's text into pieces for a synthesiser.
package enum SpokenText {
    /// Most UTF-8 bytes of one piece. A synthesiser analyses a whole piece before its first sound,
    /// so a long piece delays the sound. 300 bytes are about 20 s of speech.
    package static let maxPieceBytes = 300

    /// The pieces in which a text is spoken. A piece without a letter or digit makes no sound and
    /// is left out.
    /// - Parameter maxBytes: most bytes of one piece, at least 1.
    package static func pieces(of text: String, maxBytes: Int = maxPieceBytes) -> [String] {
        var pieces: [String] = []
        var piece: [UInt8] = []
        var hasSound = false
        func finishPiece() {
            if hasSound { pieces.append(String(decoding: piece, as: UTF8.self)) }
            piece = []
            hasSound = false
        }
        let words = SpokenWords.spoken(SpokenMarkdown.plain(text))
        for word in ascii(words).split(separator: UInt8(ascii: " ")) {
            // A word longer than a piece may be cut anywhere.
            var rest = word[...]
            while !rest.isEmpty {
                let part = rest.prefix(maxBytes)
                TextSteps.note(part.count)
                rest = rest.dropFirst(part.count)
                if piece.count + 1 + part.count > maxBytes { finishPiece() }
                // Marks by themselves belong to the word before them.
                if part.allSatisfy(",.;:!?".utf8.contains) {
                    if piece.isEmpty { continue }
                } else if !piece.isEmpty {
                    piece.append(UInt8(ascii: " "))
                }
                piece += part
                hasSound = hasSound || part.contains(where: \.isASCIIAlphanumeric)
            }
            if piece.count >= maxBytes / 2, let last = word.last, ".!?;".utf8.contains(last) {
                finishPiece()
            }
        }
        finishPiece()
        return pieces
    }

    /// The text in ASCII. Control characters, Markdown's marks and characters without an ASCII
    /// spelling become spaces.
    private static func ascii(_ text: String) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            switch scalar {
            case "*", "#", "`", "_", "~", "|", "<", ">", "{", "}", "[", "]", "\\", "^":
                bytes.append(UInt8(ascii: " "))
            case " "..."~": bytes.append(UInt8(scalar.value))
            default: bytes += (spellings[scalar] ?? spelling(of: scalar)).utf8
            }
        }
        return bytes
    }

    /// A letter without its accents. Marks that belong to the character before, and characters that
    /// are not seen, are left out. Anything else is a space: an English voice cannot speak it.
    private static func spelling(of scalar: Unicode.Scalar) -> String {
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .format: return ""
        default: break
        }
        // "LATIN SMALL LETTER E WITH ACUTE"
        let name = (scalar.properties.name ?? "").split(separator: " ")
        guard name.count > 3, name[0] == "LATIN", name[2] == "LETTER", name[3].utf8.count <= 2,
            name.count == 4 || name[4] == "WITH"
        else { return " " }
        return name[1] == "SMALL" ? name[3].lowercased() : String(name[3])
    }

    /// ASCII spellings of typographic characters, signs, and letters that have no other.
    private static let spellings: [Unicode.Scalar: String] = [
        "‘": "'", "’": "'", "‚": ",", "“": "\"", "”": "\"", "„": "\"", "«": "\"", "»": "\"",
        "‐": "-", "‑": "-", "–": ", ", "—": ", ", "…": "...", "•": ", ", "·": " ",
        "€": " euros ", "£": " pounds ", "¥": " yen ", "°": " degrees ", "×": " times ",
        "÷": " divided by ", "±": " plus or minus ",
        "≈": " about ", "≠": " is not ", "≤": " at most ", "≥": " at least ", "½": " one half ",
        "¼": " one quarter ",
        "¾": " three quarters ", "→": " to ", "©": " copyright ", "²": " squared ",
        "³": " cubed ", "µ": " micro ", "ß": "ss", "Æ": "Ae", "œ": "oe", "Œ": "Oe",
        "ð": "d", "Ð": "D", "þ": "th", "Þ": "Th", "ı": "i", "ﬁ": "fi", "ﬂ": "fl",
    ]
}
