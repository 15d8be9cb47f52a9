// An Internet address as a value, its text form, and ranges of addresses. Sockets and name
// resolution are not here; Server decides which addresses it accepts.
//
// Invariant: an IPv4 address is stored as its IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2), so that
// a peer has one value whichever family of socket it came through.

/// An IPv4 or IPv6 address without a port and without a zone.
public struct NetworkAddress: Hashable, Sendable {
    /// Bits in an address.
    public static let bitCount = 128
    /// Characters of the longest text: an IPv6 address with an embedded IPv4 one.
    static let maxTextBytes = 45
    /// First 32 bits of the lower half of an IPv4-mapped address.
    private static let mappedPrefix: UInt64 = 0xFFFF << 32

    /// The first 64 bits: the network part of an IPv6 address.
    public let high: UInt64
    /// The last 64 bits.
    public let low: UInt64

    /// Creates an IPv6 address from its two halves, in wire order.
    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// Creates an IPv4 address; `0x7F00_0001` is 127.0.0.1.
    public init(v4: UInt32) {
        self.init(high: 0, low: NetworkAddress.mappedPrefix | UInt64(v4))
    }

    /// `::`, which no peer on the Internet has. It stands for peers without an address, such as
    /// those of Unix-domain sockets.
    public static let unspecified = NetworkAddress(high: 0, low: 0)

    /// The IPv4 address, or nil for IPv6.
    public var v4: UInt32? {
        guard high == 0, low >> 32 == 0xFFFF else { return nil }
        return UInt32(truncatingIfNeeded: low)
    }

    /// Whether it is the machine's own address: 127.0.0.0/8 or ::1.
    public var isLoopback: Bool {
        if let v4 { return v4 >> 24 == 127 }
        return high == 0 && low == 1
    }

    /// The address with only its first `bits` bits kept. `bits`: 0…128.
    public func masked(to bits: Int) -> NetworkAddress {
        // Swift's `<<` gives zero for a shift by the full width or more.
        NetworkAddress(
            high: high & UInt64.max << (64 - min(bits, 64)),
            low: low & UInt64.max << (64 - max(bits - 64, 0)))
    }

    /// The unit that per-client limits count: one IPv4 address, or the /64 of an IPv6 address,
    /// because every subscriber has at least that many addresses (RFC 6177 §2).
    public var subscriber: NetworkAddress { v4 == nil ? masked(to: 64) : self }
}

// MARK: - Text

extension NetworkAddress: LosslessStringConvertible {
    /// Parses an address strictly: four decimal numbers without leading zeros, or RFC 4291 §2.2.
    /// Nil for anything else: a port, brackets, a zone (`%eth0`), octal or short forms of IPv4.
    public init?(_ description: String) {
        let text = Array(description.utf8)
        guard text.count <= NetworkAddress.maxTextBytes else { return nil }
        if text.contains(UInt8(ascii: ":")) {
            guard let address = NetworkAddress.parseV6(text[...]) else { return nil }
            self = address
        } else {
            guard let v4 = NetworkAddress.parseV4(text[...]) else { return nil }
            self.init(v4: v4)
        }
    }

    /// The standard text: dotted for IPv4, RFC 5952 for IPv6.
    public var description: String {
        if let v4 {
            return [v4 >> 24, v4 >> 16, v4 >> 8, v4].map { "\($0 & 0xFF)" }.joined(separator: ".")
        }
        let groups = [high, low].flatMap { half in
            [half >> 48, half >> 32, half >> 16, half].map { $0 & 0xFFFF }
        }
        let text = { (range: Range<Int>) in
            groups[range].map { String($0, radix: 16) }.joined(separator: ":")
        }
        guard let gap = NetworkAddress.longestGap(in: groups) else { return text(0..<8) }
        return text(0..<gap.lowerBound) + "::" + text(gap.upperBound..<8)
    }

    /// The first of the longest runs of two or more zeros (RFC 5952 §4.2).
    private static func longestGap(in groups: [UInt64]) -> Range<Int>? {
        var longest: Range<Int>?
        var start = 0
        for index in 0...groups.count where index == groups.count || groups[index] != 0 {
            if index - start > max(longest?.count ?? 0, 1) { longest = start..<index }
            start = index + 1
        }
        return longest
    }

    private static func parseV4(_ text: ArraySlice<UInt8>) -> UInt32? {
        var address: UInt32 = 0
        var rest = text
        for position in 0..<4 {
            let dot = rest.firstIndex(of: UInt8(ascii: "."))
            guard (dot == nil) == (position == 3),
                let number = decimal(rest[..<(dot ?? rest.endIndex)], atMost: 255)
            else { return nil }
            address = address << 8 | UInt32(number)
            rest = rest[(dot.map { $0 + 1 } ?? rest.endIndex)...]
        }
        return address
    }

    /// A decimal number of one to five digits without a leading zero.
    static func decimal(_ text: ArraySlice<UInt8>, atMost limit: Int) -> Int? {
        guard (1...5).contains(text.count), text.count == 1 || text.first != UInt8(ascii: "0")
        else { return nil }
        var number = 0
        for byte in text {
            guard byte.isASCIIDigit else { return nil }
            number = number * 10 + Int(byte - UInt8(ascii: "0"))
        }
        return number <= limit ? number : nil
    }

