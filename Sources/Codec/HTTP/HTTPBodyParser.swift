// The body of an HTTP message: how its end is determined, and the chunked coding (RFC 9112 §6-7).
// Chunk extensions and trailer fields are checked and dropped: no route uses them, and RFC 9110
// §6.5.1 forbids treating trailers as fields of the head.
//
// Invariant: at most `maxBodyBytes` of input are accepted, framing included.

/// How the end of a body is determined.
enum HTTPBodyFraming: Equatable, Sendable {
    /// A byte count; 0 for no body.
    case length(Int)
    /// In chunks, of which the last is empty.
    case chunked
    /// A response body that ends when its connection closes.
    case untilClose

    /// The value of Content-Length.
    /// - Returns: nil if there is none.
    static func contentLength(of fields: HTTPFields) throws(HTTPError) -> Int? {
        guard fields.count(of: "Content-Length") <= 1 else { throw .duplicateContentLength }
        guard let text = fields["Content-Length"] else { return nil }
        guard !text.isEmpty, text.utf8.allSatisfy(\.isASCIIDigit) else {
            throw .invalidContentLength
        }
        // A number that does not fit in Int is still a number: one beyond every limit.
        guard let length = Int(text) else { throw .bodyTooLarge }
        return length
    }

    /// Whether Transfer-Encoding says that the message is chunked.
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

/// Parses one body.
struct HTTPBodyParser: Sendable {
    private enum State {
        /// At a chunk's size line. Next: `data`, `trailer`.
        case chunkSize
        /// At the data of a chunk, this many bytes, which CR LF follows. Next: `chunkSize`.
        case data(Int)
        /// After the last chunk, with this many trailer fields read.
        case trailer(fields: Int)
    }

    /// Maximum bytes of a chunk's size line, extensions included. Clients send no extensions, so
    /// more is padding.
    private static let maxChunkLineBytes = 256

    private let framing: HTTPBodyFraming
    private let start: Int
    private let limits: HTTPLimits
    private var state = State.chunkSize
    private var lines: HTTPLineScanner
    /// The decoded chunks so far.
    private var decoded: [UInt8] = []

    /// - Parameter start: the offset of the body in the input.
    /// - Throws: `bodyTooLarge` if the framing already exceeds the limit.
    init(framing: HTTPBodyFraming, start: Int, limits: HTTPLimits) throws(HTTPError) {
        if case .length(let length) = framing, length > limits.maxBodyBytes { throw .bodyTooLarge }
        self.framing = framing
        self.start = start
        self.limits = limits
        lines = HTTPLineScanner(position: start)
    }

    /// Parses more of the body.
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

    /// The body, when the connection has closed.
    /// - Throws: `truncatedMessage` unless closing ends this body.
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
            // Beyond 2^59 the next digit would overflow. Every limit is far below.
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
