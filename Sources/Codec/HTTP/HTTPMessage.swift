// Types that requests and responses share: limits, version, method, fields, and character classes
// (RFC 9110 §5). HTTPRequestParser and HTTPResponseParser parse, HTTPResponse writes.
//
// Invariant: every name in HTTPFields is a token, and no value contains CR, LF or NUL, whatever its
// source.

/// Limits on what one HTTP message may make a parser read or keep.
public struct HTTPLimits: Sendable {
    /// Bytes of the start line with its CR LF. Default 8 KiB, as RFC 9112 §3 recommends 8,000.
    public var maxStartLineBytes = 8 * 1024
    /// Bytes of the whole head, from the start line to the final empty line. Default 16 KiB: a
    /// browser's cookies and a token fit, a flood does not.
    public var maxHeaderBytes = 16 * 1024
    /// Fields of a head or a trailer. Default 100, as in other widely used servers.
    public var maxHeaderFields = 100
    /// Bytes of the body as received, so that the framing of tiny chunks and trailers count too.
    /// Default 1 MiB.
    public var maxBodyBytes = 1024 * 1024

    /// The defaults.
    public init() {}
}

/// A supported version of HTTP. A minor version above 1 counts as 1 (RFC 9110 §2.5).
public enum HTTPVersion: Sendable {
    /// HTTP/1.0: no Host needed, connections close by default.
    case http10
    /// HTTP/1.1.
    case http11
}

/// A request's method (RFC 9110 §9). Methods are case-sensitive.
public enum HTTPMethod: Hashable, Sendable {
    /// GET
    case get
    /// HEAD: as GET, without the body.
    case head
    /// POST
    case post
    /// PUT
    case put
    /// DELETE
    case delete
    /// OPTIONS
    case options
    /// Any other token, as received.
    case other(String)

    /// The method that a token on the wire names.
    public init(_ token: String) {
        switch token {
        case "GET": self = .get
        case "HEAD": self = .head
        case "POST": self = .post
        case "PUT": self = .put
        case "DELETE": self = .delete
        case "OPTIONS": self = .options
        default: self = .other(token)
        }
    }

    /// The token on the wire.
    public var name: String {
        switch self {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .delete: "DELETE"
        case .options: "OPTIONS"
        case .other(let token): token
        }
    }
}

/// The fields of a head in the order received. Names compare without case (RFC 9110 §5.1).
///
/// All text lies in one array: a head takes two allocations however many fields it has. A value
/// becomes a `String` only when it is read.
public struct HTTPFields: Sendable {
    /// Ranges of one field's name and value.
    struct Entry {
        var name: Range<Int>
        var value: Range<Int>
    }

    private var bytes: [UInt8]
    private var entries: [Entry]

    /// Creates an empty list.
    public init() {
        bytes = []
        entries = []
    }

    /// Creates the fields from a parser's result. `entries` are offsets into `bytes` that the
    /// parser has checked.
    init(bytes: [UInt8], entries: [Entry]) {
        self.bytes = bytes
        self.entries = entries
    }

    /// Appends a field. CR, LF and NUL in the value become spaces (RFC 9110 §5.5), so that text of
    /// a peer cannot inject fields.
    /// - Precondition: the name is a token.
    public mutating func append(_ name: String, _ value: String) {
        precondition(!name.isEmpty && name.utf8.allSatisfy(HTTPCharacter.isToken))
        let nameStart = bytes.count
        bytes += name.utf8
        let valueStart = bytes.count
        bytes += value.utf8.lazy.map { $0 == 0x0D || $0 == 0x0A || $0 == 0 ? 0x20 : $0 }
        entries.append(Entry(name: nameStart..<valueStart, value: valueStart..<bytes.count))
    }

    /// The value of a field. If it occurs on several lines, their values are joined by `, `, which
    /// means the same (RFC 9110 §5.3). Nil if it does not occur. Invalid UTF-8 is replaced.
    public subscript(name: String) -> String? {
        var joined: String?
        for entry in entries where matches(entry, name) {
            let value = text(entry.value)
            joined = joined.map { "\($0), \(value)" } ?? value
        }
        return joined
    }

    /// How many lines have this field name.
    public func count(of name: String) -> Int {
        var count = 0
        for entry in entries where matches(entry, name) { count += 1 }
        return count
    }

