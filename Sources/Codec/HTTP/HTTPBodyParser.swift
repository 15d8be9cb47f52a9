// The body of an HTTP message: how its end is known, and the chunked coding (RFC 9112 §6-7).
// Chunk extensions and trailer fields are checked and dropped: no route uses them, and RFC 9110
// §6.5.1 forbids to treat them as part of the head.
// Invariant: no more than `maxBodyBytes` of input are accepted, framing included.

/// How the end of a body is known.
enum HTTPBodyFraming: Equatable, Sendable {
    /// A number of bytes; 0 for no body.
    case length(Int)
    /// In chunks, the last of which is empty.
    case chunked
    /// A response that lasts as long as its connection.
    case untilClose

    /// What Content-Length says.
    /// - Returns: nil if there is none.
    static func contentLength(of fields: HTTPFields) throws(HTTPError) -> Int? {
        guard fields.count(of: "Content-Length") <= 1 else { throw .duplicateContentLength }
        guard let text = fields["Content-Length"] else { return nil }
        guard !text.isEmpty, text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else {
            throw .invalidContentLength
        }
        // Digits that fit no Int are a number all the same: one beyond every limit.
        guard let length = Int(text) else { throw .bodyTooLarge }
        return length
    }

    /// Whether the message is chunked by its Transfer-Encoding.
    static func isChunked(_ fields: HTTPFields, version: HTTPVersion) throws(HTTPError) -> Bool {
        guard fields.count(of: "Transfer-Encoding") > 0 else { return false }
        guard version == .http11 else { throw .transferCodingInHTTP10 }
        guard fields.count(of: "Content-Length") == 0 else { throw .conflictingFraming }
        let codings = fields.elements(of: "Transfer-Encoding")
        guard let last = codings.last, last.lowercased() == "chunked" else {
            throw .unframedTransferCoding
        }
        guard codings.count == 1 else { throw .unsupportedTransferCoding }
        return true
    }
}

/// Collects one body.
struct HTTPBodyParser: Sendable {
    private enum State {
        /// At a chunk's size line. Next: `data`, `trailer`.
        case chunkSize
        /// At so many bytes of a chunk and their CR LF. Next: `chunkSize`.
        case data(Int)
        /// After the last chunk, with so many fields seen.
        case trailer(fields: Int)
    }

    /// A chunk's size line, extensions included; nobody sends them, so the rest is padding.
    private static let maxChunkLineBytes = 256

    private let framing: HTTPBodyFraming
    private let start: Int
    private let limits: HTTPLimits
    private var state = State.chunkSize
    private var lines: HTTPLineScanner
    /// The chunks so far.
    private var decoded: [UInt8] = []

    /// - Parameter start: the offset of the body in the input.
    /// - Throws: `bodyTooLarge` if the framing says so already.
    init(framing: HTTPBodyFraming, start: Int, limits: HTTPLimits) throws(HTTPError) {
        if case .length(let length) = framing, length > limits.maxBodyBytes { throw .bodyTooLarge }
        self.framing = framing
        self.start = start
        self.limits = limits
        lines = HTTPLineScanner(position: start)
    }

    /// Looks for the body's end.
    /// - Returns: the body and the offset after it, or nil if the input ends first.
    mutating func parse(
        _ input: UnsafeRawBufferPointer
    ) throws(HTTPError) -> (body: [UInt8], end: Int)? {
        switch framing {
        case .length(let length):
            guard input.count - start >= length else { return nil }
            return (Array(input[start..<start + length]), start + length)
        case .chunked:
            return try parseChunks(input)
        case .untilClose:
            guard input.count - start <= limits.maxBodyBytes else { throw .bodyTooLarge }
            return nil
        }
    }

    /// The body when the connection has ended.
    /// - Throws: `truncatedMessage` unless that is how the body ends.
    func finish(_ input: UnsafeRawBufferPointer) throws(HTTPError) -> [UInt8] {
        guard framing == .untilClose else { throw .truncatedMessage }
        return Array(input[start...])
    }

    private var end: Int { start + limits.maxBodyBytes }

    private mutating func parseChunks(
        _ input: UnsafeRawBufferPointer
    ) throws(HTTPError) -> (body: [UInt8], end: Int)? {
        while true {
            switch state {
            case .chunkSize:
                let lineEnd = lines.position + Self.maxChunkLineBytes
                let line = try lines.nextLine(in: input, limit: lineEnd, excess: .invalidChunkSize)
                guard let line else { return nil }
                let size = try Self.parseChunkSize(line, in: input)
                guard size <= end - lines.position - 2 else { throw .bodyTooLarge }
                state = size == 0 ? .trailer(fields: 0) : .data(size)
            case .data(let size):
                let dataEnd = lines.position + size
                guard input.count >= dataEnd + 2 else { return nil }
                guard input[dataEnd] == HTTPCharacter.carriageReturn,
                    input[dataEnd + 1] == HTTPCharacter.lineFeed
                else { throw .invalidChunkEnd }
                decoded += input[lines.position..<dataEnd]
                lines.advance(to: dataEnd + 2)
                state = .chunkSize
            case .trailer(let fields):
                let line = try lines.nextLine(in: input, limit: end, excess: .bodyTooLarge)
                guard let line else { return nil }
                guard !line.isEmpty else { return (decoded, lines.position) }
                guard fields < limits.maxHeaderFields else { throw .tooManyFields }
                _ = try HTTPHeadParser.parseField(line, in: input, origin: start)
                state = .trailer(fields: fields + 1)
            }
        }
    }

    /// Reads `1*HEXDIG [ chunk-ext ]` (RFC 9112 §7.1).
    private static func parseChunkSize(
        _ line: Range<Int>, in input: UnsafeRawBufferPointer
    ) throws(HTTPError) -> Int {
        var size = 0
        var index = line.lowerBound
        while index < line.upperBound, let digit = HTTPCharacter.hexadecimalDigit(input[index]) {
            // Past 2^59 the next digit would overflow; every limit is far below.
            guard size < 1 << 59 else { throw .bodyTooLarge }
            size = size << 4 | digit
            index += 1
        }
        guard index > line.lowerBound else { throw .invalidChunkSize }
        let extensions = HTTPCharacter.trimmed(index..<line.upperBound) { input[$0] }
        guard !extensions.isEmpty else { return size }
        guard input[extensions.lowerBound] == UInt8(ascii: ";") else { throw .invalidChunkSize }
        for index in extensions {
            guard HTTPCharacter.isFieldValue(input[index]) else { throw .invalidChunkSize }
        }
        return size
    }
}
