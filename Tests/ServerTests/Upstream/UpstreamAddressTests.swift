// The addresses that the HTTP client for upstream services may use for a client's URL, and the
// field of an answer that a caller wants to keep. On real sockets against a scripted service on
// this machine, whose address is not public.

import Codec
import Session
import Testing

@testable import Server

@Suite struct UpstreamAddressTests {
    private static let refused = AgentError.unavailable(
        message: "Only servers with a public address may be reached.")

    private func confined(_ url: String) -> UpstreamRequest {
        var request = UpstreamRequest(url: url)
        request.reachesOnlyPublicAddresses = true
        return request
    }

    /// No connection is made, however the address is spelled: the last names lead here by the
    /// system's own files, and one leads nowhere.
    @Test(arguments: [
        "127.0.0.1", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "0.0.0.0", "0",
        "127.255.255.254", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
        "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "[fe80::1]", "[fd00::1]",
        "169.254.169.254", "10.0.0.1", "100.64.0.1", "192.168.0.1", "localhost", "a.localhost",
        "LOCALHOST.", "a..b",
    ])
    func connectsToNoPrivateAddress(host: String) throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let request = confined("http://\(host):\(world.port)/")
        let outcome = world.start { try await $0.send(request) }.outcome
        try world.run { outcome.isKnown }
        #expect(outcome.error as? AgentError == Self.refused)
        world.settle()
        #expect(world.connections.isEmpty)
    }

    @Test func anOpenAndAClosedPortLookTheSame() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let request = confined(world.url)
        let open = world.start { try await $0.send(request) }.outcome
        try world.run { open.isKnown }
        world.stopListening()
        let closed = world.start { try await $0.send(request) }.outcome
        try world.run { closed.isKnown }
        #expect(open.error as? AgentError == Self.refused)
        #expect(closed.error as? AgentError == Self.refused)
        #expect(world.connections.isEmpty)
    }

    /// The operator's own connection to the same place is neither used nor lost.
    @Test func leavesTheConnectionThatAnotherRequestHasLeft() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let plain = UpstreamRequest(url: world.url)
        func complete(_ count: Int) throws {
            let answer = world.start { try await $0.send(plain) }.outcome
            try world.run { world.connections.first?.requestCount == count }
            world.connections[0].send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            try world.run { answer.isKnown }
            let response = try #require(answer.value)
            let read = world.start { _ in _ = try await response.nextChunk() }.outcome
            try world.run { read.isKnown }
        }
        try complete(1)
        let request = confined(world.url)
        let second = world.start { try await $0.send(request) }.outcome
        try world.run { second.isKnown }
        #expect(second.error as? AgentError == Self.refused)
        #expect(world.connections.count == 1 && world.connections[0].requestCount == 1)
        try complete(2)
        #expect(world.connections.count == 1)
    }

    /// Redirects are not followed at all: the caller gets the status.
    @Test func followsNoRedirect() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let plain = UpstreamRequest(url: world.url)
        let outcome = world.start { try await $0.send(plain) }.outcome
        try world.run { world.connections.first?.requestCount == 1 }
        world.connections[0].send(
            "HTTP/1.1 307 Elsewhere\r\nLocation: \(world.url)\r\nContent-Length: 0\r\n\r\n")
        try world.run { outcome.isKnown }
        #expect(outcome.value?.status == 307)
        world.settle()
        #expect(world.connections.count == 1 && world.connections[0].requestCount == 1)
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
    func knowsPublicAddresses(_ text: String, _ isPublic: Bool) throws {
        #expect(try #require(NetworkAddress(text)).isPublic == isPublic)
    }
}
