// The files of scripts/voice_tables.py as bytes, and a reader of the numbers in them. GoldLexicon and
// TaggerTable know what the numbers mean; the script describes both formats.
//
// Invariant: no content of a file traps. A table is checked whole when it is read, so that a lookup
// needs no checks of its own.

/// Why a table cannot be used.
package enum PhonemeTableError: Error, Equatable {
    /// The file is missing, cannot be read, or is larger than any table.
    case unreadable(file: String)
    /// The content is not a table of this version.
    case damaged(file: String)
}

/// Reads the numbers of a table one after another. They are little-endian.
struct PhonemeTableFile {
    /// Bytes of a file, at most. 8 MiB: the larger table has 1.3.
    static let maxBytes = 8 << 20

    private let name: String
    private var rest: ArraySlice<UInt8>

    /// Begins after the mark of the format, which must be there.
    init(_ bytes: [UInt8], name: String, mark: StaticString) throws(PhonemeTableError) {
        self.name = name
        rest = bytes[...]
        let expected = mark.withUTF8Buffer { Array($0) }
        guard try take(expected.count).elementsEqual(expected) else { throw damaged }
    }

    /// The whole content of a file.
    static func bytes(of name: String, in folder: String) throws(PhonemeTableError) -> [UInt8] {
        guard let bytes = ModelFile.bytes("\(folder)/\(name)", atMost: maxBytes) else {
            throw .unreadable(file: name)
        }
        return bytes
    }

    /// The error of a table whose content is wrong.
    var damaged: PhonemeTableError { .damaged(file: name) }

    /// The next bytes.
    mutating func take(_ count: Int) throws(PhonemeTableError) -> ArraySlice<UInt8> {
        guard count >= 0, count <= rest.count else { throw damaged }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }

    /// The next number of 8 bits.
    mutating func byte() throws(PhonemeTableError) -> UInt8 {
        try take(1).first ?? 0
    }

    /// The next number of 32 bits.
    mutating func word() throws(PhonemeTableError) -> UInt32 {
        try take(4).reversed().reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// The next number of 32 bits as a count.
    /// - Throws: `.damaged` above `maxBytes`.
    mutating func count() throws(PhonemeTableError) -> Int {
        let count = Int(try word())
        guard count <= Self.maxBytes else { throw damaged }
        return count
    }

    /// The next numbers of 32 bits.
    mutating func words(_ count: Int) throws(PhonemeTableError) -> [UInt32] {
        let bytes = try take(count * 4)
        return (0..<count).map { place in
            bytes.dropFirst(place * 4).prefix(4).reversed().reduce(0) { $0 << 8 | UInt32($1) }
        }
    }

    /// All bytes that are left.
    /// - Throws: `.damaged` where their number is another than the table says.
    func remainder(_ count: Int) throws(PhonemeTableError) -> [UInt8] {
        guard rest.count == count else { throw damaged }
        return Array(rest)
    }
}
