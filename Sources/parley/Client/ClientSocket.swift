// A connected TCP socket of a command-line client, with TLS where the URL asks for it: connect with
// a timeout, wait, read, write. The meaning of the bytes is the caller's.

import Codec
import Glibc

/// One connected TCP socket; closes itself.
final class ClientSocket {
    /// The result of `wait`.
    struct Readiness {
        var isSocketReadable = false
        var isOtherReadable = false
    }

    private let descriptor: Int32
    /// TLS over the socket. Without it, the bytes are sent in plain.
    private var tls: ClientTLS?

    /// Connects to the first of a name's addresses that answers.
    /// - Parameter patience: seconds that an address may take.
    /// - Throws: a `CommandFailure` that names the host and the reason.
    init(host: String, port: Int, patience: Int = 5) throws(CommandFailure) {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(host, String(port), &hints, &list)
        guard status == 0 else {
            let reason = String(cString: gai_strerror(status))
            throw CommandFailure(description: "cannot find \(host): \(reason)")
        }
        defer { freeaddrinfo(list) }
        var failure: Int32 = 0
        for address in sequence(first: list, next: { $0?.pointee.ai_next }) {
            guard let address = address?.pointee else { break }
            let connected = Self.connect(to: address, patience: patience)
            if connected >= 0 {
                descriptor = connected
                return
            }
            failure = -connected
        }
        let reason = String(cString: strerror(failure))
        throw CommandFailure(
            description: "cannot connect to \(host) port \(port): \(reason); is the server running?"
        )
    }

    deinit {
        // TLS sends its close_notify on the socket.
        tls = nil
        close(descriptor)
    }

    /// Makes the TLS handshake; from then on everything is encrypted.
    /// - Throws: a `CommandFailure` when the server is not trusted, or does not speak TLS.
    func secure(host: String, trust: ServerTrust) throws(CommandFailure) {
        tls = try ClientTLS(descriptor: descriptor, host: host, trust: trust)
    }

    /// Connects.
    /// - Returns: the descriptor, or the negative error number.
    private static func connect(to address: addrinfo, patience: Int) -> Int32 {
        let type = address.ai_socktype | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(address.ai_family, type, address.ai_protocol)
        guard descriptor >= 0 else { return -errno }
        // The kernel's own limit is minutes; SO_SNDTIMEO bounds connect(2) too (socket(7)).
        var limit = timeval(tv_sec: patience, tv_usec: 0)
        setsockopt(
            descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        // 20 ms packets must leave at once.
        var yes: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(4))
        noticeLoss(of: descriptor)
        if Glibc.connect(descriptor, address.ai_addr, address.ai_addrlen) == 0 {
            return descriptor
        }
        defer { close(descriptor) }
        return -errno
    }

    /// Lets the kernel notice that the network is gone, after about 20 s, while nothing is sent too
    /// (tcp(7)). By default it would take hours.
    private static func noticeLoss(of descriptor: Int32) {
        let options: [(level: Int32, name: Int32, value: Int32)] = [
            (SOL_SOCKET, SO_KEEPALIVE, 1), (Int32(IPPROTO_TCP), TCP_KEEPIDLE, 10),
            (Int32(IPPROTO_TCP), TCP_KEEPINTVL, 5), (Int32(IPPROTO_TCP), TCP_KEEPCNT, 2),
            // Milliseconds.
            (Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, 20_000),
        ]
        for option in options {
            var value = option.value
            setsockopt(descriptor, option.level, option.name, &value, socklen_t(4))
        }
    }

    /// Waits until the socket or another descriptor can be read, or until a time.
    /// - Parameter deadline: on `monotonicSeconds()`; in the past: does not wait.
    /// - Throws: a `CommandFailure` when waiting is impossible.
    func wait(
        alsoFor other: Int32? = nil, until deadline: Double
    ) throws(CommandFailure) -> Readiness {
        var entries = [descriptor, other ?? -1, Interruption.descriptor].map {
            pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
        }
        let isPending = tls?.hasPending == true
        let left = isPending ? 0 : min(max(0, deadline - monotonicSeconds()), 86_400)
        // Rounded up: a wait of part of a millisecond must not become a spin.
        let status = poll(&entries, nfds_t(entries.count), Int32((left * 1_000).rounded(.up)))
        try Interruption.check()
        if status < 0 && errno != EINTR {
            throw CommandFailure(description: "poll: \(String(cString: strerror(errno)))")
        }
        // Hang-ups and errors count as readable: the read tells which.
        return Readiness(
            isSocketReadable: isPending || status > 0 && entries[0].revents != 0,
            isOtherReadable: status > 0 && entries[1].revents != 0)
    }

    /// Reads the bytes that have come, as many as fit; 0 when the peer has closed, nil when only
    /// records of TLS itself came.
    /// - Throws: a `CommandFailure` when the connection is lost.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(CommandFailure) -> Int? {
        if let tls { return try tls.read(into: buffer) }
        while true {
            let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            if count >= 0 { return count }
            if errno != EINTR { throw lost() }
        }
    }

    /// Writes everything.
    /// - Throws: a `CommandFailure` when the connection is lost, or stuck for 5 s.
    func write(_ bytes: borrowing ByteWriter) throws(CommandFailure) {
        try bytes.withUnsafeBytes { bytes throws(CommandFailure) in try write(all: bytes) }
    }

    private func write(all bytes: UnsafeRawBufferPointer) throws(CommandFailure) {
        if let tls { return try tls.write(all: bytes) }
        var rest = bytes
        while !rest.isEmpty {
            let count = Glibc.send(
                descriptor, rest.baseAddress, rest.count, Int32(MSG_NOSIGNAL))
            if count > 0 {
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            } else if errno != EINTR {
                throw lost()
            }
        }
    }

    private func lost() -> CommandFailure {
        let reason = String(cString: strerror(errno))
        return CommandFailure(description: "the connection is lost: \(reason)")
    }

    // MARK: HTTP

    /// Reads the answer to an HTTP request.
    /// - Parameters:
    ///   - authority: the server, for the failures.
    ///   - seconds: the time that the whole answer may take.
    /// - Returns: the answer, and the bytes that came behind it.
    /// - Throws: a `CommandFailure` when no answer comes, or something else than HTTP.
    func readResponse(
        from authority: String, within seconds: Double, limits: HTTPLimits = HTTPLimits()
    ) throws(CommandFailure) -> (HTTPResponse, rest: [UInt8]) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
        defer { buffer.deallocate() }
        let deadline = monotonicSeconds() + seconds
        var parser = HTTPResponseParser(limits: limits)
        var received: [UInt8] = []
        while true {
            guard try wait(until: deadline).isSocketReadable else {
                if monotonicSeconds() < deadline { continue }
                throw CommandFailure(description: "\(authority) does not answer")
            }
            guard let count = try read(into: buffer) else { continue }
            guard count > 0 else {
                throw CommandFailure(description: "\(authority) closed the connection")
            }
            received += buffer[..<count]
            do throws(HTTPError) {
                let bytes = received.span.bytes
                let result = try bytes.withUnsafeBytes { (bytes) throws(HTTPError) in
                    try parser.parse(bytes)
                }
                if let (response, consumed) = result {
                    return (response, Array(received[consumed...]))
                }
            } catch {
                throw CommandFailure(description: "\(authority) does not speak HTTP: \(error)")
            }
        }
    }
}
