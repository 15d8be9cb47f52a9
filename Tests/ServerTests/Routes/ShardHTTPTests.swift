// HTTP through a real shard on a simulated kernel.

import Codec
import Session
import Simulation
import Testing

@testable import Server

/// Splits what a server sent into responses, for requests of these methods.
func parseResponses(
    _ bytes: [UInt8], answering methods: [HTTPMethod]
) throws -> (responses: [HTTPResponse], rest: [UInt8]) {
    var responses: [HTTPResponse] = []
    var rest = bytes
    for method in methods {
        var parser = HTTPResponseParser(answering: method)
        guard let (response, consumed) = try rest.withUnsafeBytes({ try parser.parse($0) })
        else { break }
        responses.append(response)
        rest.removeFirst(consumed)
    }
    return (responses, rest)
}

func text(_ response: HTTPResponse) -> String { String(decoding: response.body, as: UTF8.self) }

@Suite struct ShardHTTPTests {
    /// A client that waits for `100 Continue` has sent no body yet. If its request is refused, it
    /// gets the refusal instead (RFC 9110 §10.1.1).
    @Test(arguments: [
        ("/v1/realtime/client_secrets", "Origin: https://evil.example\r\n", 403),
        ("/v1/chat/completions", "Origin: http://localhost\r\nContent-Type: text/plain\r\n", 415),
        ("/nowhere", "", 404), ("/v1/chat/completions", "", 100),
    ])
    func aRequestThatWaitsForContinueIsJudgedAtOnce(path: String, headers: String, status: Int)
        throws
    {
        let server = try SimulatedServer()
        let peer = server.connect()
        peer.send(
            get(
                path, method: "POST",
                headers: headers + "Content-Length: 20\r\nExpect: 100-continue\r\n"))
        #expect(server.run())
        let answer = String(decoding: peer.receive(), as: UTF8.self)
        #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(answer)")
    }

    private func get(_ path: String, method: String = "GET", headers: String = "") -> String {
        "\(method) \(path) HTTP/1.1\r\nHost: localhost\r\n\(headers)\r\n"
    }

    /// Sends requests on a new connection and returns the answers. The server ends with the call,
    /// so `isKept` is whether it has left the connection open.
    private func answers(
        _ requests: String, methods: [HTTPMethod] = [.get],
        configuration: ServerConfiguration = ServerConfiguration()
    ) throws -> (responses: [HTTPResponse], isKept: Bool) {
        let server = try SimulatedServer(configuration: configuration)
        let peer = server.connect()
        peer.send(requests)
        #expect(server.run())
        let (responses, rest) = try parseResponses(peer.receive(), answering: methods)
        #expect(rest.isEmpty)
        return (responses, !peer.isEnded)
    }

