// The header that a proxy puts in front of a connection to say whose it is: version 2 of HAProxy's
// PROXY protocol ("The PROXY protocol", 2020/03/05, §2.2). Version 1, its text form, is told apart
// and refused. Whom to believe is Server's; extensions (TLVs) are skipped, unread.
//
// Invariant: a value or a typed error, decided by the bytes alone and not by how they were split.

/// Why bytes are no header of this protocol, or not one that is served.
public enum ProxyProtocolError: Error, Hashable, Sendable, CaseIterable {
    /// The bytes begin with something else: the proxy is not set up to send a header.
    case missingSignature
    /// The text form, version 1. Set the proxy up to send version 2.
    case version1
    /// A version other than 2.
    case unsupportedVersion
    /// Neither LOCAL nor PROXY.
    case unknownCommand
    /// A family or transport that the protocol does not have.
    case unknownFamily
    /// A datagram's header in front of a stream.
    case datagram
    /// A length that cannot hold the family's addresses.
    case tooShort
    /// More than `ProxyHeader.maxBytes`.
    case tooLong
}

/// What a header says.
///
/// ```
///  0                12   13   14      16               16 + length
/// ┌──────────────────┬────┬────┬───────┬──────────────────┐
/// │    signature     │v│c │f│t │length │ addresses, TLVs  │
/// └──────────────────┴────┴────┴───────┴──────────────────┘
/// ```
public struct ProxyHeader: Equatable, Sendable {
    /// Bytes of the longest header that is taken. 2,048: addresses take at most 232, and what the
    /// known extensions add stays well below; the specification asks for 536.
    public static let maxBytes = 2_048

    /// Who connected to the proxy. Nil when the connection is the proxy's own, as for a check of
    /// health, or the proxy does not know; then the address is that of the proxy.
    public let source: NetworkAddress?

    /// Bytes before the length that is counted.
    private static let fixedBytes = 16
    private static let signature: [UInt8] = [
        0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A,
    ]
    private static let version1 = Array("PROXY ".utf8)

    /// Reads the header at the front of `input`.
    /// - Parameter input: all bytes of the connection so far.
    /// - Returns: nil when more bytes are needed; else the header and how many bytes it took up.
    public static func parse(
        _ input: UnsafeRawBufferPointer
    ) throws(ProxyProtocolError) -> (header: ProxyHeader, consumed: Int)? {
        guard !input.isEmpty else { return nil }
        if isPrefix(of: version1, input) {
            guard input.count >= version1.count else { return nil }
            throw .version1
        }
        guard isPrefix(of: signature, input) else { throw .missingSignature }
        // Each field is judged as soon as it is there, and in their order, so that the verdict is
        // the same however many bytes follow.
        guard input.count > 12 else { return nil }
        guard input[12] >> 4 == 2 else { throw .unsupportedVersion }
        let command = input[12] & 0xF
        guard command <= 1 else { throw .unknownCommand }
        guard input.count > 13 else { return nil }
        let addressBytes = try addressBytes(of: input[13])
        guard input.count >= fixedBytes else { return nil }
        let length = Int(input[14]) << 8 | Int(input[15])
        guard length >= addressBytes else { throw .tooShort }
        guard fixedBytes + length <= maxBytes else { throw .tooLong }
        guard input.count >= fixedBytes + length else { return nil }
        let source = command == 1 ? source(in: input, family: input[13] >> 4) : nil
        return (ProxyHeader(source: source), fixedBytes + length)
    }

    /// Whether the bytes and the pattern agree as far as both go.
    private static func isPrefix(of pattern: [UInt8], _ input: UnsafeRawBufferPointer) -> Bool {
        zip(pattern, input).allSatisfy { $0 == $1 }
    }

    /// What the addresses of a family take up, both ends with their ports.
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
