// The WebSocket frame: reads and writes its header, and applies the mask (RFC 6455 §5).
//
//    byte 0                 byte 1
//   +-+-+-+-+-------+      +-+-------------+-----------------------+----------+---------
//   |F|R|R|R| opcode|      |M| length (7)  | length, 16 or 64 bits | mask (32)| payload
//   |I|S|S|S|  (4)  |      |A| 126: 16 bits| if 126 or 127, big    | if MASK  |
//   |N|V|V|V|       |      |S| 127: 64 bits| endian, minimal       |          |
//   +-+-+-+-+-------+      |K+-------------+-----------------------+----------+---------
//
// Messages and the closing handshake are in WebSocketConnection.

/// The type of a frame (RFC 6455 §5.2).
public enum WebSocketOpcode: UInt8, Sendable {
    /// A further piece of the message in progress.
    case continuation = 0x0
    /// A text message, or its first piece.
    case text = 0x1
    /// A binary message, or its first piece.
    case binary = 0x2
    /// A frame of the closing handshake.
    case close = 0x8
    /// Asks the peer to answer with a pong.
    case ping = 0x9
    /// The answer to a ping, or an unsolicited sign of life.
    case pong = 0xA

    /// Whether this is a Close, Ping or Pong (RFC 6455 §5.5).
    @inlinable
    public var isControl: Bool { rawValue & 0x8 != 0 }
}

/// Writes frames.
public enum WebSocketFrame {
    /// Maximum payload bytes of a Close, Ping or Pong (RFC 6455 §5.5).
    public static let maxControlPayloadBytes = 125
    /// Maximum bytes of a Close frame's reason: the maximum payload less two bytes for the code.
    public static let maxCloseReasonBytes = maxControlPayloadBytes - 2
    /// Maximum bytes of a header: two bytes, a 64-bit length and a mask.
    public static let maxHeaderBytes = 14

    /// Bytes of the header that a frame adds to its payload.
    /// - Precondition: `payloadBytes` is not negative.
    @inlinable
    public static func headerSize(payloadBytes: Int, masked: Bool) -> Int {
        precondition(payloadBytes >= 0)
        let lengthBytes = payloadBytes <= 125 ? 0 : payloadBytes <= 0xFFFF ? 2 : 8
        return 2 + lengthBytes + (masked ? 4 : 0)
    }

    /// Writes a header. The caller writes the payload after it, masked if there is a mask.
    /// - Parameters:
    ///   - isFinal: whether this is the last frame of its message.
    ///   - isCompressed: whether this is the first frame of a message that permessage-deflate
    ///     compressed (RSV1, RFC 7692 §6).
    ///   - mask: a client's masking key, nil for a server (RFC 6455 §5.3); its least significant
    ///     byte is the first on the wire.
    /// - Precondition: a control frame is final and has at most 125 bytes.
    public static func writeHeader(
        _ opcode: WebSocketOpcode, payloadBytes: Int, isFinal: Bool = true,
        isCompressed: Bool = false, mask: UInt32? = nil, into writer: inout ByteWriter
    ) {
        let size = headerSize(payloadBytes: payloadBytes, masked: mask != nil)
        writer.append(upTo: size) { header in
            writeHeader(
                opcode, payloadBytes: payloadBytes, isFinal: isFinal, isCompressed: isCompressed,
                mask: mask, to: header)
            return size
        }
    }

    /// Writes a header into `header`. Inlinable, because every sent message passes here.
    /// - Precondition: `header` has `headerSize(payloadBytes:masked:)` bytes.
    @inlinable
    public static func writeHeader(
        _ opcode: WebSocketOpcode, payloadBytes: Int, isFinal: Bool = true,
        isCompressed: Bool = false, mask: UInt32? = nil, to header: UnsafeMutableRawBufferPointer
    ) {
        precondition(
            !opcode.isControl || (isFinal && payloadBytes <= maxControlPayloadBytes),
            "A control frame is final and has at most 125 bytes.")
        let size = headerSize(payloadBytes: payloadBytes, masked: mask != nil)
        precondition(header.count >= size)
        header[0] = opcode.rawValue | (isFinal ? 0x80 : 0) | (isCompressed ? 0x40 : 0)
        let maskBit: UInt8 = mask == nil ? 0 : 0x80
        if payloadBytes <= 125 {
            header[1] = UInt8(payloadBytes) | maskBit
        } else if payloadBytes <= 0xFFFF {
            header[1] = 126 | maskBit
            header.storeBytes(
                of: UInt16(payloadBytes).bigEndian, toByteOffset: 2, as: UInt16.self)
        } else {
            header[1] = 127 | maskBit
            header.storeBytes(
                of: UInt64(payloadBytes).bigEndian, toByteOffset: 2, as: UInt64.self)
        }
        if let mask {
            header.storeBytes(of: mask.littleEndian, toByteOffset: size - 4, as: UInt32.self)
        }
    }

