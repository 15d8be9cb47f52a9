// The lines of an HTTP head: where they end and what the fields among them are (RFC 9112 §2, §5).
// What a start line or a field means is up to the request's and the response's parsers.
// Invariant: a byte is searched for line ends once, and looked at once more when its line is
// complete, whatever the reads; the verdict depends on the bytes alone and not on how they came.

import Glibc

/// Finds the lines of a growing input, which the caller presents whole each time.
struct HTTPLineScanner: Sendable {
    /// Where the line begins that is looked for.
    private(set) var position: Int
    /// No line feed lies between `position` and here.
    private var scanned: Int

    init(position: Int) {
        self.position = position
        scanned = position
    }

    /// Finds the next line.
    /// - Parameters:
    ///   - limit: the offset that the line, its CR LF included, may not exceed.
    ///   - excess: what to throw if it does.
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

    /// Skips to where the next line begins.
    mutating func advance(to position: Int) {
        self.position = position
        scanned = position
    }
}

/// Collects the start line and the fields of one head.
struct HTTPHeadParser: Sendable {
    private let start: Int
    private let limits: HTTPLimits
    private var lines: HTTPLineScanner
    private var isFirstLine = true
    /// Where the start line lies, once it has come, without CR LF.
    private(set) var startLine: Range<Int>?
    /// The fields so far, as offsets from the head's start.
    private var entries: [HTTPFields.Entry] = []

    /// - Parameter start: the offset of the head in the input.
    init(start: Int, limits: HTTPLimits) {
        self.start = start
        self.limits = limits
        lines = HTTPLineScanner(position: start)
    }

    /// Looks for the head's end.
    /// - Parameter onStartLine: checks the start line, as soon as it has come and before any field.
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
                // One empty line before a request is to be ignored (RFC 9112 §2.2).
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
    /// - Parameter origin: the offset that the result's offsets count from.
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
