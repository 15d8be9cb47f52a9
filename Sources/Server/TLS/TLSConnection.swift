// TLS on one connection: the OpenSSL object, the account of its allocations, and the records that
// the socket had no room for. TLSWire moves bytes through it; ShardTLS connects it with the
// connection's life.
//
//   handshake ──Finished──▶ established ──our close_notify──▶ finished
//        └───────────────────────┴──────a fatal error───────▶ failed

import COpenSSL

/// Why TLS ended a connection.
struct TLSFailure: Error, Equatable {
    /// The text of OpenSSL, or of this server. Never the peer's.
    let reason: String
    /// Whether the peer speaks plain HTTP.
    var isPlainHTTP = false
}

/// One connection's TLS. Confined to its shard's thread.
final class TLSConnection {
    /// Its stage; the diagram is at the top of the file.
    enum Stage: UInt8 {
        /// Keys are being agreed on. Next: established, failed.
        case handshake
        /// Data goes both ways. Next: finished, failed.
        case established
        /// Our close_notify is sent.
        case finished
        /// A rule was broken; OpenSSL must not be called again.
        case failed
    }

    /// The `SSL`.
    let ssl: OpaquePointer
    /// The account that OpenSSL's allocations for this connection are charged to.
    let account: NativeAccount
    /// The context that it was made from, which must outlive a reload.
    let context: TLSContext
    /// Records that are made and not sent. OpenSSL never sees that the socket is full: it would
    /// have to be called with the same data again. But late audio is dropped from the connection's
    /// output, and a copy of the data would take as much memory as the records.
    var unsent = SendBuffer()
    var stage = Stage.handshake
    /// The check of the first bytes.
    var hello = TLSHello()
    /// Whether the peer has sent bytes.
    var hasBegun = false
    /// Whether the peer's close_notify has come.
    var hasPeerFinished = false

    /// Creates the server's side of TLS over `bio`; nil when memory is short.
    init?(context: TLSContext, bio: OpaquePointer) {
        let account = NativeAccount()
        guard let ssl = account.charge({ SSL_new(context.pointer) }) else { return nil }
        self.ssl = ssl
        self.account = account
        self.context = context
        // One reference serves both directions; SSL_free gives it back.
        BIO_up_ref(bio)
        SSL_set_bio(ssl, bio, bio)
        SSL_set_accept_state(ssl)
    }

    /// Bytes of the object, and of OpenSSL's allocations for it. Without `unsent`, which is output.
    var heldBytes: Int { account.heldBytes + NativeMemory.blockBytes(of: self) }

    deinit {
        // Without having been shut down, the session would count as broken (SSL_shutdown(3)).
        SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
        SSL_free(ssl)
        context.noteOutlived(account.bytes)
    }
}
