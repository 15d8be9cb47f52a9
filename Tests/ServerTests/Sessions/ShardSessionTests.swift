// Sessions through a real shard: events in, agents' tasks on its executor, events out, on simulated
// sockets and a virtual clock. SessionTests has the events of a session in detail.

import Codec
import Session
import Simulation
import Testing

@testable import Server

/// Answers with words at a pace, or fails.
private struct PacedModel: LanguageModel {
    var words: [String] = ["Hello", " there", "."]
    var pace = Duration.milliseconds(100)
    var failure: AgentError?

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        for word in words {
            try await host.sleep(for: pace)
            try await reply(.text(word))
        }
        if let failure { throw failure }
    }
}

@Suite struct ShardSessionTests {
    private let update = """
        {"type":"session.update","session":{"type":"realtime","output_modalities":["text"]}}
        """
    private let question = """
        {"type":"conversation.item.create","item":{"type":"message","role":"user",
        "content":[{"type":"input_text","text":"Hi"}]}}
        """
    private let respond = #"{"type":"response.create"}"#

    private func openServer(
        _ model: PacedModel, seed: UInt64 = 1, faults: SimulatedFaults = SimulatedFaults(),
        configuration: ServerConfiguration = ServerConfiguration()
    ) throws -> (SimulatedServer, SimulatedClient) {
        let server = try SimulatedServer(
            configuration: configuration, agents: AgentSet(model: model), seed: seed,
            faults: faults)
        let client = server.openClient()
        #expect(server.run())
        try #require(client.isOpen)
        return (server, client)
    }

    private func ask(_ client: SimulatedClient) {
        client.send(update)
        client.send(question)
        client.send(respond)
    }

    /// The last `response.done`.
    private func done(_ client: SimulatedClient) throws -> String {
        try #require(client.texts.last { $0.contains(#""type":"response.done""#) })
    }

    @Test func greetsWithTheSession() throws {
        let (_, client) = try openServer(PacedModel())
        #expect(client.texts.count == 1)
        #expect(client.texts.first?.contains(#""type":"session.created""#) == true)
        #expect(client.texts.first?.contains(#""model":"test""#) == true)
    }

    @Test func answersATextTurnAsTheModelSpeaks() throws {
        let (server, client) = try openServer(PacedModel())
        ask(client)
        #expect(server.run())
        let deltas = { client.texts.filter { $0.contains("response.output_text.delta") }.count }
        #expect(deltas() == 0)
        for expected in 1...3 {
            #expect(server.run(for: .milliseconds(100)))
            #expect(deltas() == expected)
        }
        #expect(server.run(for: .milliseconds(10)))
        #expect(try done(client).contains("Hello there."))
        #expect(server.metrics.total(of: \.responsesCompleted) == 1)
        #expect(server.metrics.total(of: .agentTasks) == 0)
    }

    /// A delta leaves with the tick's writes, and must not wait there for many others.
    @Test func takesFewReportsWhileModelsStream() throws {
        let (server, client) = try openServer(PacedModel(words: ["a", "b"]))
        #expect(server.io.reportLimit == 64)
        let others = (0..<40).map { _ in server.openClient() }
        #expect(server.run())
        ask(client)
        #expect(server.run(for: .milliseconds(99)))
        server.io.horizon = server.io.now + .milliseconds(1)
        // The ticks in which the delta is made, and in which it is delivered.
        for _ in 0..<100 where client.eventTypes.last != "response.output_text.delta" {
            #expect(server.shard.tick())
            client.poll()
        }
        #expect(client.eventTypes.last == "response.output_text.delta")
        for (number, other) in others.enumerated() { other.send(.ping, [UInt8(number)]) }
        func answered() -> Int {
            others.filter { other in
                other.poll()
                return other.messages.contains { if case .pong = $0 { true } else { false } }
            }.count
        }
        #expect(server.shard.tick())
        #expect(server.io.reportLimit == 16 && answered() == 16)
        // That tick had none.
        #expect(server.shard.tick())
        #expect(server.io.reportLimit == 64 && answered() == 40)
    }

    @Test func failsTheResponseWhenTheModelFailsAndLivesOn() throws {
        var model = PacedModel()
        model.failure = .upstream(status: 500, message: "broken")
        let (server, client) = try openServer(model)
        ask(client)
        #expect(server.run(for: .seconds(1)))
        let failed = try done(client)
        #expect(failed.contains("failed") && failed.contains("upstream_error"))
        client.send(respond)
        #expect(server.run(for: .seconds(1)))
        #expect(server.metrics.total(of: \.responsesFailed) == 2)
        #expect(!client.peer.isEnded)
    }

