// A TLS client on a simulated connection: OpenSSL between two memory BIOs, so that a test can
// inspect and delay every byte. The test decides what is sent inside.

import COpenSSL
import Server

/// A TLS session that a client may resume, with its ticket.
package final class TLSClientSession {
    fileprivate let pointer: OpaquePointer

    fileprivate init(_ pointer: OpaquePointer) { self.pointer = pointer }

    deinit { SSL_SESSION_free(pointer) }
}

/// Options of a TLS client.
package struct TLSClientOptions {
    /// The only TLS version that it offers, for example `TLS1_2_VERSION`.
    package var version = TLS1_3_VERSION
    /// The ALPN offer, each name preceded by its length; empty: none.
    package var protocols: [UInt8] = []
    /// The client's certificate.
    package var certificate: TestCertificate?
    /// Whether it requests an OCSP response.
    package var asksForStaple = false
    /// The session that it resumes.
    package var session: TLSClientSession?

    package init() {}
}

/// A peer that speaks TLS.
package final class SimulatedTLSClient {
    package let peer: SimulatedPeer
    /// Decrypted bytes that the test has not taken.
    package var received: [UInt8] = []
    /// The error, in OpenSSL's words.
    package private(set) var failure: String?
    /// Whether the server has shut down its direction.
    package private(set) var hasEnded = false
    /// The session of the server's ticket. In TLS 1.3 it arrives after the handshake.
    package var session: TLSClientSession? {
        if SSL_version(ssl) == TLS1_3_VERSION { return tickets.last }
        return SSL_get1_session(ssl).map { TLSClientSession($0) }
    }
    private var tickets: [TLSClientSession] = []

    private let context: OpaquePointer
    private let ssl: OpaquePointer
    private let incoming: OpaquePointer
    private let outgoing: OpaquePointer

    /// Creates a client; `poll` starts the handshake.
    package init(_ peer: SimulatedPeer, _ options: TLSClientOptions = TLSClientOptions()) {
        self.peer = peer
        guard let context = SSL_CTX_new(TLS_client_method()), let ssl = SSL_new(context),
            let incoming = BIO_new(BIO_s_mem()), let outgoing = BIO_new(BIO_s_mem())
        else { preconditionFailure("out of memory") }
        self.context = context
        self.ssl = ssl
        self.incoming = incoming
        self.outgoing = outgoing
        SSL_set_bio(ssl, incoming, outgoing)
        _ = parley_ssl_set_versions(ssl, options.version, options.version)
        if !options.protocols.isEmpty {
            SSL_set_alpn_protos(ssl, options.protocols, UInt32(options.protocols.count))
        }
        if options.asksForStaple { _ = parley_ssl_ask_for_staple(ssl) }
        if let session = options.session { SSL_set_session(ssl, session.pointer) }
        if let own = options.certificate { show(own) }
        _ = parley_ssl_context_set_cache(
            context, Int(SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE))
        SSL_set_ex_data(ssl, 0, Unmanaged.passUnretained(self).toOpaque())
        SSL_CTX_sess_set_new_cb(context) { ssl, session in
            guard let ssl, let session, let data = SSL_get_ex_data(ssl, 0) else { return 0 }
            let client = Unmanaged<SimulatedTLSClient>.fromOpaque(data).takeUnretainedValue()
            client.tickets.append(TLSClientSession(session))
            return 1
        }
    }

    deinit {
        SSL_free(ssl)
        SSL_CTX_free(context)
    }

    /// Whether the handshake is complete.
    package var isEstablished: Bool { SSL_is_init_finished(ssl) == 1 }
    /// Whether the session was resumed with a ticket.
    package var isResumed: Bool { SSL_session_reused(ssl) == 1 }
    /// The serial number of the server's certificate; nil before it has arrived.
    package var serverSerial: Int? {
        guard let certificate = SSL_get0_peer_certificate(ssl) else { return nil }
        return ASN1_INTEGER_get(X509_get0_serialNumber(certificate))
    }
    /// The number of certificates that the server has sent.
    package var chainCount: Int { Int(OPENSSL_sk_num(SSL_get_peer_cert_chain(ssl))) }
    /// The protocol selected by ALPN.
    package var selectedProtocol: String {
        var name: UnsafePointer<UInt8>?
        var count: UInt32 = 0
        SSL_get0_alpn_selected(ssl, &name, &count)
        return String(
            decoding: UnsafeBufferPointer(start: name, count: Int(count)), as: UTF8.self)
    }
    /// The OCSP response that came with the certificate.
    package var staple: [UInt8] {
        var bytes: UnsafeMutablePointer<UInt8>?
        let count = parley_ssl_staple(ssl, &bytes)
        return Array(UnsafeBufferPointer(start: bytes, count: max(0, count)))
    }

    // MARK: In and out

    /// Reads what has arrived, continues the handshake, and sends the result.
    package func poll(atMost limit: Int = .max) {
        let bytes = peer.receive(atMost: limit)
        if !bytes.isEmpty { BIO_write(incoming, bytes, Int32(bytes.count)) }
        readPlaintext()
        flush()
    }

    /// Encrypts and sends.
    package func send(_ bytes: [UInt8]) {
        ERR_clear_error()
        if !bytes.isEmpty { note(SSL_write(ssl, bytes, Int32(bytes.count))) }
        flush()
    }

    /// Encrypts and sends text.
    package func send(_ text: String) { send(Array(text.utf8)) }

    /// Shuts down the sending direction; reading continues.
    package func finishWriting() {
        SSL_shutdown(ssl)
        flush()
    }

    /// Requests new keys from the server and changes the client's (RFC 8446 §4.6.3).
    package func updateKeys() {
        SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED)
        SSL_do_handshake(ssl)
        flush()
    }

    /// Takes the bytes of the first flight, which are then not sent.
    package func takeHello() -> [UInt8] {
        SSL_connect(ssl)
        return takeOutgoing()
    }

    private func readPlaintext() {
        var buffer = [UInt8](repeating: 0, count: 16_384)
        while true {
            ERR_clear_error()
            let count = isEstablished ? 1 : SSL_connect(ssl)
            guard count == 1 else { return note(count) }
            let read = SSL_read(ssl, &buffer, Int32(buffer.count))
            guard read > 0 else { return note(read) }
            received += buffer[..<Int(read)]
        }
    }

    private func note(_ status: Int32) {
        guard status <= 0 else { return }
        switch SSL_get_error(ssl, status) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: break
        case SSL_ERROR_ZERO_RETURN: hasEnded = true
        default:
            let reason = ERR_reason_error_string(ERR_peek_last_error())
            if failure == nil { failure = reason.map { String(cString: $0) } ?? "unknown" }
        }
    }

    private func flush() {
        let bytes = takeOutgoing()
        if !bytes.isEmpty, !peer.isReset { peer.send(bytes) }
    }

    private func takeOutgoing() -> [UInt8] {
        var start: UnsafeMutablePointer<CChar>?
        let count = parley_bio_memory(outgoing, &start)
        defer { parley_bio_reset(outgoing) }
        return Array(UnsafeRawBufferPointer(start: start, count: count))
    }

    private func show(_ own: TestCertificate) {
        own.certificate.withUnsafeBytes { bytes in
            let bio = BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count))
            let certificate = PEM_read_bio_X509(bio, nil, nil, nil)
            SSL_use_certificate(ssl, certificate)
            X509_free(certificate)
            BIO_free(bio)
        }
        own.key.withUnsafeBytes { bytes in
            let bio = BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count))
            let key = PEM_read_bio_PrivateKey(bio, nil, nil, nil)
            SSL_use_PrivateKey(ssl, key)
            EVP_PKEY_free(key)
            BIO_free(bio)
        }
    }
}
