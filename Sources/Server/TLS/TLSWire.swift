// The parts that all TLS connections of one shard share: the context for new ones, the buffer that
// plaintext is read into, and one BIO (OpenSSL's socket) behind all of them. The BIO has no state
// of its own: this object names the connection before every call into OpenSSL. An idle connection
// has its SSL and nothing else.
//
// Invariant: all ciphertext of a read is used before the next read; OpenSSL keeps at most a part of
// a record. No record is ever refused: without room in the socket it goes into the connection's
// `unsent`. So OpenSSL waits for the peer only, never for the socket.

import COpenSSL
import Session

/// How the reading of one piece of ciphertext ended.
enum TLSReading: Equatable {
    /// All of it was used; more is to come.
    case more
    /// The peer's close_notify has come.
    case ended
    /// The connection is lost; an alert may wait in `unsent`.
    case failed(TLSFailure)
}

/// One shard's side of OpenSSL. Confined to its thread.
final class TLSWire {
    /// The plaintext that a record, or its beginning, may add to one read: RFC 8446 §5.2.
    private static let maxRecordBytes = 16_384 + 256 + 5
    /// The most bytes that OpenSSL encrypts as one record.
    static let maxFragmentBytes = 16_384
    /// Unsent bytes of one connection. 256 KiB: a handshake's answer with a generous chain, or one
    /// record; only a peer that causes alerts and reads none comes near.
    private static let maxUnsentBytes = 256 << 10

    /// Key updates (RFC 8446 §4.6.3) in one read. 8: honest peers send one in gigabytes, and 64 KiB
    /// of them would take as long as a hundred handshakes.
    private static let maxKeyUpdatesPerRead = 8

    /// The context of new connections; a reload replaces it.
    var context: TLSContext
    /// The time of the tick, for tickets.
    private(set) var now: Instant
    /// Handshakes that may still go on in this tick.
    private var handshakesLeft = 0
    private let maxHandshakesPerTick: Int

    private let io: any IO
    private let chunks: ChunkPool
    private let plaintext: UnsafeMutableRawBufferPointer
    private let bio: OpaquePointer

    // The call in progress.
    private var connection: TLSConnection?
    private var payer = NativePayer.nobody
    private var input = UnsafeRawBufferPointer(start: nil, count: 0)
    /// The socket that records are written to at once. Where nil, they wait for the tick's flush.
    private var socket: IOHandle?
    /// Bytes that the socket took.
    private var sentBytes = 0
    /// Key updates that came.
    private var keyUpdates = 0

    /// Creates a shard's side.
    init(
        context: TLSContext, io: any IO, chunks: ChunkPool, settings: TLSSettings,
        readBufferBytes: Int
    ) {
        self.context = context
        self.io = io
        self.chunks = chunks
        now = io.now
        maxHandshakesPerTick = settings.maxHandshakesPerTick
        plaintext = .allocate(
            byteCount: readBufferBytes + Self.maxRecordBytes, alignment: 64)
        guard let bio = BIO_new(Self.method) else { preconditionFailure("no memory for a BIO") }
        self.bio = bio
        BIO_set_init(bio, 1)
        BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
    }

    deinit {
        BIO_free(bio)
        plaintext.deallocate()
    }

    /// Bytes that all connections share.
    var sharedBytes: Int { plaintext.count }

    /// The shard's side that an SSL belongs to.
    static func serving(_ ssl: OpaquePointer) -> TLSWire {
        of(SSL_get_rbio(ssl))
    }

    /// TLS for a connection that was just accepted; nil when memory is short.
    func makeConnection() -> TLSConnection? {
        defer { ERR_clear_error() }
        return TLSConnection(context: context, bio: bio)
    }

    /// Takes over a connection's TLS from another shard.
    func adopt(_ tls: TLSConnection) {
        // SSL_set_bio gives back the other shard's.
        BIO_up_ref(bio)
        SSL_set_bio(tls.ssl, bio, bio)
    }

