// What a character means where text is spoken: whether it ends a line, a sentence or a clause, and
// whether it is a picture, whose name a voice would read out. Ends come from the properties of Unicode
// (Sentence_Terminal, Terminal_Punctuation), so that they hold in every script.

import Codec

extension Unicode.Scalar {
    /// Whether a line ends here (UAX #14, mandatory breaks).
    var endsLine: Bool {
        switch value {
        case 0x0A...0x0D, 0x85, 0x2028, 0x2029: true
        default: false
        }
    }

    /// Whether a sentence ends here: `.`, `!`, `?`, `。`, `।`, `۔`, `؟` …
    package var endsSentence: Bool { properties.isSentenceTerminal }

    /// Whether a sentence or a part of one ends here: the above, and `,`, `:`, `،`, `、`, `…`.
    var endsClause: Bool { properties.isTerminalPunctuation || self == "…" }

    /// Whether it is as wide as a character of East Asia, so that no space follows it.
    var isFullWidth: Bool {
        switch value {
        case 0x3001, 0x3002, 0xFF01...0xFFEF: true
        default: false
        }
    }

    /// Whether it is a picture: an emoji, a dingbat, a box. Signs such as `©`, `™`, `°` and `℃`
    /// belong to the text and are no pictures.
    var isPicture: Bool {
        guard value >= 0x2190 else { return false }
        if value < 0x2C00 || value >= 0x1F000 {
            return properties.isEmojiPresentation || properties.isEmojiModifier
                || properties.generalCategory == .otherSymbol || isTag
        }
        return properties.isEmojiPresentation
    }

    /// Whether it only joins or changes pictures where it stands behind one: a joiner, a keycap.
    var joinsPictures: Bool { value == 0x200D || value == 0x20E3 }

    /// Whether it says how the character before it looks.
    var isVariation: Bool { (0xFE00...0xFE0F).contains(value) || value == 0x20E3 }

    /// The characters that name the region of a flag.
    private var isTag: Bool { (0xE0020...0xE007F).contains(value) }
}

extension StringProtocol {
    /// Whether it has nothing that a voice could say: no letter, no number, no sign.
    var isSilent: Bool {
        unicodeScalars.allSatisfy { scalar in
            TextSteps.note()
            if scalar.isPicture || scalar.isVariation || scalar.joinsPictures { return true }
            switch scalar.properties.generalCategory {
            case .spaceSeparator, .lineSeparator, .paragraphSeparator, .control, .format,
                .connectorPunctuation, .dashPunctuation, .openPunctuation, .closePunctuation,
                .initialPunctuation, .finalPunctuation, .otherPunctuation:
                return true
            default: return false
            }
        }
    }
}