    /// Parses groups up to the end; `::` may stand once for one or more groups of zeros.
    private static func parseV6(_ text: ArraySlice<UInt8>) -> NetworkAddress? {
        let colon = UInt8(ascii: ":")
        var rest = text
        var groups: [UInt64] = []
        var gap: Int?
        if rest.starts(with: [colon, colon]) {
            gap = 0
            rest.removeFirst(2)
        }
        while !rest.isEmpty {
            let piece = rest.prefix { $0 != colon }
            rest = rest.dropFirst(piece.count)
            if piece.contains(UInt8(ascii: ".")) {
                guard rest.isEmpty, let v4 = parseV4(piece) else { return nil }
                groups += [UInt64(v4 >> 16), UInt64(v4 & 0xFFFF)]
                break
            }
            guard let group = hexadecimalGroup(piece), groups.count < 8 else { return nil }
            groups.append(group)
            guard rest.popFirst() != nil else { break }
            if rest.first == colon {
                guard gap == nil else { return nil }
                gap = groups.count
                rest.removeFirst()
            } else if rest.isEmpty {
                return nil
            }
        }
        guard gap == nil ? groups.count == 8 : groups.count < 8 else { return nil }
        groups.insert(contentsOf: repeatElement(0, count: 8 - groups.count), at: gap ?? 0)
        let half = { (range: Range<Int>) in groups[range].reduce(0) { $0 << 16 | $1 } }
        return NetworkAddress(high: half(0..<4), low: half(4..<8))
    }

    private static func hexadecimalGroup(_ text: ArraySlice<UInt8>) -> UInt64? {
        guard (1...4).contains(text.count) else { return nil }
        var group: UInt64 = 0
        for byte in text {
            guard let digit = HTTPCharacter.hexadecimalDigit(byte) else { return nil }
            group = group << 4 | UInt64(digit)
        }
        return group
    }
}

// MARK: - Ranges

/// All addresses with the same leading bits (CIDR, RFC 4632 §3.1).
public struct AddressRange: Hashable, Sendable {
    /// The first address.
    public let first: NetworkAddress
    /// How many leading bits are fixed, 0…128, counted in the IPv6 form.
    public let prefixBits: Int

    /// The range of one address.
    public init(_ address: NetworkAddress) {
        first = address
        prefixBits = NetworkAddress.bitCount
    }

    /// Whether an address is in the range.
    public func contains(_ address: NetworkAddress) -> Bool {
        address.masked(to: prefixBits) == first
    }

    /// The machine's own addresses: 127.0.0.0/8 and ::1.
    public static let loopback = [
        AddressRange(first: NetworkAddress(v4: 0x7F00_0000), prefixBits: 104),
        AddressRange(NetworkAddress(high: 0, low: 1)),
    ]

    private init(first: NetworkAddress, prefixBits: Int) {
        self.first = first
        self.prefixBits = prefixBits
    }
}

extension AddressRange: LosslessStringConvertible {
    /// Parses `10.0.0.0/8`, `2001:db8::/32`, or one address. Nil where bits beyond the prefix are
    /// set: `10.0.0.1/8` is a typing error, and a guess could admit too many addresses.
    public init?(_ description: String) {
        let parts = description.utf8.split(
            separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false)
        guard let text = String(parts[0]), let address = NetworkAddress(text) else { return nil }
        guard parts.count == 2 else {
            self.init(address)
            return
        }
        // A prefix length written after an IPv6 text counts IPv6 bits, also for mapped addresses.
        let base = parts[0].contains(UInt8(ascii: ":")) ? 0 : 96
        let limit = NetworkAddress.bitCount - base
        guard let bits = NetworkAddress.decimal(Array(parts[1])[...], atMost: limit),
            address.masked(to: base + bits) == address
        else { return nil }
        self.init(first: address, prefixBits: base + bits)
    }

    /// Text that parses back as the same range.
    public var description: String {
        if prefixBits == NetworkAddress.bitCount { return "\(first)" }
        // A range whose `first` is IPv4 has at least 96 prefix bits; fewer would cut the mapping
        // prefix.
        return "\(first)/\(first.v4 == nil ? prefixBits : prefixBits - 96)"
    }
}

extension NetworkAddress {
    /// Addresses that are not on the public Internet (RFC 6890, RFC 4193, RFC 6052, RFC 3056, RFC
    /// 4380). These are this machine, private networks, link-local addresses (where cloud providers
    /// serve a machine's secrets), shared and benchmark networks, documentation, multicast and
    /// reserved addresses, and IPv6 forms that embed IPv4.
    private static let special = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    ].map { AddressRange($0)! }

    /// Whether it is on the public Internet. For IPv6: 2000::/3 except the forms that embed IPv4.
    public var isPublic: Bool {
        if v4 != nil { return !NetworkAddress.special.contains(self) }
        let isGlobal = high >> 61 == 1
        let isDocumentation = high >> 32 == 0x2001_0DB8
        let wrapsV4 = high >> 48 == 0x2002 || high >> 32 == 0x2001_0000
        return isGlobal && !isDocumentation && !wrapsV4
    }
}

extension [AddressRange] {
    /// Whether any of the ranges contains the address.
    public func contains(_ address: NetworkAddress) -> Bool {
        contains { $0.contains(address) }
    }
}
