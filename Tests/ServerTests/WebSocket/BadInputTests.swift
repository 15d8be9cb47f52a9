// Inputs that broke well-known WebSocket servers, each named after the server. A real shard on a
// simulated kernel must refuse them, with bounded memory meanwhile and none afterwards, and go on
// serving another session. These inputs are wrong by size or by count; lengths at the edges of
// arithmetic are at the end, as tables.
//
// Other suites have the other inputs: an unclean close at every stage (ShardBrokenSocketTests),
// floods (ShardFloodTests), messages and requests that trickle (ShardLivenessTests), foreign
// Origins and Hosts (RequestPolicyTests, ShardAdmissionTests), offers of window bits
// (PerMessageDeflateTests). Inputs that need a real kernel are in
// Tests/clients/test_hostile_peers.py.
//
// CVE-2021-33880, credentials compared in variable time, is in CredentialRulesTests.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct BadInputTests {
    private static let limit = BadInputWorld.maxMessageBytes
    private static let probe = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

    private static let targets = ["/debug/echo", "/v1/realtime"]

    // MARK: Fragments

    @Test("A fragmented message that never ends (CVE-2026-62389)", arguments: targets)
    func neverEndingMessage(target: String) throws {
        let world = try BadInputWorld()
        let client = try world.attack(target)
        let piece = [UInt8](repeating: 32, count: 4_096)
        client.send(.text, piece, isFinal: false)
        for _ in 0..<300 {
            client.send(.continuation, piece, isFinal: false)
            #expect(world.server.run())
            #expect(world.heldBytes <= Self.limit + (1 << 16))
        }
        #expect(client.closeCode == 1009)
        world.expectNoHarm()
    }

    @Test(
        "Tiny and empty fragments without end (CVE-2026-48779, CVE-2026-12151)",
        arguments: targets, [0, 1, 31])
    func tinyFragmentFlood(target: String, size: Int) throws {
        let world = try BadInputWorld()
        let client = try world.attack(target)
        let piece = [UInt8](repeating: 32, count: size)
        client.send(.text, piece, isFinal: false)
        for _ in 0..<50 {
            for _ in 0..<200 { client.send(.continuation, piece, isFinal: false) }
            #expect(world.server.run(for: .milliseconds(1)))
            #expect(world.heldBytes <= 1 << 18)
        }
        #expect(client.closeCode == 1008)
        world.expectNoHarm()
    }

    @Test("Fragments within the limit, over it in sum (CVE-2026-9675)", arguments: targets)
    func fragmentsOverTheLimitInSum(target: String) throws {
        let world = try BadInputWorld()
        let client = try world.attack(target)
        let half = [UInt8](repeating: 32, count: Self.limit / 2)
        client.send(.text, half, isFinal: false)
        client.send(.continuation, half, isFinal: false)
        #expect(world.server.run())
        #expect(client.closeCode == nil && world.heldBytes <= Self.limit + (1 << 16))
        client.send(.continuation, [32], isFinal: false)
        #expect(world.server.run())
        #expect(client.closeCode == 1009)
        world.expectNoHarm()
    }

    // MARK: Compression

    private static let offer: PerMessageDeflateOffer = {
        var offer = PerMessageDeflateOffer()
        offer.letsLimitClientWindow = true
        return offer
    }()

    private func compressedFrame(_ payload: [UInt8], opcode: UInt8 = 1) -> [UInt8] {
        header(first: 0xC0 | opcode, length: UInt64(payload.count)) + payload
    }

    /// A frame that inflates 1,024 times: blocks of a bomb follow each other.
    private func bomb(_ count: Int) throws -> [UInt8] {
        let deflater = MessageDeflater(windowBits: 15, keepsContext: false)
        let output = CompressionBuffer()
        let zeros = [UInt8](repeating: 0, count: 8 << 20)
        let isDone = zeros.withUnsafeBytes {
            deflater.deflate($0, atMost: zeros.count, into: output)
        }
        try #require(isDone)
        let block = Array(output.bytes) + [0, 0, 0xFF, 0xFF]
        var bomb: [UInt8] = []
        while bomb.count < count { bomb += block }
        return bomb
    }

    @Test(
        "A frame that inflates 1024:1 (GHSA-frh3-6pv6-rc8j, CVE-2018-1000518)",
        arguments: targets)
    func deflateBomb(target: String) throws {
        let world = try BadInputWorld { $0.connection.webSocket.maxMessageBytes = 21 << 20 }
        let client = try world.attack(target, offer: Self.offer)
        client.peer.send(compressedFrame(try bomb(6 << 20)))
        #expect(world.server.run())
        #expect(client.closeCode == 1009)
        #expect(world.server.metrics.total(of: .inflatedBytesIn) == 0, "it was not handled")
        #expect(world.heldBytes < 1 << 16)
        #expect(world.server.shard.fixtures.compression.inflated.capacity <= 64 << 10)
        world.expectNoHarm()
    }

    /// Blocks with codes of their own that end at once (RFC 1951 §3.2.7), eight in 90 bytes.
    private static func emptyBlocks(_ count: Int) -> [UInt8] {
        // The sizes of both alphabets, and the lengths of the codes for "1" and "0, many times".
        let head = "0" + "01" + "00000" + "00000" + "0111"
        let lengths = "000000100" + String(repeating: "000", count: 14) + "100"
        // 256 zeros, an end of block and a distance of one bit each, and the end.
        let block = head + lengths + "1" + "1111111" + "1" + "1101011" + "0" + "0" + "0"
        var bytes = [UInt8](repeating: 0, count: 90)
        for (index, bit) in String(repeating: block, count: 8).utf8.enumerated() {
            bytes[index / 8] |= (bit & 1) << UInt8(index % 8)
        }
        // The last is stored and empty; its end is what senders strip.
        return Array(repeatElement(bytes, count: count / 8).joined()) + [0]
    }

    /// Each block is 11 bytes, says nothing, and has zlib build two tables.
    @Test("A message of deflate blocks that say nothing", arguments: targets)
    func emptyDeflateBlocks(target: String) throws {
        let world = try BadInputWorld { $0.connection.webSocket.maxMessageBytes = 21 << 20 }
        let client = try world.attack(target, offer: Self.offer)
        client.peer.send(compressedFrame(Self.emptyBlocks(80_000)))
        #expect(world.server.run())
        #expect(client.closeCode == 1008)
        world.expectNoHarm()
    }

    @Test("Window bits outside of 8…15 (CVE-2026-2229)")
    func windowBitsOutOfRange() throws {
        let world = try BadInputWorld()
        for name in ["server_max_window_bits", "client_max_window_bits"] {
            for bits in Self.extremes.map(String.init) + ["-1", "-9", "+9", "7", "16", "08", ""] {
                let peer = world.server.connect()
                peer.send(upgrade("Sec-WebSocket-Extensions: permessage-deflate; \(name)=\(bits)"))
                #expect(world.server.run())
                let answer = String(decoding: peer.receive(), as: UTF8.self)
                // No list of extensions at all, or an offer that is declined.
                #expect(answer.hasPrefix("HTTP/1.1 \(bits.isEmpty ? 400 : 101) "))
                #expect(!answer.contains("Sec-WebSocket-Extensions:"), "\(name) \(bits)")
                peer.reset()
            }
        }
        world.expectNoHarm()
    }

    // MARK: HTTP

    @Test("A 20 MB header (CVE-2023-43669)")
    func hugeHeader() throws {
        let world = try BadInputWorld()
        let peer = world.server.connect()
        peer.send("GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        for _ in 0..<20 {
            peer.send([UInt8](repeating: 97, count: 1 << 20))
            #expect(world.server.run())
            #expect(world.heldBytes <= 64 << 10)
        }
        let answer = try parseResponses(peer.receive(), answering: [.get]).responses
        #expect(answer.map(\.status) == [431])
        world.expectNoHarm()
    }

    /// Work per read must not grow with what came before: neither is it copied, nor searched.
    @Test("A header in single bytes costs no more than its length (CVE-2023-43669)")
    func headerIsNotReparsedAtEachRead() throws {
        let world = try BadInputWorld()
        let peer = world.server.connect()
        var moves = 0
        var address: UnsafeRawPointer?
        for byte in "GET / HTTP/1.1\r\nHost: localhost\r\nX: ".utf8 { peer.send([byte]) }
        for _ in 0..<8_000 {
            peer.send([97])
            #expect(world.server.run())
            world.server.shard.connections.forEach { connection in
                guard !connection.pending.isEmpty else { return }
                let now = connection.pending.withUnsafeBytes { $0.baseAddress }
                if now != address { moves += 1 }
                address = now
            }
        }
        #expect(moves < 20, "held input grows by doubling")
        var parser = HTTPRequestParser()
        var bytes = Array("GET / HTTP/1.1\r\nHost: localhost\r\nX: aaaa".utf8)
        #expect(try bytes.withUnsafeBytes { try parser.parse($0) } == nil)
        // A parser that looked at these bytes again would find a bare line feed.
        bytes[bytes.count - 2] = 10
        #expect(try (bytes + [97]).withUnsafeBytes { try parser.parse($0) } == nil)
        world.expectNoHarm()
    }

    @Test("2,000 headers (CVE-2024-37890)")
    func twoThousandHeaders() throws {
        let world = try BadInputWorld()
        let fields = String(repeating: "X: a\r\n", count: 2_000)
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n"
        #expect(try world.status(of: Array(request.utf8)) == 431)
        world.expectNoHarm()
    }

    /// With backtracking this would take years.
    @Test("Spaces in Sec-WebSocket-Protocol (CVE-2021-32640)", arguments: [" ", ", ", "\t", ",,"])
    func spacesInSubprotocols(filler: String) throws {
        let world = try BadInputWorld { $0.connection.http.maxHeaderBytes = 1 << 20 }
        let spaces = String(repeating: filler, count: 500_000)
        let status = try world.status(of: upgrade("Sec-WebSocket-Protocol: a\(spaces)b"))
        // A space within a token is none; empty elements of a list are to be ignored.
        #expect(status == (filler.contains(",") ? 101 : 400))
        world.expectNoHarm()
    }

    @Test("A foreign Origin (CVE-2026-44211, CVE-2026-59950)", arguments: targets)
    func foreignOrigin(target: String) throws {
        let world = try BadInputWorld()
        for origin in ["https://evil.example", "null", "http://localhost.evil.example", "file://"] {
            let request = upgrade("Origin: \(origin)", to: target)
            #expect(try world.status(of: request) == 403)
        }
        world.expectNoHarm()
    }

    // MARK: Floods and ends

    @Test("PINGs and PONGs without reading (CVE-2021-3690)", arguments: [9, 10] as [UInt8])
    func controlFrameFlood(opcode: UInt8) throws {
        let world = try BadInputWorld()
        let client = try world.attack()
        client.isReading = false
        client.peer.window = 100
        let frame = header(first: 0x80 | opcode, length: 125) + [UInt8](repeating: 1, count: 125)
        for _ in 0..<100 {
            client.peer.send(Array(repeatElement(frame, count: 100).joined()))
            #expect(world.server.run(for: .milliseconds(1)))
            #expect(world.heldBytes <= 512 << 10)
        }
        #expect(world.server.metrics.total(of: .floodCloses) == 1)
        client.peer.window = 1 << 20
        #expect(world.server.run())
        client.poll()
        #expect(client.closeCode == 1008)
        world.expectNoHarm()
    }

    @Test("A reset or an end after every byte (CVE-2017-2670)", arguments: [true, false])
    func uncleanCloseAnywhere(isReset: Bool) throws {
        let world = try BadInputWorld()
        let message = Array(#"{"type":"session.update","session":{"type":"realtime"}}"#.utf8)
        let stream =
            upgrade("X: y", to: "/v1/realtime")
            + header(first: 0x01, length: 9) + message[..<9]
            + header(first: 0x89, length: 2) + [1, 2]
            + header(first: 0x80, length: UInt64(message.count - 9)) + message[9...]
            + header(first: 0x88, length: 2) + [0x03, 0xE8]
        for count in 0...stream.count {
            let peer = world.server.connect()
            if count > 0 { peer.send(Array(stream[..<count])) }
            #expect(world.server.run())
            if isReset { peer.reset() } else { peer.finishWriting() }
            let waits = world.server.io.waits
            #expect(world.server.run(for: .milliseconds(10)))
            #expect(world.server.io.waits - waits < 20, "it spins")
            #expect(world.server.metrics.total(of: .sessionsOpen) == 1)
        }
        world.expectNoHarm()
    }

    // MARK: Arithmetic (GHSA-w3f6-pc54-gfw7, GHSA-gpgx-whwh-r297)

    /// Where numbers of some width end, and their neighbours.
    private static let extremes: [UInt64] = {
        let widths: [UInt64] = [7, 15, 16, 31, 32, 53, 62, 63]
        let around = widths.map { 1 << $0 }.flatMap { [$0 - 2, $0 - 1, $0, $0 + 1] as [UInt64] }
        return [0, 1, 125, 126] + around + [.max - 1, .max]
    }()

    private static let zeros = String(repeating: "0", count: 40)

    private func header(first: UInt8, length: UInt64, form: Int? = nil) -> [UInt8] {
        let form = form ?? (length < 126 ? 7 : length < 1 << 16 ? 16 : 64)
        let mask: [UInt8] = [0, 0, 0, 0]
        let shifts = stride(from: form - 8, through: 0, by: -8)
        let bytes = form == 7 ? [] : shifts.map { UInt8(truncatingIfNeeded: length >> UInt64($0)) }
        let short = form == 7 ? UInt8(length) : form == 16 ? 126 : 127
        return [first, 0x80 | short] + bytes + mask
    }

    @Test("Lengths of frames at every edge (CVE-2020-13935, CVE-2020-27813)", arguments: targets)
    func frameLengths(target: String) throws {
        let world = try BadInputWorld()
        for first in [0x02, 0x82, 0x01, 0x81, 0x89, 0x88] as [UInt8] {
            let isControl = first & 8 != 0
            for length in Self.extremes where length > (isControl ? 125 : UInt64(Self.limit)) {
                for isContinued in [false, true] {
                    let client = try world.attack(target)
                    if isContinued { client.send(.binary, [1, 2, 3], isFinal: false) }
                    let opcode = isContinued && !isControl ? first & 0x80 : first
                    client.peer.send(header(first: opcode, length: length) + [1, 2, 3])
                    #expect(world.server.run())
                    let isBroken = isControl || length >= 1 << 63
                    #expect(client.closeCode == (isBroken ? 1002 : 1009), "\(first) \(length)")
                    #expect(world.heldBytes < 4_096)
                    client.peer.reset()
                }
            }
        }
        world.expectNoHarm()
    }

    @Test func contentLengths() throws {
        let world = try BadInputWorld()
        let head = "POST / HTTP/1.1\r\nHost: localhost\r\n"
        let limit = UInt64(HTTPSettings().maxBodyBytes)
        for length in Self.extremes {
            let request = "\(head)Content-Length: \(length)\r\n\r\nx"
            let status = try world.status(of: Array(request.utf8))
            #expect(status == (length > limit ? 413 : length > 1 ? nil : 405), "\(length)")
        }
        for (text, expected) in [("-1", 400), ("+1", 400), ("", 400), ("1" + Self.zeros, 413)] {
            let request = "\(head)Content-Length: \(text)\r\n\r\nx"
            let status = try world.status(of: Array(request.utf8))
            #expect(status == expected, "\(text)")
        }
        world.expectNoHarm()
    }

    @Test func chunkSizes() throws {
        let world = try BadInputWorld()
        let head = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        let limit = UInt64(HTTPSettings().maxBodyBytes)
        for size in Self.extremes {
            for digits in [String(size, radix: 16), "000" + String(size, radix: 16)] {
                // The second chunk's size is added to what the first has taken.
                for before in ["", "1\r\nx\r\n"] {
                    let request = head + before + "\(digits)\r\n"
                    let status = try world.status(of: Array(request.utf8))
                    // A chunk's framing counts, too, and no extreme lies that near.
                    #expect(status == (size > limit ? 413 : nil), "\(digits)")
                }
            }
        }
        let endless = head + String(repeating: "f", count: 200) + "\r\n"
        #expect(try world.status(of: Array(endless.utf8)) == 413)
        #expect(try world.status(of: Array((head + "-1\r\n").utf8)) == 400)
        world.expectNoHarm()
    }

    @Test func proxyHeaderLengths() throws {
        let trusted = try #require(AddressRange("10.0.0.0/8"))
        let world = try BadInputWorld {
            $0.admission.trustedProxies = [trusted]
            $0.admission.proxyProtocol = .required
        }
        let signature: [UInt8] = [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10]
        for family in [0x00, 0x11, 0x21, 0x31] as [UInt8] {
            let needed = [0x00: 0, 0x11: 12, 0x21: 36, 0x31: 216][Int(family)] ?? 0
            for length in [0, 1, 11, 12, 35, 36, 215, 216, 2_032, 2_033, 32_767, 32_768, 65_535] {
                let fixed = [0x21, family, UInt8(length >> 8), UInt8(length & 0xFF)] as [UInt8]
                let rest = [UInt8](repeating: 1, count: length) + Array(Self.probe.utf8)
                let status = try world.status(of: signature + fixed + rest, from: "10.0.0.1")
                #expect(status == (length < needed || length > 2_032 ? 400 : 200), "\(length)")
            }
        }
        world.expectNoHarm()
    }

    @Test func closeCodes() throws {
        let world = try BadInputWorld()
        let valid = { (code: Int) in
            (1000...1003).contains(code) || (1007...1014).contains(code)
                || (3000...4999).contains(code)
        }
        let edges = [0, 127, 128, 999, 1004, 1005, 1006, 1015, 2999, 4999, 5000, 32_767, 32_768]
        for code in edges + [65_535, 1000, 1003, 1007, 1014, 3000] {
            let client = try world.attack()
            client.send(.close, [UInt8(code >> 8), UInt8(code & 0xFF)])
            #expect(world.server.run())
            #expect(client.closeCode == (valid(code) ? UInt16(code) : 1002))
            client.peer.reset()
        }
        world.expectNoHarm()
    }

    private func upgrade(_ field: String, to target: String = "/debug/echo") -> [UInt8] {
        Array(
            ("GET \(target) HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                + "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                + "Sec-WebSocket-Version: 13\r\n\(field)\r\n\r\n").utf8)
    }
}
