// TLS for a command-line client, over a connected socket that it does not own. The handshake checks
// the server's certificate. Reads return at once, writes wait.
//
// Invariant: no data is sent before the certificate is checked, except with `--insecure`.

import COpenSSL
import Glibc

/// Which certificates a client trusts.
enum ServerTrust: Equatable {
    /// Those of the authorities that the system trusts.
    case system
    /// Those of the authorities in this PEM file, for example a self-signed certificate.
    case authorities(path: String)
    /// Any: the connection is encrypted, but the identity of the server is not known.
    case any
}

/// The client's side of TLS on one socket.
final class ClientTLS {
    /// Seconds for the handshake, and for a write to make progress.
    private static let patience = 10.0

    private let ssl: OpaquePointer
    private let descriptor: Int32
    private let host: String

    /// Agrees on keys and checks the certificate.
    /// - Parameter descriptor: a connected socket, which becomes non-blocking.
    /// - Throws: a `CommandFailure` that names the host and the reason.
    init(
        descriptor: Int32, host: String, trust: ServerTrust
    ) throws(CommandFailure) {
        self.descriptor = descriptor
        self.host = host
        let context = SSL_CTX_new(TLS_client_method())
        defer { SSL_CTX_free(context) }
        guard let context, let ssl = SSL_new(context) else {
            throw CommandFailure(description: "OpenSSL cannot be set up")
        }
        self.ssl = ssl
        try Self.setTrust(trust, of: ssl, in: context)
        try expect(host)
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL, 0) | O_NONBLOCK)
        SSL_set_fd(ssl, descriptor)
        try shakeHands()
    }

    deinit {
        SSL_shutdown(ssl)
        SSL_free(ssl)
    }

    /// Whether TLS holds decrypted bytes, which the socket does not show as readable.
    var hasPending: Bool { SSL_pending(ssl) > 0 }

    /// Reads the data that has come; nil when there is none yet, 0 when the server has closed.
    /// - Throws: a `CommandFailure` when the connection is lost.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(CommandFailure) -> Int? {
        ERR_clear_error()
        let count = SSL_read(ssl, buffer.baseAddress, Int32(clamping: buffer.count))
        if count > 0 { return Int(count) }
        switch SSL_get_error(ssl, count) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return nil
        case SSL_ERROR_ZERO_RETURN: return 0
        default: throw CommandFailure(description: "the connection is lost: \(Self.reason())")
        }
    }

    /// Writes everything.
    /// - Throws: a `CommandFailure` when the connection is lost or stuck.
    func write(all bytes: UnsafeRawBufferPointer) throws(CommandFailure) {
        let deadline = monotonicSeconds() + Self.patience
        while true {
            ERR_clear_error()
            let count = SSL_write(ssl, bytes.baseAddress, Int32(clamping: bytes.count))
            // Without partial writes, which OpenSSL does only when told to, more than 0 is all.
            if count > 0 { return }
            guard try wait(after: count, until: deadline) else {
                throw CommandFailure(description: "the connection is lost: \(Self.reason())")
            }
        }
    }

    // MARK: Handshake

    private static func setTrust(
        _ trust: ServerTrust, of ssl: OpaquePointer, in context: OpaquePointer
    ) throws(CommandFailure) {
        switch trust {
        case .system: SSL_CTX_set_default_verify_paths(context)
        case .authorities(let path):
            guard SSL_CTX_load_verify_file(context, path) == 1 else {
                throw .usage("--ca: \(jsonString(path)) is no readable file of PEM certificates")
            }
        case .any: return SSL_set_verify(ssl, SSL_VERIFY_NONE, nil)
        }
        SSL_set_verify(ssl, SSL_VERIFY_PEER, nil)
    }

    /// Sets the name that the certificate must have. Addresses are no server names (RFC 6066 §3).
    private func expect(_ host: String) throws(CommandFailure) {
        let rules = SSL_get0_param(ssl)
        if X509_VERIFY_PARAM_set1_ip_asc(rules, host) == 1 { return }
        guard SSL_set1_host(ssl, host) == 1, parley_ssl_set_server_name(ssl, host) == 1 else {
            throw .usage("--url: \(jsonString(host)) is no name for a TLS server")
        }
    }

    private func shakeHands() throws(CommandFailure) {
        let deadline = monotonicSeconds() + Self.patience
        while true {
            ERR_clear_error()
            let status = SSL_connect(ssl)
            if status == 1 { return }
            if try wait(after: status, until: deadline) { continue }
            let verdict = SSL_get_verify_result(ssl)
            if Int32(verdict) != X509_V_OK {
                throw distrust(Int32(verdict))
            }
            throw CommandFailure(
                description: "the TLS handshake with \(host) failed: \(Self.reason())")
        }
    }

    private func distrust(_ verdict: Int32) -> CommandFailure {
        let reason = X509_verify_cert_error_string(Int(verdict)).map { String(cString: $0) }
        let isOfAnother =
            verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH
        return CommandFailure(
            description: "the certificate of \(host) is not trusted: "
                + (reason ?? "unknown reason")
                + (isOfAnother ? "" : "; give its authority with --ca FILE"))
    }

    /// Waits until the socket is readable or writable, as OpenSSL needs; false when OpenSSL failed.
    private func wait(after status: Int32, until deadline: Double) throws(CommandFailure) -> Bool {
        let events: Int32
        switch SSL_get_error(ssl, status) {
        case SSL_ERROR_WANT_READ: events = POLLIN
        case SSL_ERROR_WANT_WRITE: events = POLLOUT
        default: return false
        }
        var entry = pollfd(fd: descriptor, events: Int16(events), revents: 0)
        let left = deadline - monotonicSeconds()
        guard left > 0, poll(&entry, 1, Int32((left * 1_000).rounded(.up))) != 0 else {
            throw CommandFailure(description: "\(host) stopped answering")
        }
        return true
    }

    private static func reason() -> String {
        let code = ERR_peek_last_error()
        if let words = ERR_reason_error_string(code) { return String(cString: words) }
        return errno == 0 ? "the server closed it" : String(cString: strerror(errno))
    }
}
