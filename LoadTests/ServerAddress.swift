// A server's address, and connections to it: the generator's, which never block, and a blocking one
// to fetch a page such as /metrics.

import CLinux
import Codec

/// A `ws://host:port/path` or `wss://…` URL, resolved once.
struct ServerAddress {
    /// For the `Host` field.
    let authority: String
    /// Path and query of the upgrade request.
    let target: String
    /// Whether the server uses TLS.
    let isSecure: Bool
    private var address: sockaddr_storage
    private let addressBytes: socklen_t

    /// Reads and resolves a URL.
    /// - Parameter path: used where the URL has none.
    /// - Throws: `LoadFailure` when the URL is invalid, or its host is unknown.
    init(_ url: String, path: String = "/v1/realtime") throws(LoadFailure) {
        isSecure = url.hasPrefix("wss://")
        guard isSecure || url.hasPrefix("ws://") else {
            throw LoadFailure("the URL must begin with ws:// or wss://, not be \"\(url)\"")
        }
        let rest = url.dropFirst(isSecure ? 6 : 5)
        let pathStart = rest.firstIndex(of: "/") ?? rest.endIndex
        authority = String(rest[..<pathStart])
        let local = rest[pathStart...]
        let wanted = local.isEmpty || local == "/" ? path : String(local)
        let needsModel = wanted.hasPrefix("/v1/realtime") && !wanted.contains("?")
        target = needsModel ? wanted + "?model=load" : wanted
        var host = authority[...]
        var port = isSecure ? "443" : "80"
        if let colon = authority.lastIndex(of: ":"), !authority.hasSuffix("]") {
            host = authority[..<colon]
            port = String(authority[authority.index(after: colon)...])
        }
        if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(String(host), port, &hints, &list) == 0, let first = list?.pointee else {
            throw LoadFailure("\"\(authority)\" is not a host and a port")
        }
        defer { freeaddrinfo(list) }
        address = sockaddr_storage()
        addressBytes = first.ai_addrlen
        withUnsafeMutableBytes(of: &address) {
            $0.copyMemory(
                from: UnsafeRawBufferPointer(start: first.ai_addr, count: Int(first.ai_addrlen)))
        }
    }

    /// Opens a connection and waits until it is established.
    /// - Throws: `LoadFailure` when the connection is refused, or no descriptor is free.
    func connect() throws(LoadFailure) -> Int32 {
        let descriptor = try makeSocket(flags: 0)
        guard connect(descriptor) == 0 else { throw refusal(of: descriptor) }
        return descriptor
    }

    /// Begins a connection and does not wait for it: while the server's accept queue is full,
    /// connecting takes a second.
    /// - Parameters:
    ///   - number: the connection's number. One source address has 28,000 ports, so on loopback
    ///     each 8,000 connections use the next address of 127.0.1.x.
    ///   - receiveBytes: size of the socket's receive buffer; nil: the kernel's default.
    /// - Throws: `LoadFailure` when the connection is refused at once, or no descriptor is free.
    func beginConnecting(number: Int, receiveBytes: Int32? = nil) throws(LoadFailure) -> Int32 {
        let descriptor = try makeSocket(flags: SOCK_NONBLOCK.rawValue)
        if var bytes = receiveBytes {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, 4)
        }
        if isOnLoopback {
            var yes: Int32 = 1
            setsockopt(descriptor, Int32(IPPROTO_IP), IP_BIND_ADDRESS_NO_PORT, &yes, 4)
            let source = 0x7F00_0101 + UInt32(number / 8_000 % 200)
            _ = withLoopbackName(source, 0) { bind(descriptor, $0, $1) }
        }
        guard connect(descriptor) == 0 || parley_errno() == EINPROGRESS else {
            throw refusal(of: descriptor)
        }
        return descriptor
    }

    private var isOnLoopback: Bool {
        guard address.ss_family == sa_family_t(AF_INET) else { return false }
        return withUnsafeBytes(of: address) {
            $0.load(as: sockaddr_in.self).sin_addr.s_addr.bigEndian >> 24 == 127
        }
    }

    private func makeSocket(flags: UInt32) throws(LoadFailure) -> Int32 {
        let type = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | flags
        let descriptor = socket(Int32(address.ss_family), Int32(type), 0)
        guard descriptor >= 0 else { throw .system("socket (is `ulimit -n` high enough?)") }
        var yes: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, 4)
        return descriptor
    }

    private func connect(_ descriptor: Int32) -> Int32 {
        withUnsafePointer(to: address) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                CLinux.connect(descriptor, $0, addressBytes)
            }
        }
    }

    private func refusal(of descriptor: Int32) -> LoadFailure {
        let failure = LoadFailure.system("cannot connect to \(authority)")
        close(descriptor)
        return failure
    }

    /// Fetches a page over a connection of its own.
    /// - Throws: `LoadFailure` unless the answer is 200.
    func get(_ path: String) throws(LoadFailure) -> String {
        let descriptor = try connect()
        defer { close(descriptor) }
        let tls = isSecure ? try LoadTLS(descriptor, LoadTLSContext()) : nil
        var request = "GET \(path) HTTP/1.1\r\nHost: \(authority)\r\nConnection: close\r\n\r\n"
        let sent = request.withUTF8 { bytes -> Int in
            guard let tls else { return write(descriptor, bytes.baseAddress, bytes.count) }
            guard case .done = tls.shakeHands() else { return -1 }
            return tls.write(UnsafeRawBufferPointer(bytes)).count ?? -1
        }
        guard sent == request.utf8.count else { throw .system("write") }
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        var limits = HTTPLimits()
        limits.maxBodyBytes = 16 << 20
        var parser = HTTPResponseParser(limits: limits)
        while true {
            let count = buffer.withUnsafeMutableBytes { room in
                tls.map { $0.read(into: room).count ?? -1 }
                    ?? read(descriptor, room.baseAddress, room.count)
            }
            guard count > 0 else { throw LoadFailure("\(path) broke off") }
            received += buffer[..<count]
            do throws(HTTPError) {
                let answer = try received.span.bytes.withUnsafeBytes { (bytes) throws(HTTPError) in
                    try parser.parse(bytes)?.response
                }
                guard let answer else { continue }
                guard answer.status == 200 else {
                    throw HTTPError.malformedStartLine
                }
                return String(decoding: answer.body, as: UTF8.self)
            } catch {
                throw LoadFailure("\(path) did not answer 200")
            }
        }
    }
}
