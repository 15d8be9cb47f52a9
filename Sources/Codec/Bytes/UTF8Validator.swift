// Incremental UTF-8 validation (RFC 3629 §4; Unicode 16 table 3-7, well-formed byte sequences). A
// piece of text may end inside a character, so the validator keeps its state between pieces. It
// neither stores nor decodes text.
//
// Invariant: between calls the validator knows how many continuation bytes are missing and the
// range of the next one. An invalid byte is reported in the call that contains it, never later: RFC
// 6455 lets a server fail a text message before its last frame has arrived.

/// Validates a stream of bytes as UTF-8, one piece after another.
public struct UTF8Validator: Sendable {
    /// Continuation bytes that the current character still needs. 0…3.
    private var due: UInt8 = 0
    /// Range of the next continuation byte. Narrower than 80…BF after E0, ED, F0 and F4, which
    /// excludes overlong forms, surrogates and code points above U+10FFFF.
    private var lowest: UInt8 = 0x80
    private var highest: UInt8 = 0xBF

    /// Creates a validator at the start of a text.
    public init() {}

    /// Whether the text so far ends between two characters.
    public var isAtBoundary: Bool { due == 0 }

    /// Whether these bytes are one complete UTF-8 text.
    public static func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var validator = UTF8Validator()
        return validator.append(bytes) && validator.isAtBoundary
    }

    /// Validates the next piece of the text.
    /// - Returns: false as soon as no continuation could make the text valid. The validator is
    ///   unusable then.
    public mutating func append(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        while index < bytes.count {
            if due == 0 {
                index = Self.endOfWholeCharacters(in: bytes, from: index)
                guard index < bytes.count else { return true }
                guard begin(bytes[index]) else { return false }
            } else {
                let byte = bytes[index]
                guard byte >= lowest && byte <= highest else { return false }
                due -= 1
                lowest = 0x80
                highest = 0xBF
            }
            index += 1
        }
        return true
    }

    /// Starts a character of two to four bytes.
    /// - Returns: false when no character starts with this byte.
    private mutating func begin(_ lead: UInt8) -> Bool {
        switch lead {
        case 0xC2...0xDF: due = 1
        case 0xE0: (due, lowest) = (2, 0xA0)
        case 0xED: (due, highest) = (2, 0x9F)
        case 0xE1...0xEF: due = 2
        case 0xF0: (due, lowest) = (3, 0x90)
        case 0xF4: (due, highest) = (3, 0x8F)
        case 0xF1...0xF3: due = 3
        default: return false
        }
        return true
    }

    /// Skips ASCII and complete characters of two or three bytes whose lead byte has no special
    /// range: this is the bulk of any text, and needs no state between pieces. `append` judges the
    /// remaining bytes one by one.
    private static func endOfWholeCharacters(
        in bytes: UnsafeRawBufferPointer, from start: Int
    ) -> Int {
        var index = start
        while true {
            index = endOfASCII(in: bytes, from: index)
            guard index &+ 3 <= bytes.count else { return index }
            let (lead, second) = (bytes[index], bytes[index &+ 1])
            guard second & 0xC0 == 0x80 else { return index }
            if lead >= 0xC2 && lead <= 0xDF {
                index &+= 2
            } else if lead > 0xE0 && lead < 0xF0 && lead != 0xED
                && bytes[index &+ 2] & 0xC0 == 0x80
            {
                index &+= 3
            } else {
                return index
            }
        }
    }

    /// Offset of the first byte ≥ 80 at or after `start`, or the end. Most of the protocol's text
    /// is Base64 in JSON, so this loop, at 32 bytes a step, is the usual cost of validation.
    private static func endOfASCII(in bytes: UnsafeRawBufferPointer, from start: Int) -> Int {
        var index = start
        // In text that is not ASCII the next such byte is near, so that the wide loops would cost
        // more than they save.
        if index < bytes.count && bytes[index] >= 0x80 { return index }
        let highBits = SIMD4<UInt64>(repeating: 0x8080_8080_8080_8080)
        while index &+ 32 <= bytes.count {
            let block = bytes.loadUnaligned(fromByteOffset: index, as: SIMD4<UInt64>.self)
            guard (block & highBits) == .zero else { break }
            index &+= 32
        }
        while index &+ 8 <= bytes.count {
            let word = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            let high = UInt64(littleEndian: word) & 0x8080_8080_8080_8080
            guard high == 0 else { return index &+ high.trailingZeroBitCount / 8 }
            index &+= 8
        }
        while index < bytes.count && bytes[index] < 0x80 { index &+= 1 }
        return index
    }
}