    @Test func cancelsTheModelWhenTheClientSaysSo() throws {
        let (server, client) = try openServer(PacedModel())
        ask(client)
        #expect(server.run(for: .milliseconds(150)))
        #expect(server.metrics.total(of: .agentTasks) == 1)
        client.send(#"{"type":"response.cancel"}"#)
        #expect(server.run())
        #expect(server.metrics.total(of: .agentTasks) == 0)
        let count = client.texts.count
        #expect(try done(client).contains("client_cancelled"))
        #expect(server.run(for: .seconds(1)))
        #expect(client.texts.count == count, "nothing follows a cancelled response")
    }

    @Test(arguments: [false, true])
    func stopsAgentsWhenTheConnectionEnds(isReset: Bool) throws {
        let (server, client) = try openServer(PacedModel())
        ask(client)
        #expect(server.run(for: .milliseconds(150)))
        if isReset { client.peer.reset() } else { client.close() }
        #expect(server.run(for: .seconds(10)))
        #expect(server.metrics.total(of: .agentTasks) == 0)
        #expect(server.metrics.total(of: .sessionsOpen) == 0)
        #expect(server.io.openHandles == 0)
    }

    @Test func countsWhatSessionsHold() throws {
        let (server, client) = try openServer(PacedModel())
        let other = server.openClient()
        #expect(server.run())
        let held = { server.metrics.total(of: .ledgerBytes) }
        let resting = held()
        #expect((2 * 800..<2 * 2_000).contains(resting), "\(resting)")
        client.send(question)
        other.send(question)
        #expect(server.run())
        // An item each, whose words need no block of their own, in a list with room for one.
        #expect((2 * 48..<2 * 200).contains(held() - resting), "\(held())")
        // 100 ms of silence at 24 kHz: a piece of what is heard, and the resampler.
        client.send(.binary, [UInt8](repeating: 0, count: 2 * 2_400))
        #expect(server.run())
        #expect((4_000...8_000).contains(held() - resting), "\(held())")
        client.peer.reset()
        #expect(server.run())
        // The parameters, which both shared, were charged to the first.
        #expect((800..<resting / 2 + 200).contains(held()), "\(held())")
        other.close()
        #expect(server.run())
        #expect(held() == 0)
    }

    @Test func echoesTheIdOfARefusedEvent() throws {
        let (server, client) = try openServer(PacedModel())
        client.send(#"{"type":"conversation.item.delete","event_id":"mine"}"#)
        #expect(server.run())
        let error = try #require(client.texts.last)
        #expect(error.contains(#""type":"error""#) && error.contains(#""event_id":"mine""#))
        #expect(server.metrics.total(of: .eventsInRefused) == 1)
    }

    /// The same conversation, whatever the network does to its bytes.
    @Test func saysTheSameUnderHarshReadsAndWrites() throws {
        let (calm, reference) = try openServer(PacedModel())
        ask(reference)
        #expect(calm.run(for: .seconds(2)))
        let expected = reference.eventTypes
        #expect(expected.filter { $0 == "response.done" }.count == 1)
        for seed in UInt64(0)..<20 {
            let (server, client) = try openServer(PacedModel(), seed: seed, faults: .harsh)
            ask(client)
            #expect(server.run(for: .seconds(2)))
            #expect(client.eventTypes == expected)
            client.close()
            #expect(server.run(for: .seconds(10)))
            #expect(client.closeCode == 1000 && server.io.openHandles == 0)
        }
    }

    @Test func repeatsItselfForTheSameSeed() throws {
        func transcript() throws -> [String] {
            let (server, client) = try openServer(PacedModel(), seed: 42, faults: .harsh)
            ask(client)
            #expect(server.run(for: .seconds(2)))
            return client.texts
        }
        #expect(try transcript() == transcript())
    }

    @Test func keepsManySessionsApart() throws {
        let server = try SimulatedServer(agents: AgentSet(model: PacedModel()), faults: .harsh)
        let clients = (0..<50).map { _ in server.openClient() }
        #expect(server.run())
        for client in clients { ask(client) }
        #expect(server.run(for: .seconds(2)))
        for client in clients {
            #expect(client.eventTypes.filter { $0 == "response.done" }.count == 1)
        }
        #expect(server.metrics.total(of: \.responsesCompleted) == 50)
        let ids = Set(clients.compactMap { $0.texts.first })
        #expect(ids.count == 50, "every session has an id of its own")
    }
}
