// Names that flite would spell out, such as "Tchaikovsky": it takes a word that begins or ends with
// an unusual group of consonants for an abbreviation. This file decides which of them are words, and
// installs the decision in a voice. flite then finds their sounds by its letter-to-sound rules.
//
// Abbreviations stay spelled: FBI, PhD, html, usb.

import CFlite

/// Which words of flite's are joined again.
enum SpelledNames {
    /// Fewest letters of a name, which begins with a capital: "Hrvoje", but not "Xyz Ltd".
    private static let minNameLetters = 4
    /// Fewest letters of another word. 5: shorter ones are abbreviations, such as "json".
    private static let minWordLetters = 5

    /// Joins the letters of the parts of a token that are words.
    /// - Parameters:
    ///   - words: the words that flite makes of the token. It writes the letter A as "_a".
    ///   - token: the token as it is written, without the punctuation around it.
    /// - Returns: nil where nothing is to be joined.
    static func joined(_ words: [String], of token: String) -> [String]? {
        let parts = token.split { !($0.isASCII && $0.isLetter) }.filter(isWord)
        guard !parts.isEmpty, words.count >= minNameLetters else { return nil }
        var result: [String] = []
        var isChanged = false
        var next = 0
        var remaining = parts[...]
        while next < words.count {
            if let index = remaining.firstIndex(where: { isSpelled($0, in: words[next...]) }) {
                result.append(remaining[index].lowercased())
                next += remaining[index].utf8.count
                remaining = remaining[(index + 1)...]
                isChanged = true
            } else {
                result.append(words[next])
                next += 1
            }
        }
        return isChanged ? result : nil
    }

    /// Whether a part of a token is a word, by its spelling alone.
    private static func isWord(_ part: Substring) -> Bool {
        guard let first = part.first, part.dropFirst().allSatisfy(\.isLowercase),
            part.contains(where: { "aeiouyAEIOUY".contains($0) })
        else { return false }
        return part.utf8.count >= (first.isUppercase ? minNameLetters : minWordLetters)
    }

    /// Whether the first words are the letters of a part.
    private static func isSpelled(_ part: Substring, in words: ArraySlice<String>) -> Bool {
        guard words.count >= part.utf8.count else { return false }
        return zip(part.utf8, words).allSatisfy { letter, word in
            let lower = letter | 0x20
            return word.utf8.elementsEqual([lower]) || word.utf8.elementsEqual([0x5F, lower])
        }
    }

    // MARK: In a voice

    /// The feature of a voice that makes words of a token.
    private static let function: StaticString = "tokentowords_func"
    /// Where a voice keeps the function that this file replaces.
    private static let original: StaticString = "parley_tokentowords_func"

    /// Replaces the function of a voice that makes words of a token.
    /// - Parameter features: of the voice. They must not be in use.
    static func install(in features: UnsafeMutablePointer<cst_features>) {
        guard feat_present(features, function.cString) != 0 else { return }
        let known = val_itemfunc(feat_val(features, function.cString))
        feat_set(features, original.cString, itemfunc_val(known))
        feat_set(features, function.cString, itemfunc_val { SpelledNames.words(of: $0) })
    }

    /// The words of a token. flite calls this for each token, and frees the list.
    private static func words(
        of token: UnsafeMutablePointer<cst_item>?
    ) -> UnsafeMutablePointer<cst_val>? {
        guard let token, let features = item_utt(token)?.pointee.features,
            let function = val_itemfunc(feat_val(features, original.cString)),
            let list = function(token)
        else { return nil }
        guard let words = strings(in: list), let name = item_feat_string(token, "name"),
            let joined = joined(words, of: String(cString: name))
        else { return list }
        delete_val(list)
        return joined.reversed().reduce(nil as UnsafeMutablePointer<cst_val>?) { rest, word in
            cons_val(string_val(word), rest)
        }
    }

    /// The words of a list; nil where one is more than a text.
    private static func strings(in list: UnsafePointer<cst_val>) -> [String]? {
        var words: [String] = []
        var rest: UnsafePointer<cst_val>? = list
        while let cell = rest {
            guard let word = val_car(cell), val_stringp(word) != 0 else { return nil }
            words.append(String(cString: val_string(word)))
            rest = val_cdr(cell)
        }
        return words
    }
}

extension StaticString {
    /// The text for C, which may keep the address.
    fileprivate var cString: UnsafePointer<CChar> {
        UnsafeRawPointer(utf8Start).assumingMemoryBound(to: CChar.self)
    }
}
