// Responses written and parsed: heads, HEAD, bodies of every framing, interim responses, and errors
// of a server.

import Codec
import Testing

/// The whole outcome of a stream. If `ended`, the connection closes after it.
private struct Outcome: Equatable {
    var status: Int?
    var body: String?
    var unconsumed: Int?
    var error: HTTPError?
}

private func parse(
    _ pieces: [[UInt8]], answering method: HTTPMethod = .get, ended: Bool = false,
    limits: HTTPLimits = HTTPLimits()
) -> Outcome {
    var parser = HTTPResponseParser(answering: method, limits: limits)
    var input: [UInt8] = []
    var result: Outcome?
    do throws(HTTPError) {
        for piece in pieces {
            input += piece
            guard result == nil else { continue }
            let parsed = try input.span.bytes.withUnsafeBytes { (bytes) throws(HTTPError) in
                try parser.parse(bytes)
            }
            if let (response, consumed) = parsed {
                let body = String(decoding: response.body, as: UTF8.self)
                result = Outcome(status: response.status, body: body, unconsumed: consumed)
            }
        }
        if var result {
            result.unconsumed = input.count - (result.unconsumed ?? 0)
            return result
        }
        guard ended else { return Outcome() }
        let response = try input.span.bytes.withUnsafeBytes { (bytes) throws(HTTPError) in
            try parser.finish(bytes)
        }
        let body = String(decoding: response.body, as: UTF8.self)
        return Outcome(status: response.status, body: body, unconsumed: 0)
    } catch {
        return Outcome(error: error)
    }
}

@Suite struct HTTPResponseTests {
    @Test func writesABody() {
        var response = HTTPResponse(status: 200, text: "alive\n")
        response.fields.append("Date", "Sat, 21 Nov 2026 12:00:00 GMT")
        let expected = """
            HTTP/1.1 200 OK\r
            Content-Type: text/plain; charset=utf-8\r
            Date: Sat, 21 Nov 2026 12:00:00 GMT\r
            Content-Length: 6\r
            Connection: keep-alive\r
            \r
            alive

            """
        let bytes = written { response.write(answering: .get, keepAlive: true, into: &$0) }
        #expect(String(decoding: bytes, as: UTF8.self) == expected)
    }

    @Test func answersHEADWithTheHeadOfGET() {
        let response = HTTPResponse(status: 404, text: "no\n")
        let get = written { response.write(answering: .get, keepAlive: false, into: &$0) }
        let head = written { response.write(answering: .head, keepAlive: false, into: &$0) }
        #expect(get == head + bytes("no\n"))
        #expect(String(decoding: head, as: UTF8.self).hasSuffix("Connection: close\r\n\r\n"))
    }

    @Test(arguments: [204, 304])
    func writesNoLengthWhereAStatusHasNoBody(status: Int) {
        let response = HTTPResponse(status: status, body: bytes("never"))
        let text = String(
            decoding: written { response.write(answering: .get, keepAlive: true, into: &$0) },
            as: UTF8.self)
        #expect(!text.contains("Content-Length") && text.hasSuffix("\r\n\r\n"))
    }

    @Test func aFieldsValueCannotAddFields() {
        var fields = HTTPFields()
        fields.append("Location", "/a\r\nSet-Cookie: b\0")
        #expect(fields["Location"] == "/a  Set-Cookie: b ")
        #expect(fields["Set-Cookie"] == nil)
    }

