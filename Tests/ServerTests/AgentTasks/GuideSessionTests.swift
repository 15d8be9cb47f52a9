// The guide in sessions of a shard: it asks for a tool, the shard's own facts come back, and the
// client sees the call, its result and the sentence that is made of it.

import Agents
import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct GuideSessionTests {
    private static var agents: AgentSet {
        let others = MCPToolServers(configured: [], clientURLs: .off) { _, _, _ in
            fatalError("no program is configured")
        }
        return AgentSet(
            model: GuideAgent(wallSeconds: { SimulatedServer.firstSecond }),
            toolServers: GuideToolServers(beside: others))
    }

    /// A client whose session offers the guide's tools.
    private func client(of server: SimulatedServer) -> SimulatedClient {
        let client = server.openClient()
        client.send(
            #"{"type":"session.update","session":{"type":"realtime","output_modalities":["text"],"#
                + #""tools":[{"type":"mcp","server_label":"parley","require_approval":"never"}]}}"#)
        server.run()
        return client
    }

    private func ask(_ text: String, _ client: SimulatedClient, of server: SimulatedServer) {
        client.send(
            #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
                + #""content":[{"type":"input_text","text":"\#(text)"}]}}"#)
        client.send(#"{"type":"response.create"}"#)
        server.run(for: .milliseconds(100))
    }

    /// The tools that were called with their outputs, and what was said, in order.
    private func outcomes(of client: SimulatedClient) throws -> [String] {
        try client.texts.compactMap { text in
            let parser = JSONParser()
            let event = try parser.parse(text)
            if event["type"]?.string == "response.output_text.done" { return event["text"]?.string }
            guard event["type"]?.string == "response.output_item.done",
                event["item"]?["type"]?.string == "mcp_call"
            else { return nil }
            let name = event["item"]?["name"]?.string ?? "none"
            return "\(name) → \(event["item"]?["output"]?.string ?? "none")"
        }
    }

    @Test func openSessionsAreCountedByACallThatTheClientSees() throws {
        let server = try SimulatedServer(agents: Self.agents)
        let one = client(of: server)
        ask("How many sessions are open?", one, of: server)
        #expect(
            try outcomes(of: one) == [
                #"count_sessions → {"sessions_open":1}"#, "One session is open. It is yours.",
            ])
        let other = client(of: server)
        ask("how many sessions", other, of: server)
        #expect(
            try outcomes(of: other) == [
                #"count_sessions → {"sessions_open":2}"#,
                "2 sessions are open. One of them is yours.",
            ])
    }

    @Test func theMemoryIsTheSessionsOwn() throws {
        let server = try SimulatedServer(agents: Self.agents)
        let small = client(of: server)
        let large = client(of: server)
        // A long message of the user is on the ledger of that session alone.
        ask(String(repeating: "word ", count: 20_000), large, of: server)
        var bytes: [Int] = []
        for client in [small, large] {
            ask("How much memory do you use?", client, of: server)
            let call = try #require(
                try outcomes(of: client).last { $0.hasPrefix("read_memory → ") })
            bytes.append(try #require(Int(call.filter(\.isNumber))))
        }
        #expect((1_000..<50_000).contains(bytes[0]) && bytes[1] - bytes[0] > 90_000)
    }

    @Test func theLatencyIsThatOfTheTurnBefore() throws {
        let server = try SimulatedServer(agents: Self.agents)
        let client = client(of: server)
        ask("How long did that take?", client, of: server)
        ask("Thanks", client, of: server)
        ask("How long did that take?", client, of: server)
        let none = #"{"transcript_ms":null,"first_token_ms":null,"first_audio_ms":null}"#
        let typed = #"{"transcript_ms":null,"first_token_ms":0,"first_audio_ms":null}"#
        #expect(
            try outcomes(of: client) == [
                "read_latency → \(none)", "I have answered no turn before this one. Ask me again.",
                "You are welcome.", "read_latency → \(typed)",
                "Your last message was typed. My first word came in less than a millisecond.",
            ])
    }

    @Test func anOperatorSeesACallWithItsResult() throws {
        let server = try SimulatedServer(agents: Self.agents)
        let asking = client(of: server)
        let watching = server.openClient("/admin/live", subprotocols: ["parley-operator"])
        server.run()
        let created = try JSONParser().parse(try #require(asking.texts.first))
        let id = try #require(created["session"]?["id"]?.string)
        /// The events with the call's result, by type.
        func results() -> [String] {
            watching.texts.filter { $0.contains(#""mcp_call""#) && $0.contains("sessions_open") }
        }
        func watch() {
            watching.send(#"{"type":"session.watch","id":"\#(id)"}"#)
            for _ in 0..<4 { server.run() }
        }
        watch()
        ask("How many sessions are open?", asking, of: server)
        for _ in 0..<4 { server.run() }
        #expect(results().contains { $0.contains(#""type":"response.output_item.done""#) })
        #expect(!results().contains { $0.contains(#""type":"conversation.item.added""#) })
        // One that comes later sees it too.
        watch()
        #expect(results().contains { $0.contains(#""type":"conversation.item.added""#) })
    }

    @Test func aSessionWithoutTheToolsIsToldSo() throws {
        let server = try SimulatedServer(agents: Self.agents)
        let client = server.openClient()
        client.send(
            #"{"type":"session.update","session":{"type":"realtime","#
                + #""output_modalities":["text"]}}"#)
        ask("How many sessions are open?", client, of: server)
        let said = try outcomes(of: client)
        #expect(said.count == 1 && said[0].contains("which your client does not offer me"))
    }

    @Test func aCountIsStoppedAndGoesOn() throws {
        let server = try SimulatedServer(agents: Self.agents)
        let client = client(of: server)
        ask("Count to six.", client, of: server)
        server.run(for: .milliseconds(800))
        client.send(#"{"type":"response.cancel"}"#)
        server.run()
        ask("Go on.", client, of: server)
        server.run(for: .seconds(5))
        let said = try outcomes(of: client)
        // The numbers come at 0.0, 0.25, 0.5 and 0.75 s.
        #expect(said == ["1, 2, 3, 4,", "5, 6."])
    }
}