    /// Whether a list field contains a token, ignoring case, on any of its lines.
    public func contains(token: String, in name: String) -> Bool {
        var found = false
        forEachElement(of: name) { element in
            found = found || Self.equalIgnoringCase(bytes[element], token)
        }
        return found
    }

    /// The non-empty elements of a list field over all of its lines (RFC 9110 §5.6.1). Takes time
    /// linear in the field's length.
    public func elements(of name: String) -> [String] {
        var elements: [String] = []
        forEachElement(of: name) { elements.append(text($0)) }
        return elements
    }

    private func forEachElement(of name: String, _ body: (Range<Int>) -> Void) {
        for entry in entries where matches(entry, name) {
            var start = entry.value.lowerBound
            while start < entry.value.upperBound {
                let rest = start..<entry.value.upperBound
                let end = bytes[rest].firstIndex(of: UInt8(ascii: ",")) ?? rest.upperBound
                let element = HTTPCharacter.trimmed(start..<end) { bytes[$0] }
                if !element.isEmpty { body(element) }
                start = end + 1
            }
        }
    }

    private func matches(_ entry: Entry, _ name: String) -> Bool {
        entry.name.count == name.utf8.count && Self.equalIgnoringCase(bytes[entry.name], name)
    }

    private static func equalIgnoringCase(_ bytes: ArraySlice<UInt8>, _ text: String) -> Bool {
        bytes.elementsEqual(text.utf8) {
            HTTPCharacter.lowercased($0) == HTTPCharacter.lowercased($1)
        }
    }

    private func text(_ range: Range<Int>) -> String {
        String(decoding: bytes[range], as: UTF8.self)
    }
}

extension HTTPFields: RandomAccessCollection {
    /// 0.
    public var startIndex: Int { 0 }
    /// The number of field lines.
    public var endIndex: Int { entries.count }
    /// One field line.
    public subscript(position: Int) -> (name: String, value: String) {
        (text(entries[position].name), text(entries[position].value))
    }
}

/// The character classes of HTTP's grammar.
enum HTTPCharacter {
    static let carriageReturn: UInt8 = 0x0D
    static let lineFeed: UInt8 = 0x0A

    /// A token character (RFC 9110 §5.6.2).
    static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "!"), UInt8(ascii: "#")...UInt8(ascii: "'"), UInt8(ascii: "*"),
            UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "^")...UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
            true
        default: byte.isASCIIAlphanumeric
        }
    }

    /// A space or a tab (RFC 9110 §5.6.3).
    static func isWhitespace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    /// Visible, space, tab or beyond ASCII (RFC 9110 §5.5).
    static func isFieldValue(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != 0x7F || byte == 0x09
    }

    /// A character of a target: visible ASCII except `#`, because fragments are never sent (RFC
    /// 9112 §3.2). Browsers do send `|` and `^`, which the URI grammar lacks.
    static func isTarget(_ byte: UInt8) -> Bool {
        byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: "#")
    }

    /// A character of a host (RFC 3986 §3.2.2). Not the comma, which joins fields, and not
    /// brackets, which `HTTPRequestParser` reads. The colon belongs to IPv6 addresses.
    static func isHost(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: ","): false
        case UInt8(ascii: "!"), UInt8(ascii: "$")...UInt8(ascii: "."), UInt8(ascii: ":"),
            UInt8(ascii: ";"), UInt8(ascii: "="), UInt8(ascii: "_"), UInt8(ascii: "~"):
            true
        default: byte.isASCIIAlphanumeric
        }
    }

    static func lowercased(_ byte: UInt8) -> UInt8 {
        byte >= UInt8(ascii: "A") && byte <= UInt8(ascii: "Z") ? byte | 0x20 : byte
    }

    /// The value of a hexadecimal digit, or nil.
    static func hexadecimalDigit(_ byte: UInt8) -> Int? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): Int(byte - UInt8(ascii: "0"))
        case UInt8(ascii: "a")...UInt8(ascii: "f"): Int(byte - UInt8(ascii: "a")) + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): Int(byte - UInt8(ascii: "A")) + 10
        default: nil
        }
    }

    /// The range without white space at either end.
    static func trimmed(_ range: Range<Int>, byte: (Int) -> UInt8) -> Range<Int> {
        var (start, end) = (range.lowerBound, range.upperBound)
        while start < end && isWhitespace(byte(start)) { start += 1 }
        while end > start && isWhitespace(byte(end - 1)) { end -= 1 }
        return start..<end
    }
}
