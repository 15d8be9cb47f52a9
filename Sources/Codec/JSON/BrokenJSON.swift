// Facts of a text that is no JSON: where it is broken, and which of the client's events it was. The
// parser knows neither once its first pass has refused the text.
//
// Invariant: any bytes give an answer or none; each byte of a bounded beginning is looked at once.

/// Looks through a text that the parser has refused.
struct BrokenJSON {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0
    private var depth = 0

    /// Bytes that are looked through. 256 KiB: about 0.3 ms, and more than any event but audio has.
    private static let maxBytes = 256 << 10

    private init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = UnsafeRawBufferPointer(rebasing: bytes.prefix(Self.maxBytes))
    }

    /// The string of a member of the outermost object, or nil where none is found before the text
    /// breaks off.
    /// - Parameter maxBytes: the limit of the string. A longer one is not found.
    static func text(of key: StaticString, in bytes: UnsafeRawBufferPointer, maxBytes: Int)
        -> String?
    {
        var reader = BrokenJSON(bytes)
        return reader.find(key, maxBytes: maxBytes)
    }

    /// Where a text that was refused as a whole is broken. That is its first byte that is no UTF-8,
    /// its first control character in a string, or the string that does not end.
    static func offset(of reason: JSONError.Reason, in bytes: UnsafeRawBufferPointer) -> Int? {
        switch reason {
        case .invalidUTF8: return UTF8Validator.firstInvalid(in: BrokenJSON(bytes).bytes)
        case .invalidString:
            var reader = BrokenJSON(bytes)
            return reader.findBrokenString()
        default: return nil
        }
    }

    private mutating func find(_ key: StaticString, maxBytes: Int) -> String? {
        while position < bytes.count {
            TextSteps.note()
            guard bytes[position] == UInt8(ascii: "\"") else {
                note(bytes[position])
                continue
            }
            guard let name = readString() else { return nil }
            skipSpace()
            guard depth == 1, position < bytes.count, bytes[position] == UInt8(ascii: ":"),
                bytes[name].elementsEqual(
                    UnsafeBufferPointer(start: key.utf8Start, count: key.utf8CodeUnitCount))
            else { continue }
            position += 1
            skipSpace()
            guard position < bytes.count, bytes[position] == UInt8(ascii: "\""),
                let value = readString(), value.count <= maxBytes,
                !bytes[value].contains(UInt8(ascii: "\\"))
            else { return nil }
            return String(validating: bytes[value], as: UTF8.self)
        }
        return nil
    }

    private mutating func findBrokenString() -> Int? {
        while position < bytes.count {
            guard bytes[position] == UInt8(ascii: "\"") else {
                position += 1
                continue
            }
            let start = position
            guard let content = readString() else { return start }
            if let control = content.first(where: { bytes[$0] < 0x20 }) { return control }
        }
        return nil
    }

    private mutating func note(_ byte: UInt8) {
        if byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[") { depth += 1 }
        if byte == UInt8(ascii: "}") || byte == UInt8(ascii: "]") { depth -= 1 }
        position += 1
    }

    private mutating func skipSpace() {
        while position < bytes.count, [0x20, 0x09, 0x0A, 0x0D].contains(bytes[position]) {
            position += 1
        }
    }

    /// Reads a string.
    /// - Returns: the bytes between its quotes, or nil where the closing quote is missing.
    private mutating func readString() -> Range<Int>? {
        let start = position + 1
        position = start
        while position < bytes.count {
            TextSteps.note()
            switch bytes[position] {
            case UInt8(ascii: "\""):
                position += 1
                return start..<position - 1
            case UInt8(ascii: "\\"): position += 2
            default: position += 1
            }
        }
        return nil
    }
}

extension UTF8Validator {
    /// The offset of the first character that is not valid, or nil where all are.
    fileprivate static func firstInvalid(in bytes: UnsafeRawBufferPointer) -> Int? {
        var validator = UTF8Validator()
        var start = 0
        for index in bytes.indices {
            if validator.isAtBoundary { start = index }
            guard validator.append(UnsafeRawBufferPointer(rebasing: bytes[index...index])) else {
                return start
            }
        }
        return nil
    }
}
