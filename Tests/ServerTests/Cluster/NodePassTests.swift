// The passes with which nodes ask each other: good for one request, one node and some seconds.

import Codec
import Testing

@testable import Server

@Suite struct NodePassTests {
    private static let now = 1_800_000_000
    private static let secret = [UInt8]((0..<32).map { UInt8($0) })
    private static let path = "/admin/sessions"
    private static let target = path + "?scope=node"

    private let key: JSONWebKey
    private let caller = Caller(
        access: .key, principal: SHA256Digest(of: "sk-a"), secret: SHA256Digest(of: "ek_a"))

    init() throws { key = try #require(JSONWebKey(secret: Self.secret)) }

    private func makeText(
        access: RouteAccess = .key, at seconds: Int = now, to node: String = "node_b"
    ) throws -> String {
        let caller = Caller(access: access, principal: caller.principal, secret: caller.secret)
        let pass = NodePass(for: caller, at: seconds)
        return try #require(pass.text(for: .get, Self.target, to: node, by: key))
    }

    private func read(
        _ text: String, method: String = "GET", target: String = target, by key: JSONWebKey? = nil,
        at seconds: Int = now
    ) throws -> NodePass? {
        let request = try makeRequest("\(method) \(target) HTTP/1.1\r\nHost: h\r\n\r\n")
        return NodePass(
            text, for: request, to: "node_b", by: key ?? self.key, at: seconds)
    }

    private func makeRequest(_ text: String) throws -> HTTPRequest {
        var parser = HTTPRequestParser()
        let parsed = try Array(text.utf8).withUnsafeBytes { try parser.parse($0) }
        return try #require(parsed).request
    }

    @Test func aPassNamesItsCaller() throws {
        let pass = try #require(try read(try makeText()))
        #expect(pass.access == .key && pass.principal == caller.principal)
        #expect(pass.secret == caller.secret)
        #expect(try read(try makeText(access: .operator))?.access == .operator)
        let nobody = NodePass(for: Caller(access: .operator), at: Self.now)
        let text = try #require(nobody.text(for: .get, Self.target, to: "node_b", by: key))
        let read = try #require(try read(text))
        #expect(read.principal == nil && read.secret == nil)
    }

    @Test func aPassIsGoodForSomeSeconds() throws {
        let text = try makeText()
        #expect(try read(text, at: Self.now + NodePass.lifetimeSeconds) != nil)
        #expect(try read(text, at: Self.now + NodePass.lifetimeSeconds + 1) == nil)
        // A sender whose clock is far ahead could make passes that are good for long.
        #expect(try read(text, at: Self.now - 10 * NodePass.lifetimeSeconds) == nil)
    }

    @Test func aPassIsGoodForOneRequestOfOneNode() throws {
        let text = try makeText()
        #expect(try read(text, method: "POST") == nil)
        #expect(try read(text, target: Self.path) == nil)
        #expect(try read(text, target: Self.path + "/sess_a?scope=node") == nil)
        #expect(try read(try makeText(to: "node_c")) == nil)
        let other = try #require(JSONWebKey(secret: Self.secret.reversed()))
        #expect(try read(text, by: other) == nil)
    }

    @Test func nothingOfAPassCanBeChanged() throws {
        let text = try makeText()
        let parts = text.split(separator: ".").map(String.init)
        func replacing(_ index: Int, by part: String) -> [String] {
            var changed = parts
            changed[index] = part
            return changed
        }
        let changes: [[String]] = [
            replacing(0, by: "3"), replacing(1, by: "-"), replacing(2, by: "-"),
            replacing(3, by: "\(Self.now + 15)"), replacing(4, by: "AAAA"),
            parts.dropLast(), parts + ["x"],
        ]
        for change in changes { #expect(try read(change.joined(separator: ".")) == nil) }
        for odd in ["", "....", String(repeating: ".", count: 600), "\u{0}.é.1.AA"] {
            #expect(try read(odd) == nil)
        }
    }

    @Test func aPassGivesTheAccessOfItsCaller() throws {
        #expect(try read(try makeText(access: .session))?.access == .session)
        #expect(try read(try makeText(access: .open)) == nil)
    }

    @Test func aDirectoryWithoutASecretTakesNoPass() throws {
        let directory = NodeDirectory(name: "node_b")
        let request = try makeRequest("GET \(Self.target) HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(directory.caller(passedBy: try makeText(), in: request, at: Self.now) == nil)
        directory.replace([], secret: Self.secret)
        let caller = directory.caller(passedBy: try makeText(), in: request, at: Self.now)
        #expect(caller?.isNode == true && caller?.access == .key)
        directory.replace([], secret: [1, 2, 3])
        #expect(directory.caller(passedBy: try makeText(), in: request, at: Self.now) == nil)
    }
}
