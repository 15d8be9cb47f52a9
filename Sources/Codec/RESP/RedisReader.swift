// Bytes of a server to values, by libhiredis' reader. It knows no commands; the order of the values
// decides which command each answers.
//
// Invariant: a server cannot make it hold more than `maxReplyBytes` for one reply, and it holds
// only the incomplete reply. After an error it reads nothing more.

import CHiredis

/// Why the bytes of a server are no replies.
public enum RedisProtocolError: Error, Equatable, Sendable {
    /// They are not RESP2; the text is libhiredis' own.
    case malformed(String)
    /// A reply is longer than `RedisReader.maxReplyBytes`.
    case tooLong
}

/// Reads replies from a stream of bytes. Confined to one thread.
public final class RedisReader {
    /// Bytes of one reply, with 64 for each of its values. Default 16 MiB: far more than the state
    /// of a session.
    public let maxReplyBytes: Int

    private let reader: UnsafeMutablePointer<redisReader>
    private let builder: RedisValueBuilder
    private var failure: RedisProtocolError?

    /// Creates a reader of no bytes.
    public init(maxReplyBytes: Int = 16 << 20) {
        self.maxReplyBytes = maxReplyBytes
        builder = RedisValueBuilder(maxBytes: maxReplyBytes)
        let created = parley_redis_reader_create(
            { task, bytes, count in
                RedisValueBuilder.of(task)?.append(
                    UnsafeRawBufferPointer(start: bytes, count: count), type: task?.pointee.type)
            },
            { RedisValueBuilder.of($0)?.beginArray(count: Int($1)) },
            { RedisValueBuilder.of($0)?.append(.integer($1), bytes: 0) },
            { RedisValueBuilder.of($0)?.append(.null, bytes: 0) },
            Unmanaged.passUnretained(builder).toOpaque())
        guard let created else { preconditionFailure("no memory for a reader") }
        reader = created
    }

    deinit { redisReaderFree(reader) }

    /// Bytes that wait for the rest of their reply.
    public var heldBytes: Int { reader.pointee.len - reader.pointee.pos + builder.bytes }

    /// Adds bytes. Take all replies with `next()` before more are added.
    /// - Throws: `.tooLong` when the reply in progress is too long, or the reader's earlier error.
    public func feed(_ bytes: UnsafeRawBufferPointer) throws(RedisProtocolError) {
        if let failure { throw failure }
        guard bytes.count > 0 else { return }
        guard heldBytes + bytes.count <= 2 * maxReplyBytes else { throw fail(.tooLong) }
        let start = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
        guard redisReaderFeed(reader, start, bytes.count) == REDIS_OK else {
            throw fail(.malformed(text))
        }
    }

    /// The next reply, or nil until more bytes have come.
    /// - Throws: the reason for which the stream cannot be read.
    public func next() throws(RedisProtocolError) -> RedisValue? {
        if let failure { throw failure }
        var reply: UnsafeMutableRawPointer?
        guard redisReaderGetReply(reader, &reply) == REDIS_OK else {
            throw fail(builder.isTooLong ? .tooLong : .malformed(text))
        }
        if reply != nil { return builder.takeValue() }
        guard heldBytes <= maxReplyBytes else { throw fail(.tooLong) }
        return nil
    }

    private func fail(_ error: RedisProtocolError) -> RedisProtocolError {
        failure = error
        return error
    }

    private var text: String {
        withUnsafeBytes(of: reader.pointee.errstr) {
            String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
        }
    }
}

/// Puts the values of one reply together in the order in which libhiredis reports them.
private final class RedisValueBuilder {
    /// Bytes that each value counts in addition to its own.
    private static let valueBytes = 64

    private let maxBytes: Int
    /// Bytes of the values so far.
    private(set) var bytes = 0
    private(set) var isTooLong = false
    /// Arrays that are not complete, the outermost first.
    private var open: [(count: Int, values: [RedisValue])] = []
    private var value: RedisValue?

    init(maxBytes: Int) { self.maxBytes = maxBytes }

    static func of(_ task: UnsafePointer<redisReadTask>?) -> RedisValueBuilder? {
        task?.pointee.privdata.map { Unmanaged.fromOpaque($0).takeUnretainedValue() }
    }

    func takeValue() -> RedisValue? {
        defer { (value, bytes) = (nil, 0) }
        return value
    }

    func append(_ source: UnsafeRawBufferPointer, type: Int32?) -> UnsafeMutableRawPointer? {
        switch type {
        case REDIS_REPLY_ERROR?:
            append(.error(String(decoding: source, as: UTF8.self)), bytes: source.count)
        case REDIS_REPLY_STATUS?:
            append(.simple(String(decoding: source, as: UTF8.self)), bytes: source.count)
        default: append(.bulk([UInt8](source)), bytes: source.count)
        }
    }

    func beginArray(count: Int) -> UnsafeMutableRawPointer? {
        guard count > 0 else { return append(.array([]), bytes: 0) }
        guard charge(count) else { return nil }
        open.append((count, []))
        return handle
    }

    /// - Returns: not nil, or nil where the reply is too long: libhiredis then reports an error.
    func append(_ value: RedisValue, bytes: Int) -> UnsafeMutableRawPointer? {
        guard charge(bytes) else { return nil }
        var value = value
        while let last = open.indices.last {
            open[last].values.append(value)
            guard open[last].values.count == open[last].count else { return handle }
            value = .array(open.removeLast().values)
        }
        self.value = value
        return handle
    }

    private func charge(_ added: Int) -> Bool {
        bytes += added + Self.valueBytes
        isTooLong = bytes > maxBytes
        return !isTooLong
    }

    /// libhiredis wants to see a pointer that is not nil, and never follows it.
    private var handle: UnsafeMutableRawPointer { Unmanaged.passUnretained(self).toOpaque() }
}