    /// Writes a whole frame.
    /// - Precondition: a control frame is final and has at most 125 bytes.
    public static func write(
        _ opcode: WebSocketOpcode, payload: UnsafeRawBufferPointer, isFinal: Bool = true,
        mask: UInt32? = nil, into writer: inout ByteWriter
    ) {
        writeHeader(
            opcode, payloadBytes: payload.count, isFinal: isFinal, mask: mask, into: &writer)
        guard let mask else { return writer.append(payload) }
        writer.append(upTo: payload.count) { masked in
            masked.copyMemory(from: payload)
            WebSocketMask.apply(mask, to: masked)
            return payload.count
        }
    }

    /// Writes a Close frame.
    /// - Parameters:
    ///   - code: nil for a frame without a payload.
    ///   - reason: cut at a character boundary to at most 123 bytes; ignored without a code.
    /// - Precondition: the code, if any, is allowed on the wire.
    public static func writeClose(
        _ code: WebSocketCloseCode?, reason: String = "", mask: UInt32? = nil,
        into writer: inout ByteWriter
    ) {
        guard let code else {
            return writeHeader(.close, payloadBytes: 0, mask: mask, into: &writer)
        }
        precondition(code.isAllowedOnWire, "This close code must not be sent.")
        var text = reason
        text.withUTF8 { utf8 in
            var count = min(utf8.count, maxCloseReasonBytes)
            while count < utf8.count && count > 0 && utf8[count] & 0xC0 == 0x80 { count -= 1 }
            writeHeader(.close, payloadBytes: 2 + count, mask: mask, into: &writer)
            writer.append(upTo: 2 + count) { payload in
                payload.storeBytes(of: code.rawValue.bigEndian, as: UInt16.self)
                let kept = UnsafeBufferPointer(rebasing: utf8[..<count])
                UnsafeMutableRawBufferPointer(rebasing: payload[2...])
                    .copyMemory(from: UnsafeRawBufferPointer(kept))
                if let mask { WebSocketMask.apply(mask, to: payload) }
                return 2 + count
            }
        }
    }
}

/// The header of a frame, complete. The reserved bits are checked while parsing.
struct WebSocketFrameHeader {
    let opcode: WebSocketOpcode
    let isFinal: Bool
    /// RSV1: the frame begins a compressed message (RFC 7692 §6).
    let isCompressed: Bool
    /// The masking key as in `WebSocketFrame.writeHeader`; nil for an unmasked payload.
    let mask: UInt32?
    let payloadBytes: Int
    /// Bytes of the header itself. 2…14.
    let size: Int

    /// Parses the header at the front of `bytes`.
    ///
    /// Each rule is checked on the first byte that can break it, before the rest has arrived. So
    /// the result is the same however the bytes were split, and a broken rule is reported at once.
    /// - Parameters:
    ///   - expectsMask: whether the peer is a client.
    ///   - continues: whether a fragmented message is in progress.
    ///   - takesCompressed: whether permessage-deflate was agreed.
    /// - Returns: nil when the header is incomplete.
    @inline(__always)
    static func parse(
        _ bytes: UnsafeMutableRawBufferPointer, expectsMask: Bool, continues: Bool,
        takesCompressed: Bool
    ) throws(WebSocketError) -> WebSocketFrameHeader? {
        guard bytes.count >= 1 else { return nil }
        let first = bytes[0]
        // RSV1 is defined only on the first frame of a message (RFC 7692 §6.1): opcodes 1 and 2.
        guard first & 0x70 == 0 || (takesCompressed && (0x41...0x42).contains(first & 0x7F)) else {
            throw .reservedBitSet
        }
        guard let opcode = WebSocketOpcode(rawValue: first & 0x0F) else { throw .reservedOpcode }
        let isFinal = first & 0x80 != 0
        switch opcode {
        case .continuation: guard continues else { throw .unexpectedContinuation }
        case .text, .binary: guard !continues else { throw .interruptedMessage }
        case .close, .ping, .pong: guard isFinal else { throw .fragmentedControlFrame }
        }
        guard bytes.count >= 2 else { return nil }
        let isMasked = bytes[1] & 0x80 != 0
        guard isMasked == expectsMask else {
            throw expectsMask ? .unmaskedClientFrame : .maskedServerFrame
        }
        let shortLength = Int(bytes[1] & 0x7F)
        guard !opcode.isControl || shortLength <= WebSocketFrame.maxControlPayloadBytes else {
            throw .controlFrameTooLong
        }
        guard let (payloadBytes, lengthEnd) = try parseLength(bytes, short: shortLength) else {
            return nil
        }
        let size = lengthEnd + (isMasked ? 4 : 0)
        guard bytes.count >= size else { return nil }
        var mask: UInt32?
        if isMasked {
            let key = bytes.loadUnaligned(fromByteOffset: lengthEnd, as: UInt32.self)
            mask = UInt32(littleEndian: key)
        }
        return WebSocketFrameHeader(
            opcode: opcode, isFinal: isFinal, isCompressed: first & 0x40 != 0, mask: mask,
            payloadBytes: payloadBytes, size: size)
    }

