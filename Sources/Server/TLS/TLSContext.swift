// The settings that all TLS connections of a server share, as one OpenSSL SSL_CTX: certificate and
// key, versions, ciphers, ALPN, tickets, client certificates. It is made from files that were read
// before, never changes, and is replaced when the files change.
//
// Policy: "intermediate" of Mozilla's Server Side TLS, without the finite-field key exchanges of
// its older versions. Those cost the server more than the client, and no client that the guideline
// names needs them.

import CLinux
import COpenSSL
import Codec
import Session
import Synchronization

/// An SSL_CTX that is ready. Immutable; any thread.
package final class TLSContext: @unchecked Sendable {
    /// RFC 8446 §B.4.
    private static let suites =
        "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
    /// TLS 1.2, in OpenSSL's names.
    private static let ciphers = """
        ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
        ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:\
        ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305
        """
    private static let groups = "X25519:prime256v1:secp384r1"
    /// 112 bits and more: RSA from 2,048 bits, no SHA-1 signatures.
    private static let securityLevel: Int32 = 2
    /// Tickets that follow a full handshake. One: a voice client opens one connection at a time,
    /// and resuming gives it the next.
    private static let ticketCount = 1
    /// Bytes of a client's certificates. 32 KiB: chains have 2 to 6 kB.
    private static let maxClientChainBytes = 32 << 10

    /// The `SSL_CTX`.
    let pointer: OpaquePointer
    /// The keys of session tickets.
    let tickets: TLSTicketKeys
    /// Warnings for the log, one line each.
    package private(set) var warnings: [String] = []
    private var staple: OCSPStaple?
    private let outlived = Atomic<Int>(0)
    /// Bytes that freed connections have left in OpenSSL's caches.
    var outlivedBytes: Int { outlived.load(ordering: .relaxed) }
    /// Bytes that all connections of a context may leave behind. 32 KiB, and the same for each
    /// processor, which has a shard. The first connections fill OpenSSL's caches of algorithms, 3
    /// kB of a private key, and 16 to 20 kB of generators on each shard's thread. After that a
    /// connection leaves nothing, and takes 14 kB while it lives.
    private static let maxOutlivedBytes =
        (32 << 10) * (1 + max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))))

    /// Whether connections may have a copy of an OCSP response.
    var hasStaple: Bool { staple != nil }

    /// Makes a context and checks that its parts belong together.
    /// - Parameter now: the time, on the clock by which a stapled response expires.
    /// - Throws: the error, with the file.
    package init(
        _ material: TLSMaterial, clients: TLSClientAuthentication, tickets: TLSTicketKeys,
        at now: Instant
    ) throws(OptionError) {
        guard let context = SSL_CTX_new(TLS_server_method()) else {
            throw OptionError("tls-cert", "OpenSSL cannot be set up: \(openSSLReason())")
        }
        pointer = context
        self.tickets = tickets
        // From here on `deinit` frees the context, whatever is thrown.
        setPolicy()
        watchMessages()
        let chain = try CertificateList(material.certificate)
        defer { withExtendedLifetime(chain) {} }
        let leaf = chain.all[0]
        try use(chain, of: material.certificate)
        try useKey(of: material)
        checkDates(of: leaf, in: material.certificate)
        if let objection = chain.objectionToChain {
            warnings.append(material.certificate.error(objection).description)
        }
        if let file = material.ocsp { try use(file, for: leaf, at: now) }
        setTickets()
        if let file = material.clientCA { try ask(clients, for: file) }
        try bindSessions(to: material.clientCA, clients)
    }

    deinit { SSL_CTX_free(pointer) }

    /// A connection is freed, and these bytes of OpenSSL's allocations for it are left.
    func noteOutlived(_ bytes: Int) {
        guard bytes != 0 else { return }
        let sum = outlived.add(bytes, ordering: .relaxed).newValue
        assert(bytes > 0 && sum <= Self.maxOutlivedBytes, "a TLS connection left memory behind")
    }

    // MARK: Policy

    private func setPolicy() {
        // OpenSSL's own configuration file may have changed any of these.
        let isSet =
            parley_ssl_context_set_versions(pointer, TLS1_2_VERSION, TLS1_3_VERSION) == 1
            && SSL_CTX_set_ciphersuites(pointer, Self.suites) == 1
            && SSL_CTX_set_cipher_list(pointer, Self.ciphers) == 1
            && parley_ssl_context_set_groups(pointer, Self.groups) == 1
        precondition(isSet, "OpenSSL lacks what TLS is made of")
        SSL_CTX_set_security_level(pointer, Self.securityLevel)
        SSL_CTX_set_options(
            pointer, parley_ssl_no_renegotiation() | parley_ssl_no_compression())
        // Between two messages a connection has no buffers, which would be 34 of 48 kB. And the chain is
        // the one of `tls-cert`: OpenSSL would otherwise look for a missing one in every handshake, among
        // the authorities of clients.
        _ = parley_ssl_context_set_mode(
            pointer, Int(SSL_MODE_RELEASE_BUFFERS) | Int(SSL_MODE_NO_AUTO_CHAIN))
        _ = parley_ssl_context_set_certificate_limit(pointer, Self.maxClientChainBytes)
        SSL_CTX_set_alpn_select_cb(
            pointer,
            { _, selected, selectedCount, offer, count, _ in
                selectHTTP(selected, selectedCount, offer, count)
            }, nil)
    }

    /// Limits key updates: OpenSSL limits empty records and warnings by itself, but not these.
    private func watchMessages() {
        SSL_CTX_set_msg_callback(pointer) { isWritten, _, kind, bytes, count, ssl, _ in
            guard isWritten == 0, kind == SSL3_RT_HANDSHAKE, count > 0, let bytes, let ssl
            else { return }
            TLSWire.serving(ssl).note(message: bytes.load(as: UInt8.self))
        }
    }

    private func setTickets() {
        // Tickets keep the session at the client; a cache would take memory here.
        _ = parley_ssl_context_set_cache(pointer, Int(SSL_SESS_CACHE_OFF))
        SSL_CTX_set_num_tickets(pointer, Self.ticketCount)
        // As long as the oldest key may live.
        _ = SSL_CTX_set_timeout(pointer, Int(tickets.period.components.seconds) * 2 + 1)
        SSL_CTX_set_tlsext_ticket_key_evp_cb(pointer) { ssl, name, iv, cipher, mac, seals in
            guard let ssl, let name, let iv else { return -1 }
            let wire = TLSWire.serving(ssl)
            let tickets = wire.context.tickets
            return seals == 1
                ? tickets.seal(name: name, iv: iv, cipher: cipher, mac: mac, at: wire.now)
                : tickets.open(name: name, iv: iv, cipher: cipher, mac: mac, at: wire.now)
        }
    }

    // MARK: Our certificate

    /// Takes the certificate and its chain.
    private func use(_ chain: CertificateList, of file: ConfiguredFile) throws(OptionError) {
        guard SSL_CTX_use_certificate(pointer, chain.all[0]) == 1 else {
            throw file.error("cannot be used: \(openSSLReason())")
        }
        for certificate in chain.all.dropFirst()
        where parley_ssl_context_add_chain(pointer, certificate) != 1 {
            throw file.error("has a chain that cannot be used: \(openSSLReason())")
        }
    }

    private func useKey(of material: TLSMaterial) throws(OptionError) {
        let file = material.key
        if let line = PEMBoundaries.damagedLine(in: file.bytes) {
            throw file.error("is damaged at line \(line): a BEGIN or END line is missing or cut")
        }
        var isEncrypted = false
        ERR_clear_error()
        let key = file.withBIO { bio in
            PEM_read_bio_PrivateKey(
                bio, nil,
                { _, _, _, isEncrypted in
                    // Without a prompt on a terminal: a server starts unattended.
                    isEncrypted?.storeBytes(of: true, as: Bool.self)
                    return -1
                }, &isEncrypted)
        }
        guard let key else {
            throw file.error(
                isEncrypted
                    ? "is encrypted; decrypt it with `openssl pkey -in \(file.path) -out FILE`"
                    : "contains no private key in PEM")
        }
        defer { EVP_PKEY_free(key) }
        ERR_clear_error()
        guard SSL_CTX_use_PrivateKey(pointer, key) == 1 else {
            throw file.error("is not the key of the certificate in \(material.certificate.path)")
        }
    }

    private func checkDates(of leaf: OpaquePointer, in file: ConfiguredFile) {
        if X509_cmp_current_time(X509_get0_notAfter(leaf)) < 0 {
            warnings.append(file.error("has expired: clients will refuse it").description)
        } else if X509_cmp_current_time(X509_get0_notBefore(leaf)) > 0 {
            warnings.append(
                file.error("is not valid yet: clients will refuse it; is the clock right?")
                    .description)
        }
    }

    // MARK: OCSP

    private func use(
        _ file: ConfiguredFile, for leaf: OpaquePointer, at now: Instant
    ) throws(OptionError) {
        let staple = try OCSPStaple(file, for: leaf, at: now)
        if staple.hasExpired(at: now) {
            warnings.append(file.error("has expired and is not stapled; fetch it anew").description)
            return
        }
        self.staple = staple
        // The connections that call back keep this object alive.
        parley_ssl_context_staple(
            pointer,
            { ssl, argument in
                guard let ssl, let argument else { return SSL_TLSEXT_ERR_NOACK }
                let context = Unmanaged<TLSContext>.fromOpaque(argument).takeUnretainedValue()
                return context.staple?.attach(to: ssl, at: TLSWire.serving(ssl).now) == true
                    ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    // MARK: Clients' certificates

    private func ask(
        _ clients: TLSClientAuthentication, for file: ConfiguredFile
    ) throws(OptionError) {
        let authorities = try CertificateList(file)
        defer { withExtendedLifetime(authorities) {} }
        for authority in authorities.all {
            guard X509_STORE_add_cert(SSL_CTX_get_cert_store(pointer), authority) == 1,
                SSL_CTX_add_client_CA(pointer, authority) == 1
            else { throw file.error("cannot be used: \(openSSLReason())") }
        }
        let required = clients == .required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0
        SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER | required, nil)
    }

    /// Binds tickets to the authorities of clients: after these have changed, a client must show
    /// its certificate again.
    private func bindSessions(
        to file: ConfiguredFile?, _ clients: TLSClientAuthentication
    ) throws(OptionError) {
        let rules = (file?.bytes ?? []) + Array(clients.rawValue.utf8)
        var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        guard EVP_Digest(rules, rules.count, &digest, &count, EVP_sha256(), nil) == 1,
            SSL_CTX_set_session_id_context(pointer, digest, count) == 1
        else { throw OptionError("tls-client-ca", "OpenSSL failed: \(openSSLReason())") }
    }
}

/// Chooses HTTP/1.1 from a client's ALPN list (RFC 7301 §3.1), each name behind its length. A
/// client that offers only other protocols is refused (§3.2), as it could not use the connection.
private func selectHTTP(
    _ selected: UnsafeMutablePointer<UnsafePointer<UInt8>?>?,
    _ selectedCount: UnsafeMutablePointer<UInt8>?, _ offer: UnsafePointer<UInt8>?, _ count: UInt32
) -> Int32 {
    let wanted = "http/1.1".utf8
    var rest = UnsafeBufferPointer(start: offer, count: Int(count))[...]
    while let length = rest.popFirst() {
        let name = rest.prefix(Int(length))
        if name.elementsEqual(wanted), let offer {
            selected?.pointee = offer + name.startIndex
            selectedCount?.pointee = length
            return SSL_TLSEXT_ERR_OK
        }
        rest = rest.dropFirst(Int(length))
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL
}

extension ConfiguredFile {
    /// Lets OpenSSL read the content.
    func withBIO<Result>(_ body: (OpaquePointer?) -> Result) -> Result {
        bytes.withUnsafeBytes { bytes in
            let bio = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count))
            defer { BIO_free(bio) }
            return body(bio)
        }
    }
}

/// The text of OpenSSL's last error on this thread; empties the list of errors.
func openSSLReason() -> String {
    let code = ERR_peek_last_error()
    ERR_clear_error()
    return ERR_reason_error_string(code).map { String(cString: $0) } ?? "unknown reason"
}
