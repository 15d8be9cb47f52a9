// The handle by which a client comes back to its session: the session's id, a secret, and where the
// session lives in its process, so that it is found without a search. To the client it is one
// opaque text. A handle is read from a peer: it may name anything.
//
//   sess_4fQ2sXb81k . base64url( secret, 16 bytes ‖ shard, 2 ‖ its token there, 8 )

import Codec

/// The secret part of a handle.
struct ResumeSecret: Equatable {
    /// Unpredictable bytes of a secret: 128 bits, which cannot be guessed within a session's life.
    static let byteCount = 16

    private let words: (UInt64, UInt64)

    /// - Precondition: there are `byteCount` bytes.
    init(_ bytes: some Collection<UInt8>) {
        precondition(bytes.count == Self.byteCount)
        words = (Self.word(bytes.prefix(8)), Self.word(bytes.dropFirst(8)))
    }

    private static func word(_ bytes: some Collection<UInt8>) -> UInt64 {
        bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// The bytes of the handle.
    var bytes: [UInt8] {
        [words.0, words.1].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> UInt64(56 - 8 * $0)) }
        }
    }

    /// The hash by which others may check it without knowing it.
    var digest: SHA256Digest { bytes.withUnsafeBytes { SHA256Digest(of: $0) } }

    /// Takes the same time whatever the secrets are.
    static func == (one: Self, other: Self) -> Bool {
        (one.words.0 ^ other.words.0) | (one.words.1 ^ other.words.1) == 0
    }
}

/// A handle in its parts.
struct ResumeHandle: Equatable {
    /// The most characters of a handle that is read. 128: more than twice the longest of ours.
    static let maxBytes = 128
    private static let placeBytes = 10

    /// `sess_…`
    let sessionID: String
    let secret: ResumeSecret
    /// The shard on which the session lives, if it is this process's.
    let shard: Int
    /// Its token there.
    let token: EventToken

    init(sessionID: String, secret: ResumeSecret, shard: Int, token: EventToken) {
        self.sessionID = sessionID
        self.secret = secret
        self.shard = shard
        self.token = token
    }

    /// Reads a handle, or returns nil where the text is none.
    init?(_ text: String) {
        guard text.utf8.count <= Self.maxBytes, let dot = text.lastIndex(of: "."),
            text[..<dot].hasPrefix("sess_"),
            let bytes = Base64URL.decode(text[text.index(after: dot)...].utf8),
            bytes.count == ResumeSecret.byteCount + Self.placeBytes
        else { return nil }
        sessionID = String(text[..<dot])
        secret = ResumeSecret(bytes.prefix(ResumeSecret.byteCount))
        let place = bytes.dropFirst(ResumeSecret.byteCount)
        shard = place.prefix(2).reduce(0) { $0 << 8 | Int($1) }
        token = EventToken(rawValue: place.dropFirst(2).reduce(0) { $0 << 8 | UInt64($1) })
    }

    /// The handle as the client gets it.
    var text: String {
        var bytes = secret.bytes
        bytes += [UInt8(truncatingIfNeeded: shard >> 8), UInt8(truncatingIfNeeded: shard)]
        bytes += (0..<8).map { UInt8(truncatingIfNeeded: token.rawValue >> UInt64(56 - 8 * $0)) }
        return sessionID + "." + Base64URL.text(of: bytes)
    }
}
