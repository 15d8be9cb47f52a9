// Connections to services that are kept for the next request, and answers that come early on them.

import CCurl
import Session
import Testing

@testable import Server

@Suite struct UpstreamConnectionTests {
    @Test func aRequestElsewhereUsesUpNoKeptConnection() throws {
        let world = UpstreamWorld()
        let elsewhere = UpstreamWorld()
        defer {
            world.stop()
            elsewhere.stop()
        }
        elsewhere.stopListening()
        let (url, refusedURL) = (world.url, elsewhere.url)
        for count in 1...3 {
            let answered = world.start { client in
                let response = try await client.send(UpstreamRequest(url: url))
                while try await response.nextChunk() != nil {}
            }.outcome
            try world.run { world.connections.reduce(0) { $0 + $1.requestCount } == count }
            world.connections.last?.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            try world.run { answered.isKnown }
            let refused = world.start { try await $0.send(UpstreamRequest(url: refusedURL)) }
                .outcome
            try world.run { refused.isKnown }
            #expect(refused.error != nil)
        }
        #expect(world.connections.count == 1, "it is reused, and none is left beside it")
    }

    /// On a kept connection libcurl can read the whole answer while it sends the request.
    @Test func deliversAnAnswerThatBreaksOffBeforeItsHeadIsAwaited() throws {
        // The first use of libcurl in a process decides where it allocates.
        try #require(NativeMemory.isCurlReady)
        let world = UpstreamWorld()
        defer { world.stop() }
        // Before libcurl's first use, as UpstreamHTTP does: libcurl sets itself up once, and would
        // count no memory in the other suites.
        #expect(NativeMemory.isCurlReady)
        let transfer = try UpstreamTransfer(
            id: 1, request: UpstreamRequest(url: world.url), limits: UpstreamLimits(),
            authorities: nil, loop: world, owner: nil, charge: UpstreamCharge())
        let multi = try #require(curl_multi_init())
        defer { curl_multi_cleanup(multi) }
        curl_multi_add_handle(multi, transfer.easy)
        var running: Int32 = 1
        while running > 0 {
            curl_multi_perform(multi, &running)
            world.settle()
            guard let service = world.connections.first, service.requestCount == 1 else { continue }
            service.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            service.close()
            break
        }
        while running > 0 { curl_multi_perform(multi, &running) }
        curl_multi_remove_handle(multi, transfer.easy)
        let outcome = transfer.outcome(of: CURLE_PARTIAL_FILE)
        transfer.releaseHandle()
        transfer.handleEnd(outcome)

        let status = world.start { _ in
            try await withCheckedThrowingContinuation { transfer.awaitHead($0) }
        }.outcome
        try world.run { status.isKnown }
        #expect(status.value == 200)
        guard case .chunk(Array("hello".utf8)) = transfer.takeChunk() else {
            Issue.record("the piece before the end is missing")
            return
        }
        guard case .end(.some) = transfer.takeChunk() else {
            Issue.record("the answer seems to be whole")
            return
        }
    }
}
