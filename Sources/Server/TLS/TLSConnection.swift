// TLS on one connection: the OpenSSL object, the account of what it allocates, and the records that
// the socket had no room for. What moves bytes through it is TLSWire; what they mean for the
// connection's life is ShardTLS's.
//
//   handshake ──Finished──▶ established ──our close_notify──▶ finished
//        └───────────────────────┴──────a fatal error───────▶ failed

import COpenSSL

/// Why TLS ended a connection.
struct TLSFailure: Error, Equatable {
    /// OpenSSL's words, or ours. Never the peer's.
    let reason: String
    /// Whether the peer speaks plain HTTP.
    var isPlainHTTP = false
}

/// One connection's TLS. Confined to its shard's thread.
final class TLSConnection {
    /// How far it is; the diagram is at the top of the file.
    enum Stage: UInt8 {
        /// Keys are being agreed on. Next: established, failed.
        case handshake
        /// Data goes both ways. Next: finished, failed.
        case established
        /// We have said that we send no more.
        case finished
        /// A rule was broken; OpenSSL must not be called again.
        case failed
    }

    /// The `SSL`.
    let ssl: OpaquePointer
    /// What pays while OpenSSL works for this connection.
    let account: NativeAccount
    /// What it was made from; a reload must not take that away from a connection that is open.
    let context: TLSContext
    /// Records that are made and not sent. OpenSSL is never told that the socket is full: it would
    /// want to be called with the same data again, but data that came too late is dropped from the
    /// connection's output, and its own copy would take as much.
    var unsent = SendBuffer()
    var stage = Stage.handshake
    /// What the first bytes announce.
    var hello = TLSHello()
    /// Whether the peer has sent anything.
    var hasBegun = false
    /// Whether the peer has said that it sends no more.
    var hasPeerFinished = false

    /// Prepares a server's side of TLS over `bio`; nil when memory is short.
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

    /// Bytes that it makes the process hold: its own, and what OpenSSL has allocated for it.
    /// Without `unsent`, which is output.
    var heldBytes: Int { account.heldBytes + NativeMemory.blockBytes(of: self) }

    deinit {
        // Without having been shut down, the session would count as broken (SSL_shutdown(3)).
        SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN)
        SSL_free(ssl)
        context.noteOutlived(account.bytes)
    }
}
