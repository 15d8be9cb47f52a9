// Connections of a server and of a client on valid streams: whole and fragmented messages, control
// frames between them, the closing handshake, and how much is held and copied.

import Codec
import TestMaterial
import Testing

@Suite struct WebSocketConnectionTests {
    /// A stream and the events that it carries.
    struct Stream: Sendable {
        let bytes: [UInt8]
        let events: [Received]

        init(_ events: Received..., from parts: [[UInt8]]) {
            bytes = Array(parts.joined())
            self.events = events
        }
    }

    private static let longest = [UInt8](repeating: 0xFF, count: 125)
    private static let longReason = String(repeating: "r", count: 123)

    static let streams: [Stream] = [
        Stream(.text("Hello"), from: [frame(0x81, bytes("Hello"))]),
        Stream(.text(""), from: [frame(0x81, [])]),
        Stream(.binary([]), from: [frame(0x82, [])]),
        Stream(.binary([0xFF, 0x00, 0x80]), from: [frame(0x82, [0xFF, 0x00, 0x80])]),
        Stream(.text("ü🎧"), from: [frame(0x81, bytes("ü🎧"), mask: [0, 0, 0, 0])]),
        // Fragments: text split inside a character, empty ones, an empty last one.
        Stream(
            .text("🎧!"),
            from: [frame(0x01, [0xF0, 0x9F]), frame(0x00, [0x8E]), frame(0x80, [0xA7, 0x21])]),
        Stream(.text(""), from: [frame(0x01, []), frame(0x00, []), frame(0x80, [])]),
        Stream(
            .binary([1, 2, 3]), from: [frame(0x02, [1]), frame(0x00, []), frame(0x80, [2, 3])]),
        Stream(.text("a"), from: [frame(0x01, bytes("a")), frame(0x80, [])]),
        // A fragment of a binary message is not checked as text, and does not affect the next text.
        Stream(
            .binary([0xC3, 0x28]), .text("é"),
            from: [frame(0x02, [0xC3]), frame(0x80, [0x28]), frame(0x81, bytes("é"))]),
        // Control frames between fragments, of 0 and of 125 bytes.
        Stream(
            .ping([]), .pong(longest), .text("aü"),
            from: [
                frame(0x01, bytes("a")), frame(0x89, []), frame(0x00, [0xC3]),
                frame(0x8A, longest), frame(0x80, [0xBC]),
            ]),
        Stream(
            .ping([1]), .ping([2]), .binary([3]),
            from: [frame(0x89, [1]), frame(0x89, [2]), frame(0x82, [3])]),
        // Close: without a payload, with a code, with a reason; inside a message; the last event.
        Stream(.close(nil, ""), from: [frame(0x88, [])]),
        Stream(
            .close(1000, ""), from: [frame(0x88, closePayload(1000)), frame(0x81, bytes("late"))]),
        Stream(
            .close(1001, "tschüß"),
            from: [frame(0x01, bytes("half")), frame(0x88, closePayload(1001, "tschüß"))]),
        Stream(
            .close(4999, longReason),
            from: [frame(0x88, closePayload(4999, longReason)), [0xFF, 0xFF]]),
        // Autobahn 7.1.3: after the peer's Close, only the Close is answered.
        Stream(.close(1000, ""), from: [frame(0x88, closePayload(1000)), frame(0x89, [])]),
    ]

    @Test(arguments: streams)
    func receives(stream: Stream) {
        #expect(expectChunkInvariant(stream.bytes) { receive($0) } == stream.events)
    }

    static let closeCodes: [UInt16] = [
        1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000,
        4999,
    ]

    @Test(arguments: closeCodes)
    func acceptsEveryValidCloseCode(code: UInt16) {
        #expect(receive([frame(0x88, closePayload(code))]) == [.close(code, "")])
    }

    @Test(arguments: [0, 1, 7, 8, 31, 32, 33, 125, 126, 127, 128, 1000, 65535, 65536, 131_072])
    func receivesEveryLengthInBothRoles(count: Int) {
        var generator = SeededGenerator(seed: UInt64(count))
        let payload = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
        let text = String(decoding: payload.map { $0 & 0x7F }, as: UTF8.self)
        for (role, mask) in [(WebSocketRole.server, testMask), (.client, nil)] {
            let stream = frame(0x82, payload, mask: mask) + frame(0x81, bytes(text), mask: mask)
            let outcome = expectChunkInvariant(stream) { receive($0, role: role) }
            #expect(outcome == [.binary(payload), .text(text)])
        }
    }

    @Test func receivesManyMessagesFromOneRead() {
        let messages = (0..<500).map { String(repeating: "é", count: $0 % 150) }
        let stream = messages.flatMap { frame(0x81, bytes($0)) }
        #expect(expectChunkInvariant(stream) { receive($0) } == messages.map { .text($0) })
    }

