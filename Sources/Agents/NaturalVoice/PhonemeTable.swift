// The numbers that a voice has for phonemes: the file `phonemes.txt` of its folder, which set-up
// makes of the voice's own configuration. Each line has a Unicode scalar in hexadecimal and its
// number.

/// The number of each phoneme.
struct PhonemeTable {
    /// Numbers with a meaning of their own: nothing between two phonemes, and both ends of a text.
    private static let pad: Int64 = 0
    private static let begin: Int64 = 1
    private static let end: Int64 = 2
    /// Bytes of the file, at most. 64 KiB: it has 2.
    static let maxFileBytes = 64 << 10
    /// Phonemes that a voice must have: without a vowel, a pause or stress no word is understood.
    private static let needed = " .,?ˈəɪt"

    private var numbers: [Unicode.Scalar: Int64] = [:]

    /// Reads a table.
    /// - Parameter maxNumber: the largest number that the voice knows.
    /// - Returns: nil where a line cannot be read, a number is out of range, or a phoneme is missing
    ///   that every voice has.
    init?(_ text: String, maxNumber: Int64 = 255) {
        for line in text.split(separator: "\n") {
            let fields = line.split(separator: " ")
            guard fields.count == 2, let value = UInt32(fields[0], radix: 16),
                let scalar = Unicode.Scalar(value), let number = Int64(fields[1]),
                (0...maxNumber).contains(number)
            else { return nil }
            numbers[scalar] = number
        }
        guard Self.needed.unicodeScalars.allSatisfy({ numbers[$0] != nil }) else { return nil }
    }

    /// A clause as the model reads it: its beginning, each phoneme after a pad, a pad and its end.
    /// A phoneme that the voice does not know is left out.
    func numbers(of clause: String) -> [Int64] {
        var result = [Self.begin]
        for scalar in clause.unicodeScalars {
            guard let number = numbers[scalar] else { continue }
            result += [Self.pad, number]
        }
        return result + [Self.pad, Self.end]
    }
}
