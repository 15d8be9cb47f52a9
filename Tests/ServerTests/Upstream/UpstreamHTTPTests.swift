// The HTTP client for upstream services against a scripted service on real sockets.

import CLinux
import Session
import Testing

@testable import Server

@Suite struct UpstreamHTTPTests {
    /// Starts a request and runs until the service has it.
    private func request(
        _ world: UpstreamWorld, _ request: UpstreamRequest? = nil
    ) throws -> (outcome: Outcome<any UpstreamResponse>, task: Task<Void, Never>) {
        let request = request ?? UpstreamRequest(url: world.url, body: Array("hi".utf8))
        let known = world.connections.reduce(0) { $0 + $1.requestCount }
        let started = world.start { try await $0.send(request) }
        try world.run { world.connections.reduce(0) { $0 + $1.requestCount } > known }
        return started
    }

    /// Runs until a request's head is there.
    private func response(
        _ world: UpstreamWorld,
        head: String = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    ) throws -> any UpstreamResponse {
        let (outcome, _) = try request(world)
        world.connections.last?.send(head)
        try world.run { outcome.isKnown }
        return try #require(outcome.value)
    }

    /// Starts to read the rest of an answer as one text.
    private func reading(
        _ response: any UpstreamResponse, in world: UpstreamWorld
    ) -> Outcome<String> {
        world.start { _ in
            var body: [UInt8] = []
            while let chunk = try await response.nextChunk() { body += chunk }
            return String(decoding: body, as: UTF8.self)
        }.outcome
    }

    // MARK: Answers