    /// A tick begins.
    func beginTick(at now: Instant) {
        self.now = now
        handshakesLeft = maxHandshakesPerTick
    }

    /// Takes one of the tick's places for handshakes; a connection that gets none is read in a
    /// later tick.
    func admitsStep(of tls: TLSConnection) -> Bool {
        guard tls.stage == .handshake else { return true }
        guard handshakesLeft > 0 else { return false }
        handshakesLeft -= 1
        return true
    }

    // MARK: In

    /// Decrypts ciphertext, and goes on with the handshake.
    /// - Returns: the plaintext, valid until the next call, and how the reading ended.
    func decrypt(
        _ ciphertext: UnsafeRawBufferPointer, of tls: TLSConnection
    ) -> (plaintext: UnsafeMutableRawBufferPointer, end: TLSReading) {
        tls.hasBegun = true
        guard tls.hello.admits(ciphertext) else {
            tls.stage = .failed
            return (empty, .failed(TLSFailure(reason: "oversized client hello")))
        }
        begin(tls, input: ciphertext, socket: nil)
        var count = 0
        keyUpdates = 0
        let end = read(tls, &count)
        finish()
        precondition(end != .more || input.isEmpty, "ciphertext was left over")
        if case .failed = end { tls.stage = .failed }
        if end == .ended { tls.hasPeerFinished = true }
        if tls.stage == .handshake, SSL_is_init_finished(tls.ssl) == 1 {
            tls.stage = .established
            // The copy that was sent is not needed any more (0.5 to 2 kB).
            if tls.context.hasStaple { _ = parley_ssl_set_staple(tls.ssl, nil, 0) }
        }
        return (UnsafeMutableRawBufferPointer(rebasing: plaintext[..<count]), end)
    }

    private var empty: UnsafeMutableRawBufferPointer { .init(rebasing: plaintext[..<0]) }

    private func read(_ tls: TLSConnection, _ count: inout Int) -> TLSReading {
        while true {
            ERR_clear_error()
            let room = UnsafeMutableRawBufferPointer(rebasing: plaintext[count...])
            let status = SSL_read(tls.ssl, room.baseAddress, Int32(clamping: room.count))
            if status > 0 {
                count += Int(status)
                continue
            }
            switch SSL_get_error(tls.ssl, status) {
            case SSL_ERROR_WANT_READ where keyUpdates > Self.maxKeyUpdatesPerRead:
                return .failed(TLSFailure(reason: "too many key updates"))
            case SSL_ERROR_WANT_READ where tls.unsent.count > Self.maxUnsentBytes:
                return .failed(TLSFailure(reason: "unread answers"))
            case SSL_ERROR_WANT_READ: return .more
            case SSL_ERROR_ZERO_RETURN: return .ended
            default: return .failed(failure())
            }
        }
    }

    private func failure() -> TLSFailure {
        let code = ERR_peek_last_error()
        let isHTTP = parley_error_reason(code) == SSL_R_HTTP_REQUEST
        return TLSFailure(reason: openSSLReason(), isPlainHTTP: isHTTP)
    }

    // MARK: Out

    /// Encrypts data and writes it; bytes that the socket does not take wait in `unsent`.
    /// - Returns: the outcome for the data, and how many bytes went to the socket.
    func write(
        _ data: UnsafeRawBufferPointer, of tls: TLSConnection, to handle: IOHandle
    ) -> (outcome: IOOutcome, sentBytes: Int) {
        guard tls.stage == .established else { return (.failed(0), 0) }
        let flushed = flush(tls, to: handle)
        guard tls.unsent.isEmpty else { return flushed }
        begin(tls, input: .init(start: nil, count: 0), socket: handle)
        sentBytes = flushed.sentBytes
        ERR_clear_error()
        let piece = data.prefix(Self.maxFragmentBytes)
        let status = SSL_write(tls.ssl, piece.base.baseAddress, Int32(piece.count))
        finish()
        guard status > 0 else {
            tls.stage = .failed
            ERR_clear_error()
            return (.failed(0), sentBytes)
        }
        return (.done(Int(status)), sentBytes)
    }

