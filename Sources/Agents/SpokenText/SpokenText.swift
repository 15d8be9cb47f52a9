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
                if !piece.isEmpty { piece.append(UInt8(ascii: " ")) }
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
            default: bytes += (spellings[scalar] ?? " ").utf8
            }
        }
        return bytes
    }

    /// ASCII spellings of typographic characters, signs, and accented Latin letters.
    private static let spellings: [Unicode.Scalar: String] = {
        var table: [Unicode.Scalar: String] = [
            "‘": "'", "’": "'", "‚": ",", "“": "\"", "”": "\"", "„": "\"", "«": "\"", "»": "\"",
            "‐": "-", "‑": "-", "–": ", ", "—": ", ", "…": "...", "•": ", ", "·": " ",
            "€": " euros ", "£": " pounds ", "¥": " yen ", "°": " degrees ", "×": " times ",
            "÷": " divided by ", "±": " plus or minus ",
            "≈": " about ", "≠": " is not ", "≤": " at most ", "≥": " at least ", "½": " one half ",
            "¼": " one quarter ",
            "¾": " three quarters ", "→": " to ", "©": " copyright ", "²": " squared ",
            "³": " cubed ", "µ": " micro ", "ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe",
            "ø": "o", "Ø": "O", "đ": "d", "ð": "d", "þ": "th", "ł": "l", "Ł": "L", "ı": "i",
        ]
        let families: [(plain: String, accented: String)] = [
            ("A", "ÀÁÂÃÄÅ"), ("C", "ÇĆČ"), ("E", "ÈÉÊËĚ"), ("I", "ÌÍÎÏ"), ("N", "ÑŃŇ"),
            ("O", "ÒÓÔÕÖ"), ("S", "ŚŠŞ"), ("U", "ÙÚÛÜŮ"), ("Y", "ÝŸ"), ("Z", "ŹŻŽ"), ("R", "Ř"),
            ("a", "àáâãäåąă"), ("c", "çćč"), ("e", "èéêëęě"), ("g", "ğ"), ("i", "ìíîï"),
            ("n", "ñńň"), ("o", "òóôõöő"), ("r", "ř"), ("s", "śšş"), ("t", "ťţ"), ("u", "ùúûüůű"),
            ("y", "ýÿ"), ("z", "źżž"),
        ]
        for family in families {
            for scalar in family.accented.unicodeScalars { table[scalar] = family.plain }
        }
        return table
    }()
}