    @Test(arguments: [
        ("GET", "/healthz", 200), ("HEAD", "/healthz", 200), ("POST", "/healthz", 405),
        ("GET", "/readyz", 200), ("GET", "/metrics", 200), ("GET", "/", 200),
        ("GET", "/nothing", 404), ("GET", "/v1/realtime", 426), ("POST", "/v1/realtime", 405),
        ("HEAD", "/v1/realtime", 405), ("GET", "//healthz", 404), ("DELETE", "/nothing", 404),
    ])
    func answersTheRoutes(method: String, path: String, status: Int) throws {
        let (responses, isKept) = try answers(
            get(path, method: method), methods: [HTTPMethod(method)])
        #expect(responses.map(\.status) == [status])
        #expect(isKept, "HTTP/1.1 keeps the connection")
        if status == 405 { #expect(responses[0].fields["Allow"]?.contains("GET") == true) }
        if status >= 400 && method != "HEAD" {
            #expect(text(responses[0]).hasPrefix(#"{"error":{"message":""#))
            #expect(responses[0].fields["Content-Type"] == "application/json")
        }
        if method == "HEAD" { #expect(responses[0].body.isEmpty) }
    }

    @Test func answersPipelinedRequestsInOrder() throws {
        let (responses, _) = try answers(
            get("/healthz") + get("/nothing") + get("/readyz"), methods: [.get, .get, .get])
        #expect(responses.map(\.status) == [200, 404, 200])
        #expect(text(responses[2]) == "ready\n")
    }

    @Test func answersTheSameHoweverTheBytesAreSplit() throws {
        let requests = get("/healthz") + get("/readyz") + get("/nothing")
        for seed in UInt64(0)..<40 {
            let server = try SimulatedServer(seed: seed, faults: .harsh)
            let peer = server.connect()
            for byte in requests.utf8 {
                peer.send([byte])
                if seed % 2 == 0 { #expect(server.run()) }
            }
            #expect(server.run())
            let (responses, rest) = try parseResponses(
                peer.receive(), answering: [.get, .get, .get])
            #expect(responses.map(\.status) == [200, 200, 404])
            #expect(rest.isEmpty)
        }
    }

    @Test func endsTheConnectionWhenAskedTo() throws {
        let server = try SimulatedServer()
        let peer = server.connect()
        peer.send(get("/healthz", headers: "Connection: close\r\n"))
        #expect(server.run())
        #expect(peer.isEnded && !peer.isClosed, "it waits for the peer, so that nothing is lost")
        peer.finishWriting()
        #expect(server.run())
        #expect(peer.isClosed && !peer.isReset)
        #expect(server.io.openHandles == 0)
    }

    @Test func refusesBytesThatAreNoRequest() throws {
        let server = try SimulatedServer()
        let peer = server.connect()
        peer.send("GET / HTTP/1.1\nHost: localhost\n\n" + String(repeating: "x", count: 5_000))
        #expect(server.run())
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
        #expect(responses.map(\.status) == [400])
        #expect(peer.isEnded && !peer.isReset)
        #expect(server.metrics.total(of: .protocolErrors) == 1)
        #expect(server.run(for: .seconds(6)))
        #expect(peer.isClosed, "a peer that does not close is closed after closeTimeout")
    }

    @Test func refusesAHeadThatIsTooLarge() throws {
        var configuration = ServerConfiguration()
        configuration.connection.http.maxHeaderBytes = 1_024
        let (responses, _) = try answers(
            get("/", headers: "X: " + String(repeating: "a", count: 2_000) + "\r\n"),
            configuration: configuration)
        #expect(responses.map(\.status) == [431])
    }

    @Test func timesOutARequestThatNeverEnds() throws {
        let server = try SimulatedServer()
        let peer = server.connect()
        // A byte every two seconds must not extend the time for the whole head.
        for byte in "GET /heal".utf8 {
            peer.send([byte])
            #expect(server.run(for: .seconds(2)))
        }
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
        #expect(responses.map(\.status) == [408])
        #expect(server.run(for: .seconds(6)))
        #expect(peer.isClosed)
    }

    @Test func closesIdleConnectionsWithoutAnAnswer() throws {
        let server = try SimulatedServer()
        let silent = server.connect()
        let keptAlive = server.connect()
        keptAlive.send(get("/healthz"))
        #expect(server.run(for: .seconds(11)))
        #expect(silent.isClosed && silent.unreadBytes == 0)
        #expect(!keptAlive.isClosed)
        _ = keptAlive.receive()
        #expect(server.run(for: .seconds(75)))
        #expect(keptAlive.isClosed && keptAlive.unreadBytes == 0)
        #expect(server.io.openHandles == 0)
    }

    @Test func pausesPipelinedRequestsOfAClientThatDoesNotRead() throws {
        var configuration = ServerConfiguration()
        configuration.connection.http.keepAliveTimeout = .seconds(1_000)
        configuration.connection.http.headerTimeout = .seconds(1_000)
        let server = try SimulatedServer(configuration: configuration)
        let peer = server.connect(window: 1_000)
        let count = 500
        peer.send(String(repeating: get("/metrics"), count: count))
        #expect(server.run())
        // Each answer has some 10 kB: unbounded, they would be 5 MB.
        #expect(server.metrics.total(of: .sendBufferBytes) < 200_000)
        var received: [UInt8] = []
        peer.window = 1 << 20
        for _ in 0..<1_000 where received.count < count * 100_000 {
            received += peer.receive()
            #expect(server.run())
            if peer.unreadBytes == 0 { break }
        }
        let methods = [HTTPMethod](repeating: .get, count: count)
        let (responses, rest) = try parseResponses(received, answering: methods)
        #expect(responses.count == count && rest.isEmpty)
        #expect(responses.allSatisfy { $0.status == 200 })
    }

    @Test func answersAHalfClosedClientInFull() throws {
        let server = try SimulatedServer()
        let peer = server.connect(window: 100)
        peer.send(get("/metrics") + get("/healthz"))
        peer.finishWriting()
        var received: [UInt8] = []
        for _ in 0..<1_000 where !peer.isClosed {
            #expect(server.run())
            received += peer.receive()
        }
        let (responses, rest) = try parseResponses(received, answering: [.get, .get])
        #expect(responses.map(\.status) == [200, 200] && rest.isEmpty)
        #expect(peer.isClosed && server.io.openHandles == 0)
    }
}
