// The event stream that language models answer with (WHATWG HTML §9.2.6, "Interpreting an event
// stream"). Lines end in CR LF, LF or CR; an empty line ends an event. What the data means is up to
// the agent that asked. A reply is never resumed, so `id` and `retry`, which serve reconnection,
// are passed over like unknown fields. An event that lies whole in one piece, as nearly every one
// of a model does, is lent where it lies.
// Invariant: the events are a function of the bytes alone, however they were split; what is held
// between two calls is one incomplete event, within `maxEventBytes`.

import Glibc

/// One event of a stream.
public struct ServerSentEvent: Equatable, Sendable {
    /// The `event` field; `message` if there was none.
    public var type: String
    /// The `data` fields, joined by line feeds. Bytes that are no UTF-8 are replaced, as the
    /// standard demands.
    public var data: String

    /// Creates an event.
    public init(type: String = "message", data: String) {
        self.type = type
        self.data = data
    }
}

/// A limit of the parser that the stream exceeded.
public enum ServerSentEventsError: Error, Equatable, Sendable {
    /// An event, or a single line, over the parser's `maxEventBytes`.
    case eventTooLarge
}

/// Splits a stream of bytes into events.
public struct ServerSentEventsParser: Sendable {
    /// What a stream may keep for its next event: the usual delta, not the odd big one.
    private static let keptBytes = 1024

    private let maxEventBytes: Int
    /// A line whose end has not come yet.
    private var line: [UInt8] = []
    /// The data fields so far, each followed by a line feed.
    private var data: [UInt8] = []
    private var type = ""
    /// A line feed right after a carriage return belongs to it, also in the next piece.
    private var endedWithCarriageReturn = false
    private var isFirstLine = true

    /// Memory held for the event in progress, in bytes; up to 1 KiB of it stays for the next one.
    public var heldBytes: Int { line.capacity + data.capacity }

    /// Creates a parser at the start of a stream.
    /// - Parameter maxEventBytes: the most that the fields of an event may hold, and that a line
    ///   may. Default 1 MiB: a delta has some hundred bytes, a base64 image or a tool's arguments
    ///   may have many more.
    /// - Precondition: positive.
    public init(maxEventBytes: Int = 1024 * 1024) {
        precondition(maxEventBytes > 0)
        self.maxEventBytes = maxEventBytes
    }

    /// Takes the next bytes of the stream and reports the events that they complete. An event that
    /// the end of the stream cuts off is never reported, as the standard demands.
    /// - Throws: `ServerSentEventsError`, or what `onEvent` throws; the parser is of no further use
    ///   then.
    public mutating func append(
        _ bytes: UnsafeRawBufferPointer, _ onEvent: (ServerSentEvent) throws -> Void
    ) throws {
        try appendLending(bytes) { type, data in
            try onEvent(ServerSentEvent(type: type, data: String(decoding: data, as: UTF8.self)))
        }
    }

    /// The same without a copy: an event's data is lent for the time of the call, as it came, UTF-8
    /// or not.
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

    /// The event at the front of the bytes, where it is one line of data, an empty line, and line
    /// feeds; nil: it may be anything.
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
            // Taken out, so that the fields can change while the line is read.
            let whole = line + end
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
        // Any other name, and a comment, whose name is empty, means nothing.
        if name.elementsEqual("data".utf8) {
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
