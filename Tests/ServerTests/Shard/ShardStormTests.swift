// Storms of client events with a seed, on a network with faults. Events, cancels, agents and ends fall
// together in any order. Every response that was created ends once, every connection that is closed
// gets its Close, and no memory of them is left.

import Codec
import Session
import Simulation
import Testing

@testable import Server

/// Hears and answers at a pace that the conversation decides, and speaks longer than it takes.
private struct StormAgents: LanguageModel, SpeechRecognizer, SlowSpeaker {
    func transcribe(_ utterance: Utterance, on host: any AgentHost) async throws -> Transcript {
        try await host.sleep(for: .milliseconds(30))
        return Transcript("what was said")
    }

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let choice = request.messages.count
        for _ in 0..<(1 + choice % 5) {
            try await host.sleep(for: .milliseconds(choice % 4 * 15))
            try await reply(.text("Yes. "))
        }
        if choice % 7 == 3 {
            try await reply(.functionCallStarted(callID: "call_1", name: "f"))
            try await reply(.functionCallArguments("{}"))
        }
        if choice % 13 == 12 { throw AgentError.overloaded }
    }
}

@Suite struct ShardStormTests {
    /// One client of a storm. Its events are drawn from a random stream of its own.
    private final class StormClient {
        let client: SimulatedClient
        var draw: SeededGenerator
        private var readMessages = 0
        private(set) var created: [String] = []
        private(set) var ended: [String] = []
        private var items: [String] = []

        init(_ client: SimulatedClient, _ draw: SeededGenerator) {
            self.client = client
            self.draw = draw
        }

        var isClosed: Bool { client.closeCode != nil }
        var open: Set<String> { Set(created).subtracting(ended) }

        /// Takes note of what has come.
        func read() {
            for case .text(let text) in client.messages[readMessages...] {
                let type = value(of: "type", in: text[...])
                switch type {
                case "response.created": created.append(responseID(in: text))
                case "response.done": ended.append(responseID(in: text))
                case "conversation.item.done":
                    if let item = text.range(of: #""item":{"#) {
                        items.append(value(of: "id", in: text[item.upperBound...]))
                    }
                default: break
                }
            }
            readMessages = client.messages.count
        }