    @Test func sendsTheRequestAsItIs() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        _ = try request(
            world,
            UpstreamRequest(
                url: world.url,
                headers: [
                    ("Authorization", "Bearer k"), ("X-Empty", ""), ("X-Twice", "a"),
                    ("X-Twice", "b"),
                ],
                body: Array("{\"a\":1}".utf8)))
        let lines = world.connections[0].received.split(separator: "\r\n")
        #expect(lines.first == "POST /v1/speak?x=1 HTTP/1.1")
        #expect(lines.last == "{\"a\":1}")
        for line in [
            "Host: 127.0.0.1:\(world.port)", "Authorization: Bearer k", "X-Empty:", "X-Twice: a",
            "X-Twice: b", "Content-Length: 7", "User-Agent: parley",
        ] {
            #expect(lines.contains { $0 == line }, "\(line) is missing in \(lines)")
        }
        #expect(!lines.contains { $0.hasPrefix("Expect") })
    }

    @Test(arguments: ["GET", "DELETE", "PUT", "HEAD"])
    func sendsOtherMethods(method: String) throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let body = method == "PUT" ? Array("x".utf8) : []
        _ = try request(world, UpstreamRequest(url: world.url, method: method, body: body))
        #expect(world.connections[0].received.hasPrefix("\(method) /v1/speak?x=1 HTTP/1.1\r\n"))
        #expect(world.connections[0].received.hasSuffix(method == "PUT" ? "\r\n\r\nx" : "\r\n\r\n"))
    }

    @Test func deliversPiecesAsTheyCome() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let response = try response(world)
        #expect(response.status == 200)
        for piece in ["data: one\n\n", "data: two\n\n"] {
            let chunk = world.start { _ in try await response.nextChunk() }.outcome
            world.settle()
            #expect(!chunk.isKnown)
            world.connections[0].send("b\r\n\(piece)\r\n")
            try world.run { chunk.isKnown }
            #expect(chunk.value == Array(piece.utf8))
        }
        let end = reading(response, in: world)
        world.connections[0].send("0\r\n\r\n")
        try world.run { end.isKnown }
        #expect(end.value == "")
        #expect(world.client.activeTransfers == 0)
    }

    @Test func readsAnAnswerThatComesByteByByte() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let (outcome, _) = try request(world)
        let answer =
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            + "5\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\n"
        for character in answer {
            world.connections[0].send(String(character))
            world.settle()
        }
        let body = reading(try #require(outcome.value), in: world)
        try world.run { body.isKnown }
        #expect(outcome.value?.status == 200)
        #expect(body.value == "hello!")
    }

    @Test(arguments: [nil, "audio/pcm; rate=24000"])
    func returnsTheTypeOfTheAnswer(type: String?) throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let field = type.map { "content-type: \($0)\r\n" } ?? ""
        let response = try response(
            world, head: "HTTP/1.1 200 OK\r\n\(field)Content-Length: 0\r\n\r\n")
        #expect(response.contentType == type)
    }

    @Test func passesAnErrorStatusAndItsBodyOn() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let body = #"{"error":{"message":"Rate limit"}}"#
        let response = try response(
            world,
            head: "HTTP/1.1 429 Too Many\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        let read = reading(response, in: world)
        try world.run { read.isKnown }
        #expect(response.status == 429)
        #expect(read.value == body)
    }

    @Test func reusesAConnection() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        for _ in 0..<3 {
            let response = try response(
                world, head: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            let read = reading(response, in: world)
            try world.run { read.isKnown }
            #expect(read.value == "ok")
        }
        #expect(world.connections.count == 1)
        #expect(world.connections[0].requestCount == 3)
    }

    // MARK: Complete answers

    @Test func aCompleteAnswerKeepsItsConnectionWhereItsTransferEnds() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        for _ in 0..<3 {
            var response: (any UpstreamResponse)? = try response(world)
            response?.expectEnd(within: .seconds(1))
            response = nil
            #expect(world.client.activeTransfers == 1)
            world.connections[0].send("4\r\nrest\r\n0\r\n\r\n")
            try world.run { world.client.activeTransfers == 0 }
        }
        #expect(world.connections.count == 1)
    }

    @Test func aCompleteAnswerEndsWhereItsServiceLeavesItOpen() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let response = try response(world)
        let read = reading(response, in: world)
        world.connections[0].send("4\r\nrest\r\n")
        world.settle()
        response.expectEnd(within: .seconds(1))
        world.advance(by: .milliseconds(900))
        world.settle()
        #expect(!read.isKnown)
        world.advance(by: .milliseconds(200))
        try world.run { read.isKnown }
        #expect(read.value == "rest")
        #expect(world.client.activeTransfers == 0)
        try world.run { world.connections[0].isEnded }
    }

    @Test func whatFollowsACompleteAnswerIsNotHeld() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        var response: (any UpstreamResponse)? = try response(world)
        response?.expectEnd(within: .seconds(1))
        response = nil
        let piece = String(repeating: "x", count: 0x8000)
        for _ in 0..<8 {
            world.connections[0].send("8000\r\n\(piece)\r\n")
            world.settle()
        }
        #expect(world.client.activeTransfers == 1)
        world.advance(by: .milliseconds(1_100))
        try world.run { world.client.activeTransfers == 0 }
    }

    @Test func aRedirectSaysWhereItPoints() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let response = try response(
            world, head: "HTTP/1.1 307 X\r\nLocation: /mcp/\r\nContent-Length: 0\r\n\r\n")
        #expect(response.status == 307 && response.location == "/mcp/")
    }

    // MARK: Slow consumers

    @Test func pausesASenderWhoseConsumerIsSlow() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let total = 64 << 20
        let response = try response(
            world, head: "HTTP/1.1 200 OK\r\nContent-Length: \(total)\r\n\r\n")
        let piece = [UInt8](repeating: 7, count: 1 << 20)
        var sent = 0
        var count = 1
        // The service sends until neither the client nor the kernel takes any more.
        while count > 0 {
            count = world.connections[0].send(piece)
            sent += count
            world.settle()
        }
        #expect(sent < total / 2)
        // The consumer's slowness is not the service's silence.
        world.advance(by: .seconds(120))
        world.settle()
        #expect(world.client.activeTransfers == 1)
        let read = world.start { _ in
            var count = 0
            while let chunk = try await response.nextChunk() { count += chunk.count }
            return count
        }.outcome
        try world.run {
            sent += world.connections[0].send(Array(piece.prefix(total - sent)))
            return read.isKnown
        }
        #expect(read.value == total)
    }

    /// A clause that is played as slowly as it is spoken may take longer than the service would.
    @Test func aPauseDoesNotCountAsTheServicesTime() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let limited = UpstreamRequest(
            url: world.url, timeout: .seconds(10), totalTimeout: .seconds(60))
        let (outcome, _) = try request(world, limited)
        let total = 200_000
        world.connections[0].send("HTTP/1.1 200 OK\r\nContent-Length: \(total)\r\n\r\n")
        try world.run { outcome.isKnown }
        let response = try #require(outcome.value)
        var rest = total
        func sendMore() {
            rest -= world.connections[0].send([UInt8](repeating: 7, count: rest / 2))
            world.settle()
        }
        sendMore()
        for _ in 0..<12 {
            world.advance(by: .seconds(9))
            world.settle()
        }
        #expect(world.client.activeTransfers == 1)
        let read = reading(response, in: world)
        sendMore()
        // Once it goes on, the rest of its 60 s runs.
        for _ in 0..<7 {
            #expect(!read.isKnown)
            sendMore()
            world.advance(by: .seconds(9))
        }
        try world.run { read.isKnown }
        #expect(read.message?.contains("took too long") == true)
    }

    // MARK: Failures

    @Test(arguments: [false, true])
    func deliversWhatCameBeforeAConnectionBreaks(reset: Bool) throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let response = try response(world)
        world.connections[0].send("5\r\nhello\r\n")
        world.settle()
        world.connections[0].close(reset: reset)
        try world.run { world.client.activeTransfers == 0 }
        let first = world.start { _ in try await response.nextChunk() }.outcome
        try world.run { first.isKnown }
        #expect(first.value == Array("hello".utf8))
        let second = world.start { _ in try await response.nextChunk() }.outcome
        try world.run { second.isKnown }
        #expect(
            second.message?.hasPrefix("The answer of http://127.0.0.1:\(world.port) broke off: ")
                == true)
    }

    @Test func reportsAServiceThatClosesWithoutAnAnswer() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let (outcome, _) = try request(world)
        world.connections[0].close()
        try world.run { outcome.isKnown }
        #expect(
            outcome.message
                == "No answer from http://127.0.0.1:\(world.port): Empty reply from server.")
    }

    @Test func reportsAServiceThatIsNotThere() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        world.stopListening()
        let url = "http://user:password@127.0.0.1:\(world.port)/v1"
        let outcome = world.start { try await $0.send(UpstreamRequest(url: url)) }.outcome
        try world.run { outcome.isKnown }
        let message = try #require(outcome.message)
        #expect(message.hasPrefix("No answer from http://127.0.0.1:\(world.port): "))
        #expect(message.hasSuffix("Couldn't connect to server."))
    }

    @Test(arguments: ["file:///etc/passwd", "ftp://127.0.0.1/", "nonsense://x", "http://", ""])
    func refusesOtherAddresses(url: String) throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let outcome = world.start { try await $0.send(UpstreamRequest(url: url)) }.outcome
        try world.run { outcome.isKnown }
        #expect(outcome.message?.hasPrefix("No answer from ") == true)
    }

    @Test func refusesHeaderFieldsThatBreakTheRequest() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let request = UpstreamRequest(url: world.url, headers: [("X-Key", "a\r\nX-Other: b")])
        let outcome = world.start { try await $0.send(request) }.outcome
        try world.run { outcome.isKnown }
        #expect(outcome.message?.contains("control character") == true)
        #expect(world.connections.isEmpty)
    }

    @Test func refusesAHeadWithoutEnd() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let (outcome, _) = try request(world)
        world.connections[0].send("HTTP/1.1 200 OK\r\n")
        let field = "X-Field: \(String(repeating: "a", count: 1_000))\r\n"
        for _ in 0..<70 where !outcome.isKnown {
            _ = world.connections[0].send(Array(field.utf8))
            world.settle()
        }
        try world.run { outcome.isKnown }
        #expect(outcome.message?.hasSuffix("is too large.") == true)
    }

    @Test func limitsTransfers() throws {
        var limits = UpstreamLimits()
        limits.maxTransfers = 1
        let world = UpstreamWorld(limits: limits)
        defer { world.stop() }
        _ = try request(world)
        let url = world.url
        let second = world.start { try await $0.send(UpstreamRequest(url: url)) }.outcome
        try world.run { second.isKnown }
        #expect(second.error as? AgentError == .overloaded)
    }

    // MARK: Time

    @Test func timesOutAServiceThatDoesNotAnswer() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let (outcome, _) = try request(world)
        world.advance(by: .seconds(29))
        world.settle()
        #expect(!outcome.isKnown)
        world.advance(by: .seconds(2))
        try world.run { outcome.isKnown }
        #expect(
            outcome.message == "http://127.0.0.1:\(world.port) gave no answer within 30 s.")
        try world.run { world.connections[0].isEnded }
    }

    @Test func timesOutAServiceThatFallsSilent() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let response = try response(world)
        let read = reading(response, in: world)
        // Each piece starts the time anew.
        for _ in 0..<3 {
            world.advance(by: .seconds(20))
            world.connections[0].send("1\r\nx\r\n")
            world.settle()
            #expect(!read.isKnown)
        }
        world.advance(by: .seconds(31))
        try world.run { read.isKnown }
        #expect(
            read.message
                == "http://127.0.0.1:\(world.port) fell silent for 30 s within its answer.")
    }

    // MARK: Cancellation

    @Test func endsARequestAtOnceWhenItsTaskIsCancelled() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let (outcome, task) = try request(world)
        task.cancel()
        #expect(world.client.activeTransfers == 0)
        try world.run { outcome.isKnown && world.connections[0].isEnded }
        #expect(outcome.error is CancellationError)
    }

    @Test func endsAnAnswerAtOnceWhenItsReaderIsCancelled() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let response = try response(world)
        let (read, task) = world.start { _ in try await response.nextChunk() }
        world.settle()
        task.cancel()
        #expect(world.client.activeTransfers == 0)
        try world.run { read.isKnown && world.connections[0].isEnded }
        #expect(read.error is CancellationError)
    }

    @Test func deliversNothingMoreToACancelledReader() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let response = try response(world)
        world.connections[0].send("1\r\nx\r\n")
        world.settle()
        let (read, task) = world.start { _ in try await response.nextChunk() }
        task.cancel()
        try world.run { read.isKnown }
        #expect(read.error is CancellationError)
        #expect(world.client.activeTransfers == 0)
    }

    @Test func endsAnAnswerThatIsNotReferencedAnyMore() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let (outcome, _) = try request(world)
        world.connections[0].send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
        try world.run { outcome.isKnown }
        #expect(world.client.activeTransfers == 1)
        outcome.settle(.failure(CancellationError()))
        #expect(world.client.activeTransfers == 0)
        try world.run { world.connections[0].isEnded }
    }

    @Test func endsEveryTransferWhenItShutsDown() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let response = try response(world)
        let read = reading(response, in: world)
        let (waiting, _) = try request(world)
        world.client.shutdown()
        try world.run { read.isKnown && waiting.isKnown }
        #expect(read.message == "The server is stopping.")
        #expect(waiting.message == "The server is stopping.")
        try world.run { world.connections.allSatisfy(\.isEnded) }
        let url = world.url
        let late = world.start { try await $0.send(UpstreamRequest(url: url)) }.outcome
        try world.run { late.isKnown }
        #expect(late.message == "The server is stopping.")
    }

    // MARK: Threads

    @Test func hopsToTheLoopFromOtherThreads() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let url = world.url
        let client: UpstreamHTTP = world.client
        let outcome = Outcome<String>()
        let other = OtherThread()
        Task(executorPreference: other.executor.task) {
            do {
                let response = try await client.send(UpstreamRequest(url: url))
                #expect(other.executor.isOnThread)
                var body: [UInt8] = []
                while let chunk = try await response.nextChunk() { body += chunk }
                #expect(other.executor.isOnThread)
                outcome.settle(.success(String(decoding: body, as: UTF8.self)))
            } catch {
                outcome.settle(.failure(error))
            }
            other.stop()
        }
        try world.run { world.connections.first?.requestCount == 1 }
        world.connections[0].send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine")
        try world.run { outcome.isKnown }
        #expect(outcome.value == "fine")
    }
}
