// Writes JSON (RFC 8259) into a byte buffer, value by value. JSON.swift reads it; ServerEventWriter
// and its neighbours decide which values an event has.
//
// `object` and `array` take a closure and are balanced by construction. `beginObject` and its
// relatives are for code that closures cannot serve. On the path of audio and text deltas a closure
// costs 32 instructions more (callgrind: 3,866 instead of 3,834 for a text delta). Other writers
// change other state of their own between two values.
//
// Invariant: the result is one well-formed value, provided that begin and end calls pair and every
// member of an object gets its key. `finish()` traps where begin and end do not pair. The writer
// places commas. It allocates nothing beyond the buffer's own growth, except to write a fraction.

/// Writes one JSON value. Takes over a buffer and returns it:
/// ```
/// var json = JSONWriter(bytes)
/// json.object { json in
///     json.member("type", "error")
///     json.array("names") { json in json.string("a") }
/// }
/// bytes = json.finish()
/// ```
public struct JSONWriter: ~Copyable {
    private var bytes: ByteWriter
    /// Whether the next key or element follows another one.
    private var needsComma = false
    private var depth = 0

    /// Starts writing after what the buffer already holds.
    public init(_ bytes: consuming ByteWriter) {
        self.bytes = bytes
    }

    /// Gives the buffer back.
    /// - Precondition: every object and array has been ended.
    public consuming func finish() -> ByteWriter {
        precondition(depth == 0, "an object or array is still open")
        return bytes
    }

    // MARK: Containers

    /// Writes an object as the next value; `members` writes its members.
    public mutating func object(_ members: (inout JSONWriter) -> Void) {
        beginObject()
        members(&self)
        endObject()
    }

    /// Writes an array as the next value; `elements` writes its elements.
    public mutating func array(_ elements: (inout JSONWriter) -> Void) {
        beginArray()
        elements(&self)
        endArray()
    }

    /// Opens an object as the next value.
    public mutating func beginObject() {
        open(UInt8(ascii: "{"))
    }

    /// Closes the innermost object.
    public mutating func endObject() {
        close(UInt8(ascii: "}"))
    }

    /// Opens an array as the next value.
    public mutating func beginArray() {
        open(UInt8(ascii: "["))
    }

    /// Closes the innermost array.
    public mutating func endArray() {
        close(UInt8(ascii: "]"))
    }

    private mutating func open(_ bracket: UInt8) {
        separate()
        bytes.append(bracket)
        needsComma = false
        depth += 1
    }

    private mutating func close(_ bracket: UInt8) {
        precondition(depth > 0, "no object or array is open")
        bytes.append(bracket)
        needsComma = true
        depth -= 1
    }

    /// Writes the comma before the next value, if one precedes it.
    private mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    // MARK: Keys and values

    /// Writes the key of the next member. It is written unescaped, so it must contain no character
    /// that needs an escape.
    public mutating func key(_ key: StaticString) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        bytes.append(key)
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Writes a key that is not known at compile time, escaped as in RFC 8259 §7.
    public mutating func key(text: String) {
        string(text)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Writes a string, escaped as in RFC 8259 §7.
    public mutating func string(_ text: String) {
        beginString()
        continueString(text)
        endString()
    }

    /// Opens a string whose content `continueString` writes.
    public mutating func beginString() {
        separate()
        bytes.append(UInt8(ascii: "\""))
    }

    /// Appends text, escaped, to the open string.
    /// - Parameter prefix: omitted where the text begins with it.
    public mutating func continueString(_ text: String, droppingPrefix prefix: StaticString = "") {
        var text = text
        text.withUTF8 { utf8 in
            let prefix = UnsafeBufferPointer(
                start: prefix.utf8Start, count: prefix.utf8CodeUnitCount)
            let dropped = utf8.starts(with: prefix) ? prefix.count : 0
            bytes.appendEscaped(
                UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(utf8)[dropped...]))
        }
    }

    /// Appends the digits of a number to the open string.
    public mutating func continueString(decimal value: UInt64) {
        bytes.appendDecimal(value)
    }

    /// Closes the open string.
    public mutating func endString() {
        bytes.append(UInt8(ascii: "\""))
    }

    /// Writes bytes as a string of base64 (RFC 4648 §4).
    public mutating func base64(_ payload: RawSpan) {
        beginString()
        Base64.encode(payload, into: &bytes)
        endString()
    }

    /// Writes an integer.
    public mutating func integer(_ value: Int) {
        separate()
        if value < 0 { bytes.append(UInt8(ascii: "-")) }
        bytes.appendDecimal(UInt64(value.magnitude))
    }

