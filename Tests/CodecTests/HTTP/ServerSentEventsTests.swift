// Event streams by WHATWG HTML §9.2.6, including the standard's own examples.

import Codec
import Testing

private struct Outcome: Equatable {
    var events: [ServerSentEvent] = []
    var hasFailed = false
}

private func parse(_ pieces: [[UInt8]], maxEventBytes: Int = 1024) -> Outcome {
    var parser = ServerSentEventsParser(maxEventBytes: maxEventBytes)
    var outcome = Outcome()
    do {
        for piece in pieces {
            try piece.withUnsafeBytes { try parser.append($0) { outcome.events.append($0) } }
        }
    } catch {
        outcome.hasFailed = error as? ServerSentEventsError == .eventTooLarge
    }
    return outcome
}

private func event(_ data: String, type: String = "message") -> ServerSentEvent {
    ServerSentEvent(type: type, data: data)
}

@Suite struct ServerSentEventsTests {
    static let streams: [(stream: String, events: [ServerSentEvent])] = [
        // The standard's examples.
        ("data: YHOO\ndata: +2\ndata: 10\n\n", [event("YHOO\n+2\n10")]),
        (
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\n"
                + "data:  third event\n\n",
            [event("first event"), event("second event"), event(" third event")]
        ),
        ("data\n\ndata\ndata\n\ndata:", [event(""), event("\n")]),
        ("data:test\n\ndata: test\n\n", [event("test"), event("test")]),
        // Every kind of line end, and mixtures.
        (
            "data: a\r\n\r\ndata: b\r\rdata: c\n\ndata: d\r\n\ndata: e\n\r",
            ["a", "b", "c", "d", "e"]
                .map { event($0) }
        ),
        ("data: a\r\ndata: b\r\n\r\n", [event("a\nb")]),
        // A byte order mark counts only at the very start.
        ("\u{FEFF}data: a\n\n\u{FEFF}data: b\n\n", [event("a")]),
        // A type applies to one event. Without data there is no event.
        (
            "event: delta\ndata: x\n\ndata: y\n\nevent: lost\n\ndata: z\n\n",
            [event("x", type: "delta"), event("y"), event("z")]
        ),
        // Reconnection fields, unknown fields, other letter cases and comments are ignored.
        ("id: 7\nretry: 1500\ndata: x\nid\nretry: x\n\n", [event("x")]),
        ("Data: a\nfoo: b\n:data: c\n data: d\ndata: e\n\n", [event("e")]),
        (
            "data: {\"a\": \"ü: 🎧\"}\n\ndata: [DONE]\n\n",
            [event("{\"a\": \"ü: 🎧\"}"), event("[DONE]")]
        ),
        // An event that the end of the stream cuts off is dropped.
        ("data: a\n\ndata: b\n", [event("a")]),
        ("\n\n\r\r\r\n", []),
    ]

    @Test(arguments: streams)
    func splitsAStream(stream: String, events: [ServerSentEvent]) {
        #expect(expectChunkInvariant(bytes(stream)) { parse($0) } == Outcome(events: events))
    }

    @Test func replacesWhatIsNotUTF8() {
        let stream = bytes("data: a") + [0xFF, 0xC3] + bytes("\n\n")
        let outcome = expectChunkInvariant(stream) { parse($0) }
        #expect(outcome.events == [event("a\u{FFFD}\u{FFFD}")])
    }

    @Test(arguments: [
        ("data: 0123456789\n\n", false), ("data: 01234567890\n\n", true),
        ("0123456789ABCDEFG", true),
        (":23456789ABCDEF\r\n:23456789ABCDEF\n\n", false),
        ("data: a\n\ndata: 0123\ndata: 4567\n\n", false),
        ("data: 0123\ndata: 45678\ndata:\n\n", false),
        ("data: 0123456\ndata: 89ABCDEF\n\n", true),
    ])
    func limitsAnEvent(stream: String, fails: Bool) {
        let outcome = expectChunkInvariant(bytes(stream)) { parse($0, maxEventBytes: 16) }
        #expect(outcome.hasFailed == fails)
    }

    @Test func holdsNothingBetweenEvents() throws {
        var parser = ServerSentEventsParser()
        let stream = bytes("data: " + String(repeating: "x", count: 5000) + "\n\n")
        for byte in stream {
            try [byte].withUnsafeBytes { try parser.append($0) { _ in } }
        }
        #expect(parser.heldBytes == 0)
    }

    @Test func passesOnTheCallersError() {
        struct Stop: Error {}
        var parser = ServerSentEventsParser()
        #expect(throws: Stop.self) {
            try bytes("data: a\n\n").withUnsafeBytes { try parser.append($0) { _ in throw Stop() } }
        }
    }
}