        private func responseID(in text: String) -> String {
            guard let response = text.range(of: #""response":{"#) else { return "" }
            return value(of: "id", in: text[response.upperBound...])
        }

        private func value(of name: String, in text: Substring) -> String {
            guard let start = text.range(of: "\"\(name)\":\"") else { return "" }
            return String(text[start.upperBound...].prefix { $0 != "\"" })
        }

        private func choice(of ids: [String]) -> String {
            ids.randomElement(using: &draw) ?? "none"
        }

        /// Sends an event of a kind that is drawn.
        func stormOnce() {
            switch Int.random(in: 0..<20, using: &draw) {
            case 0..<4:
                client.send(
                    """
                    {"type":"conversation.item.create","item":{"type":"message","role":"user",
                    "content":[{"type":"input_text","text":"Well?"}]}}
                    """)
            case 4..<8:
                let kind = draw.happens(percent: 50) ? "text" : "audio"
                let place = draw.happens(percent: 20) ? #","conversation":"none""# : ""
                client.send(
                    """
                    {"type":"response.create","response":{"output_modalities":["\(kind)"]\(place)}}
                    """)
            case 8..<10: client.send(#"{"type":"response.cancel"}"#)
            case 10..<12: cancel(choice(of: created))
            case 12: client.send(.binary, [UInt8](repeating: 0, count: 9_600))
            case 13: client.send(#"{"type":"input_audio_buffer.commit"}"#)
            case 14: client.send(#"{"type":"input_audio_buffer.clear"}"#)
            case 15:
                let end = Int.random(in: 0..<400, using: &draw)
                client.send(
                    """
                    {"type":"conversation.item.truncate","item_id":"\(choice(of: items))",
                    "content_index":0,"audio_end_ms":\(end)}
                    """)
            case 16:
                let turns = draw.happens(percent: 50) ? "null" : #"{"type":"server_vad"}"#
                client.send(
                    """
                    {"type":"session.update","session":{"type":"realtime","audio":{"input":{
                    "turn_detection":\(turns),"transcription":{"model":"m"}}}}}
                    """)
            case 17:
                client.send(
                    #"{"type":"conversation.item.delete","item_id":"\#(choice(of: items))"}"#)
            case 18: client.send(#"{"type":"output_audio_buffer.clear"}"#)
            default: client.send(.ping, [1])
            }
        }

        func cancel(_ id: String) {
            client.send(#"{"type":"response.cancel","response_id":"\#(id)"}"#)
        }

        /// Sends what the server must close for.
        func breakARule() { client.send(.continuation, [1]) }

        /// Invariants of every connection, however it ended.
        func checkEnds(_ seed: UInt64) {
            #expect(Set(ended).count == ended.count, "seed \(seed): a response ended twice")
            #expect(Set(ended).isSubset(of: created), "seed \(seed): an end without a beginning")
        }
    }

    private func openServer(seed: UInt64) throws -> SimulatedServer {
        let agents = StormAgents()
        var configuration = ServerConfiguration()
        // Half of what a storm sends is refused; here that is no reason to close.
        configuration.connection.webSocket.maxNuisanceBurst = 1_000_000
        return try SimulatedServer(
            configuration: configuration,
            agents: AgentSet(model: agents, recognizer: agents, synthesizer: agents), seed: seed,
            faults: seed % 2 == 0 ? SimulatedFaults() : .harsh,
            voiceActivityModel: VoiceActivityModel.installed())
    }

    private func storm(_ clients: [StormClient], on server: SimulatedServer, rounds: Int) {
        for _ in 0..<rounds {
            for storming in clients {
                for _ in 0..<Int.random(in: 0...3, using: &storming.draw) { storming.stormOnce() }
            }
            #expect(server.run(for: .milliseconds(Int.random(in: 0...40, using: &clients[0].draw))))
            for storming in clients { storming.read() }
        }
    }

    @Test(arguments: Seeds.chosen(from: 0..<24))
    func everyResponseEndsOnceAndEveryConnectionGetsItsClose(seed: UInt64) throws {
        let server = try openServer(seed: seed)
        var streams = SeededGenerator(seed: seed)
        let clients = (0..<4).map { _ in StormClient(server.openClient(), streams.makeStream()) }
        #expect(server.run())
        storm(clients, on: server, rounds: 40)
        // The first settles: it cancels what is open, and is owed every end.
        let settling = clients[0]
        settling.client.send(
            """
            {"type":"session.update","session":{"type":"realtime","audio":{"input":{
            "turn_detection":null}}}}
            """)
        settling.client.send(#"{"type":"input_audio_buffer.clear"}"#)
        for id in settling.open.sorted() { settling.cancel(id) }
        // The second ends in the middle, the third breaks a rule, the last waits for its replies.
        clients[1].client.close()
        clients[2].breakARule()
        #expect(server.run())
        for storming in clients { storming.read() }
        #expect(settling.open.isEmpty, "seed \(seed): a cancelled response is open")
        #expect(clients[1].client.closeCode == 1000, "seed \(seed)")
        #expect(clients[2].client.closeCode == 1002, "seed \(seed)")
        #expect(server.run(for: .seconds(120)))
        for storming in clients { storming.read() }
        for storming in [settling, clients[3]] {
            #expect(storming.open.isEmpty, "seed \(seed): \(storming.open.sorted()) are open")
            #expect(storming.created.count > 0)
        }
        server.shard.stop(.goingAway)
        #expect(server.run(for: .seconds(10)))
        for storming in clients {
            storming.checkEnds(seed)
            #expect(storming.isClosed, "seed \(seed): no Close came")
            #expect(!storming.client.peer.isReset)
        }
        #expect(server.io.openHandles == 0 && server.metrics.total(of: .agentTasks) == 0)
    }
}
