// TLS for the generator: OpenSSL on a socket that another object owns. Certificates are not
// checked, because load tests use self-signed ones. OpenSSL is set to keep as little memory as
// possible between messages, because there are thousands of connections.

import CLinux
import COpenSSL

/// The OpenSSL context of all connections.
final class LoadTLSContext {
    fileprivate let context: OpaquePointer

    /// - Parameter isModern: whether TLS 1.3 with one cipher is the only choice, so that all servers
    ///   have the same work.
    /// - Throws: `LoadFailure` when OpenSSL cannot be set up.
    init(isModern: Bool = false) throws(LoadFailure) {
        guard let context = SSL_CTX_new(TLS_client_method()) else {
            throw LoadFailure("OpenSSL cannot be set up")
        }
        self.context = context
        SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nil)
        _ = parley_ssl_context_set_cache(context, Int(SSL_SESS_CACHE_OFF))
        _ = parley_ssl_context_set_mode(
            context,
            Int(SSL_MODE_RELEASE_BUFFERS) | Int(SSL_MODE_ENABLE_PARTIAL_WRITE)
                | Int(SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER))
        guard isModern else { return }
        let isSet =
            parley_ssl_context_set_versions(context, TLS1_3_VERSION, TLS1_3_VERSION) == 1
            && SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1
            && parley_ssl_context_set_groups(context, "X25519") == 1
        guard isSet else { throw LoadFailure("OpenSSL has no TLS 1.3") }
    }

    deinit { SSL_CTX_free(context) }
}

/// A session that another connection may resume.
final class LoadTLSSession {
    fileprivate let session: OpaquePointer

    fileprivate init(_ session: OpaquePointer) { self.session = session }

    deinit { SSL_SESSION_free(session) }
}

/// The client's side of TLS on one socket.
final class LoadTLS {
    /// The outcome of a call.
    enum Outcome {
        /// The number of bytes; 0 when the peer has ended the stream.
        case done(Int)
        /// Not possible yet: the socket has nothing to read, or takes no more bytes.
        case waits(forRoom: Bool)
        case failed(String)

        /// The number of bytes of a successful call, or nil.
        var count: Int? {
            if case .done(let count) = self { count } else { nil }
        }
    }

    private let ssl: OpaquePointer

    /// - Throws: `LoadFailure` when OpenSSL has no memory.
    init(_ descriptor: Int32, _ context: LoadTLSContext) throws(LoadFailure) {
        guard let ssl = SSL_new(context.context) else { throw LoadFailure("OpenSSL has no memory") }
        self.ssl = ssl
        SSL_set_fd(ssl, descriptor)
    }

    deinit {
        // Without having been shut down, the session could not be resumed (SSL_shutdown(3)).
        SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
        SSL_free(ssl)
    }

    /// Whether OpenSSL has bytes that it has already read from the socket.
    var hasPending: Bool { SSL_pending(ssl) > 0 }

    /// The session with the server's last ticket; nil before a ticket has come. TLS 1.3 sends them
    /// behind the handshake (RFC 8446 §4.6.1), so that they come with the first answer.
    var session: LoadTLSSession? {
        guard let session = SSL_get1_session(ssl) else { return nil }
        let owned = LoadTLSSession(session)
        return SSL_SESSION_is_resumable(session) == 1 ? owned : nil
    }

    /// Whether the handshake, once it is done, resumed a session.
    var isResumed: Bool { SSL_session_reused(ssl) == 1 }

    /// Offers a session's ticket in the handshake, before it begins.
    func resume(_ session: LoadTLSSession) { SSL_set_session(ssl, session.session) }

    /// Continues the handshake.
    func shakeHands() -> Outcome {
        ERR_clear_error()
        let status = SSL_connect(ssl)
        return status == 1 ? .done(0) : outcome(of: status)
    }

    /// Reads the bytes that have arrived.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> Outcome {
        ERR_clear_error()
        let count = SSL_read(ssl, buffer.baseAddress, Int32(clamping: buffer.count))
        return count > 0 ? .done(Int(count)) : outcome(of: count)
    }

    /// Writes a part of the bytes.
    func write(_ bytes: UnsafeRawBufferPointer) -> Outcome {
        ERR_clear_error()
        let count = SSL_write(ssl, bytes.baseAddress, Int32(clamping: bytes.count))
        return count > 0 ? .done(Int(count)) : outcome(of: count)
    }

    private func outcome(of status: Int32) -> Outcome {
        switch SSL_get_error(ssl, status) {
        case SSL_ERROR_WANT_READ: return .waits(forRoom: false)
        case SSL_ERROR_WANT_WRITE: return .waits(forRoom: true)
        case SSL_ERROR_ZERO_RETURN: return .done(0)
        default:
            let code = ERR_get_error()
            let reason = ERR_reason_error_string(code).map { String(cString: $0) }
            return .failed("TLS: \(reason ?? "the connection broke off")")
        }
    }
}
