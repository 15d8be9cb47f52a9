// The numbers that the natural voice has for phonemes: the file `symbols.txt` of its folder. Each line
// has a Unicode scalar in hexadecimal and its number.

/// The number of each phoneme.
struct PhonemeSymbols {
    /// The number at both ends of a clause.
    private static let end: Int64 = 0
    /// The largest number that the voice knows.
    private static let maxNumber: Int64 = 177
    /// Phonemes that a voice must have: without a vowel, a pause or stress no word is understood.
    private static let needed = " .,?ˈəɪt"

    private var numbers: [Unicode.Scalar: Int64] = [:]

    /// Reads a table.
    /// - Returns: nil where a line cannot be read, a number is out of range, or a phoneme is missing
    ///   that every voice has.
    init?(_ text: String) {
        for line in text.split(separator: "\n") {
            let fields = line.split(separator: " ")
            guard fields.count == 2, let value = UInt32(fields[0], radix: 16),
                let scalar = Unicode.Scalar(value), let number = Int64(fields[1]),
                (1...Self.maxNumber).contains(number)
            else { return nil }
            numbers[scalar] = number
        }
        guard Self.needed.unicodeScalars.allSatisfy({ numbers[$0] != nil }) else { return nil }
    }

    /// A clause as the model reads it. A phoneme that the voice does not know is left out.
    func numbers(of clause: String) -> [Int64] {
        [Self.end] + clause.unicodeScalars.compactMap { numbers[$0] } + [Self.end]
    }
}
