// Messages that cause work: a connection that asks for more than its budget is read no faster than the
// budget fills, and is closed if it goes on. Others are served meanwhile.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ShardWorkTests {
    /// The messages of a flood.
    enum Flood: CaseIterable, Sendable {
        case turns, items, updates, retrievals

        var messages: [String] {
            switch self {
            case .turns: [#"{"type":"response.create"}"#, #"{"type":"response.cancel"}"#]
            case .items:
                [
                    #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
                        + #""content":[{"type":"input_text","text":"x"}]}}"#
                ]
            case .updates: [#"{"type":"session.update","session":{"type":"realtime"}}"#]
            case .retrievals: [#"{"type":"conversation.item.retrieve","item_id":"i"}"#]
            }
        }
    }

    private func serve(
        _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws -> SimulatedServer {
        var configuration = ServerConfiguration()
        configuration.connection.webSocket.maxTurnsPerSecond = 10
        configuration.connection.webSocket.maxNuisancesPerSecond = 1_000_000
        configuration.connection.webSocket.maxNuisanceBurst = 1_000_000
        change(&configuration)
        return try SimulatedServer(configuration: configuration)
    }

    private func open(_ server: SimulatedServer) throws -> SimulatedClient {
        let client = server.openClient()
        #expect(server.run())
        try #require(client.isOpen)
        return client
    }

    private func count(_ type: String, _ client: SimulatedClient) -> Int {
        client.texts.count { $0.contains(#""type":"\#(type)""#) }
    }

    @Test(arguments: Flood.allCases)
    func aFloodIsReadAtTheRateOfItsWorkAndThenClosed(flood: Flood) throws {
        let server = try serve()
        let client = try open(server)
        let other = try open(server)
        // More than the burst and what fills up in ten seconds.
        for _ in 0..<12_000 { flood.messages.forEach { client.send($0) } }
        #expect(server.run())
        let pauses = server.metrics.total(of: .workPauses)
        #expect(pauses > 0 && client.closeCode == nil)
        other.send(#"{"type":"response.create"}"#)
        #expect(server.run(for: .seconds(1)))
        #expect(count("response.done", other) == 1)
        #expect(server.run(for: .seconds(12)))
        #expect(client.closeCode == 1008)
        #expect(server.metrics.total(of: .workCloses) == 1 && !other.peer.isEnded)
        #expect(server.run(for: .seconds(6)))
        #expect(client.peer.isClosed)
    }

    @Test func theRateIsWhatTheSettingSays() throws {
        let server = try serve()
        let client = try open(server)
        for _ in 0..<60 {
            client.send(#"{"type":"response.create"}"#)
            client.send(#"{"type":"response.cancel"}"#)
        }
        #expect(server.run())
        // Twenty at once; each costs a little more than a turn, for its text and its end.
        #expect((18...20).contains(count("response.created", client)))
        #expect(server.run(for: .seconds(2)))
        #expect((36...40).contains(count("response.created", client)))
        // What was sent is answered in time, and the connection lives on.
        #expect(server.run(for: .seconds(3)))
        #expect(count("response.created", client) == 60)
        #expect(client.closeCode == nil && server.metrics.total(of: .workCloses) == 0)
    }

    @Test func aClientThatWaitsForItsRepliesNeverMeetsTheLimit() throws {
        let server = try serve()
        let client = try open(server)
        for turn in 1...100 {
            client.send(#"{"type":"response.create"}"#)
            #expect(server.run(for: .milliseconds(120)))
            #expect(count("response.done", client) == turn)
        }
        #expect(server.metrics.total(of: .workPauses) == 0)
    }

    @Test func withoutALimitNoConnectionIsPaused() throws {
        let server = try serve { $0.connection.webSocket.maxTurnsPerSecond = 0 }
        let client = try open(server)
        for _ in 0..<500 { Flood.turns.messages.forEach { client.send($0) } }
        #expect(server.run())
        #expect(count("response.created", client) == 500)
    }
}
