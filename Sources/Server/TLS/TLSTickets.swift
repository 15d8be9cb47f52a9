// The keys of session tickets (RFC 5077, RFC 8446 §4.6.1): a ticket is a session that the client
// keeps for the server, encrypted with one of these. All shards share them, so that a client can
// resume on any shard. They are never stored: a restart costs every client one full handshake.
//
// Invariant: a key encrypts for one period and decrypts for one more; then it is overwritten. Time
// is an argument.

import COpenSSL
import Session
import Synchronization

/// One key: 16 bytes that name it, 32 that encrypt, 32 that authenticate.
private struct TLSTicketKey {
    static let nameBytes = 16
    private static let secretBytes = 32

    /// The name, the AES-256 key, the HMAC key.
    private var bytes = InlineArray<80, UInt8>(repeating: 0)
    /// When it began to encrypt.
    let beginning: Instant

    init(at now: Instant) {
        beginning = now
        let status = withUnsafeMutableBytes(of: &bytes) {
            RAND_priv_bytes($0.baseAddress, Int32($0.count))
        }
        // Without randomness there is no TLS; a key that can be guessed would be worse than a
        // crash.
        precondition(status == 1, "the random generator failed")
    }

    mutating func erase() {
        withUnsafeMutableBytes(of: &bytes) { OPENSSL_cleanse($0.baseAddress, $0.count) }
    }

    func writeName(to name: UnsafeMutablePointer<UInt8>) {
        for index in 0..<Self.nameBytes { name[index] = bytes[index] }
    }

    func isNamed(_ name: UnsafePointer<UInt8>) -> Bool {
        (0..<Self.nameBytes).allSatisfy { name[$0] == bytes[$0] }
    }

    /// Sets a cipher and a MAC up with the key. The caller gives the IV.
    func prepare(
        _ cipher: OpaquePointer?, iv: UnsafePointer<UInt8>, encrypts: Bool, mac: OpaquePointer?
    ) -> Bool {
        withUnsafeBytes(of: bytes) { all in
            let secret = all.baseAddress! + Self.nameBytes
            let status = EVP_CipherInit_ex(
                cipher, EVP_aes_256_cbc(), nil, secret.assumingMemoryBound(to: UInt8.self), iv,
                encrypts ? 1 : 0)
            return status == 1 && Self.setKey(secret + Self.secretBytes, of: mac)
        }
    }

    private static func setKey(_ key: UnsafeRawPointer, of mac: OpaquePointer?) -> Bool {
        OSSL_MAC_PARAM_KEY.withCString { keyName in
            OSSL_MAC_PARAM_DIGEST.withCString { digestName in
                "SHA256".withCString { digest in
                    // OpenSSL only reads through the pointers, which are not const in its struct.
                    let parameters = [
                        OSSL_PARAM_construct_octet_string(
                            keyName, UnsafeMutableRawPointer(mutating: key), secretBytes),
                        OSSL_PARAM_construct_utf8_string(
                            digestName, UnsafeMutablePointer(mutating: digest), 0),
                        OSSL_PARAM_construct_end(),
                    ]
                    return EVP_MAC_CTX_set_params(mac, parameters) == 1
                }
            }
        }
    }
}

/// The keys of a server's tickets. Any thread: a handshake takes the lock once or twice.
package final class TLSTicketKeys: Sendable {
    private struct Keys {
        var current: TLSTicketKey
        var previous: TLSTicketKey?
    }

    /// How long a key encrypts; it decrypts for twice that.
    let period: Duration
    private let keys: Mutex<Keys>

    /// Makes the first key.
    package init(period: Duration, at now: Instant) {
        self.period = period
        keys = Mutex(Keys(current: TLSTicketKey(at: now)))
    }

    deinit {
        keys.withLock {
            $0.current.erase()
            $0.previous?.erase()
        }
    }

    /// Makes a new key and overwrites old ones, if the current one is too old.
    /// - Returns: when the next rotation is due.
    func rotate(at now: Instant) -> Instant {
        keys.withLock { keys in
            rotate(&keys, at: now)
            return keys.current.beginning + period
        }
    }

    /// Prepares OpenSSL to seal a ticket, with the key's name and the IV.
    /// - Returns: the value of OpenSSL's callback: 1, or -1 when the cryptography failed.
    func seal(
        name: UnsafeMutablePointer<UInt8>, iv: UnsafeMutablePointer<UInt8>,
        cipher: OpaquePointer?, mac: OpaquePointer?, at now: Instant
    ) -> Int32 {
        guard RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) == 1 else { return -1 }
        return keys.withLock { keys in
            rotate(&keys, at: now)
            keys.current.writeName(to: name)
            return keys.current.prepare(cipher, iv: iv, encrypts: true, mac: mac) ? 1 : -1
        }
    }

    /// Prepares OpenSSL to open a ticket.
    /// - Returns: the value of OpenSSL's callback: 0 for an unknown or old key, 1 for the current
    ///   one, -1 when the cryptography failed. For the key before the current one it is 2, so that
    ///   the ticket is replaced.
    func open(
        name: UnsafePointer<UInt8>, iv: UnsafePointer<UInt8>, cipher: OpaquePointer?,
        mac: OpaquePointer?, at now: Instant
    ) -> Int32 {
        keys.withLock { keys in
            rotate(&keys, at: now)
            if keys.current.isNamed(name) {
                return keys.current.prepare(cipher, iv: iv, encrypts: false, mac: mac) ? 1 : -1
            }
            guard let previous = keys.previous, previous.isNamed(name) else { return 0 }
            return previous.prepare(cipher, iv: iv, encrypts: false, mac: mac) ? 2 : -1
        }
    }

    private func rotate(_ keys: inout Keys, at now: Instant) {
        guard now - keys.current.beginning >= period else { return }
        keys.previous?.erase()
        // After a long silence the key that was current is too old to decrypt as well.
        if now - keys.current.beginning < period * 2 {
            keys.previous = keys.current
        } else {
            keys.previous = nil
        }
        keys.current.erase()
        keys.current = TLSTicketKey(at: now)
    }
}
