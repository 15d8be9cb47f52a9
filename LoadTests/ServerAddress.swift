// Where the server is, and a blocking connection to it. On loopback a connection takes
// microseconds, so the generator's loop does not suffer from waiting for it.

import CLinux
import Codec

/// A `ws://host:port/path` URL, resolved once.
struct ServerAddress {
    /// For the `Host` field.
    let authority: String
    /// Path and query of the upgrade request.
    let target: String
    private var address: sockaddr_storage
    private let addressBytes: socklen_t

    /// Reads and resolves a URL.
    /// - Throws: `LoadFailure` when it is not one, or its host is unknown.
    init(_ url: String) throws(LoadFailure) {
        guard url.hasPrefix("ws://") else {
            throw LoadFailure("--url must begin with ws://, not be \"\(url)\"")
        }
        let rest = url.dropFirst(5)
        let pathStart = rest.firstIndex(of: "/") ?? rest.endIndex
        authority = String(rest[..<pathStart])
        let path = pathStart == rest.endIndex ? "/v1/realtime" : String(rest[pathStart...])
        target = path.contains("?") ? path : path + "?model=load"
        var host = authority[...]
        var port = "80"
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

    /// Opens a connection.
    /// - Throws: `LoadFailure` when nobody listens, or descriptors have run out.
    func connect() throws(LoadFailure) -> Int32 {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        let descriptor = socket(Int32(address.ss_family), type, 0)
        guard descriptor >= 0 else { throw .system("socket (is `ulimit -n` high enough?)") }
        var yes: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, 4)
        let status = withUnsafePointer(to: address) { storage in
            storage.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                CLinux.connect(descriptor, $0, addressBytes)
            }
        }
        guard status == 0 else {
            let failure = LoadFailure.system("cannot connect to \(authority)")
            close(descriptor)
            throw failure
        }
        return descriptor
    }

    /// Fetches a page over a connection of its own.
    /// - Throws: `LoadFailure` unless the answer is 200.
    func get(_ path: String) throws(LoadFailure) -> String {
        let descriptor = try connect()
        defer { close(descriptor) }
        var request = "GET \(path) HTTP/1.1\r\nHost: \(authority)\r\nConnection: close\r\n\r\n"
        let sent = request.withUTF8 { write(descriptor, $0.baseAddress, $0.count) }
        guard sent == request.utf8.count else { throw .system("write") }
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        var parser = HTTPResponseParser()
        while true {
            let count = read(descriptor, &buffer, buffer.count)
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
