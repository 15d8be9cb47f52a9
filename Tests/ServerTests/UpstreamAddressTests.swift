// Where the HTTP client for upstream services may go for a client's URL, and the field of an answer
// that a caller wants kept. On real sockets against a scripted service on this machine, which is
// not a public address.

import Codec
import Session
import Testing

@testable import Server

@Suite struct UpstreamAddressTests {
    /// The connection is made, as only then the address is known, but nothing is said on it.
    @Test func saysNothingToAPrivateAddressWhereOnlyPublicOnesMayBeReached() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        var request = UpstreamRequest(url: world.url)
        request.reachesOnlyPublicAddresses = true
        let confined = request
        let outcome = world.start { try await $0.send(confined) }.outcome
        try world.run { outcome.isKnown }
        #expect(
            outcome.error as? AgentError
                == .unavailable(message: "Only servers with a public address may be reached."))
        #expect(world.connections.allSatisfy { $0.received.isEmpty })
    }

    @Test func saysNothingOnAConnectionThatAnotherRequestHasLeft() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let plain = UpstreamRequest(url: world.url)
        let first = world.start { try await $0.send(plain) }.outcome
        try world.run { world.connections.first?.requestCount == 1 }
        world.connections[0].send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        try world.run { first.isKnown }
        let response = try #require(first.value)
        let read = world.start { _ in _ = try await response.nextChunk() }.outcome
        try world.run { read.isKnown }
        var request = UpstreamRequest(url: world.url)
        request.reachesOnlyPublicAddresses = true
        let confined = request
        let second = world.start { try await $0.send(confined) }.outcome
        try world.run { second.isKnown }
        #expect(second.error is AgentError)
        #expect(world.connections.reduce(0) { $0 + $1.requestCount } == 1)
    }

    @Test func keepsTheFieldThatWasAskedFor() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        var request = UpstreamRequest(url: world.url)
        request.keptHeader = "Mcp-Session-Id"
        let asked = request
        let outcome = world.start { try await $0.send(asked) }.outcome
        try world.run { world.connections.first?.requestCount == 1 }
        world.connections[0].send(
            "HTTP/1.1 200 OK\r\nmcp-session-id: abc\r\nX: y\r\nContent-Length: 0\r\n\r\n")
        try world.run { outcome.isKnown }
        let response = try #require(outcome.value)
        #expect(response.header("Mcp-Session-Id") == "abc" && response.header("X") == nil)
    }

    @Test(arguments: [
        ("8.8.8.8", true), ("2606:4700::1111", true), ("127.0.0.1", false), ("10.1.2.3", false),
        ("172.31.0.1", false), ("172.32.0.1", true), ("192.168.1.1", false),
        ("169.254.169.254", false), ("100.64.0.1", false), ("0.0.0.0", false),
        ("255.255.255.255", false), ("::1", false), ("::", false), ("fe80::1", false),
        ("fd00::1", false), ("::ffff:10.0.0.1", false), ("::ffff:8.8.8.8", true),
        ("64:ff9b::a00:1", false), ("2002:a00:1::", false), ("2001:db8::1", false),
        ("ff02::1", false),
    ])
    func knowsWhatIsOutOnTheInternet(_ text: String, _ isPublic: Bool) throws {
        #expect(try #require(NetworkAddress(text)).isPublic == isPublic)
    }
}
