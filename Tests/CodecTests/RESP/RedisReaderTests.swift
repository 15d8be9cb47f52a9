// Replies of a Redis server: every kind of value, in any pieces, and streams that are no RESP2.

import Codec
import Testing

struct RedisReaderTests {
    private enum Outcome: Equatable {
        case value(RedisValue)
        case failure(RedisProtocolError)
    }

    private func read(_ pieces: [[UInt8]], maxReplyBytes: Int = 1 << 20) -> [Outcome] {
        let reader = RedisReader(maxReplyBytes: maxReplyBytes)
        var outcomes: [Outcome] = []
        do throws(RedisProtocolError) {
            for piece in pieces {
                try feed(piece, to: reader)
                while let value = try reader.next() { outcomes.append(.value(value)) }
            }
        } catch {
            outcomes.append(.failure(error))
        }
        return outcomes
    }

    private func feed(_ piece: [UInt8], to reader: RedisReader) throws(RedisProtocolError) {
        var failure: RedisProtocolError?
        piece.withUnsafeBytes { bytes in
            do throws(RedisProtocolError) { try reader.feed(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    @Test(
        "every kind of value, whatever the pieces",
        arguments: [
            ("+OK\r\n", .simple("OK")), ("-ERR no such thing\r\n", .error("ERR no such thing")),
            (":-42\r\n", .integer(-42)), ("$5\r\na\r\nbc\r\n", .bulk(Array("a\r\nbc".utf8))),
            ("$0\r\n\r\n", .bulk([])), ("$-1\r\n", .null), ("*-1\r\n", .null),
            ("*0\r\n", .array([])),
            (
                "*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n$-1\r\n",
                .array([.integer(1), .array([.bulk([97]), .array([])]), .null])
            ),
        ] as [(String, RedisValue)])
    func values(stream: String, value: RedisValue) {
        let twice = Array((stream + stream).utf8)
        let outcomes = expectChunkInvariant(twice) { read($0) }
        #expect(outcomes == [.value(value), .value(value)])
    }

    @Test(
        "a stream that is no RESP2 is an error, and so is everything after it",
        arguments: ["hello\r\n", "$-2\r\n", "*-2\r\n", "$x\r\n", "*x\r\n", "\u{0}\r\n"])
    func malformed(stream: String) {
        for tail in ["", "+OK\r\n"] {
            let outcomes = read([Array((stream + tail).utf8)])
            guard outcomes.count == 1, case .failure(.malformed)? = outcomes.first else {
                Issue.record("\(stream.debugDescription) gives \(outcomes)")
                continue
            }
        }
        let reader = RedisReader()
        #expect(throws: RedisProtocolError.self) {
            try feed(Array(stream.utf8), to: reader)
            _ = try reader.next()
        }
        #expect(throws: RedisProtocolError.self) { try feed(Array("+OK\r\n".utf8), to: reader) }
    }

    @Test("arrays in arrays end at a depth that the reader bounds")
    func depth() {
        let deep = String(repeating: "*1\r\n", count: 100) + ":1\r\n"
        guard case .failure(.malformed)? = read([Array(deep.utf8)]).last else {
            Issue.record("a hundred arrays in each other were read")
            return
        }
    }

    @Test(
        "a reply that is too long is an error before it is held",
        arguments: [
            "$2000\r\n" + String(repeating: "a", count: 1_200),
            "*1000000\r\n:1\r\n", "+" + String(repeating: "a", count: 1_200),
            "*100\r\n" + String(repeating: ":1\r\n", count: 100),
        ])
    func tooLong(stream: String) {
        let outcomes = read(stream.utf8.map { [$0] }, maxReplyBytes: 1_000)
        #expect(outcomes == [.failure(.tooLong)])
    }

    @Test("a reader holds nothing of complete replies")
    func heldBytes() throws {
        let reader = RedisReader()
        try feed(Array("+OK\r\n*2\r\n:1\r\n".utf8), to: reader)
        #expect(try reader.next() == .simple("OK"))
        #expect(try reader.next() == nil)
        #expect(reader.heldBytes > 0)
        try feed(Array(":2\r\n".utf8), to: reader)
        #expect(try reader.next() == .array([.integer(1), .integer(2)]))
        #expect(try reader.next() == nil)
        #expect(reader.heldBytes == 0)
    }

    @Test("names and values in turn are fields; anything else is none")
    func fields() {
        let fields = RedisValue.array([.bulk(Array("a".utf8)), .bulk([1, 2])])
        #expect(fields.fields == ["a": [1, 2]])
        #expect(RedisValue.array([.bulk([97])]).fields == nil)
        #expect(RedisValue.array([.integer(1), .bulk([])]).fields == nil)
        #expect(RedisValue.null.fields == nil)
    }
}