    /// Reads the payload's length; nil when its bytes are incomplete.
    @inline(__always)
    private static func parseLength(
        _ bytes: UnsafeMutableRawBufferPointer, short: Int
    ) throws(WebSocketError) -> (payloadBytes: Int, end: Int)? {
        if short <= 125 { return (short, 2) }
        if short == 126 {
            guard bytes.count >= 4 else { return nil }
            let length = UInt16(bigEndian: bytes.loadUnaligned(fromByteOffset: 2, as: UInt16.self))
            guard length > 125 else { throw .nonMinimalLength }
            return (Int(length), 4)
        }
        guard bytes.count >= 10 else { return nil }
        let length = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 2, as: UInt64.self))
        // `Int(exactly:)` fails exactly when the top bit is set, which §5.2 forbids.
        guard let payloadBytes = Int(exactly: length) else { throw .lengthTopBitSet }
        guard payloadBytes > 0xFFFF else { throw .nonMinimalLength }
        return (payloadBytes, 10)
    }
}

/// The masking of payloads (RFC 6455 §5.3): byte i is XORed with key byte i mod 4.
enum WebSocketMask {
    /// Masks or unmasks `bytes` in place; the first byte is XORed with the first byte of the key.
    /// - Returns: whether a byte of the result is ≥ 80. This costs one operation in a pass that is
    ///   needed anyway, and saves the UTF-8 pass over ASCII text.
    @discardableResult
    static func apply(_ mask: UInt32, to bytes: UnsafeMutableRawBufferPointer) -> Bool {
        guard var address = bytes.baseAddress else { return false }
        let end = address + bytes.count
        let key = (UInt64(mask) << 32 | UInt64(mask)).littleEndian
        var seen: UInt64 = 0
        if end - address >= 32 {
            let wideKey = SIMD4<UInt64>(repeating: key)
            var wideSeen = SIMD4<UInt64>.zero
            while end - address >= 32 { wideSeen |= combine(wideKey, at: &address) }
            seen = wideSeen[0] | wideSeen[1] | wideSeen[2] | wideSeen[3]
        }
        while end - address >= 8 { seen |= combine(key, at: &address) }
        // Up to seven bytes remain: groups of four, two and one.
        var rest = mask.littleEndian
        if end - address >= 4 { seen |= UInt64(combine(rest, at: &address)) }
        if end - address >= 2 {
            seen |= UInt64(combine(UInt16(truncatingIfNeeded: rest), at: &address))
            rest >>= 16
        }
        if end - address >= 1 {
            seen |= UInt64(combine(UInt8(truncatingIfNeeded: rest), at: &address))
        }
        return seen & 0x8080_8080_8080_8080 != 0
    }

    /// XORs the bytes at `address` with the key, and advances past them.
    /// - Returns: the result.
    @inline(__always)
    private static func combine<Word: FixedWidthInteger>(
        _ key: Word, at address: inout UnsafeMutableRawPointer
    ) -> Word {
        let word = address.loadUnaligned(as: Word.self) ^ key
        address.storeBytes(of: word, as: Word.self)
        address += MemoryLayout<Word>.size
        return word
    }

    /// XORs four words at once.
    @inline(__always)
    private static func combine(
        _ key: SIMD4<UInt64>, at address: inout UnsafeMutableRawPointer
    ) -> SIMD4<UInt64> {
        let block = address.loadUnaligned(as: SIMD4<UInt64>.self) ^ key
        address.storeBytes(of: block, as: SIMD4<UInt64>.self)
        address += MemoryLayout<SIMD4<UInt64>>.size
        return block
    }

    /// The key for a piece of a payload that starts `bytes` after the payload's start.
    static func rotated(_ mask: UInt32, by bytes: Int) -> UInt32 {
        let bits = UInt32(truncatingIfNeeded: bytes & 3) &* 8
        return bits == 0 ? mask : mask >> bits | mask << (32 &- bits)
    }
}