    /// Writes a number in the shortest form that reads back as the same double. A whole number
    /// keeps its `.0`; for integers of the protocol use `integer`.
    /// - Precondition: the value is finite; JSON has no others (RFC 8259 §6).
    public mutating func number(_ value: Double) {
        precondition(value.isFinite, "JSON has no infinities")
        separate()
        bytes.append(value.description)
    }

    /// Writes `true` or `false`.
    public mutating func bool(_ value: Bool) {
        separate()
        bytes.append(value ? "true" : "false")
    }

    /// Writes `null`.
    public mutating func null() {
        separate()
        bytes.append("null")
    }

    /// Writes JSON text unchanged.
    public mutating func raw(_ json: RawJSON) {
        separate()
        bytes.append(json.text)
    }
}

// MARK: - Members

/// A key and its value in one call. A nil value is written as `null`. If the protocol requires
/// absence instead, the caller omits the member.
extension JSONWriter {
    /// Writes a member with a string.
    public mutating func member(_ key: StaticString, _ value: String?) {
        self.key(key)
        if let value { string(value) } else { null() }
    }

    /// Writes a member with an integer.
    public mutating func member(_ key: StaticString, _ value: Int?) {
        self.key(key)
        if let value { integer(value) } else { null() }
    }

    /// Writes a member with a number.
    public mutating func member(_ key: StaticString, number value: Double) {
        self.key(key)
        number(value)
    }

    /// Writes a member with a truth value.
    public mutating func member(_ key: StaticString, _ value: Bool) {
        self.key(key)
        bool(value)
    }

    /// Writes a member with an object; `members` writes the object's members.
    public mutating func object(_ key: StaticString, _ members: (inout JSONWriter) -> Void) {
        self.key(key)
        object(members)
    }

    /// Writes a member with an array; `elements` writes its elements.
    public mutating func array(_ key: StaticString, _ elements: (inout JSONWriter) -> Void) {
        self.key(key)
        array(elements)
    }

    /// Writes a member with JSON text, unchanged.
    public mutating func member(_ key: StaticString, _ value: RawJSON?) {
        self.key(key)
        if let value { raw(value) } else { null() }
    }
}

// MARK: - Bytes

extension ByteWriter {
    /// Appends UTF-8 with the escapes of RFC 8259 §7: quote, backslash and control characters.
    fileprivate mutating func appendEscaped(_ text: UnsafeRawBufferPointer) {
        reserve(text.count)
        var start = 0
        while start < text.count {
            let end = Self.endOfPlainRun(text, from: start)
            append(UnsafeRawBufferPointer(rebasing: text[start..<end]))
            guard end < text.count else { return }
            appendEscape(of: text[end])
            start = end + 1
        }
    }

    /// The index of the first byte that needs an escape, or the count. Reads eight bytes at a time;
    /// Swift's SIMD masks are not compiled to vector code here and are ten times slower.
    private static func endOfPlainRun(_ text: UnsafeRawBufferPointer, from start: Int) -> Int {
        var index = start
        while index + 8 <= text.count {
            let word = text.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            if hasSpecialByte(word) { break }
            index += 8
        }
        while index < text.count {
            let byte = text[index]
            if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { break }
            index += 1
        }
        return index
    }

    /// Whether any of eight bytes is a control character, a quote or a backslash. Subtracting `n`
    /// from every byte borrows into the top bit of those below `n`; `~word` excludes those whose
    /// top bit was set before. A byte equals `b` where `word ^ b` is below 1.
    private static func hasSpecialByte(_ word: UInt64) -> Bool {
        let everyByte: UInt64 = 0x0101_0101_0101_0101
        let quotes = word ^ (everyByte * 0x22)
        let backslashes = word ^ (everyByte * 0x5C)
        let found =
            ((word &- everyByte * 0x20) & ~word) | ((quotes &- everyByte) & ~quotes)
            | ((backslashes &- everyByte) & ~backslashes)
        return found & (everyByte * 0x80) != 0
    }

    private mutating func appendEscape(of byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""): append("\\\"")
        case UInt8(ascii: "\\"): append("\\\\")
        case 0x08: append("\\b")
        case 0x09: append("\\t")
        case 0x0A: append("\\n")
        case 0x0C: append("\\f")
        case 0x0D: append("\\r")
        default:
            append("\\u00")
            append(Self.hexadecimalDigit(byte >> 4))
            append(Self.hexadecimalDigit(byte & 0x0F))
        }
    }

    private static func hexadecimalDigit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
    }

    /// Appends the decimal digits of a number.
    fileprivate mutating func appendDecimal(_ value: UInt64) {
        var digitCount = 1
        var rest = value / 10
        while rest > 0 {
            digitCount += 1
            rest /= 10
        }
        append(upTo: digitCount) { digits in
            var rest = value
            for index in stride(from: digitCount - 1, through: 0, by: -1) {
                digits[index] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            }
            return digitCount
        }
    }
}
