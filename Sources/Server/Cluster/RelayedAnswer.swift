// The answer of another node to a request that was passed on to it as a whole: its head, to which
// this node adds fields, and then bytes as they come. Pure; NodeRelay has the connection.
//
// Invariant: at most `maxHeadBytes` of a head are held, and nothing of what follows it. No byte of the
// other node changes anything here but the count of bytes until the next frame.

import Codec

/// The answer of another node is not valid.
struct MalformedAnswer: Error, Equatable {}

/// An answer that comes in pieces.
struct RelayedAnswer {
    /// The most bytes of a head. 8 KiB: this server's own heads have some hundred.
    static let maxHeadBytes = 8 << 10

    /// Fields that are added, such as those of CORS: the other node does not know the page that asks.
    private let fields: HTTPFields
    private var head: [UInt8] = []
    private var frames = FrameBoundaries()
    /// The status; nil until the whole head is there.
    private(set) var status: Int?

    init(adding fields: HTTPFields) { self.fields = fields }

    /// Heap bytes of the answer.
    var heldBytes: Int { head.heapBytes }

    /// Whether a Close may be added: the client has a WebSocket, whose last frame is whole and no
    /// Close.
    var canBeClosed: Bool { status == 101 && frames.isAtBoundary && !frames.hasClosed }

    /// Takes bytes of the other node.
    /// - Parameter bytes: get the bytes for the client.
    mutating func take(
        _ input: UnsafeRawBufferPointer, into bytes: inout ByteWriter
    ) throws(MalformedAnswer) {
        guard status == nil else {
            if status == 101 { frames.advance(over: input) }
            return bytes.append(input)
        }
        // The end may have begun in the bytes before.
        let start = max(0, head.count - 3)
        let room = Self.maxHeadBytes - head.count
        let known = head.count
        head.append(contentsOf: input.prefix(room))
        guard let end = Self.end(in: head, from: start) else {
            guard input.count < room else { throw MalformedAnswer() }
            return
        }
        guard let status = Self.status(in: head) else { throw MalformedAnswer() }
        writeHead(upTo: end, into: &bytes)
        self.status = status
        head = []
        let rest = UnsafeRawBufferPointer(rebasing: input[(end - known)...])
        if !rest.isEmpty { try take(rest, into: &bytes) }
    }

    private func writeHead(upTo end: Int, into bytes: inout ByteWriter) {
        let line = (head.firstIndex(of: UInt8(ascii: "\n")) ?? 0) + 1
        head.withUnsafeBytes { head in
            bytes.append(UnsafeRawBufferPointer(rebasing: head[..<line]))
            HTTPResponseHead.writeFields(fields, into: &bytes)
            bytes.append(UnsafeRawBufferPointer(rebasing: head[line..<end]))
        }
    }

    /// Where the body begins.
    private static func end(in head: [UInt8], from start: Int) -> Int? {
        guard head.count >= 4 else { return nil }
        return (start...head.count - 4).first {
            head[$0] == 0x0D && head[$0 + 1] == 0x0A && head[$0 + 2] == 0x0D
                && head[$0 + 3] == 0x0A
        }.map { $0 + 4 }
    }

    /// The status of `HTTP/1.1 204 …`.
    private static func status(in head: [UInt8]) -> Int? {
        let words = head.prefix { $0 != 0x0D }.split(separator: 0x20, maxSplits: 2)
        guard words.count >= 2, words[0].elementsEqual("HTTP/1.1".utf8), words[1].count == 3,
            let status = Int(String(decoding: words[1], as: UTF8.self)), status > 100
        else { return nil }
        return status
    }
}

/// Where the frames of a WebSocket end (RFC 6455 §5.2), by their headers alone.
struct FrameBoundaries {
    private var headerBytes = 0
    private var lengthBytes = 0
    private var maskBytes = 0
    private var length: UInt64 = 0
    private var payloadLeft: UInt64 = 0
    private var isClose = false
    /// Whether a Close has come.
    private(set) var hasClosed = false

    /// Whether the last frame is whole.
    var isAtBoundary: Bool { headerBytes == 0 && payloadLeft == 0 }

    /// Takes the next bytes.
    mutating func advance(over bytes: UnsafeRawBufferPointer) {
        var rest = bytes[...]
        while let byte = rest.first {
            if payloadLeft > 0 {
                let count = Int(min(UInt64(rest.count), payloadLeft))
                payloadLeft -= UInt64(count)
                rest = rest.dropFirst(count)
            } else {
                rest = rest.dropFirst()
                takeHeader(byte)
            }
        }
    }

    private mutating func takeHeader(_ byte: UInt8) {
        switch headerBytes {
        case 0: isClose = byte & 0x0F == WebSocketOpcode.close.rawValue
        case 1:
            let short = byte & 0x7F
            lengthBytes = short == 126 ? 2 : short == 127 ? 8 : 0
            maskBytes = byte & 0x80 == 0 ? 0 : 4
            length = lengthBytes == 0 ? UInt64(short) : 0
        case 2..<(2 + lengthBytes): length = length << 8 | UInt64(byte)
        // The mask.
        default: break
        }
        headerBytes += 1
        guard headerBytes >= 2, headerBytes == 2 + lengthBytes + maskBytes else { return }
        headerBytes = 0
        payloadLeft = length
        hasClosed = hasClosed || isClose
    }
}
