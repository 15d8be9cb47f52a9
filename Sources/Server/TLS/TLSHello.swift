// A check of the first nine bytes of a TLS connection, before OpenSSL reads them. OpenSSL allocates
// as much for a ClientHello as its header announces, up to 128 KiB. So nine bytes could take 170 kB
// until the time for a handshake is over. A real ClientHello has a few hundred bytes, or 2 kB with
// post-quantum keys.
//
// Invariant: the same answer for any chunking. RFC 8446 §5.1, §4; pure.

/// Judges the announced size of a ClientHello.
struct TLSHello {
    /// Bytes of a ClientHello. 16 KiB: as much as fits in one record.
    static let maxBytes = 16 << 10
    /// A record's header, and a handshake message's.
    private static let headerBytes = 5 + 4
    /// The type of a record of the handshake.
    private static let handshake: UInt8 = 22

    private var seen: UInt8 = 0
    private var isHandshake = false
    private var recordBytes: UInt16 = 0

    /// Takes the next bytes; false when the message is larger than any client's, or comes in such
    /// small records that its size cannot be seen in the first.
    ///
    /// ```
    ///  0      1  2      3  4      5          6  7  8
    /// ┌──────┬────────┬─────────┬───────────┬─────────┐
    /// │ type │version │ length  │ handshake │ length  │
    /// └──────┴────────┴─────────┴───────────┴─────────┘
    /// ```
    mutating func admits(_ bytes: UnsafeRawBufferPointer) -> Bool {
        for byte in bytes {
            // OpenSSL refuses other records, with the right alert.
            if seen == Self.headerBytes || (seen > 0 && !isHandshake) { return true }
            switch seen {
            case 0: isHandshake = byte == Self.handshake
            case 3: recordBytes = UInt16(byte) << 8
            case 4:
                recordBytes |= UInt16(byte)
                if recordBytes < 4 { return false }
            case 6: if byte != 0 { return false }
            case 7: if Int(byte) << 8 >= Self.maxBytes { return false }
            default: break
            }
            seen += 1
        }
        return true
    }
}
