// The Hosts and Origins that are served: every row of the tables in README and PROTOCOL.

import Codec
import Testing

@testable import Server

@Suite struct RequestPolicyTests {
    private func policy(
        host: String = "127.0.0.1", hosts: [String] = [], origins: [String] = []
    ) throws -> RequestPolicy {
        RequestPolicy(
            host: host, hosts: try hosts.map { try #require(HostPattern($0)) },
            origins: try origins.map { try #require(OriginPattern($0)) })
    }

    // MARK: Host

    @Test(arguments: ["127.0.0.1", "::1", "localhost", "127.8.0.1", "voice.localhost"])
    func aLoopbackServerAnswersToLoopbackNamesOnly(listening: String) throws {
        let policy = try policy(host: listening)
        for host in [
            "", "localhost", "localhost:1234", "LOCALHOST.", "voice.localhost:8080", "127.0.0.1:1",
            "127.1.2.3", "[::1]", "[::1]:8080", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]:80",
        ] {
            #expect(policy.allowsHost(host), "\(host)")
        }
        for host in [
            "evil.example", "evil.example:8080", "localhost.evil.example", "notlocalhost",
            "127.0.0.1.evil.example", "128.0.0.1", "0.0.0.0:8080", "[::]", "[::2]", "127.1",
            "2130706433", "0x7f.1", "localhost:80:80", "localhost:99999", "user", "*", "a b", "[",
            "evil.example#localhost", "xn--localhost-", ".localhost",
        ] {
            #expect(!policy.allowsHost(host), "\(host)")
        }
    }

    @Test(arguments: ["0.0.0.0", "::", "192.0.2.1", "voice.example.com", "2001:db8::1"])
    func anotherServerAnswersToEveryNameByDefault(listening: String) throws {
        let policy = try policy(host: listening)
        for host in ["", "voice.example.com", "192.0.2.1:80", "!$&"] {
            #expect(policy.allowsHost(host))
        }
    }

    @Test func theListReplacesTheDefault() throws {
        let policy = try policy(
            hosts: ["voice.example.com", "*.example.org:8443", "10.0.0.0/8", "[2001:db8::1]:80"])
        for host in [
            "voice.example.com", "Voice.Example.com.:1", "a.example.org:8443",
            "b.a.example.org:8443", "10.9.8.7", "10.9.8.7:65535", "[2001:db8:0::1]:80", "",
        ] {
            #expect(policy.allowsHost(host), "\(host)")
        }
        for host in [
            "localhost", "127.0.0.1", "example.com", "a.voice.example.com", "example.org:8443",
            "a.example.org", "a.example.org:443", "notexample.org:8443", "11.0.0.1",
            "[2001:db8::1]", "[2001:db8::1]:81", "[2001:db8::2]:80",
        ] {
            #expect(!policy.allowsHost(host), "\(host)")
        }
    }

    @Test func aStarAllowsEveryHost() throws {
        let policy = try policy(hosts: ["*"])
        #expect(policy.allowsHost("evil.example") && policy.allowsHost("!"))
    }

    @Test(arguments: [
        "voice.example.com", "voice.example.com:1", "*.example.com", "*.example.com:8443", "*",
        "10.0.0.0/8", "10.0.0.1", "::1", "[::1]:80", "2001:db8::/32", "localhost",
    ])
    func aHostPatternIsWhatItSays(text: String) throws {
        #expect(try #require(HostPattern(text)).description == text)
    }

    @Test(arguments: [
        "", "**", "*.", "*.*.a", "a.*", "*a", "a/b", "http://a", "10.0.0.1/8", "*.10.0.0.1",
        "a:0", "a:b", "*:80",
    ])
    func otherTextsAreNoHostPatterns(text: String) {
        #expect(HostPattern(text) == nil)
    }

    // MARK: Origin

    private func allows(
        _ policy: RequestPolicy, _ origins: [String], host: String = "voice.example.com",
        isSecure: Bool = false
    ) -> Bool {
        var fields = HTTPFields()
        for origin in origins { fields.append("Origin", origin) }
        return policy.allowsOrigin(of: fields, host: host, isSecure: isSecure)
    }

    @Test func aRequestWithoutAnOriginIsNoBrowsers() throws {
        #expect(allows(try policy(), []))
    }

    @Test(arguments: [
        ("http://127.0.0.1:8080", "127.0.0.1:8080"), ("http://localhost:8080", "localhost:8080"),
        ("HTTP://LocalHost:8080", "localhost:8080"), ("http://[::1]:8080", "[::1]:8080"),
        ("http://[::1]", "[0:0::1]:80"), ("http://a", "a"), ("http://a", "a:80"),
        ("http://a:80", "a"), ("https://a", "a"), ("https://a", "a:443"),
        ("https://a:8443", "a:8443"),
        ("http://a.", "a"), ("http://a", "a."), ("http://a", "a:"),
    ])
    func thePageOfTheServerItselfIsAllowed(origin: String, host: String) throws {
        #expect(allows(try policy(), [origin], host: host))
    }

    @Test(arguments: [
        ("http://evil.example", "a"), ("http://a.evil.example", "a"), ("http://a:8081", "a:8080"),
        ("http://a:8080", "a"), ("https://a", "a:80"), ("http://a", "a:443"), ("http://b.a", "a"),
        ("http://localhost:8080", "127.0.0.1:8080"), ("ws://a", "a"), ("file://", "a"),
        ("file://a", "a"), ("chrome-extension://a", "a"), ("null", "a"), ("NULL", "a"), ("", "a"),
        ("null", "null"), ("http://a/", "a"), ("http://a/x", "a"), ("http://a http://a", "a"),
        ("http://a, http://a", "a"), ("http://u@a", "a"), ("a", "a"), ("//a", "a"), ("*", "a"),
        ("http://a", ""), ("http://", ""), ("http://a\u{0}", "a"), ("http://a", "a:b"),
    ])
    func otherPagesAreNot(origin: String, host: String) throws {
        #expect(!allows(try policy(), [origin], host: host))
    }

    @Test func severalOriginsAreNone() throws {
        #expect(!allows(try policy(), ["http://a", "http://a"], host: "a"))
        let listed = try policy(origins: ["http://a"])
        #expect(!allows(listed, ["http://a", "http://a"], host: "a"))
    }

    @Test func overTLSThePageMustHaveComeOverTLS() throws {
        let policy = try policy()
        #expect(allows(policy, ["https://a"], host: "a", isSecure: true))
        #expect(!allows(policy, ["http://a"], host: "a", isSecure: true))
        #expect(!allows(policy, ["http://a:443"], host: "a:443", isSecure: true))
    }

    @Test func listedOriginsAreAllowedBesideTheServersOwn() throws {
        let policy = try policy(origins: [
            "https://app.example.com", "https://*.example.org", "http://localhost:3000",
            "chrome-extension://abcdef", "https://*.example.net:8443",
        ])
        for origin in [
            "https://voice.example.com", "https://app.example.com", "https://APP.example.com:443",
            "https://app.example.com.", "https://a.example.org", "https://b.a.example.org",
            "http://localhost:3000", "chrome-extension://abcdef", "https://a.example.net:8443",
        ] {
            #expect(allows(policy, [origin]), "\(origin)")
        }
        for origin in [
            "http://app.example.com", "https://app.example.com:8443", "https://example.org",
            "https://notexample.org", "https://a.example.org.evil.example", "http://a.example.org",
            "https://a.example.org:8443", "http://localhost", "http://localhost:3001", "null",
            "chrome-extension://abcdeg", "https://evil.example", "https://a.example.net",
        ] {
            #expect(!allows(policy, [origin]), "\(origin)")
        }
    }

    @Test func aStarAllowsEveryOrigin() throws {
        let policy = try policy(origins: ["*"])
        for origin in ["null", "https://evil.example", "rubbish", ""] {
            #expect(allows(policy, [origin]))
        }
        #expect(allows(policy, ["a", "b"]))
    }

    @Test(arguments: [
        "https://app.example.com", "https://*.example.com", "http://localhost:3000", "*",
        "https://*.example.com:8443", "http://[::1]:3000", "app://x",
    ])
    func anOriginPatternIsWhatItSays(text: String) throws {
        #expect(try #require(OriginPattern(text)).description == text)
    }

    @Test(arguments: [
        "", "null", "example.com", "https://", "https://*", "https://*.", "https://*.*.a",
        "*://a", "https://a/", "https://a.*", "https://*.10.0.0.1", "https://*a", "**",
    ])
    func otherTextsAreNoOriginPatterns(text: String) {
        #expect(OriginPattern(text) == nil)
    }
}
