// A reply of Redis or Valkey as a value, in version 2 of their protocol (RESP2). RedisReader makes
// these values from bytes.

/// A reply, or a part of one.
public indirect enum RedisValue: Equatable, Sendable {
    /// A short text, such as `OK`.
    case simple(String)
    /// A command has failed. The first word of the text is the error's code.
    case error(String)
    /// A whole number.
    case integer(Int64)
    /// Bytes of any content.
    case bulk([UInt8])
    /// Values in order.
    case array([RedisValue])
    /// The value does not exist.
    case null
}

extension RedisValue {
    /// The bytes of a bulk or simple value; nil for the others.
    public var bytes: [UInt8]? {
        switch self {
        case .bulk(let bytes): bytes
        case .simple(let text): Array(text.utf8)
        case .error, .integer, .array, .null: nil
        }
    }

    /// A bulk or simple value as a text; nil for the others, and for bytes that are no UTF-8.
    public var text: String? { bytes.flatMap { String(validating: $0, as: UTF8.self) } }

    /// An integer, also one that is written as a text; nil for the others.
    public var integer: Int64? {
        if case .integer(let value) = self { return value }
        return text.flatMap { Int64($0) }
    }

    /// The values of an array; nil for the others.
    public var array: [RedisValue]? {
        if case .array(let values) = self { values } else { nil }
    }

    /// An array of names and values in turn, as `HGETALL` answers, or nil where the value is no
    /// such array. If a name is repeated, its last value counts.
    public var fields: [String: [UInt8]]? {
        guard let values = array, values.count.isMultiple(of: 2) else { return nil }
        var fields: [String: [UInt8]] = [:]
        for index in stride(from: 0, to: values.count, by: 2) {
            guard let name = values[index].text, let bytes = values[index + 1].bytes else {
                return nil
            }
            fields[name] = bytes
        }
        return fields
    }
}

/// Why a command has no reply.
public enum RedisError: Error, Equatable, Sendable {
    /// The server is not connected. The command was not carried out.
    case unavailable
    /// Too many commands, or too many bytes, wait. The command was not carried out.
    case overloaded
    /// The server answered with an error. `code` is its first word, such as `READONLY`.
    case refused(code: String, message: String)
    /// No reply came in time. The command may have been carried out, or may still be.
    case timedOut
    /// The connection was lost before the reply. The command may have been carried out.
    case disconnected
    /// The task that waited was cancelled. The command may have been carried out.
    case cancelled

    /// The error of an error reply.
    init(reply text: String) {
        let code = text.prefix { $0 != " " }
        self = .refused(code: String(code), message: text)
    }

    /// Whether the command was certainly not carried out, and may be sent again.
    public var isHarmless: Bool {
        switch self {
        case .unavailable, .overloaded: true
        case .refused(let code, _): Self.passingCodes.contains(code) || code == "NOSCRIPT"
        case .timedOut, .disconnected, .cancelled: false
        }
    }

    /// Codes of a server that carries out no commands, or no writes, for a while. Another
    /// connection may lead to one that does.
    private static let passingCodes: Set = [
        "LOADING", "MASTERDOWN", "READONLY", "NOAUTH", "WRONGPASS", "OOM", "MISCONF", "NOREPLICAS",
        "BUSY", "CLUSTERDOWN", "MOVED",
    ]

    /// Whether a new connection may lead to a server that is not in the state of this error.
    public var asksForNewConnection: Bool {
        if case .refused(let code, _) = self { Self.passingCodes.contains(code) } else { false }
    }
}

extension RedisError {
    /// The result of a command with a reply.
    public static func result(of reply: RedisValue) -> Result<RedisValue, RedisError> {
        if case .error(let text) = reply {
            .failure(RedisError(reply: text))
        } else {
            .success(reply)
        }
    }
}
