// The opening handshake of RFC 6455 §4: the standard's example, every rule of §4.2.1 broken once in
// a request and of §4.1 in an answer, subprotocols, and both sides together.

import Codec
import Testing

@Suite struct WebSocketHandshakeTests {
    private static let example = """
        GET /chat HTTP/1.1\r
        Host: server.example.com\r
        Upgrade: websocket\r
        Connection: keep-alive, Upgrade\r
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r
        Origin: http://example.com\r
        Sec-WebSocket-Protocol: chat, superchat\r
        Sec-WebSocket-Version: 13\r
        \r

        """

    private static func upgrade(_ head: String) throws -> WebSocketUpgrade {
        var parser = HTTPRequestParser()
        let parsed = try bytes(head).withUnsafeBytes { try parser.parse($0) }
        return try WebSocketHandshake.validate(#require(parsed).request)
    }

    @Test func answersTheExampleOfTheStandard() throws {
        let upgrade = try Self.upgrade(Self.example)
        #expect(upgrade.subprotocols == ["chat", "superchat"])
        let answer = written {
            WebSocketHandshake.writeAcceptance(of: upgrade, subprotocol: "chat", into: &$0)
        }
        let expected = """
            HTTP/1.1 101 Switching Protocols\r
            Upgrade: websocket\r
            Connection: Upgrade\r
            Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r
            Sec-WebSocket-Protocol: chat\r
            \r

            """
        #expect(String(decoding: answer, as: UTF8.self) == expected)
    }

    @Test(arguments: [
        ("", "Kfh9QIsMVZcl6xEPYxPHzW8SZ8w="), ("x", "JVxkmtKFjDcI/Pm/AGPEKSN6wT8="),
    ])
    func hashesKeysOfAnyLength(key: String, accepted: String) {
        #expect(WebSocketHandshake.acceptKey(for: key) == accepted)
    }

    /// A line of the example, its replacement, and the rule that this breaks.
    static let broken: [(line: String, by: String, rule: WebSocketHandshakeError, status: Int)] = [
        ("GET /chat", "POST /chat", .methodNotGET, 405),
        ("GET /chat", "HEAD /chat", .methodNotGET, 405),
        ("HTTP/1.1", "HTTP/1.0", .httpTooOld, 400),
        ("Upgrade: websocket\r\n", "", .missingUpgrade, 426),
        ("Upgrade: websocket", "Upgrade: h2c", .missingUpgrade, 426),
        ("Upgrade: websocket", "Upgrade: websockets", .missingUpgrade, 426),
        ("Connection: keep-alive, Upgrade\r\n", "", .missingConnectionUpgrade, 400),
        ("keep-alive, Upgrade", "keep-alive", .missingConnectionUpgrade, 400),
        ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "", .missingKey, 400),
        ("dGhlIHNhbXBsZSBub25jZQ==", "", .invalidKey, 400),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ=", .invalidKey, 400),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ", .invalidKey, 400),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZ===", .invalidKey, 400),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZSA=", .invalidKey, 400),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhb*BsZSBub25jZQ==", .invalidKey, 400),
        ("Origin: http://example.com", "sec-websocket-key: x", .duplicateKey, 400),
        ("Sec-WebSocket-Version: 13\r\n", "", .unsupportedVersion, 426),
        ("Version: 13", "Version: 8", .unsupportedVersion, 426),
        ("Version: 13", "Version: 13, 8", .unsupportedVersion, 426),
        ("chat, superchat", "", .invalidSubprotocols, 400),
        ("chat, superchat", " , ", .invalidSubprotocols, 400),
        ("chat, superchat", "chat, super chat", .invalidSubprotocols, 400),
        ("chat, superchat", "chat;q=1", .invalidSubprotocols, 400),
        ("Origin: http://example.com", "Sec-WebSocket-Extensions: a b", .invalidExtensions, 400),
    ]

    @Test(arguments: broken)
    func refuses(line: String, by: String, rule: WebSocketHandshakeError, status: Int) {
        let head = Self.example.replacing(line, with: by)
        #expect(head != Self.example)
        #expect(throws: rule) { try Self.upgrade(head) }
        #expect(rule.status == status && WebSocketHandshake.refusal(of: rule).status == status)
    }

    @Test(arguments: [
        ("Upgrade: websocket", "UPGRADE: h2c, WebSocket"),
        ("keep-alive, Upgrade", "upgrade"),
        ("Connection: keep-alive, Upgrade", "Connection: keep-alive\r\nConnection: Upgrade"),
        ("Origin: http://example.com", "Sec-WebSocket-Extensions: permessage-deflate"),
        ("Origin: http://example.com", "Sec-WebSocket-Extensions:"),
        ("GET /chat", "GET http://other.example/chat"),
    ])
    func acceptsOtherSpellings(line: String, by: String) throws {
        let head = Self.example.replacing(line, with: by)
        #expect(head != Self.example)
        #expect(try Self.upgrade(head).key == "dGhlIHNhbXBsZSBub25jZQ==")
    }

    @Test func refusalsSayWhatToDo() {
        let version = WebSocketHandshake.refusal(of: .unsupportedVersion)
        #expect(version.fields["Sec-WebSocket-Version"] == "13")
        #expect(version.fields["Upgrade"] == "websocket")
        #expect(WebSocketHandshake.refusal(of: .methodNotGET).fields["Allow"] == "GET")
        let texts = Set(WebSocketHandshakeError.allCases.map(\.explanation))
        #expect(texts.count == WebSocketHandshakeError.allCases.count)
    }

    @Test(
        arguments: [
            ("realtime, openai-insecure-api-key.k, openai-beta.realtime-v1", "realtime"),
            ("openai-insecure-api-key.k,realtime", "realtime"), ("chat", nil), ("Realtime", nil),
        ] as [(String, String?)])
    func selectsRealtimeWhenItIsOffered(offer: String, selected: String?) throws {
        let upgrade = try Self.upgrade(Self.example.replacing("chat, superchat", with: offer))
        let supported = [WebSocketHandshake.realtimeSubprotocol]
        #expect(upgrade.selectSubprotocol(from: supported) == selected)
    }

    @Test func selectsNothingWhenNothingIsOffered() throws {
        let head = Self.example.replacing("Sec-WebSocket-Protocol: chat, superchat\r\n", with: "")
        let upgrade = try Self.upgrade(head)
        #expect(upgrade.subprotocols.isEmpty)
        #expect(upgrade.selectSubprotocol(from: ["realtime"]) == nil)
    }

    @Test func tellsAPlainRequestFromAnUpgrade() throws {
        for (line, isRequested) in [("", false), ("Upgrade: WebSocket\r\n", true)] {
            var parser = HTTPRequestParser()
            let head = bytes("GET / HTTP/1.1\r\nHost: a\r\n\(line)\r\n")
            let parsed = try head.withUnsafeBytes { try parser.parse($0) }
            let request = try #require(parsed).request
            #expect(WebSocketHandshake.isRequested(by: request) == isRequested)
        }
    }

    // MARK: The client's side

    private static let key = "dGhlIHNhbXBsZSBub25jZQ=="
    private static let answer = """
        HTTP/1.1 101 Switching Protocols\r
        Upgrade: websocket\r
        Connection: Upgrade\r
        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r
        Sec-WebSocket-Protocol: realtime\r
        \r

        """

    private static func selected(_ answer: String) throws -> String? {
        var parser = HTTPResponseParser()
        let parsed = try bytes(answer).withUnsafeBytes { try parser.parse($0) }
        return try WebSocketHandshake.validate(
            #require(parsed).response, key: key, subprotocols: ["realtime"])
    }

    static let brokenAnswers: [(line: String, by: String, rule: WebSocketHandshakeError)] = [
        ("101 Switching Protocols", "200 OK\r\nContent-Length: 0", .notAccepted),
        ("Upgrade: websocket", "Upgrade: h2c", .missingUpgrade),
        ("Connection: Upgrade", "Connection: close", .missingConnectionUpgrade),
        ("s3pPLM", "S3pPLM", .wrongAcceptKey),
        ("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", "", .wrongAcceptKey),
        ("realtime", "chat", .unofferedSubprotocol),
        ("Sec-WebSocket-Protocol: realtime", "Sec-WebSocket-Extensions: x", .unofferedExtension),
    ]

    @Test(arguments: brokenAnswers)
    func refusesAnAnswer(line: String, by: String, rule: WebSocketHandshakeError) {
        #expect(throws: rule) { try Self.selected(Self.answer.replacing(line, with: by)) }
    }

    @Test func everyRuleHasATest() {
        let tested = Set(Self.broken.map(\.rule)).union(Self.brokenAnswers.map(\.rule))
        #expect(tested == Set(WebSocketHandshakeError.allCases))
    }

    @Test func acceptsAnAnswer() throws {
        #expect(try Self.selected(Self.answer) == "realtime")
        let without = Self.answer.replacing("Sec-WebSocket-Protocol: realtime\r\n", with: "")
        #expect(try Self.selected(without) == nil)
    }

    @Test func clientAndServerAgree() throws {
        let key = WebSocketHandshake.makeKey()
        #expect(key != WebSocketHandshake.makeKey())
        var headers = HTTPFields()
        headers.append("Authorization", "Bearer k")
        let request = written {
            WebSocketHandshake.writeRequest(
                target: "/v1/realtime?model=m", host: "localhost:8080", key: key,
                subprotocols: ["realtime", "x"], headers: headers, into: &$0)
        }
        var requestParser = HTTPRequestParser()
        let parsed = try request.withUnsafeBytes { try requestParser.parse($0) }
        let received = try #require(parsed)
        #expect(received.consumed == request.count)
        #expect(received.request.queryValue("model") == "m")
        #expect(received.request.header("authorization") == "Bearer k")
        let upgrade = try WebSocketHandshake.validate(received.request)
        let answer = written {
            WebSocketHandshake.writeAcceptance(
                of: upgrade, subprotocol: upgrade.selectSubprotocol(from: ["x"]), into: &$0)
        }
        var responseParser = HTTPResponseParser()
        let answered = try answer.withUnsafeBytes { try responseParser.parse($0) }
        let response = try #require(answered).response
        let selected = try WebSocketHandshake.validate(
            response, key: key, subprotocols: ["realtime", "x"])
        #expect(selected == "x")
    }
}