    @Test func aFieldsNameMustBeAToken() async {
        await #expect(processExitsWith: .failure) {
            var fields = HTTPFields()
            fields.append("A: b\r\nC", "d")
        }
    }

    @Test func whatIsWrittenIsReadBack() {
        let response = HTTPResponse(status: 200, body: bytes("{}"))
        let stream = written { response.write(answering: .get, keepAlive: true, into: &$0) }
        let outcome = expectChunkInvariant(stream + bytes("HTTP")) { parse($0) }
        #expect(outcome == Outcome(status: 200, body: "{}", unconsumed: 4))
    }

    static let accepted: [(stream: String, ended: Bool, status: Int?, body: String?, rest: Int?)] =
        [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokX", false, 200, "ok", 1),
            ("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", false, 200, "", 0),
            ("HTTP/1.1 204 \r\n\r\n", false, 204, "", 0),
            ("HTTP/1.0 304 Not Modified\r\nContent-Length: 9\r\n\r\n", false, 304, "", 0),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nX", false,
                200, "ok", 1
            ),
            ("HTTP/1.1 200 OK\r\n\r\nuntil the end", true, 200, "until the end", 0),
            ("HTTP/1.1 200 OK\r\n\r\nuntil the end", false, nil, nil, nil),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: a\r\n\r\n"
                    + "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", false, 200, "x", 0
            ),
            ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n\u{1}", false, 101, "", 1),
        ]

    @Test(arguments: accepted)
    func accepts(stream: String, ended: Bool, status: Int?, body: String?, rest: Int?) {
        let outcome = expectChunkInvariant(bytes(stream)) { parse($0, ended: ended) }
        #expect(outcome == Outcome(status: status, body: body, unconsumed: rest))
    }

    @Test func aResponseToHEADHasNoBody() {
        let stream = bytes("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        let outcome = expectChunkInvariant(stream) { parse($0, answering: .head) }
        #expect(outcome == Outcome(status: 200, body: "", unconsumed: 0))
    }

    static let refused: [(rule: HTTPError, stream: String)] = [
        (.malformedStartLine, "HTTP/1.1\r\n\r\n"),
        (.malformedStartLine, "HTTP/1.1 20 OK\r\n\r\n"),
        (.malformedStartLine, "HTTP/1.1 2000 OK\r\n\r\n"),
        (.malformedStartLine, "HTTP/1.1 099 OK\r\n\r\n"),
        (.malformedStartLine, "HTTP/1.1 2x0 OK\r\n\r\n"),
        (.malformedStartLine, "HTTP/1.1 200 O\0K\r\n\r\n"),
        (.malformedVersion, "ICY 200 OK\r\n\r\n"),
        (.unsupportedVersion, "HTTP/2.0 200 OK\r\n\r\n"),
        (
            .conflictingFraming,
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: x\r\n\r\n"
        ),
        (.bareLineFeed, "HTTP/1.1 200 OK\n\n"),
        (.truncatedMessage, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"),
        (.truncatedMessage, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"),
        (.truncatedMessage, "HTTP/1.1 200 OK\r\n"),
        (.truncatedMessage, ""),
        (
            .tooManyInterimResponses,
            String(repeating: "HTTP/1.1 100 Continue\r\n\r\n", count: 17)
        ),
    ]

    @Test(arguments: refused)
    func refuses(rule: HTTPError, stream: String) {
        let outcome = expectChunkInvariant(bytes(stream)) { parse($0, ended: true) }
        #expect(outcome == Outcome(error: rule))
    }

    @Test func aBodyUntilTheEndHasALimit() {
        var limits = HTTPLimits()
        limits.maxBodyBytes = 3
        let head = "HTTP/1.1 200 OK\r\n\r\n"
        #expect(parse([bytes(head + "abc")], ended: true, limits: limits).body == "abc")
        #expect(parse([bytes(head + "abcd")], limits: limits).error == .bodyTooLarge)
    }
}

@Suite struct HTTPFieldsTests {
    private let fields: HTTPFields = {
        var fields = HTTPFields()
        fields.append("Accept", "a, , b;q=1")
        fields.append("ACCEPT", "\tc ,")
        fields.append("Empty", "")
        return fields
    }()

    @Test func looksUpWithoutCaseAndJoinsLines() {
        #expect(fields["aCcEpT"] == "a, , b;q=1, \tc ,")
        #expect(fields["Accep"] == nil)
        #expect(fields["Empty"] == "")
        #expect(fields.count(of: "accept") == 2)
        #expect(fields.map(\.name) == ["Accept", "ACCEPT", "Empty"])
    }

    @Test func splitsListsOverAllLines() {
        #expect(fields.elements(of: "accept") == ["a", "b;q=1", "c"])
        #expect(fields.elements(of: "empty").isEmpty)
        #expect(fields.contains(token: "C", in: "Accept"))
        #expect(!fields.contains(token: "b", in: "Accept"))
    }

    @Test func aListOfSpacesAndCommasTakesLinearTime() {
        // CVE-2021-32640 and similar: a quadratic split would need some 10^11 steps here.
        var flood = HTTPFields()
        flood.append("List", String(repeating: ", ", count: 200_000) + "x")
        #expect(flood.elements(of: "List") == ["x"])
    }
}
