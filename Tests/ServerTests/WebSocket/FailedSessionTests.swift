// A session that finds its own state broken: it alone ends, with 1011.

import Codec
import Simulation
import Testing

@testable import Server
@testable import Session

@Suite struct FailedSessionTests {
    @Test func aBrokenSessionIsClosedAndTheOthersGoOn() throws {
        let server = try SimulatedServer()
        server.shard.sessionContext.reportsFaults = true
        let (broken, other) = (server.openClient(), server.openClient())
        #expect(server.run())
        let session = try #require(
            server.shard.connections[slot: 0]?.live?.session, "the first slot is the client's")
        session.retrievals = Array(repeating: "item_1", count: VoiceSession.maxRetrievals + 1)
        for client in [broken, other] {
            client.send(#"{"type":"input_audio_buffer.clear"}"#)
        }
        #expect(server.run())
        #expect(broken.closeCode == 1011)
        #expect(other.closeCode == nil)
        #expect(other.eventTypes.last == "input_audio_buffer.cleared")
        #expect(server.metrics.total(of: .sessionsFailed) == 1)
        #expect(server.metrics.total(of: .sessionsOpen) == 1)
    }
}
