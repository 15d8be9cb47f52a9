// Host and Origin values that browsers send, and others that must be refused.

import Testing

@testable import Codec

@Suite struct WebOriginTests {
    @Test(arguments: [
        ("localhost", "localhost"), ("LocalHost:8080", "localhost:8080"), ("a.b.", "a.b"),
        ("example.com:", "example.com"), ("127.0.0.1:1", "127.0.0.1:1"),
        ("127.0.0.1.", "127.0.0.1"), ("[::1]", "[::1]"), ("[0:0::1]:65535", "[::1]:65535"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"), ("my_host", "my_host"), ("127.1", "127.1"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ])
    func readsAHost(text: String, canonical: String) throws {
        let authority = try #require(WebAuthority(text))
        #expect(authority.description == canonical)
        #expect(WebAuthority(canonical) == authority)
    }

    @Test(arguments: [
        "", ".", ":80", "a..b", ".a", "a.b..", "a:0", "a:65536", "a:080", "a:8o", "a:-1", "a:1:2",
        "::1", "[::1", "::1]", "[]", "[1.2.3.4]", "[::1]a", "[::1]:x", "[::1%25lo]",
        "user@a", "a/b", "a b", "a%2e", "bücher", "*", "a,b", "a\u{0}", "[a]",
    ])
    func refusesWhatIsNoHost(text: String) {
        #expect(WebAuthority(text) == nil)
    }

    @Test func aNameHasNoMoreBytesThanDNSAllows() {
        let label = String(repeating: "a", count: 62) + "."
        let name = String(repeating: label, count: 4)
        #expect(WebAuthority(name + "a") != nil)
        #expect(WebAuthority(name + "a.") != nil)
        #expect(WebAuthority(name + "ab") == nil)
    }

    @Test(arguments: [
        ("http://localhost:8080", "http://localhost:8080"),
        ("HTTPS://A.example", "https://a.example"),
        ("http://a:80", "http://a"), ("https://a:443", "https://a"),
        ("https://a:80", "https://a:80"),
        ("http://a.", "http://a"), ("http://[::1]:3000", "http://[::1]:3000"),
        ("chrome-extension://abcdef", "chrome-extension://abcdef"),
        ("capacitor://localhost", "capacitor://localhost"),
    ])
    func readsAnOrigin(text: String, canonical: String) throws {
        let origin = try #require(WebOrigin(text))
        #expect(origin.description == canonical)
        #expect(WebOrigin(canonical) == origin)
    }

    @Test(arguments: [
        "", "null", "NULL", "http", "http:", "http:/", "http://", "file://", "://a", "http:a",
        "http//a", "http://a/", "http://a/b", "http://a?b", "http://a#b", "http://u@a",
        "http://u:p@a", "http://a http://b", "http://a,http://b", "http://a, http://b", "1http://a",
        "ht tp://a", "http://a:99999", "http:\\\\a", "http://a\\b", " http://a", "http://a ",
        "httq\u{0}://a", "https://*.a", "//a",
    ])
    func refusesWhatIsNoOrigin(text: String) {
        #expect(WebOrigin(text) == nil)
    }

    @Test func equalMeansTheSamePlace() {
        #expect(WebOrigin("http://a:80") == WebOrigin("http://A."))
        #expect(WebOrigin("http://a") != WebOrigin("https://a"))
        #expect(WebOrigin("http://a") != WebOrigin("http://a:8080"))
        #expect(WebOrigin("http://a:443") != WebOrigin("https://a:443"))
        #expect(WebOrigin("http://[::ffff:1.2.3.4]") == WebOrigin("http://1.2.3.4"))
    }
}
