// Which connections to services are kept for the next request.

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
}
