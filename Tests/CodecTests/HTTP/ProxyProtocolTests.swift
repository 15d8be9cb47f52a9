// Headers of the PROXY protocol, version 2, and X-Forwarded-For.

import TestMaterial
import Testing

@testable import Codec

@Suite struct ProxyProtocolTests {
    private static let signature: [UInt8] = [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10]

    /// A header with any field values. The length is that of `payload` unless given.
    private static func header(
        _ command: UInt8 = 0x21, _ family: UInt8 = 0x11, _ payload: [UInt8] = v4, length: Int? = nil
    ) -> [UInt8] {
        let length = length ?? payload.count
        return signature + [command, family, UInt8(length >> 8), UInt8(length & 0xFF)] + payload
    }

    /// 192.0.2.7:1000 to 10.0.0.1:8080.
    private static let v4: [UInt8] = [192, 0, 2, 7, 10, 0, 0, 1, 3, 232, 31, 144]
    /// 2001:db8::5:1000 to ::1:8080.
    private static let v6: [UInt8] =
        [0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]
        + [UInt8](repeating: 0, count: 15) + [1, 3, 232, 31, 144]
    /// One extension with an application protocol, and one without content.
    private static let extensions: [UInt8] = [1, 0, 2, 104, 50, 4, 0, 0]

    private enum Outcome: Equatable {
        case header(String?, rest: [UInt8])
        case failed(ProxyProtocolError)
        case incomplete
    }

    /// Feeds pieces until there is a result. The remaining bytes are the rest.
    private static func outcome(_ pieces: [[UInt8]]) -> Outcome {
        var input: [UInt8] = []
        var verdict: Outcome?
        for piece in pieces {
            if case .header(let source, let rest) = verdict {
                verdict = .header(source, rest: rest + piece)
                continue
            }
            guard verdict == nil else { break }
            input += piece
            do throws(ProxyProtocolError) {
                let found = try input.withUnsafeBufferPointer {
                    (input) throws(ProxyProtocolError) in
                    try ProxyHeader.parse(UnsafeRawBufferPointer(input))
                }
                guard let (header, consumed) = found else { continue }
                verdict = .header(
                    header.source?.description, rest: Array(input[consumed...]))
            } catch {
                verdict = .failed(error)
            }
        }
        return verdict ?? .incomplete
    }

    @Test(arguments: [
        (header(), "192.0.2.7"), (header(0x21, 0x11, v4 + extensions), "192.0.2.7"),
        (header(0x21, 0x21, v6), "2001:db8::5"),
        (header(0x21, 0x21, v6 + extensions), "2001:db8::5"),
        // The proxy's own connection, with and without addresses, and one of an unknown client.
        (header(0x20, 0x11), nil), (header(0x20, 0x00, []), nil), (header(0x21, 0x00, []), nil),
        (header(0x21, 0x00, extensions), nil),
        // Of the proxy's own connection the family means nothing (§2.2).
        (header(0x20, 0x22), nil), (header(0x20, 0x11, []), nil), (header(0x20, 0x21), nil),
        (header(0x20, 0xF3), nil),
        // A client of a Unix-domain socket.
        (header(0x21, 0x31, [UInt8](repeating: 47, count: 216)), nil),
        // The longest accepted header.
        (header(0x21, 0x11, v4 + [UInt8](repeating: 4, count: 2_020)), "192.0.2.7"),
    ])
    func readsAHeader(bytes: [UInt8], source: String?) {
        for rest in [[], Array("GET / HTTP/1.1\r\n".utf8), bytes] {
            #expect(
                expectChunkInvariant(bytes + rest, Self.outcome) == .header(source, rest: rest))
        }
    }

    @Test(
        arguments: [
            ([0], ProxyProtocolError.missingSignature),
            (Array("GET / HTTP/1.1".utf8), .missingSignature),
            ([22, 3, 1, 2, 0], .missingSignature), ([13, 10, 13, 10, 13], .missingSignature),
            (Array(signature.dropLast()) + [11], .missingSignature),
            (Array("PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n".utf8), .version1),
            (Array("PROXX".utf8), .missingSignature), (Array("PROXY\r".utf8), .missingSignature),
            (header(0x11), .unsupportedVersion), (header(0x31), .unsupportedVersion),
            (header(0x01), .unsupportedVersion), (header(0x22), .unknownCommand),
            (header(0x2F), .unknownCommand), (header(0x21, 0x41), .unknownFamily),
            (header(0x21, 0xF1), .unknownFamily), (header(0x21, 0x13), .unknownFamily),
            (header(0x21, 0x12), .datagram),
            (header(0x21, 0x11, v4, length: 11), .tooShort), (header(0x21, 0x21, v4), .tooShort),
            (header(0x21, 0x31, v6), .tooShort), (header(0x21, 0x11, []), .tooShort),
            (header(0x21, 0x11, v4, length: 2_033), .tooLong),
            (header(0x21, 0x00, [], length: 65_535), .tooLong),
        ] as [([UInt8], ProxyProtocolError)])
    func refusesWhatBreaksARule(bytes: [UInt8], error: ProxyProtocolError) {
        #expect(expectChunkInvariant(bytes, Self.outcome) == .failed(error))
        #expect(expectChunkInvariant(bytes + bytes, Self.outcome) == .failed(error))
    }

    @Test func waitsForTheRestOfAHeader() {
        for bytes in [Self.header(0x21, 0x21, Self.v6 + Self.extensions), bytes("PROXY ")] {
            for count in 0..<bytes.count {
                #expect(Self.outcome([Array(bytes[..<count])]) == .incomplete)
            }
        }
    }

    @Test func randomBytesAreAVerdictOrIncomplete() {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<2_000 {
            var bytes = Self.header(0x21, 0x21, Self.v6 + Self.extensions)
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                bytes[Int.random(in: 12..<bytes.count, using: &generator)] = generator.next()
            }
            expectChunkInvariant(bytes, Self.outcome)
        }
    }
}

