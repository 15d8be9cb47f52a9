// The header that a proxy sends in front of a connection to tell the client's address: version 2 of
// HAProxy's PROXY protocol ("The PROXY protocol", 2020/03/05, §2.2). The text form, version 1, is
// recognised and refused. Server decides which proxies it trusts. Extensions (TLVs) are skipped
// unread.
//
// Invariant: the result, a value or a typed error, depends on the bytes alone and not on how they
// were split.

/// Why bytes are not a supported header of this protocol.
public enum ProxyProtocolError: Error, Hashable, Sendable, CaseIterable {
    /// The bytes begin with something else: the proxy is not configured to send a header.
    case missingSignature
    /// The text form, version 1. Configure the proxy to send version 2.
    case version1
    /// A version other than 2.
    case unsupportedVersion
    /// Neither LOCAL nor PROXY.
    case unknownCommand
    /// A family or transport that the protocol does not define.
    case unknownFamily
    /// A header for datagrams on a stream.
    case datagram
    /// The length is too short for the family's addresses.
    case tooShort
    /// Longer than `ProxyHeader.maxBytes`.
    case tooLong
}

/// A parsed header.
///
/// ```
///  0                12   13   14      16               16 + length
/// ┌──────────────────┬────┬────┬───────┬──────────────────┐
/// │    signature     │v│c │f│t │length │ addresses, TLVs  │
/// └──────────────────┴────┴────┴───────┴──────────────────┘
/// ```
public struct ProxyHeader: Equatable, Sendable {
    /// Maximum bytes of a header. 2,048: addresses take at most 232, and the known extensions add
    /// far less than the rest. The specification asks for 536.
    public static let maxBytes = 2_048

    /// Address of the client that connected to the proxy. Nil for the proxy's own connections, such
    /// as health checks, and where the proxy does not know it. The client's address is then the
    /// proxy's.
    public let source: NetworkAddress?

    /// Bytes before those that the length field counts.
    private static let fixedBytes = 16
    private static let signature: [UInt8] = [
        0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A,
    ]
    private static let version1 = Array("PROXY ".utf8)

    /// Parses the header at the front of `input`.
    /// - Parameter input: all bytes of the connection so far.
    /// - Returns: the header and its byte count, or nil when more bytes are needed.
    public static func parse(
        _ input: UnsafeRawBufferPointer
    ) throws(ProxyProtocolError) -> (header: ProxyHeader, consumed: Int)? {
        guard !input.isEmpty else { return nil }
        if isPrefix(of: version1, input) {
            guard input.count >= version1.count else { return nil }
            throw .version1
        }
        guard isPrefix(of: signature, input) else { throw .missingSignature }
        // Each field is checked as soon as it has arrived, in order, so that the result does not
        // depend on how many bytes follow.
        guard input.count > 12 else { return nil }
        guard input[12] >> 4 == 2 else { throw .unsupportedVersion }
        let command = input[12] & 0xF
        guard command <= 1 else { throw .unknownCommand }
        guard input.count > 13 else { return nil }
        // For a proxy's own connection the family means nothing, and the receiver must skip the
        // bytes that the length counts (HAProxy's proxy-protocol.txt §2.2).
        let addressBytes = command == 1 ? try addressBytes(of: input[13]) : 0
        guard input.count >= fixedBytes else { return nil }
        let length = Int(input[14]) << 8 | Int(input[15])
        guard length >= addressBytes else { throw .tooShort }
        guard fixedBytes + length <= maxBytes else { throw .tooLong }
        guard input.count >= fixedBytes + length else { return nil }
        let source = command == 1 ? source(in: input, family: input[13] >> 4) : nil
        return (ProxyHeader(source: source), fixedBytes + length)
    }

    /// Whether the bytes and the pattern agree in their common length.
    private static func isPrefix(of pattern: [UInt8], _ input: UnsafeRawBufferPointer) -> Bool {
        zip(pattern, input).allSatisfy { $0 == $1 }
    }

    /// Bytes that a family's two addresses and ports take.
    private static func addressBytes(of byte: UInt8) throws(ProxyProtocolError) -> Int {
        let (family, transport) = (byte >> 4, byte & 0xF)
        guard family <= 3, transport <= 2 else { throw .unknownFamily }
        guard transport != 2 else { throw .datagram }
        switch family {
        case 1: return 12
        case 2: return 36
        case 3: return 216
        default: return 0
        }
    }

    private static func source(
        in input: UnsafeRawBufferPointer, family: UInt8
    ) -> NetworkAddress? {
        let word = { (offset: Int, count: Int) in
            input[offset..<offset + count].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        }
        switch family {
        case 1: return NetworkAddress(v4: UInt32(truncatingIfNeeded: word(fixedBytes, 4)))
        case 2:
            return NetworkAddress(high: word(fixedBytes, 8), low: word(fixedBytes + 8, 8))
        default: return nil
        }
    }
}
