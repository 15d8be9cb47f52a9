// Sidebands and replies of chats that are at another node than the one that the client asks: two real
// shards on simulated kernels, with a pipe between them for each relay.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ShardRelayTests {
    private static let update =
        #"{"type":"session.update","session":{"type":"realtime","instructions":"Be brief."}}"#

    private func code(_ client: SimulatedClient) throws -> String? {
        let body = try JSONParser().parse(try #require(client.answer).body)
        return body["error"]?["code"]?.string
    }

    /// Says a word a second, ten times.
    private static func makeSlowModel() -> ClosureModel {
        ClosureModel { _, host, reply in
            for number in 1...10 {
                try await reply(.text("\(number) "))
                try await host.sleep(for: .seconds(1))
            }
        }
    }

    // MARK: Sidebands

    @Test func aSidebandJoinsASessionOfAnotherNode() throws {
        let world = try RelayWorld()
        let (client, id) = try world.openSession()
        let sideband = world.join(id)
        #expect(sideband.isOpen && sideband.eventTypes == ["session.created"])
        #expect(world.network.paths == ["/nodes/sessions/\(id)"])
        sideband.send(Self.update)
        sideband.send(#"{"type":"response.create"}"#)
        world.run()
        #expect(client.eventTypes.contains("response.done"))
        #expect(
            sideband.eventTypes.dropFirst()
                == client.eventTypes.drop { $0 != "session.updated" }
                .dropFirst())
        #expect(world.far.metrics.total(of: .sidebandsOpen) == 1)
        #expect(world.near.metrics.total(of: .relaysOpen) == 1)
    }

    /// What a relay carries may be a conversation: it has no share with requests that take a tick's time.
    @Test func aRelayDoesNotWaitBehindRequests() throws {
        let world = try RelayWorld()
        let (client, id) = try world.openSession()
        let sideband = world.join(id)
        let peers = (0..<8).map { _ in world.near.connect() }
        world.run()
        let before = client.eventTypes.filter { $0 == "session.updated" }.count
        for peer in peers { peer.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n") }
        sideband.send(Self.update)
        world.near.io.timePerLook = .nanoseconds(MessageTime.nanosecondsPerTick)
        #expect(world.near.shard.tick())
        #expect(peers.allSatisfy { $0.receive().isEmpty }, "they wait for the next tick")
        world.far.run()
        #expect(client.eventTypes.filter { $0 == "session.updated" }.count == before + 1)
    }

    @Test func theSessionsEndEndsTheRelay() throws {
        let world = try RelayWorld()
        let (client, id) = try world.openSession()
        let sideband = world.join(id)
        client.close(.normalClosure)
        world.run(for: .seconds(1))
        #expect(sideband.closeCode == 1000)
        world.run(for: .seconds(10))
        #expect(world.near.metrics.total(of: .relaysOpen) == 0)
        #expect(world.near.metrics.total(of: .connectionsOpen) == 0)
        #expect(try world.pipe.isClosed)
    }

    @Test func aClientThatLeavesLeavesTheSession() throws {
        let world = try RelayWorld()
        let (_, id) = try world.openSession()
        let sideband = world.join(id)
        sideband.peer.reset()
        world.run()
        #expect(try world.pipe.isClosed && world.near.shard.upstreams.relays.count == 0)
        #expect(world.far.metrics.total(of: .sidebandsOpen) == 0)
    }

    @Test func anotherNodeKnowsTheCallerAndItsRights() throws {
        let world = try RelayWorld()
        let (_, id) = try world.openSession()
        let foreign = world.join(id, key: RelayWorld.otherKey)
        #expect(foreign.answer?.status == 404 && world.network.pipes.isEmpty)
        #expect(try code(world.join("sess_nobody")) == "session_not_found")
        #expect(world.join(id, key: "sk-wrong").answer?.status == 401)
        let first = world.join(id, tools: "lookup")
        let second = world.join(id, tools: "lookup")
        #expect(first.isOpen && second.answer?.status == 409)
        #expect(try code(second) == "tools_taken")
    }

    @Test func aPassIsNeededToAskANodeWhatItHas() throws {
        let world = try RelayWorld()
        let (_, id) = try world.openSession()
        for path in ["/nodes/sessions/\(id)", "/nodes/chats/a"] {
            let answer = world.send("GET", path, to: world.far)
            #expect(String(decoding: answer.receive(), as: UTF8.self).hasPrefix("HTTP/1.1 404"))
        }
    }

    @Test func aNodeThatIsAwayMayHaveTheSession() throws {
        let world = try RelayWorld()
        let (_, id) = try world.openSession()
        world.network.isDown = true
        let sideband = world.join(id)
        #expect(sideband.answer?.status == 503)
        #expect(try code(sideband) == "shards_away")
    }

    @Test func aNodeThatDiesBeforeItsAnswerIsAway() throws {
        let world = try RelayWorld()
        let (_, id) = try world.openSession()
        for change: (Pipe) -> Void in [
            { $0.isCut = true }, { $0.state = .failed("refused") },
            { $0.noise = Array("nonsense\r\n\r\n".utf8) },
        ] {
            world.network.change = change
            let sideband = world.join(id)
            #expect(sideband.answer?.status == 503)
            #expect(try code(sideband) == "node_away")
            #expect(try world.pipe.isClosed)
        }
        #expect(world.near.metrics.total(of: .relaysFailed) == 3)
        world.network.change = { $0.state = .connecting }
        let late = world.join(id)
        #expect(late.answer == nil)
        world.run(for: NodeRelay.patience)
        #expect(late.answer?.status == 503)
    }

    @Test func aNodeThatDiesClosesTheRelayBetweenTwoFrames() throws {
        let world = try RelayWorld()
        let (_, id) = try world.openSession()
        let sideband = world.join(id)
        try world.pipe.isCut = true
        world.run()
        #expect(sideband.closeCode == 1012)
        let other = world.join(id)
        // The beginning of a frame of ten bytes.
        try world.pipe.noise = [0x81, 10, 0x7B]
        world.run()
        try world.pipe.isCut = true
        world.run()
        #expect(other.closeCode == nil && other.peer.isEnded)
    }

    @Test func aNodeThatDrainsClosesItsRelays() throws {
        let world = try RelayWorld { $0.drain.jitter = .zero }
        let (client, id) = try world.openSession()
        let sideband = world.join(id)
        world.near.shard.drain(.zero)
        world.run(for: .seconds(5))
        #expect(sideband.closeCode == 1012 && client.isOpen)
        #expect(world.far.metrics.total(of: .sidebandsOpen) == 0)
    }

    @Test func aSilentNodeIsGivenUp() throws {
        let world = try RelayWorld {
            $0.connection.webSocket.pingInterval = .seconds(1)
            $0.connection.webSocket.idleTimeout = .seconds(3)
        }
        let (_, id) = try world.openSession()
        let sideband = world.join(id)
        // The far node is not run: nothing comes, and nothing is answered.
        #expect(world.near.run(for: .seconds(3)))
        #expect(sideband.closeCode == nil)
        #expect(world.near.run(for: .seconds(1)))
        #expect(sideband.closeCode == 1012)
    }

    // MARK: Backpressure

    @Test func aClientThatDoesNotReadStopsTheOtherNode() throws {
        let world = try RelayWorld()
        let (client, id) = try world.openSession()
        let sideband = world.join(id)
        sideband.peer.window = 0
        let text = String(repeating: "x", count: 10_000)
        for _ in 0..<60 {
            client.send(
                #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
                    + #""content":[{"type":"input_text","text":"\#(text)"}]}}"#)
            world.run()
        }
        let pipe = try world.pipe
        #expect(!pipe.isReading)
        let window = world.near.shard.answerWindow
        #expect(world.near.metrics.total(of: .ledgerBytes) < 2 * window + (256 << 10))
        #expect(pipe.peer.unreadBytes > 0, "the rest waits at the other node")
        sideband.peer.window = 1 << 20
        world.run()
        #expect(pipe.isReading)
        #expect(sideband.eventTypes.filter { $0 == "conversation.item.added" }.count == 60)
    }

    @Test func aClientIsReadNoFurtherThanTheOtherNodeTakes() throws {
        let world = try RelayWorld()
        let (_, id) = try world.openSession()
        let sideband = world.join(id)
        let pipe = try world.pipe
        pipe.room = 100
        let text = String(repeating: "x", count: 40_000)
        for _ in 0..<4 {
            sideband.send(
                #"{"type":"session.update","session":{"type":"realtime","instructions":"\#(text)"}}"#
            )
        }
        world.run()
        let connection = try #require(relaying(world))
        #expect(connection.isPaused && !connection.interest.contains(.reads))
        let held = try #require(connection.http?.pending.count)
        #expect(held < HTTPServerConnection.maxPendingBehindAnswer + (128 << 10))
        pipe.room = .max
        world.run()
        #expect(sideband.eventTypes.filter { $0 == "session.updated" }.count == 4)
    }

    private func relaying(_ world: RelayWorld) -> Connection? {
        var found: Connection?
        world.near.shard.connections.forEach { if $0.http?.relay != nil { found = $0 } }
        return found
    }

    // MARK: Chats

    @Test func aReplyIsShownAgainFromItsStartAtAnotherNode() throws {
        let page = try #require(OriginPattern("https://app.example.com"))
        let world = try RelayWorld(model: Self.makeSlowModel()) {
            $0.admission.allowedOrigins = [page]
        }
        let first = world.chat("a/b c")
        world.run(for: .seconds(3))
        first.reset()
        let again = world.send(
            "GET", "/api/chat/a%2Fb%20c/stream", fields: "Origin: https://app.example.com\r\n")
        world.run(for: .seconds(20))
        let answer = StreamedAnswer(again.receive())
        #expect(answer.status == 200 && answer.isComplete)
        #expect(answer.values(of: "delta").joined() == "1 2 3 4 5 6 7 8 9 10 ")
        #expect(answer.head.contains("Access-Control-Allow-Origin: https://app.example.com"))
        #expect(answer.head.contains("Connection: close") && again.isEnded)
        #expect(world.network.paths == ["/nodes/chats/a%2Fb%20c"])
        let over = world.send("GET", "/api/chat/a%2Fb%20c/stream")
        #expect(String(decoding: over.receive(), as: UTF8.self).hasPrefix("HTTP/1.1 204"))
    }

    @Test func aReplyIsItsCallersAlsoAtAnotherNode() throws {
        let world = try RelayWorld(model: Self.makeSlowModel())
        _ = world.chat("chat")
        let foreign = world.send("GET", "/api/chat/chat/stream", key: RelayWorld.otherKey)
        #expect(String(decoding: foreign.receive(), as: UTF8.self).hasPrefix("HTTP/1.1 204"))
        world.network.isDown = true
        let away = world.send("GET", "/api/chat/chat/stream")
        #expect(String(decoding: away.receive(), as: UTF8.self).hasPrefix("HTTP/1.1 503"))
        world.run(for: .seconds(20))
    }

    @Test func whatFollowsARelayedRequestIsNotPassedOn() throws {
        let world = try RelayWorld(model: Self.makeSlowModel())
        _ = world.chat("chat")
        let get =
            "GET /api/chat/chat/stream HTTP/1.1\r\nHost: localhost\r\n"
            + "Authorization: Bearer \(RelayWorld.key)\r\n\r\n"
        let peer = world.near.connect()
        peer.send(get + get)
        world.run()
        world.run(for: .seconds(20))
        #expect(StreamedAnswer(peer.receive()).isComplete && peer.isEnded)
        #expect(world.network.pipes.count == 1)
        #expect(world.far.metrics.total(of: .textRepliesResumed) == 1)
    }
}
