// Parsing of requests: accepted ones, refused ones with their status, pipelining, and limits. Every
// stream goes through `expectChunkInvariant`.

import Codec
import Testing

/// The whole outcome of a stream of requests.
private struct Outcome: Equatable {
    var requests: [String] = []
    var error: HTTPError?
    var unconsumed = 0
}

/// Feeds a new parser like a connection does: unconsumed bytes are passed again, with more after
/// them.
private func parse(_ pieces: [[UInt8]], limits: HTTPLimits = HTTPLimits()) -> Outcome {
    var parser = HTTPRequestParser(limits: limits)
    var outcome = Outcome()
    var pending: [UInt8] = []
    for piece in pieces {
        pending += piece
        do throws(HTTPError) {
            while true {
                let parsed = try pending.span.bytes.withUnsafeBytes {
                    (input) throws(HTTPError) in try parser.parse(input)
                }
                guard let (request, consumed) = parsed else { break }
                outcome.requests.append(summary(request))
                pending.removeFirst(consumed)
            }
        } catch {
            return Outcome(requests: outcome.requests, error: error)
        }
    }
    outcome.unconsumed = pending.count
    return outcome
}

private func summary(_ request: HTTPRequest) -> String {
    let fields = request.fields.map { "\($0.name)=\($0.value)" }.joined(separator: "|")
    let query = request.query.map { "?\($0)" } ?? ""
    let body = String(decoding: request.body, as: UTF8.self)
    return "\(request.method) \(request.host) \(request.path)\(query) \(fields) [\(body)]"
}

private func request(_ text: String) throws -> HTTPRequest {
    var parser = HTTPRequestParser()
    let parsed = try bytes(text).withUnsafeBytes { try parser.parse($0) }
    return try #require(parsed).request
}

@Suite struct HTTPRequestParserTests {
    static let accepted: [(stream: String, requests: [String], unconsumed: Int)] = [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", ["get a / Host=a []"], 0),
        // White space around a value is not part of it. Empty values and bytes beyond ASCII are
        // valid.
        (
            "GET /x?y=1?z HTTP/1.1\r\nHost:a:80\r\nX: \t b c \t\r\nE:\r\nV: ü\r\n\r\n",
            ["get a:80 /x?y=1?z Host=a:80|X=b c|E=|V=ü []"], 0
        ),
        // HTTP/1.0 needs no Host; a minor version above 1 is read as 1 (RFC 9110 §2.5).
        ("HEAD /a HTTP/1.0\r\n\r\n", ["head  /a  []"], 0),
        ("GET /a HTTP/1.7\r\nHost: a\r\n\r\n", ["get a /a Host=a []"], 0),
        // The forms of a target (RFC 9112 §3.2); an absolute one outranks Host.
        (
            "GET http://b:81/p?q HTTP/1.1\r\nHost: a\r\n\r\n", ["get b:81 /p?q Host=a []"], 0
        ),
        ("GET HTTP://b?q HTTP/1.1\r\nHost: a\r\n\r\n", ["get b /?q Host=a []"], 0),
        ("OPTIONS * HTTP/1.1\r\nHost: [::1]\r\n\r\n", ["options [::1] * Host=[::1] []"], 0),
        ("PATCH /| HTTP/1.1\r\nHost: a:\r\n\r\n", ["other(\"PATCH\") a: /| Host=a: []"], 0),
        ("GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", ["get [::1]:80 / Host=[::1]:80 []"], 0),
        ("GET / HTTP/1.1\r\nHost: a%2Db_!~\r\n\r\n", ["get a%2Db_!~ / Host=a%2Db_!~ []"], 0),
        // One empty line before a request is ignored (RFC 9112 §2.2).
        ("\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", ["get a / Host=a []"], 0),
        // Bodies, and pipelining after each kind of them.
        (
            "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
                + "POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
                + "3\r\nabc\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\nTrailer: dropped\r\n\r\n"
                + "PUT /3 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\nGET /4",
            [
                "post a /1 Host=a|Content-Length=5 [hello]",
                "post a /2 Host=a|Transfer-Encoding=Chunked [abc0123456789]",
                "put a /3 Host=a|Content-Length=0 []",
            ], 6
        ),
        ("", [], 0),
    ]

    @Test(arguments: accepted)
    func accepts(stream: String, requests: [String], unconsumed: Int) {
        let outcome = expectChunkInvariant(bytes(stream)) { parse($0) }
        #expect(outcome == Outcome(requests: requests, unconsumed: unconsumed))
    }

    private static let get = "GET / HTTP/1.1\r\n"
    private static let post = "POST / HTTP/1.1\r\nHost: a\r\n"
    private static let chunked = post + "Transfer-Encoding: chunked\r\n\r\n"

