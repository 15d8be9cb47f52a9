// The parts of a server's event that the generator reads: the type, the send times in a delta, and
// the status of a finished response. Only the event that ends a response is parsed: parsing every
// event would make the generator the bottleneck. Pure.

import CLinux
import Codec

/// The event types that the generator uses.
enum ServerEventHead: Equatable {
    case sessionCreated, sessionUpdated
    /// The beginning and the end of a response. `responseFailed` includes incomplete responses and
    /// unknown states.
    case responseCreated, responseCancelled, responseFailed, responseCompleted
    /// A piece of a reply's text, and the offset of the text in the event.
    case textDelta(at: Int)
    case transcript, speechStarted
    /// The answer to a client that comes back, and a new handle to come back with.
    case resumed, resumeUpdated
    case error
    /// Any other type.
    case other

    /// Finds an event's type: the value of its first member `type`, with or without spaces around
    /// the colon.
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
        } else if isType("parley.resumed\"") {
            self = .resumed
        } else if isType("parley.resume.updated\"") {
            self = .resumeUpdated
        } else {
            self = isType("error\"") ? .error : .other
        }
    }

    /// The number of an event of a session that can be resumed; nil: it has none. It stands before
    /// the event's own members.
    static func offset(of event: UnsafeRawBufferPointer) -> Int? {
        let key: StaticString = "\"offset\":"
        guard let found = find(key, in: event, before: 256) else { return nil }
        var value = 0
        for byte in event[(found + key.utf8CodeUnitCount)...].prefix(18) {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { break }
            value = value * 10 + Int(byte - UInt8(ascii: "0"))
        }
        return value
    }

    /// Calls `body` with every send time in a delta's text: decimal nanoseconds, separated by
    /// spaces.
    static func sendTimes(
        in event: UnsafeRawBufferPointer, from start: Int, _ body: (Int64) -> Void
    ) {
        var value: Int64 = 0
        var digits = 0
        for byte in event[start...] {
            if (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) {
                value = value &* 10 &+ Int64(byte - UInt8(ascii: "0"))
                digits += 1
            } else {
                // A number of fewer or more digits is part of a text, not nanoseconds since the
                // machine's start.
                if (10...18).contains(digits) { body(value) }
                (value, digits) = (0, 0)
                if byte == UInt8(ascii: "\"") { return }
            }
        }
    }

    /// The offset of a string member's value, after its quote.
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
