// Parses server-sent events, the stream format of language models (WHATWG HTML §9.2.6,
// "Interpreting an event stream"). Lines end in CR LF, LF or CR; an empty line ends an event. The
// agent that asked interprets the data. A reply is never resumed, so `id` and `retry`, which serve
// reconnection, are ignored like unknown fields. An event that lies whole in one piece, as nearly
// all events of a model do, is passed on without a copy.
//
// One field is not the standard's: llama.cpp until late 2025 reports a failure as `error: {…}`. It
// is read as the data of an event of the type `error`, because ignoring it would make the failure
// an empty answer.
//
// Invariant: the events depend on the bytes alone, however they were split. Between two calls at
// most one incomplete event is kept, within `maxEventBytes`.

import Glibc

/// One event of a stream.
public struct ServerSentEvent: Equatable, Sendable {
    /// The `event` field; `message` without one.
    public var type: String
    /// The `data` fields, joined by line feeds. Invalid UTF-8 is replaced, as the standard
    /// requires.
    public var data: String

    /// Creates an event.
    public init(type: String = "message", data: String) {
        self.type = type
        self.data = data
    }
}

/// A limit of the parser that the stream exceeds.
public enum ServerSentEventsError: Error, Equatable, Sendable {
    /// An event, or a single line, longer than the parser's `maxEventBytes`.
    case eventTooLarge
}

/// Splits a stream of bytes into events.
public struct ServerSentEventsParser: Sendable {
    /// Maximum bytes of memory kept for the next event: enough for a common delta, not for a rare
    /// large one.
    private static let keptBytes = 1024

    private let maxEventBytes: Int
    /// The start of a line whose end has not arrived.
    private var line: [UInt8] = []
    /// The data fields so far, each followed by a line feed.
    private var data: [UInt8] = []
    private var type = ""
    /// After a carriage return: a line feed that follows belongs to it, even in the next piece.
    private var endedWithCarriageReturn = false
    private var isFirstLine = true

    /// Bytes of memory held for the event in progress; up to 1 KiB of it is kept for the next one.
    public var heldBytes: Int { line.capacity + data.capacity }

    /// Creates a parser at the start of a stream.
    /// - Parameter maxEventBytes: maximum bytes of an event's fields, and of a line. Default 1 MiB:
    ///   a delta has some hundred bytes, but a base64 image or a tool's arguments may have many
    ///   more.
    /// - Precondition: positive.
    public init(maxEventBytes: Int = 1024 * 1024) {
        precondition(maxEventBytes > 0)
        self.maxEventBytes = maxEventBytes
    }

    /// Appends bytes of the stream and reports the events that they complete. An event that is cut
    /// off by the end of the stream is never reported, as the standard requires.
    /// - Throws: `ServerSentEventsError`, or what `onEvent` throws. The parser is unusable
    ///   afterwards.
    public mutating func append(
        _ bytes: UnsafeRawBufferPointer, _ onEvent: (ServerSentEvent) throws -> Void
    ) throws {
        try appendLending(bytes) { type, data in
            try onEvent(ServerSentEvent(type: type, data: String(decoding: data, as: UTF8.self)))
        }
    }

    /// Like `append`, without a copy: the event's data is valid during the call only, and need not
    /// be UTF-8.
    public mutating func appendLending(
        _ bytes: UnsafeRawBufferPointer,
        _ onEvent: (_ type: String, _ data: UnsafeRawBufferPointer) throws -> Void
    ) throws {
        var rest = bytes
        while isBetweenEvents, let event = Self.wholeEvent(at: rest, limit: maxEventBytes) {
            try onEvent("message", event.data)
            rest = UnsafeRawBufferPointer(rebasing: rest[event.end...])
        }
        try appendInLines(rest, onEvent)
    }

    private var isBetweenEvents: Bool {
        line.isEmpty && data.isEmpty && type.isEmpty && !endedWithCarriageReturn && !isFirstLine
    }

