// Stress in phonemes: ˈ before the vowel of the main syllable, ˌ before those of others. A word's
// stress depends on how it is written and on the words that it is joined with.

/// Sounds by kind, and stress marks.
enum Stress {
    static let main: Unicode.Scalar = "ˈ"
    static let other: Unicode.Scalar = "ˌ"
    static let vowels = Set("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻ".unicodeScalars)
    static let consonants = Set("bdfhjklmnpstvwzðŋɡɹɾʃʒʤʧθ".unicodeScalars)
    private static let long = Set("AIOQWYʤʧ".unicodeScalars)

    /// How a word is written decides how much it is stressed.
    enum Emphasis {
        /// In small letters.
        case none
        /// With a capital, or with an ending: it has a stress at least.
        case some
        /// In capitals: it has a main stress.
        case strong
    }

    /// The phonemes of a word with the stress of its spelling.
    static func emphasised(_ sounds: String, _ emphasis: Emphasis) -> String {
        switch emphasis {
        case .none: sounds
        case .some: hasMark(sounds) ? sounds : marked(sounds, other)
        case .strong:
            hasMain(sounds)
                ? sounds
                : hasMark(sounds)
                    ? replacing(sounds, other, with: main) : marked(sounds, main)
        }
    }

    /// The phonemes with less stress: ˈ becomes ˌ, and ˌ goes. Without a ˈ they stay.
    static func weakened(_ sounds: String) -> String {
        guard hasMain(sounds) else { return sounds }
        var result = String.UnicodeScalarView()
        for scalar in sounds.unicodeScalars where scalar != other {
            result.append(scalar == main ? other : scalar)
        }
        return String(result)
    }

    /// The phonemes of several letters by their names: the last one has the main stress.
    static func lettersNamed(_ sounds: String) -> String {
        let weak =
            hasMain(sounds) ? weakened(sounds) : hasMark(sounds) ? sounds : marked(sounds, other)
        var scalars = Array(weak.unicodeScalars)
        if let last = scalars.lastIndex(of: other) { scalars[last] = main }
        return text(scalars)
    }

    /// How long a part of a word is: a diphthong and an affricate count twice.
    static func weight(_ sounds: String) -> Int {
        sounds.unicodeScalars.reduce(0) { $0 + (long.contains($1) ? 2 : 1) }
    }

    static func hasMain(_ sounds: String) -> Bool { sounds.unicodeScalars.contains(main) }

    private static func hasMark(_ sounds: String) -> Bool {
        sounds.unicodeScalars.contains { $0 == main || $0 == other }
    }

    /// The phonemes with a mark before their first vowel.
    private static func marked(_ sounds: String, _ mark: Unicode.Scalar) -> String {
        var scalars = Array(sounds.unicodeScalars)
        guard let vowel = scalars.firstIndex(where: { vowels.contains($0) }) else { return sounds }
        scalars.insert(mark, at: vowel)
        return text(scalars)
    }

    /// The phonemes with one scalar in the place of another.
    static func replacing(
        _ sounds: String, _ old: Unicode.Scalar, with new: Unicode.Scalar
    ) -> String {
        text(sounds.unicodeScalars.map { $0 == old ? new : $0 })
    }

    /// Scalars as a text.
    static func text(_ scalars: some Sequence<Unicode.Scalar>) -> String {
        var view = String.UnicodeScalarView()
        view.append(contentsOf: scalars)
        return String(view)
    }
}