    /// Writes the bytes in `unsent`.
    /// - Returns: `.done` with 0 when nothing is left.
    func flush(
        _ tls: TLSConnection, to handle: IOHandle
    ) -> (outcome: IOOutcome, sentBytes: Int) {
        var sent = 0
        while !tls.unsent.isEmpty {
            let outcome = io.write(handle, tls.unsent.front)
            guard case .done(let count) = outcome else { return (outcome, sent) }
            tls.unsent.removeFirst(count, pool: chunks)
            sent += count
        }
        return (.done(0), sent)
    }

    /// Makes our close_notify (RFC 8446 §6.1), once. It waits in `unsent`.
    func finishWriting(_ tls: TLSConnection) {
        guard tls.stage == .established else { return }
        begin(tls, input: .init(start: nil, count: 0), socket: nil)
        ERR_clear_error()
        SSL_shutdown(tls.ssl)
        finish()
        ERR_clear_error()
        tls.stage = .finished
    }

    // MARK: The BIO

    private func begin(_ tls: TLSConnection, input: UnsafeRawBufferPointer, socket: IOHandle?) {
        precondition(connection == nil, "a call into OpenSSL within another")
        connection = tls
        payer = tls.account.begin()
        self.input = input
        self.socket = socket
    }

    private func finish() {
        payer.end()
        connection = nil
        socket = nil
    }

    private static func of(_ bio: OpaquePointer?) -> TLSWire {
        Unmanaged<TLSWire>.fromOpaque(BIO_get_data(bio)).takeUnretainedValue()
    }

    /// A handshake message came, its first byte its type (RFC 8446 §4).
    func note(message type: UInt8) {
        if type == SSL3_MT_KEY_UPDATE { keyUpdates += 1 }
    }

    /// The rest of the ciphertext; empty after too many key updates: OpenSSL returns only when it
    /// has no more bytes.
    private func take(into target: UnsafeMutableRawPointer, atMost limit: Int) -> Int {
        guard keyUpdates <= Self.maxKeyUpdatesPerRead else { return 0 }
        let count = min(limit, input.count)
        if let source = input.baseAddress { target.copyMemory(from: source, byteCount: count) }
        input = UnsafeRawBufferPointer(rebasing: input[count...])
        return count
    }

    private func send(_ records: UnsafeRawBufferPointer) {
        guard let connection else { return }
        var rest = records
        // The next write reports the failure again; the bytes are lost in any case.
        if let socket, connection.unsent.isEmpty, case .done(let count) = io.write(socket, rest) {
            sentBytes += count
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
        connection.unsent.append(rest, pool: chunks)
    }

    /// One for the process, never freed.
    nonisolated(unsafe) private static let method: OpaquePointer? = {
        let type = BIO_get_new_index() | BIO_TYPE_SOURCE_SINK
        let method = BIO_meth_new(type, "parley")
        BIO_meth_set_read(method) { bio, target, limit in
            parley_bio_clear_retry(bio)
            guard let target, limit > 0 else { return 0 }
            let count = TLSWire.of(bio).take(into: target, atMost: Int(limit))
            if count > 0 { return Int32(count) }
            parley_bio_retry_read(bio)
            return -1
        }
        BIO_meth_set_write(method) { bio, source, count in
            parley_bio_clear_retry(bio)
            guard let source, count > 0 else { return 0 }
            TLSWire.of(bio).send(UnsafeRawBufferPointer(start: source, count: Int(count)))
            return count
        }
        // A flush does nothing. The shard sees the end of the stream before OpenSSL does.
        BIO_meth_set_ctrl(method) { _, command, _, _ in command == BIO_CTRL_FLUSH ? 1 : 0 }
        return method
    }()
}