@Suite struct ForwardedForTests {
    /// The client found in these header lines. Proxies are 10.0.0.0/8 and ::1.
    private func client(_ lines: String...) throws -> String {
        let proxies = [AddressRange("10.0.0.0/8"), AddressRange("::1")].compactMap(\.self)
        var fields = HTTPFields()
        for line in lines { fields.append("x-forwarded-for", line) }
        let peer = try #require(NetworkAddress("10.0.0.1"))
        return ForwardedFor.client(in: fields, sentBy: peer, isTrusted: proxies.contains)
            .description
    }

    @Test func takesTheRightmostThatIsNoProxy() throws {
        #expect(try client("192.0.2.1") == "192.0.2.1")
        #expect(try client("6.6.6.6, 192.0.2.1") == "192.0.2.1")
        #expect(try client("6.6.6.6, 192.0.2.1, 10.0.0.9, ::1") == "192.0.2.1")
        #expect(try client("6.6.6.6,192.0.2.1,10.0.0.9") == "192.0.2.1")
        #expect(try client("6.6.6.6", "192.0.2.1", "10.0.0.9") == "192.0.2.1")
        #expect(try client("2001:DB8::1") == "2001:db8::1")
    }

    @Test func readsAddressesWithPortsAndBrackets() throws {
        #expect(try client("192.0.2.1:4711") == "192.0.2.1")
        #expect(try client("[2001:db8::1]:4711, 10.0.0.2:1") == "2001:db8::1")
        #expect(try client("[2001:db8::1]") == "2001:db8::1")
    }

    @Test func withoutAFieldItIsThePeer() throws {
        #expect(try client() == "10.0.0.1")
        #expect(try client("") == "10.0.0.1")
        #expect(try client(", ,") == "10.0.0.1")
    }

    @Test func ifAllAreProxiesItIsTheLeftmost() throws {
        #expect(try client("10.0.0.3, 10.0.0.2") == "10.0.0.3")
    }

    @Test(arguments: ["unknown", "_hidden", "a", "1.2.3", "192.0.2.1:99999", "<script>", "ü"])
    func whatIsNoAddressEndsTheSearch(text: String) throws {
        #expect(try client(text) == "10.0.0.1")
        #expect(try client("192.0.2.1, \(text)") == "10.0.0.1")
        #expect(try client("192.0.2.1, \(text), 10.0.0.2") == "10.0.0.2")
        #expect(try client("\(text), 192.0.2.1") == "192.0.2.1")
    }
}
