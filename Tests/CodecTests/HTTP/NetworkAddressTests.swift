// Addresses and ranges: every accepted form, and many that must be refused.

import Testing

@testable import Codec

@Suite struct NetworkAddressTests {
    @Test(arguments: [
        ("0.0.0.0", "0.0.0.0"), ("255.255.255.255", "255.255.255.255"), ("127.0.0.1", "127.0.0.1"),
        ("::", "::"), ("::1", "::1"), ("1::", "1::"), ("1::2", "1::2"),
        ("2001:DB8::00:01", "2001:db8::1"), ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
        ("::ffff:10.1.2.3", "10.1.2.3"), ("::FFFF:0a01:0203", "10.1.2.3"),
        ("::10.1.2.3", "::a01:203"), ("64:ff9b::192.0.2.1", "64:ff9b::c000:201"),
        ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
        // RFC 5952 §4.2: the longest run is shortened, the first of equal ones, and never a single
        // group.
        ("1:0:0:2:0:0:0:3", "1:0:0:2::3"), ("1:0:0:2:3:0:0:4", "1::2:3:0:0:4"),
        ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"), ("::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"),
        (
            "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
        ),
    ])
    func readsAndWrites(text: String, canonical: String) throws {
        let address = try #require(NetworkAddress(text))
        #expect(address.description == canonical)
        #expect(NetworkAddress(canonical) == address)
    }

    @Test(arguments: [
        "", " ", ".", ":", ":::", "::::", "1", "1.2.3", "1.2.3.4.5", "1.2.3.", ".1.2.3.4", "1..2.3",
        "256.1.1.1", "1.2.3.999999999999999999999", "01.2.3.4", "1.2.3.0x4", "1.2.3.+4", "1.2.3.-4",
        "1.2.3.4 ", " 1.2.3.4", "1.2.3.4:80", "127.1", "2130706433", "0x7f000001", "1.2.3.４",
        "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", ":1:2:3:4:5:6:7", "1:2:3:4:5:6:7:",
        "1:2:3:4:5:6:7:8::", "::1:2:3:4:5:6:7:8", "12345::", "::g", "::1%lo", "[::1]", "::1.2.3",
        "::1.2.3.4:5", "1.2.3.4::", "1:2:3:4:5:6:7:1.2.3.4", "::ffff:01.2.3.4", "::-1",
        "0000:0000:0000:0000:0000:ffff:255.255.255.2555", "localhost",
    ])
    func refusesWhatIsNoAddress(text: String) {
        #expect(NetworkAddress(text) == nil)
    }

    @Test func anIPv4AddressIsOneValueInBothFamilies() throws {
        let address = NetworkAddress(v4: 0x0A01_0203)
        #expect(NetworkAddress("::ffff:10.1.2.3") == address)
        #expect(address.v4 == 0x0A01_0203 && address.subscriber == address)
        #expect(NetworkAddress("::10.1.2.3")?.v4 == nil)
    }

    @Test func anIPv6SubscriberHasAWholeNetwork() throws {
        let one = try #require(NetworkAddress("2001:db8:1:2:3:4:5:6"))
        #expect("\(one.subscriber)" == "2001:db8:1:2::")
        #expect(NetworkAddress("2001:db8:1:3::1")?.subscriber != one.subscriber)
    }

    @Test(arguments: [
        ("127.0.0.1", true), ("127.255.0.3", true), ("::1", true), ("::ffff:127.0.0.1", true),
        ("128.0.0.1", false), ("::", false), ("::2", false), ("126.255.255.255", false),
        ("1::1", false),
    ])
    func knowsLoopback(text: String, isLoopback: Bool) throws {
        let address = try #require(NetworkAddress(text))
        #expect(address.isLoopback == isLoopback)
        #expect(AddressRange.loopback.contains(address) == isLoopback)
    }

    @Test func masksAtEveryBit() {
        let all = NetworkAddress(high: .max, low: .max)
        for bits in 0...NetworkAddress.bitCount {
            let masked = all.masked(to: bits)
            #expect(masked.high.nonzeroBitCount + masked.low.nonzeroBitCount == bits)
            #expect(masked.high.leadingZeroBitCount == 0 || bits == 0)
        }
    }

    @Test(arguments: [
        ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"), ("10.0.0.0/8", "::ffff:10.0.0.1", "::10.0.0.1"),
        ("192.0.2.4/30", "192.0.2.7", "192.0.2.8"), ("192.0.2.4", "192.0.2.4", "192.0.2.5"),
        ("192.0.2.4/32", "192.0.2.4", "192.0.2.5"), ("0.0.0.0/0", "1.2.3.4", "::1"),
        ("::1/128", "::1", "::2"), ("2001:db8::/33", "2001:db8:7fff::", "2001:db8:8000::"),
        ("fe80::/10", "febf::1", "fec0::1"), ("::ffff:10.0.0.0/104", "10.9.9.9", "11.0.0.0"),
        ("8000::/1", "ffff::", "7fff::"),
    ])
    func rangesHoldWhatBeginsAlike(range: String, inside: String, outside: String) throws {
        let range = try #require(AddressRange(range))
        #expect(range.contains(try #require(NetworkAddress(inside))))
        #expect(!range.contains(try #require(NetworkAddress(outside))))
        #expect(AddressRange(range.description) == range)
    }

    @Test func theRangeOfEverythingHoldsBothFamilies() throws {
        let range = try #require(AddressRange("::/0"))
        for text in ["::", "1.2.3.4", "ffff::"] {
            #expect(range.contains(try #require(NetworkAddress(text))))
        }
        #expect(range.description == "::/0")
    }

    @Test(arguments: [
        "", "/", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/08",
        "10.0.0.0/8/8", "10.0.0.1/8", "::1/64", "::/129", "::/999999999999999999999", "10/8",
        "10.0.0.0/255.0.0.0", "::ffff:10.0.0.0/8", "[::1]/128", "10.0.0.0 /8", "*",
    ])
    func refusesWhatIsNoRange(text: String) {
        #expect(AddressRange(text) == nil)
    }
}
