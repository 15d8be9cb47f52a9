// What another node answers, in pieces of any size: the head gets this node's fields, the rest is as it
// came, and the ends of a WebSocket's frames are known.

import Codec
import Testing

@testable import Server

@Suite struct RelayedAnswerTests {
    private static let fields: HTTPFields = {
        var fields = HTTPFields()
        fields.append("X-Added", "1")
        return fields
    }()
    private static let head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"

    /// What the client gets of a text that comes in pieces of a size.
    private func relay(_ text: String, by size: Int) throws -> (String, RelayedAnswer) {
        var answer = RelayedAnswer(adding: Self.fields)
        var output = ByteWriter(capacity: 64)
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            try Array(rest.prefix(size)).withUnsafeBytes { try answer.take($0, into: &output) }
            rest = rest.dropFirst(size)
        }
        return (String(decoding: output.copiedBytes, as: UTF8.self), answer)
    }

    @Test(arguments: [1, 2, 3, 5, 17, 40, 1_000])
    func theHeadGetsFieldsAndTheRestIsAsItCame(size: Int) throws {
        let (text, answer) = try relay(Self.head + "abc\r\n\r\n", by: size)
        #expect(
            text == "HTTP/1.1 200 OK\r\nX-Added: 1\r\nContent-Length: 3\r\n\r\nabc\r\n\r\n")
        #expect(answer.status == 200 && !answer.canBeClosed && answer.heldBytes == 0)
    }

    @Test func nothingIsSentBeforeTheWholeHead() throws {
        let (text, answer) = try relay("HTTP/1.1 200 OK\r\nA: b\r\n\r", by: 4)
        #expect(text.isEmpty && answer.status == nil && answer.heldBytes > 0)
    }

    @Test(arguments: [
        "\r\n\r\n", "HTTP/1.0 200 OK\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 2x0 O\r\n\r\n",
        "HTTP/1.1 2000 O\r\n\r\n", "HTTP/1.1\r\n\r\n", "xxxx\r\n\r\n",
        String(repeating: "a", count: RelayedAnswer.maxHeadBytes),
    ])
    func anythingElseIsNoAnswer(text: String) {
        for size in [1, 7, 100_000] {
            #expect(throws: MalformedAnswer.self) { try relay(text, by: size) }
        }
    }

    // MARK: Frames

    private static let upgraded = Array("HTTP/1.1 101 Switching Protocols\r\n\r\n".utf8)

    private func frame(_ opcode: WebSocketOpcode, _ count: Int, mask: UInt32? = nil) -> [UInt8] {
        var bytes = ByteWriter(capacity: count + 16)
        [UInt8](repeating: 0x88, count: count).withUnsafeBytes {
            WebSocketFrame.write(opcode, payload: $0, mask: mask, into: &bytes)
        }
        return bytes.copiedBytes
    }

    /// Whether a Close could be added after each byte.
    private func boundaries(_ frames: [UInt8]) throws -> [Bool] {
        var answer = RelayedAnswer(adding: HTTPFields())
        var output = ByteWriter(capacity: 64)
        try Self.upgraded.withUnsafeBytes { try answer.take($0, into: &output) }
        #expect(answer.canBeClosed)
        return try frames.map { byte in
            try withUnsafeBytes(of: byte) { try answer.take($0, into: &output) }
            return answer.canBeClosed
        }
    }

    @Test(arguments: [0, 1, 125, 126, 65_535, 65_536])
    func theEndOfEachFrameIsKnown(count: Int) throws {
        for mask in [nil, 7] as [UInt32?] {
            let one = frame(.text, count, mask: mask)
            let ends = try boundaries(one + one)
            let expected = ends.indices.filter { $0 == one.count - 1 || $0 == 2 * one.count - 1 }
            #expect(ends.indices.filter { ends[$0] } == expected)
        }
    }

    @Test func aCloseIsTheLastFrame() throws {
        #expect(try boundaries(frame(.ping, 3) + frame(.close, 2)).last == false)
    }

    @Test func framesInOnePieceAreCountedToo() throws {
        var answer = RelayedAnswer(adding: HTTPFields())
        var output = ByteWriter(capacity: 64)
        let all = Self.upgraded + frame(.text, 300) + frame(.binary, 70_000)
        try all.withUnsafeBytes { try answer.take($0, into: &output) }
        #expect(answer.canBeClosed && output.count == all.count)
        try [UInt8](frame(.text, 9).dropLast()).withUnsafeBytes {
            try answer.take($0, into: &output)
        }
        #expect(!answer.canBeClosed)
    }
}
