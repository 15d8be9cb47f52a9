// What the generator reads of a server's event: its type, of a delta the moments in it, and how a
// response ended. A generator that parsed every event would measure itself; only the one that ends
// a response is. Pure.

import CLinux
import Codec

/// The types that count.
enum ServerEventHead: Equatable {
    case sessionCreated, sessionUpdated
    /// How a response ended: `responseFailed` is also what was cut short, or does not say.
    case responseCreated, responseCancelled, responseFailed, responseCompleted
    /// A piece of a reply's text; where its text begins in the event.
    case textDelta(at: Int)
    case transcript, speechStarted
    case error
    /// Any other.
    case other

    /// Finds an event's type: the first member of that name is its own. Whether a server writes
    /// blanks around colons does not matter.
    init(_ event: UnsafeRawBufferPointer, _ parser: JSONParser) {
        guard let type = Self.value(of: "\"type\"", in: event, before: 256) else {
            self = .other
            return
        }
        func isType(_ name: StaticString) -> Bool { Self.begins(event, at: type, with: name) }
        if isType("response.output_text.delta\"") {
            let text = Self.value(of: "\"delta\"", in: event, before: event.count)
            self = text.map { .textDelta(at: $0) } ?? .other
        } else if isType("response.created\"") {
            self = .responseCreated
        } else if isType("response.done\"") {
            self = Self.end(ofResponseIn: event, parser)
        } else if isType("session.created\"") {
            self = .sessionCreated
        } else if isType("session.updated\"") {
            self = .sessionUpdated
        } else if isType("conversation.item.input_audio_transcription.completed\"") {
            self = .transcript
        } else if isType("input_audio_buffer.speech_started\"") {
            self = .speechStarted
        } else {
            self = isType("error\"") ? .error : .other
        }
    }

    /// Calls `body` with every moment in a delta's text: decimal nanoseconds, with blanks between.
    static func moments(
        in event: UnsafeRawBufferPointer, from start: Int, _ body: (Int64) -> Void
    ) {
        var value: Int64 = 0
        var digits = 0
        for byte in event[start...] {
            if (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte), digits < 18 {
                value = value * 10 + Int64(byte - UInt8(ascii: "0"))
                digits += 1
            } else {
                // Fewer digits are a number in a text, not nanoseconds since the machine began.
                if digits >= 10 { body(value) }
                (value, digits) = (0, 0)
                if byte == UInt8(ascii: "\"") { return }
            }
        }
    }

    /// Where the text of a member begins, behind its quote.
    private static func value(
        of key: StaticString, in event: UnsafeRawBufferPointer, before limit: Int
    ) -> Int? {
        guard let found = find(key, in: event, before: limit) else { return nil }
        var position = found + key.utf8CodeUnitCount
        while position < event.count, event[position] == 0x20 || event[position] == 0x3A {
            position += 1
        }
        guard position < event.count, event[position] == UInt8(ascii: "\"") else { return nil }
        return position + 1
    }

    private static func end(
        ofResponseIn event: UnsafeRawBufferPointer, _ parser: JSONParser
    ) -> ServerEventHead {
        switch (try? parser.parse(event))?["response"]?["status"]?.string {
        case "completed": .responseCompleted
        case "cancelled": .responseCancelled
        default: .responseFailed
        }
    }

    private static func find(
        _ text: StaticString, in event: UnsafeRawBufferPointer, before limit: Int
    ) -> Int? {
        let count = text.utf8CodeUnitCount
        let last = min(limit, event.count) - count
        guard last >= 0 else { return nil }
        let first = text.utf8Start[0]
        var position = 0
        while position <= last {
            if event[position] == first, begins(event, at: position, with: text) { return position }
            position += 1
        }
        return nil
    }

    private static func begins(
        _ event: UnsafeRawBufferPointer, at position: Int, with text: StaticString
    ) -> Bool {
        guard position + text.utf8CodeUnitCount <= event.count, let base = event.baseAddress else {
            return false
        }
        return memcmp(base + position, text.utf8Start, text.utf8CodeUnitCount) == 0
    }
}
