// The waiting times of the HTTP client for upstream services: for the whole of an answer, and by
// `Retry-After`. On real sockets against a scripted service; the loop's clock is moved, so nothing
// sleeps. UpstreamHTTPTests has silence, pauses and everything else of the client.

import CLinux
import Session
import Testing

@testable import Server

@Suite struct UpstreamTimeTests {
    // MARK: The whole time

    /// Starts a request and runs until the service has it.
    private func started(
        _ world: UpstreamWorld, timeout: Duration = .seconds(30), totalTimeout: Duration? = nil
    ) throws -> Outcome<any UpstreamResponse> {
        let request = UpstreamRequest(
            url: world.url, timeout: timeout, totalTimeout: totalTimeout)
        let outcome = world.start { try await $0.send(request) }.outcome
        try world.run { world.connections.first?.requestCount == 1 }
        return outcome
    }

    /// Runs until an answer's head is there.
    private func answered(
        _ outcome: Outcome<any UpstreamResponse>, in world: UpstreamWorld, head: String
    ) throws -> any UpstreamResponse {
        world.connections[0].send(head)
        try world.run { outcome.isKnown }
        return try #require(outcome.value)
    }

    /// The whole time counts from the request, and pieces do not start it anew.
    @Test func timesOutAServiceThatTakesTooLongInAll() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let outcome = try started(world, timeout: .seconds(10), totalTimeout: .seconds(15))
        let response = try answered(
            outcome, in: world, head: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        let read = world.start { _ in while try await response.nextChunk() != nil {} }.outcome
        for _ in 0..<2 {
            world.advance(by: .seconds(7))
            world.connections[0].send("1\r\nx\r\n")
            world.settle()
            #expect(!read.isKnown)
        }
        world.advance(by: .seconds(2))
        try world.run { read.isKnown }
        #expect(
            read.message == "http://127.0.0.1:\(world.port) took too long for its answer.")
        #expect(world.client.activeTransfers == 0)
        try world.run { world.connections[0].isEnded }
    }

    @Test func timesOutBeforeAnAnswerOnceTheWholeTimeIsOver() throws {
        let world = UpstreamWorld()
        defer { world.stop() }
        let outcome = try started(world, timeout: .seconds(10), totalTimeout: .seconds(4))
        world.advance(by: .seconds(3))
        world.settle()
        #expect(!outcome.isKnown)
        world.advance(by: .seconds(2))
        try world.run { outcome.isKnown }
        #expect(
            outcome.message == "http://127.0.0.1:\(world.port) took too long for its answer.")
    }

    // MARK: Retry-After

    /// The seconds that an answer's `Retry-After` means; RFC 9110 §10.2.3.
    private func retryAfter(_ fields: String, status: Int = 503) throws -> Int? {
        let world = UpstreamWorld()
        defer { world.stop() }
        let response = try answered(
            started(world), in: world,
            head: "HTTP/1.1 \(status) Busy\r\n\(fields)Content-Length: 0\r\n\r\n")
        #expect(response.status == status)
        return response.retryAfter.map { $0.wholeMilliseconds / 1_000 }
    }

    @Test(arguments: [
        ("", nil), ("Retry-After: 2\r\n", 2), ("retry-after:120\r\n", 120),
        ("Retry-After: 0\r\n", nil),
    ])
    func readsTheTimeOfRetryAfter(fields: String, seconds: Int?) throws {
        #expect(try retryAfter(fields) == seconds)
        #expect(try retryAfter(fields, status: 429) == seconds)
    }

    @Test func readsADateAsTheTimeUntilThen() throws {
        let begin = time(nil)
        var now = begin + 90
        var parts = tm()
        gmtime_r(&now, &parts)
        var text = [CChar](repeating: 0, count: 64)
        strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
        let date = String(decoding: text.prefix { $0 != 0 }.map(UInt8.init), as: UTF8.self)
        let seconds = try #require(try retryAfter("Retry-After: \(date)\r\n"))
        // Whole seconds, less those that have passed since.
        #expect((89 - (time(nil) - begin)...90).contains(seconds))
    }

    /// Any value of a peer is a wait of at most a day, or none.
    @Test(arguments: [
        ("86401", 86_400), ("4294967296", 86_400), ("9223372036854775807", 86_400),
        ("99999999999999999999999", nil), ("-5", nil), ("-9223372036854775808", nil),
        ("soon", nil), ("", nil), ("Fri, 31 Dec 1999 23:59:59 GMT", nil),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
    ])
    func boundsTheTimeOfRetryAfter(value: String, seconds: Int?) throws {
        #expect(try retryAfter("Retry-After: \(value)\r\n") == seconds)
    }
}