    /// The event at the front of the bytes, if it is one data line, an empty line, and line feeds.
    /// Where nil, it may be any event, and the full parser must read it.
    private static func wholeEvent(
        at bytes: UnsafeRawBufferPointer, limit: Int
    ) -> (data: UnsafeRawBufferPointer, end: Int)? {
        guard bytes.count > 6, let base = bytes.baseAddress,
            bytes.prefix(5).elementsEqual("data:".utf8),
            let found = memchr(base, 0x0A, bytes.count)
        else { return nil }
        let end = base.distance(to: UnsafeRawPointer(found))
        let start = bytes[5] == UInt8(ascii: " ") ? 6 : 5
        guard end + 1 < bytes.count, bytes[end + 1] == 0x0A, end <= limit, end - start < limit,
            memchr(base, 0x0D, end) == nil
        else { return nil }
        return (UnsafeRawBufferPointer(rebasing: bytes[start..<end]), end + 2)
    }

    private mutating func appendInLines(
        _ bytes: UnsafeRawBufferPointer,
        _ onEvent: (_ type: String, _ data: UnsafeRawBufferPointer) throws -> Void
    ) throws {
        TextSteps.note(bytes.count)
        var start = 0
        for (index, byte) in bytes.enumerated() {
            let isLineFeed = byte == 0x0A
            let isCarriageReturn = byte == 0x0D
            let belongsToLastLine = isLineFeed && endedWithCarriageReturn
            endedWithCarriageReturn = isCarriageReturn
            guard isLineFeed || isCarriageReturn else { continue }
            if !belongsToLastLine {
                try endLine(UnsafeRawBufferPointer(rebasing: bytes[start..<index]), onEvent)
            }
            start = index + 1
        }
        let rest = bytes[start...]
        guard rest.count <= maxEventBytes - line.count else {
            throw ServerSentEventsError.eventTooLarge
        }
        line += rest
    }

    private mutating func endLine(
        _ end: UnsafeRawBufferPointer,
        _ onEvent: (_ type: String, _ data: UnsafeRawBufferPointer) throws -> Void
    ) throws {
        guard end.count <= maxEventBytes - line.count else {
            throw ServerSentEventsError.eventTooLarge
        }
        if line.isEmpty {
            try interpret(end, onEvent)
        } else {
            // Moved out, so that the fields can be changed while the line is read.
            let whole = line + end
            TextSteps.note(whole.count)
            line.removeAll()
            try whole.withUnsafeBytes { try interpret($0, onEvent) }
        }
    }

    private mutating func interpret(
        _ line: UnsafeRawBufferPointer,
        _ onEvent: (_ type: String, _ data: UnsafeRawBufferPointer) throws -> Void
    ) throws {
        var line = line[...]
        if isFirstLine && line.starts(with: [0xEF, 0xBB, 0xBF]) { line = line.dropFirst(3) }
        isFirstLine = false
        guard !line.isEmpty else { return try dispatch(onEvent) }
        let name = line.prefix { $0 != UInt8(ascii: ":") }
        var value = line[name.endIndex...].dropFirst()
        if value.first == UInt8(ascii: " ") { value = value.dropFirst() }
        // Other names are ignored, and so are comments, whose name is empty.
        let isError = name.elementsEqual("error".utf8)
        if isError { type = "error" }
        if isError || name.elementsEqual("data".utf8) {
            guard value.count < maxEventBytes - data.count else {
                throw ServerSentEventsError.eventTooLarge
            }
            data += value
            data.append(0x0A)
        } else if name.elementsEqual("event".utf8) {
            type = String(decoding: value, as: UTF8.self)
        }
    }

    private mutating func dispatch(
        _ onEvent: (_ type: String, _ data: UnsafeRawBufferPointer) throws -> Void
    ) throws {
        defer {
            data.removeAll(keepingCapacity: data.capacity <= Self.keptBytes)
            type = ""
        }
        guard !data.isEmpty else { return }
        try data.withUnsafeBytes {
            let whole = UnsafeRawBufferPointer(rebasing: $0.dropLast())
            try onEvent(type.isEmpty ? "message" : type, whole)
        }
    }
}
