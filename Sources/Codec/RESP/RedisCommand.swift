// Commands for Redis or Valkey, and their bytes by libhiredis' formatter. Arguments are bytes of any
// content: nothing in them can end a command or begin another one.

import CHiredis

/// A command: its name and its arguments.
public struct RedisCommand: Equatable, Sendable {
    /// The name and the arguments, in order.
    public private(set) var words: [[UInt8]]
    /// The script that it runs, where it is a script's command. A connection loads the script
    /// first.
    public private(set) var script: RedisScript?

    /// Creates a command of texts: `RedisCommand("SET", "key", "value")`.
    public init(_ words: String...) { self.words = words.map { Array($0.utf8) } }

    /// Creates a command.
    /// - Precondition: there is a name.
    public init(words: [[UInt8]]) {
        precondition(!words.isEmpty)
        self.words = words
    }

    /// Runs a script (`EVALSHA`).
    public init(_ script: RedisScript, keys: [String], arguments: [[UInt8]] = []) {
        words = ["EVALSHA", script.digest, "\(keys.count)"].map { Array($0.utf8) }
        words += keys.map { Array($0.utf8) }
        words += arguments
        self.script = script
    }

    /// Adds an argument.
    public mutating func append(_ argument: [UInt8]) { words.append(argument) }

    /// Adds a text as an argument.
    public mutating func append(_ text: String) { words.append(Array(text.utf8)) }

    /// Adds a number as an argument.
    public mutating func append(_ number: some BinaryInteger) { append("\(number)") }

    /// The bytes of all words.
    public var byteCount: Int { words.reduce(0) { $0 + $1.count } }

    /// Writes the command as RESP2 at the end of `output`.
    public func encode(into output: inout [UInt8]) {
        let flat = words.flatMap(\.self)
        let lengths = words.map(\.count)
        let written = flat.withUnsafeBufferPointer { bytes -> Bool in
            var offset = 0
            // libhiredis reads nothing of an empty argument, but it requires a pointer.
            let start = UnsafeRawPointer(bytes.baseAddress ?? Self.nothing)
                .assumingMemoryBound(to: CChar.self)
            var pointers: [UnsafePointer<CChar>?] = lengths.map { length in
                defer { offset += length }
                return start + offset
            }
            var encoded: UnsafeMutablePointer<CChar>?
            let count = redisFormatCommandArgv(
                &encoded, Int32(lengths.count), &pointers, lengths)
            guard count > 0, let encoded else { return false }
            defer { redisFreeCommand(encoded) }
            output.append(contentsOf: UnsafeRawBufferPointer(start: encoded, count: Int(count)))
            return true
        }
        precondition(written, "no memory for a command")
    }

    private nonisolated(unsafe) static let nothing: UnsafePointer<UInt8> = {
        let byte = UnsafeMutablePointer<UInt8>.allocate(capacity: 1)
        byte.initialize(to: 0)
        return UnsafePointer(byte)
    }()
}

/// A Lua script that the server runs as one step.
public struct RedisScript: Equatable, Sendable {
    /// The text.
    public let source: String
    /// The name under which the server keeps it: 40 hexadecimal digits.
    public let digest: String

    /// Creates a script. Make it once: its name is a hash.
    public init(_ source: String) {
        self.source = source
        digest = SHA1.hexadecimal(of: Array(source.utf8))
    }

    /// Two scripts with one name are the same.
    public static func == (one: RedisScript, other: RedisScript) -> Bool {
        one.digest == other.digest
    }

    /// The command that makes the server keep it.
    public var load: RedisCommand { RedisCommand("SCRIPT", "LOAD", source) }
}