    @Test func aWholeMessageIsHandedOutWhereItLies() throws {
        var connection = WebSocketConnection(role: .server)
        var read = frame(0x82, [1, 2, 3]) + frame(0x81, bytes("hello"))
        try read.withUnsafeMutableBytes { buffer in
            var input = buffer
            guard case .binary(let first) = try connection.next(&input),
                case .text(let second) = try connection.next(&input)
            else {
                Issue.record("Two messages were expected.")
                return
            }
            #expect(first.baseAddress == buffer.baseAddress.map { UnsafeRawPointer($0 + 6) })
            #expect(second.baseAddress == buffer.baseAddress.map { UnsafeRawPointer($0 + 15) })
            let held = connection.heldBytes
            #expect(held == 0 && input.isEmpty)
        }
    }

    @Test func holdsMemoryOnlyWhileAMessageIsIncomplete() {
        var connection = WebSocketConnection(role: .server)
        let payload = [UInt8](repeating: 9, count: 300)
        let stream = frame(0x82, payload)
        #expect(feed(&connection, Array(stream[..<3])) == [])
        #expect(held(connection) == 0, "A partial header is kept inline.")
        #expect(feed(&connection, Array(stream[3..<100])) == [])
        #expect(held(connection) == 300, "What is known to suffice is allocated, not more.")
        #expect(feed(&connection, Array(stream[100...])) == [.binary(payload)])
        #expect(held(connection) == 0)
        #expect(
            feed(&connection, frame(0x02, payload) + Array(frame(0x89, [1, 2]).dropLast())) == [])
        #expect(held(connection) > 0)
        #expect(feed(&connection, [2 ^ testMask[1]]) == [.ping([1, 2])])
        #expect(feed(&connection, frame(0x80, [])) == [.binary(payload)])
        #expect(held(connection) == 0)
    }

    @Test func growsWithAMessageByDoubling() {
        var connection = WebSocketConnection(role: .server)
        let payload = [UInt8](repeating: 9, count: 100_000)
        let stream = frame(0x82, payload)
        var sizes: Set<Int> = []
        for start in stride(from: 0, to: stream.count - 100, by: 100) {
            #expect(feed(&connection, Array(stream[start..<start + 100])) == [])
            sizes.insert(connection.heldBytes)
            #expect(held(connection) <= max(1024, 2 * (start + 100)))
        }
        #expect(sizes.count < 12)
        #expect(held(connection) == 100_000)
    }

    /// With small fragments too: memory for exactly one fragment would be copied with each.
    @Test func growsWithFragmentsByDoubling() {
        var connection = WebSocketConnection(role: .server)
        let payload = [UInt8](repeating: 9, count: 100)
        var sizes: Set<Int> = []
        for number in 0..<2_000 {
            #expect(feed(&connection, frame(number == 0 ? 0x02 : 0x00, payload)) == [])
            sizes.insert(connection.heldBytes)
            #expect(held(connection) <= max(1024, 2 * (number + 1) * 100))
        }
        #expect(sizes.count < 12)
    }

    /// `#expect` cannot use a noncopyable value directly.
    private func held(_ connection: borrowing WebSocketConnection) -> Int { connection.heldBytes }

    // MARK: Input of the owner's budgets

    @Test func countsTinyFragmentsSinceTheLastCall() {
        var connection = WebSocketConnection(role: .server)
        var counts: [Int] = []
        let tiny = [UInt8](repeating: 32, count: 31)
        let whole = tiny + [32]
        for read in [
            frame(0x81, []) + frame(0x81, tiny), frame(0x89, []), frame(0x01, whole),
            frame(0x00, tiny) + frame(0x00, []) + frame(0x00, whole), frame(0x80, []),
            frame(0x02, tiny) + frame(0x80, tiny),
        ] {
            _ = feed(&connection, read)
            counts.append(connection.takeProgress().tinyFragments)
        }
        #expect(counts == [0, 0, 0, 2, 0, 1], "neither whole messages nor the last fragment")
    }

    @Test func knowsWhetherSomethingIsUnfinished() {
        var connection = WebSocketConnection(role: .server)
        var isMidMessage = connection.isMidMessage
        #expect(!isMidMessage)
        let bytes = frame(0x01, [65]) + frame(0x89, [1]) + frame(0x80, [66])
        for (offset, byte) in bytes.enumerated() {
            let events = feed(&connection, [byte])
            isMidMessage = connection.isMidMessage
            #expect(isMidMessage == (offset + 1 < bytes.count))
            #expect(events.count == (offset == 13 || offset + 1 == bytes.count ? 1 : 0))
        }
    }
}
