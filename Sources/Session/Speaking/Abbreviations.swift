// Words of English that tell where a clause may end: abbreviations, whose dot ends nothing, and
// conjunctions, before which a speaker may breathe. ClauseSplitter asks; nothing else is decided
// here.

/// Abbreviations that are written with a dot.
enum Abbreviations {
    /// UTF-8 bytes of the longest, with dots within it.
    static let maxBytes = 16
    /// Those after which a sentence goes on; "etc." and "p.m." may end one, but a missed end is
    /// heard less than a false one.
    private static let words: Set<String> = [
        "adm", "al", "approx", "apt", "assn", "ave", "bldg", "blvd", "ca", "capt", "cf", "cmdr",
        "co", "col", "corp", "dept", "dr", "ed", "eds", "eg", "est", "etc", "ext", "fig", "figs",
        "ft", "gen", "gov", "hon", "hr", "hrs", "ie", "inc", "jr", "lb", "lbs", "lt", "ltd", "maj",
        "max", "messrs", "min", "mr", "mrs", "ms", "mt", "mts", "nos", "oz", "pp", "prof", "rd",
        "rep", "rev", "sen", "sgt", "sr", "st", "tel", "univ", "viz", "vol", "vols", "vs", "jan",
        "feb", "apr", "aug", "sept", "oct", "nov", "dec",
    ]

    /// Whether a word without its last dot is an abbreviation: in the table, or letters with dots
    /// between ("e.g", "a.m", "U.S").
    static func contain(_ word: ArraySlice<UInt8>) -> Bool {
        guard word.count <= maxBytes else { return false }
        let letters = word.drop { [UInt8(ascii: "\""), UInt8(ascii: "*")].contains($0) }
        if letters.count >= 3, letters.count.isMultiple(of: 2) == false {
            let isDotted = letters.indices.allSatisfy { index in
                let isDot = letters[index] == UInt8(ascii: ".")
                return (index - letters.startIndex).isMultiple(of: 2) ? !isDot : isDot
            }
            if isDotted { return true }
        }
        return words.contains(String(decoding: letters, as: UTF8.self).lowercased())
    }
}

/// Words that begin another part of a sentence.
enum Conjunctions {
    /// UTF-8 bytes of the longest.
    static let maxBytes = 8
    private static let words: Set<String> = [
        "although", "and", "because", "but", "or", "since", "so", "then", "though", "unless",
        "until", "when", "where", "whereas", "which", "while", "who",
    ]

    /// Whether a word is one.
    static func contain(_ word: ArraySlice<UInt8>) -> Bool {
        word.count <= maxBytes && words.contains(String(decoding: word, as: UTF8.self))
    }
}