    /// A broken rule, the status that answers it, and a stream that breaks it.
    struct Refusal: Sendable {
        let rule: HTTPError
        let status: Int
        let stream: [UInt8]

        init(_ rule: HTTPError, _ status: Int, _ parts: String...) {
            self.rule = rule
            self.status = status
            stream = bytes(parts.joined())
        }
    }

    static let refused: [Refusal] = [
        Refusal(.bareLineFeed, 400, "GET / HTTP/1.1\nHost: a\r\n\r\n"),
        Refusal(.bareLineFeed, 400, get, "Host: a\n\r\n"),
        Refusal(.bareLineFeed, 400, "\n"),
        Refusal(.malformedStartLine, 400, "GET /\r\n"),
        Refusal(.malformedStartLine, 400, "GET  / HTTP/1.1\r\n"),
        Refusal(.malformedStartLine, 400, "GET / HTTP/1.1 \r\n"),
        Refusal(.malformedStartLine, 400, " GET / HTTP/1.1\r\n"),
        Refusal(.malformedStartLine, 400, "G(T / HTTP/1.1\r\n"),
        Refusal(.malformedStartLine, 400, "\r\n\r\nGET / HTTP/1.1\r\n"),
        Refusal(.malformedVersion, 400, "GET / HTTP/1.1x\r\n"),
        Refusal(.malformedVersion, 400, "GET / http/1.1\r\n"),
        Refusal(.malformedVersion, 400, "GET / HTTP/1.\r\n"),
        Refusal(.malformedVersion, 400, "GET / HTTP/11\r\n"),
        Refusal(.malformedVersion, 400, "GET / HTTP/1.1\r\r\n"),
        Refusal(.unsupportedVersion, 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        Refusal(.unsupportedVersion, 505, "GET / HTTP/0.9\r\n"),
        Refusal(.unsupportedMethod, 501, "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n"),
        Refusal(.unsupportedMethod, 501, String(repeating: "M", count: 33), " / HTTP/1.1\r\n"),
        Refusal(.invalidTarget, 400, "GET x HTTP/1.1\r\n"),
        Refusal(.invalidTarget, 400, "GET * HTTP/1.1\r\n"),
        Refusal(.invalidTarget, 400, "GET /#f HTTP/1.1\r\n"),
        Refusal(.invalidTarget, 400, "GET /\u{7F} HTTP/1.1\r\n"),
        Refusal(.invalidTarget, 400, "GET /ü HTTP/1.1\r\n"),
        Refusal(.invalidTarget, 400, "GET /a\tb HTTP/1.1\r\n"),
        Refusal(.invalidTarget, 400, "GET ftp://a/ HTTP/1.1\r\n"),
        Refusal(.invalidTarget, 400, "GET http:/a HTTP/1.1\r\n"),
        Refusal(.invalidTarget, 400, "GET http:///a HTTP/1.1\r\n"),
        Refusal(.invalidTarget, 400, "GET http://u@h/ HTTP/1.1\r\n"),
        Refusal(.targetTooLong, 414, "GET /", String(repeating: "a", count: 9000)),
        Refusal(.headTooLarge, 431, get, "A: ", String(repeating: "a", count: 17_000)),
        Refusal(.tooManyFields, 431, get, String(repeating: "A: b\r\n", count: 101)),
        Refusal(.obsoleteLineFolding, 400, get, "Host: a\r\n folded\r\n"),
        Refusal(.obsoleteLineFolding, 400, get, "\tHost: a\r\n"),
        Refusal(.missingColon, 400, get, "Host\r\n"),
        Refusal(.whitespaceBeforeColon, 400, get, "Host : a\r\n"),
        Refusal(.invalidFieldName, 400, get, ": a\r\n"),
        Refusal(.invalidFieldName, 400, get, "H\u{E9}: a\r\n"),
        Refusal(.invalidFieldName, 400, get, "A(b): c\r\n"),
        Refusal(.invalidFieldValue, 400, get, "A: b\rc\r\n"),
        Refusal(.invalidFieldValue, 400, get, "A: b\0\r\n"),
        Refusal(.invalidFieldValue, 400, get, "A: \u{7F}\r\n"),
        Refusal(.missingHost, 400, get, "\r\n"),
        Refusal(.duplicateHost, 400, get, "Host: a\r\nhost: a\r\n\r\n"),
        Refusal(.invalidHost, 400, get, "Host: a/b\r\n\r\n"),
        Refusal(.invalidHost, 400, get, "Host: a, b\r\n\r\n"),
        Refusal(.invalidHost, 400, get, "Host: a@b\r\n\r\n"),
        Refusal(.invalidHost, 400, get, "Host:\r\n\r\n"),
        Refusal(.invalidHost, 400, get, "Host: \t \r\n\r\n"),
        Refusal(.invalidHost, 400, get, "Host: :80\r\n\r\n"),
        Refusal(.invalidHost, 400, get, "Host: a b\r\n\r\n"),
        Refusal(.invalidHost, 400, get, "Host: a:b\r\n\r\n"),
        Refusal(.invalidHost, 400, get, "Host: a:80:80\r\n\r\n"),
        Refusal(.invalidHost, 400, get, "Host: ::1\r\n\r\n"),
        Refusal(.invalidHost, 400, get, "Host: []\r\n\r\n"),
        Refusal(.invalidHost, 400, get, "Host: [\r\n\r\n"),
        Refusal(.invalidHost, 400, get, "Host: [::1]80\r\n\r\n"),
        Refusal(.invalidHost, 400, get, "Host: a[::1]\r\n\r\n"),
        Refusal(.invalidHost, 400, "GET / HTTP/1.0\r\nHost:\r\n\r\n"),
        Refusal(.invalidHost, 400, "GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n"),
        Refusal(.invalidTarget, 400, "GET http://:80/ HTTP/1.1\r\n"),
        Refusal(.invalidTarget, 400, "GET http://a:b/ HTTP/1.1\r\n"),
        Refusal(
            .duplicateContentLength, 400, post, "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx"),
        Refusal(.invalidContentLength, 400, post, "Content-Length: 1, 1\r\n\r\nx"),
        Refusal(.invalidContentLength, 400, post, "Content-Length: +1\r\n\r\nx"),
        Refusal(.invalidContentLength, 400, post, "Content-Length: -1\r\n\r\n"),
        Refusal(.invalidContentLength, 400, post, "Content-Length: 0x1\r\n\r\n"),
        Refusal(.invalidContentLength, 400, post, "Content-Length:\r\n\r\n"),
        Refusal(
            .conflictingFraming, 400,
            post, "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
        Refusal(
            .transferCodingInHTTP10, 400,
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        ),
        Refusal(.unframedTransferCoding, 400, post, "Transfer-Encoding: gzip\r\n\r\n"),
        Refusal(.unframedTransferCoding, 400, post, "Transfer-Encoding: chunked, gzip\r\n\r\n"),
        Refusal(.unframedTransferCoding, 400, post, "Transfer-Encoding: xchunked\r\n\r\n"),
        Refusal(.unframedTransferCoding, 400, post, "Transfer-Encoding:\r\n\r\n"),
        Refusal(.unsupportedTransferCoding, 501, post, "Transfer-Encoding: gzip, chunked\r\n\r\n"),
        Refusal(
            .unsupportedTransferCoding, 501, post, "Transfer-Encoding: chunked, chunked\r\n\r\n"),
        Refusal(.invalidChunkSize, 400, chunked, "g\r\n"),
        Refusal(.invalidChunkSize, 400, chunked, "\r\n"),
        Refusal(.invalidChunkSize, 400, chunked, "-1\r\n"),
        Refusal(.invalidChunkSize, 400, chunked, "0x1\r\n"),
        Refusal(.invalidChunkSize, 400, chunked, "1 1\r\n"),
        Refusal(.invalidChunkSize, 400, chunked, "1;a\0\r\n"),
        Refusal(.invalidChunkSize, 400, chunked, "1;", String(repeating: "a", count: 300)),
        Refusal(.bareLineFeed, 400, chunked, "1\nx\r\n0\r\n\r\n"),
        Refusal(.invalidChunkEnd, 400, chunked, "1\r\nxy\r\n0\r\n\r\n"),
        Refusal(.invalidChunkEnd, 400, chunked, "1\r\nx\n\n0\r\n\r\n"),
        Refusal(.whitespaceBeforeColon, 400, chunked, "0\r\nT : x\r\n\r\n"),
        Refusal(.tooManyFields, 431, chunked, "0\r\n", String(repeating: "T: x\r\n", count: 101)),
        Refusal(.bodyTooLarge, 413, post, "Content-Length: 1048577\r\n\r\n"),
        Refusal(.bodyTooLarge, 413, post, "Content-Length: 99999999999999999999\r\n\r\n"),
        Refusal(.bodyTooLarge, 413, chunked, "100000\r\n"),
        Refusal(.bodyTooLarge, 413, chunked, "FFFFFFFFFFFFFFFF\r\n"),
        Refusal(.bodyTooLarge, 413, chunked, "7FFFFFFFFFFFFFFF\r\n"),
        Refusal(.unsupportedExpectation, 417, post, "Expect: a-miracle\r\n\r\n"),
    ]

    @Test(arguments: refused)
    func refuses(refusal: Refusal) {
        let outcome = expectChunkInvariant(refusal.stream) { parse($0) }
        #expect(outcome == Outcome(error: refusal.rule))
        #expect(refusal.rule.status == refusal.status)
    }

    @Test func everyRuleHasATest() {
        let ofResponses: Set<HTTPError> = [.tooManyInterimResponses, .truncatedMessage]
        #expect(Set(Self.refused.map(\.rule)).union(ofResponses) == Set(HTTPError.allCases))
    }

    @Test func reportsAnErrorBeforeTheRestOfTheHeadArrives() {
        #expect(parse([bytes("GET / HTTP/3.0\r\n")]).error == .unsupportedVersion)
        #expect(parse([bytes("GET / HTTP/1.1\r\nHost : a\r\n")]).error == .whitespaceBeforeColon)
        #expect(parse([bytes("GET / HTTP/1.1\r\nHost : a\r")]).error == nil)
    }

    @Test func anEarlierRequestSurvivesTheErrorOfALaterOne() {
        let stream = bytes("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\n\r\n")
        let outcome = expectChunkInvariant(stream) { parse($0) }
        #expect(outcome == Outcome(requests: ["get a /1 Host=a []"], error: .missingHost))
    }

    @Test func limitsAreExact() {
        let head = "POST /abc HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"
        var limits = HTTPLimits()
        limits.maxStartLineBytes = 20
        limits.maxHeaderBytes = head.utf8.count
        limits.maxHeaderFields = 2
        limits.maxBodyBytes = 4
        func error(_ change: (inout HTTPLimits) -> Void) -> HTTPError? {
            var changed = limits
            change(&changed)
            return expectChunkInvariant(bytes(head + "body")) { parse($0, limits: changed) }.error
        }
        #expect(error { _ in } == nil)
        #expect(error { $0.maxStartLineBytes -= 1 } == .targetTooLong)
        #expect(error { $0.maxHeaderBytes -= 1 } == .headTooLarge)
        #expect(error { $0.maxHeaderFields -= 1 } == .tooManyFields)
        #expect(error { $0.maxBodyBytes -= 1 } == .bodyTooLarge)
    }

    @Test func theFramingOfChunksCountsAsBody() {
        // 20 bytes as received, four of them data. A limit on data alone would accept a ratio of
        // 5:1.
        let body = "1\r\na\r\n1\r\nb\r\n0\r\nT: x\r\n\r\n"
        var limits = HTTPLimits()
        limits.maxBodyBytes = body.utf8.count
        func outcome() -> Outcome {
            expectChunkInvariant(bytes(Self.chunked + body)) { parse($0, limits: limits) }
        }
        #expect(outcome().requests.count == 1)
        limits.maxBodyBytes -= 1
        #expect(outcome() == Outcome(error: .bodyTooLarge))
    }

    @Test func knowsWhetherTheConnectionStaysOpen() throws {
        let cases: [(head: String, keepsAlive: Bool)] = [
            ("HTTP/1.1\r\nHost: a", true), ("HTTP/1.0", false),
            ("HTTP/1.1\r\nHost: a\r\nConnection: foo, CLOSE", false),
            ("HTTP/1.1\r\nHost: a\r\nConnection: closed", true),
            ("HTTP/1.0\r\nConnection: Keep-Alive", true),
            ("HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close", false),
        ]
        for (head, keepsAlive) in cases {
            #expect(try request("GET / \(head)\r\n\r\n").wantsKeepAlive == keepsAlive, "\(head)")
        }
    }

    @Test func reportsThatTheClientAwaitsContinue() throws {
        var parser = HTTPRequestParser()
        var input = bytes(Self.post + "Content-Length: 2\r\nExpect: 100-Continue\r\n\r\n")
        let withoutBody = try input.withUnsafeBytes { try parser.parse($0) }
        #expect(withoutBody?.consumed == nil)
        #expect(parser.awaitsContinue)
        input += bytes("ok")
        let withBody = try input.withUnsafeBytes { try parser.parse($0) }
        #expect(withBody?.request.body == bytes("ok"))
        #expect(!parser.awaitsContinue)
    }

    @Test func decodesTheParametersOfAQuery() throws {
        let cases: [(query: String, value: String?)] = [
            ("?model=gpt-4o", "gpt-4o"), ("?a=1&model=x&model=y", "x"), ("?model=", ""),
            ("?model", ""), ("?models=x", nil), ("", nil), ("?", nil), ("?mod%65l=a%2Fb", "a/b"),
            ("?model=a+b%2Bc", "a b+c"), ("?model=100%", "100%"), ("?model=%zz%4", "%zz%4"),
            ("?model=%C3%BC", "ü"), ("?model=%FF", "\u{FFFD}"), ("?model=a=b", "a=b"),
            ("?&&model=x", "x"), ("?=x", nil),
        ]
        for (query, value) in cases {
            let parsed = try request("GET /v1/realtime\(query) HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(parsed.queryValue("model") == value, "\(query)")
            #expect(parsed.path == "/v1/realtime")
        }
    }
}
