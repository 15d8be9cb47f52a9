// The lines of an HTTP head: where they end, and which fields they hold (RFC 9112 §2, §5). The
// parsers of requests and responses interpret start lines and fields.
//
// Invariant: a byte is read once to find line ends and once more when its line is complete, however
// the input was split. The result depends on the bytes alone.

import Glibc

/// Finds lines in a growing input. The caller passes the whole input each time.
struct HTTPLineScanner: Sendable {
    /// Offset at which the next line begins.
    private(set) var position: Int
    /// There is no line feed between `position` and this offset.
    private var scanned: Int

    init(position: Int) {
        self.position = position
        scanned = position
    }

    /// Finds the next line.
    /// - Parameters:
    ///   - limit: the offset that the line, its CR LF included, must not exceed.
    ///   - excess: the error thrown if it does.
    /// - Returns: the line without its CR LF, or nil if the input ends first.
    mutating func nextLine(
        in input: UnsafeRawBufferPointer, limit: Int, excess: HTTPError
    ) throws(HTTPError) -> Range<Int>? {
        let end = min(input.count, limit)
        if end > scanned, let base = input.baseAddress,
            let found = memchr(base + scanned, Int32(HTTPCharacter.lineFeed), end - scanned)
        {
            let feed = UnsafeRawPointer(found) - base
            guard feed > position && input[feed - 1] == HTTPCharacter.carriageReturn else {
                throw .bareLineFeed
            }
            let line = position..<feed - 1
            advance(to: feed + 1)
            return line
        }
        scanned = max(scanned, end)
        guard input.count < limit else { throw excess }
        return nil
    }

    /// Moves to the given offset, where the next line begins.
    mutating func advance(to position: Int) {
        self.position = position
        scanned = position
    }
}

/// Parses the start line and the fields of one head.
struct HTTPHeadParser: Sendable {
    private let start: Int
    private let limits: HTTPLimits
    private var lines: HTTPLineScanner
    private var isFirstLine = true
    /// Range of the start line without its CR LF; nil until it has arrived.
    private(set) var startLine: Range<Int>?
    /// The fields so far, as offsets from the head's start.
    private var entries: [HTTPFields.Entry] = []

    /// - Parameter start: the offset of the head in the input.
    init(start: Int, limits: HTTPLimits) {
        self.start = start
        self.limits = limits
        lines = HTTPLineScanner(position: start)
    }

    /// Parses more of the head.
    /// - Parameter onStartLine: checks the start line as soon as it is complete, before any field.
    /// - Returns: the fields and the offset after the head, or nil if the input ends first.
    mutating func parse(
        _ input: UnsafeRawBufferPointer,
        onStartLine: (Range<Int>) throws(HTTPError) -> Void
    ) throws(HTTPError) -> (fields: HTTPFields, end: Int)? {
        while true {
            let isStart = startLine == nil
            let line = try lines.nextLine(
                in: input,
                limit: start + (isStart ? limits.maxStartLineBytes : limits.maxHeaderBytes),
                excess: isStart ? .targetTooLong : .headTooLarge)
            guard let line else { return nil }
            if isStart {
                // Empty lines before a request must be ignored; one is (RFC 9112 §2.2).
                let isIgnored = isFirstLine && line.isEmpty
                isFirstLine = false
                if isIgnored { continue }
                try onStartLine(line)
                startLine = line
            } else if line.isEmpty {
                let head = UnsafeRawBufferPointer(rebasing: input[start..<lines.position])
                return (HTTPFields(bytes: Array(head), entries: entries), lines.position)
            } else {
                guard entries.count < limits.maxHeaderFields else { throw .tooManyFields }
                entries.append(try Self.parseField(line, in: input, origin: start))
            }
        }
    }

    /// Checks a field line (RFC 9112 §5).
    /// - Parameter origin: the offset from which the result's offsets count.
    static func parseField(
        _ line: Range<Int>, in input: UnsafeRawBufferPointer, origin: Int
    ) throws(HTTPError) -> HTTPFields.Entry {
        guard !HTTPCharacter.isWhitespace(input[line.lowerBound]) else {
            throw .obsoleteLineFolding
        }
        var colon = line.lowerBound
        while colon < line.upperBound && HTTPCharacter.isToken(input[colon]) { colon += 1 }
        guard colon < line.upperBound else { throw .missingColon }
        guard !HTTPCharacter.isWhitespace(input[colon]) else { throw .whitespaceBeforeColon }
        guard input[colon] == UInt8(ascii: ":") && colon > line.lowerBound else {
            throw .invalidFieldName
        }
        let value = HTTPCharacter.trimmed(colon + 1..<line.upperBound) { input[$0] }
        for index in value {
            guard HTTPCharacter.isFieldValue(input[index]) else { throw .invalidFieldValue }
        }
        return HTTPFields.Entry(
            name: line.lowerBound - origin..<colon - origin,
            value: value.lowerBound - origin..<value.upperBound - origin)
    }
}
