// What the spelling of an English word says about its case. Words are ASCII here: SpokenText has
// replaced other letters.

import Codec

extension String {
    /// Whether no letter is a capital.
    var isLowercased: Bool { utf8.allSatisfy { !(0x41...0x5A).contains($0) } }

    /// Whether no letter is a small one.
    var isUppercased: Bool { utf8.allSatisfy { !(0x61...0x7A).contains($0) } }

    /// Whether there are only letters, and at least one.
    var isAllLetters: Bool { !isEmpty && utf8.allSatisfy(\.isASCIILetter) }

    /// Whether only the first character is a capital.
    var isCapitalisedWord: Bool {
        guard let first = utf8.first, (0x41...0x5A).contains(first) else { return false }
        return utf8.dropFirst().allSatisfy { !(0x41...0x5A).contains($0) }
    }

    /// With a capital at the start, and no other.
    var capitalisedWord: String { prefix(1).uppercased() + dropFirst().lowercased() }
}
