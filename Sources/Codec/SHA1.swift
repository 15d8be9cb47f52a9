// SHA-1 (RFC 3174), for one use: the accept key of the WebSocket handshake (RFC 6455 §4.2.2), where
// it proves that the server read the request and protects nothing. Not for anything secret.
// Invariant: a pure function of the message; whole messages only, no state between calls.

/// The hash that the WebSocket handshake asks for.
enum SHA1 {
    /// The digest of a message, 20 bytes.
    static func digest(of message: [UInt8]) -> [UInt8] {
        var state: (UInt32, UInt32, UInt32, UInt32, UInt32) = (
            0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0
        )
        let padded = padded(message)
        for start in stride(from: 0, to: padded.count, by: 64) {
            process(padded[start..<start + 64], &state)
        }
        return [state.0, state.1, state.2, state.3, state.4].flatMap(bigEndianBytes)
    }

    /// RFC 3174 §4: a one bit, zeros up to 8 bytes before a multiple of 64, the length in bits.
    private static func padded(_ message: [UInt8]) -> [UInt8] {
        var padded = message
        padded.append(0x80)
        padded += repeatElement(0, count: (120 - padded.count % 64) % 64)
        let bits = UInt64(message.count) * 8
        return padded + bigEndianBytes(UInt32(bits >> 32))
            + bigEndianBytes(UInt32(truncatingIfNeeded: bits))
    }

    private static func bigEndianBytes(_ word: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: word >> $0) }
    }

    private static func rotated(_ word: UInt32, _ bits: UInt32) -> UInt32 {
        word << bits | word >> (32 - bits)
    }

    /// RFC 3174 §6.1, one block of 64 bytes.
    private static func process(
        _ block: ArraySlice<UInt8>, _ state: inout (UInt32, UInt32, UInt32, UInt32, UInt32)
    ) {
        var words = InlineArray<80, UInt32>(repeating: 0)
        for (offset, byte) in block.enumerated() {
            words[offset / 4] = words[offset / 4] << 8 | UInt32(byte)
        }
        for index in 16..<80 {
            let mixed = words[index - 3] ^ words[index - 8] ^ words[index - 14] ^ words[index - 16]
            words[index] = rotated(mixed, 1)
        }
        var (a, b, c, d, e) = state
        for index in 0..<80 {
            let (mix, constant): (UInt32, UInt32) =
                switch index / 20 {
                case 0: ((b & c) | (~b & d), 0x5A82_7999)
                case 1: (b ^ c ^ d, 0x6ED9_EBA1)
                case 2: ((b & c) | (b & d) | (c & d), 0x8F1B_BCDC)
                default: (b ^ c ^ d, 0xCA62_C1D6)
                }
            let next = rotated(a, 5) &+ mix &+ e &+ constant &+ words[index]
            (a, b, c, d, e) = (next, a, rotated(b, 30), c, d)
        }
        state.0 &+= a
        state.1 &+= b
        state.2 &+= c
        state.3 &+= d
        state.4 &+= e
    }
}
