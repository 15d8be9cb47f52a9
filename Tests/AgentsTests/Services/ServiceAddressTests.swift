// Addresses of services: where a redirect points, what is one origin, and what a log shows of them.

import Session
import Testing

@testable import Agents

@Suite struct ServiceAddressTests {
    @Test(arguments: [
        ("/mcp/", "http://h:1/mcp/"), ("http://h:1/mcp/", "http://h:1/mcp/"),
        ("//other/x", "http://other/x"), ("mcp/", "http://h:1/mcp/"),
        ("?a=1", "http://h:1/mcp?a=1"),
        ("https://h/x", "https://h/x"), ("file:///etc/passwd", nil), ("", nil),
    ])
    func aLocationIsResolved(location: String, target: String?) {
        #expect(ServiceAddress.target(of: location, from: "http://h:1/mcp?q=2") == target)
    }

    @Test(arguments: [
        ("http://h/a", "http://h:80/b", true), ("https://h/a", "https://H:443/b", true),
        ("http://h/a", "https://h/a", false), ("http://h/a", "http://h:81/a", false),
        ("http://h/a", "http://h.evil.test/a", false), ("http://u:p@h/a", "http://h/b", true),
        ("http://h/a", "http://h@evil.test/a", false),
    ])
    func anOriginIsSchemeHostAndPort(url: String, other: String, isSame: Bool) {
        #expect(ServiceAddress.areOfOneOrigin(url, other) == isSame)
    }

    @Test(arguments: [
        ("https://user:secret@h/v1?key=secret#x", "https://h/v1"),
        ("http://127.0.0.1:8000/v1/chat/completions", "http://127.0.0.1:8000/v1/chat/completions"),
        ("https://h/s/NjM4YTk2ZmQtOTk0ZC00YmJm12/mcp", "https://h/s/…/mcp"),
    ])
    func noSecretIsShown(url: String, shown: String) {
        #expect(ServiceAddress.shown(url) == shown)
    }

    /// A host that answers each request of a script, and keeps what is reported.
    private func answer(
        _ script: [ScriptedAgentHost.Answer], to url: String
    ) async throws -> (status: Int, asked: [String], faults: [ServiceFault]) {
        let host = ScriptedAgentHost(answers: script)
        let response = try await host.sendFollowing(UpstreamRequest(url: url), to: "llm")
        return (response.status, host.requests.map(\.url), host.faults)
    }

    @Test(arguments: [307, 308])
    func aRedirectOfTheSameOriginIsFollowedAndReported(status: Int) async throws {
        let result = try await answer(
            [.init(status: status, location: "/v1/"), .init(status: 200)], to: "http://h/v1")
        #expect(result.status == 200 && result.asked == ["http://h/v1", "http://h/v1/"])
        #expect(result.faults.map(\.isTolerated) == [true])
        #expect(result.faults.first?.advice.contains("http://h/v1/") == true)
    }

    @Test(arguments: [
        (307, "https://h/v1/"), (307, "http://other/v1/"), (301, "/v1/"), (302, "/v1/"),
        (307, "ftp://h/x"),
    ])
    func otherRedirectsAreNotFollowed(status: Int, location: String) async throws {
        let result = try await answer(
            [.init(status: status, location: location), .init(status: 200)], to: "http://h/v1")
        #expect(result.status == status && result.asked.count == 1)
    }

    @Test func aLoopOfRedirectsEnds() async throws {
        let result = try await answer(
            Array(repeating: .init(status: 307, location: "/v1"), count: 20), to: "http://h/v1")
        #expect(result.status == 307 && result.asked.count == ServiceAddress.maxRedirects + 1)
    }
}
