// A connection to Redis for a worker in Swift: one command at a time, and the thread waits for its
// reply. Parley's own codec writes the commands and reads the replies. A worker that needs TLS or
// several commands at once takes a library instead.

import Codec
import Glibc

/// Why there is no reply.
enum RedisFailure: Error {
    /// The server cannot be reached, or the connection broke.
    case disconnected
    /// The server's own words.
    case refused(String)
}

/// One connection. Confined to one thread.
final class RedisConnection {
    private let descriptor: Int32
    private let reader = RedisReader()

    /// Connects and logs in.
    init(to address: RedisAddress) throws {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(address.host, "\(address.port)", &hints, &found) == 0, let found else {
            throw RedisFailure.disconnected
        }
        defer { freeaddrinfo(found) }
        descriptor = socket(found.pointee.ai_family, found.pointee.ai_socktype, 0)
        guard connect(descriptor, found.pointee.ai_addr, found.pointee.ai_addrlen) == 0 else {
            close(descriptor)
            throw RedisFailure.disconnected
        }
        if let password = address.password {
            try run(RedisCommand("AUTH", address.user ?? "default", password))
        }
        if address.database != 0 { try run(RedisCommand("SELECT", "\(address.database)")) }
    }

    deinit { close(descriptor) }

    /// Runs a command, and loads its script where the server does not have it.
    @discardableResult
    func run(_ command: RedisCommand) throws -> RedisValue {
        let reply = try reply(to: command)
        guard case .error(let text) = reply else { return reply }
        guard text.hasPrefix("NOSCRIPT"), let script = command.script else {
            throw RedisFailure.refused(text)
        }
        _ = try self.reply(to: script.load)
        return try self.reply(to: command)
    }

    private func reply(to command: RedisCommand) throws -> RedisValue {
        var bytes: [UInt8] = []
        command.encode(into: &bytes)
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes {
                send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw RedisFailure.disconnected }
            rest = rest.dropFirst(count)
        }
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            if let reply = try reader.next() { return reply }
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { throw RedisFailure.disconnected }
            try buffer[..<count].withUnsafeBytes { try reader.feed($0) }
        }
    }
}
