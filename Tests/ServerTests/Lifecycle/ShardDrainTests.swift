// A shard drains: when each connection is closed, what is waited for, and for how long. On simulated
// sockets and a virtual clock. ShutdownTests has the decisions alone, SessionTests what a turn in
// flight is, and Tests/clients a restart of real processes.

import Codec
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

/// Writes ten words, one every 100 ms, and speaks 60 ms of sound a character.
private struct SlowVoice: LanguageModel, SlowSpeaker {
    static let text = (1...10).map { "Word \($0). " }.joined()
    /// The space at the end has no sound.
    static let spokenMilliseconds = (text.count - 1) * 60

    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        for number in 1...10 {
            try await host.sleep(for: .milliseconds(100))
            try await reply(.text("Word \(number). "))
        }
    }
}

/// No connection waits to be accepted.
private struct NoConnectionWaits: Error {}

@Suite struct ShardDrainTests {
    private static let agents = AgentSet(model: SlowVoice(), synthesizer: SlowVoice())
    private let question = """
        {"type":"conversation.item.create","item":{"type":"message","role":"user",
        "content":[{"type":"input_text","text":"Hi"}]}}
        """
    private let respond = #"{"type":"response.create"}"#
    private let readiness = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"

    private func makeServer(
        seed: UInt64 = 1, _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws -> SimulatedServer {
        var configuration = ServerConfiguration()
        change(&configuration)
        return try SimulatedServer(configuration: configuration, agents: Self.agents, seed: seed)
    }

    /// Drains as `ParleyServer.drain()` does; the shard knows before the clock moves on.
    private func drain(_ server: SimulatedServer) {
        server.metrics.isDraining.store(true, ordering: .relaxed)
        server.shard.drain(server.shard.configuration.drain.delay)
        server.run()
    }

    private func ask(_ client: SimulatedClient) {
        client.send(question)
        client.send(respond)
    }

    /// When each client was closed, in milliseconds from now.
    private func closeTimes(
        of clients: [SimulatedClient], on server: SimulatedServer, within milliseconds: Int
    ) -> [Int?] {
        var times = [Int?](repeating: nil, count: clients.count)
        for time in 0...milliseconds / 10 {
            for (index, client) in clients.enumerated()
            where times[index] == nil && client.closeCode != nil { times[index] = time * 10 }
            server.run(for: .milliseconds(10))
        }
        return times
    }

    private func outcomes(_ server: SimulatedServer) -> [Int] {
        [.drainedIdle, .drainedFinished, .drainedCutOff].map { server.metrics.total(of: $0) }
    }

    private func statuses(_ peer: SimulatedPeer) throws -> [Int] {
        let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
        return responses.map(\.status)
    }

    /// A tick without time for a request leaves it for the next one. The drain waits for its answer.
    @Test func requestsThatWaitForTheirTurnAreAnswered() throws {
        let server = try makeServer { $0.drain.jitter = .zero }
        let peers = (0..<4).map { _ in server.connect() }
        for peer in peers { peer.send(readiness) }
        server.run()
        for peer in peers { #expect(try statuses(peer) == [200]) }
        for peer in peers { peer.send(readiness) }
        server.io.timePerLook = .nanoseconds(MessageTime.nanosecondsPerTick)
        server.metrics.isDraining.store(true, ordering: .relaxed)
        server.shard.drain(.zero)
        var ticks = 0
        while ticks < 20, server.shard.tick() { ticks += 1 }
        for peer in peers { #expect(try statuses(peer) == [503]) }
    }

    /// Accepts as a sibling would.
    private func acceptDirectly(_ server: SimulatedServer) throws -> IOHandle {
        var peer = NetworkAddress.unspecified
        guard case .done(let handle) = server.io.accept(from: SimulatedIO.listener, peer: &peer)
        else {
            throw NoConnectionWaits()
        }
        return IOHandle(handle)
    }

    // MARK: Sessions

    @Test func closesIdleSessionsSpreadOverTheJitter() throws {
        let server = try makeServer { $0.drain.jitter = .seconds(2) }
        let clients = (0..<40).map { _ in server.openClient() }
        server.run()
        drain(server)
        let times = closeTimes(of: clients, on: server, within: 2_100).compactMap(\.self)
        #expect(clients.allSatisfy { $0.closeCode == 1012 })
        for quarter in 0..<4 {
            let count = times.count { (quarter * 500..<(quarter + 1) * 500).contains($0) }
            #expect((4...18).contains(count), "\(count) of 40 in a quarter of the time")
        }
        #expect(server.hasStopped && server.io.openHandles == 0)
        #expect(outcomes(server) == [40, 0, 0])
    }

    @Test func theSeedDecidesWhenEachSessionIsClosed() throws {
        func times(seed: UInt64) throws -> [Int?] {
            let server = try makeServer(seed: seed)
            let clients = (0..<5).map { _ in server.openClient() }
            server.run()
            drain(server)
            return closeTimes(of: clients, on: server, within: 5_100)
        }
        #expect(try times(seed: 3) == times(seed: 3))
        #expect(try times(seed: 3) != times(seed: 4))
    }

    @Test func withoutSessionsItEndsAtOnce() throws {
        let server = try makeServer()
        let idle = server.connect()
        idle.send(readiness)
        server.run()
        drain(server)
        server.run()
        #expect(idle.isClosed && server.hasStopped)
    }

    @Test(arguments: ["json", "binary"])
    func aReplyInFlightIsSpokenToItsEndAndPlayed(transport: String) throws {
        let server = try makeServer { $0.drain.jitter = .zero }
        let client = server.openClient()
        server.run()
        client.send(
            """
            {"type":"session.update","session":{"type":"realtime","audio":{"output":
            {"transport":"\(transport)"}}}}
            """)
        ask(client)
        // The model still writes, and what it has written is being spoken.
        server.run(for: .milliseconds(450))
        #expect(client.eventTypes.contains("response.output_audio_transcript.delta"))
        drain(server)
        var doneAt: Int?
        var closedAt: Int?
        for time in 0..<1_000 where closedAt == nil {
            server.run(for: .milliseconds(10))
            if doneAt == nil, client.eventTypes.contains("response.done") { doneAt = time * 10 }
            if client.closeCode != nil { closedAt = time * 10 }
        }
        #expect(client.closeCode == 1012)
        #expect(client.texts.contains { $0.contains(SlowVoice.text.dropLast()) })
        let done = try #require(client.texts.last { $0.contains(#""type":"response.done""#) })
        #expect(done.contains(#""status":"completed""#))
        #expect(
            server.metrics.total(of: \.millisecondsOut) == SlowVoice.spokenMilliseconds,
            "not a sample is missing")
        // The last audio was sent up to 500 ms before a client can have played it.
        let wait = try #require(closedAt) - #require(doneAt)
        #expect((400...700).contains(wait))
        #expect(outcomes(server) == [0, 1, 0])
        server.run(for: .milliseconds(100))
        #expect(server.hasStopped)
    }

    @Test func aTurnThatBeginsBeforeTheSessionIsClosedIsFinishedToo() throws {
        let server = try makeServer()
        let client = server.openClient()
        server.run()
        drain(server)
        // The seed has it closed later than that.
        server.run(for: .milliseconds(100))
        ask(client)
        server.run(for: .seconds(15))
        #expect(client.eventTypes.contains("response.done") && client.closeCode == 1012)
        #expect(outcomes(server) == [0, 1, 0])
    }

    @Test func aUserWhoSpeaksIsNotCutOff() throws {
        let server = try makeServer { $0.drain.jitter = .zero }
        let client = server.openClient()
        server.run()
        let packet = [UInt8](repeating: 0, count: 2 * 24 * 20)
        client.send(
            """
            {"type":"session.update","session":{"type":"realtime","audio":{"input":
            {"turn_detection":null}}}}
            """)
        for time in 0..<200 {
            client.send(.binary, packet)
            if time == 50 { drain(server) }
            server.run(for: .milliseconds(20))
        }
        #expect(client.closeCode == nil)
        client.send(#"{"type":"input_audio_buffer.clear"}"#)
        server.run(for: .milliseconds(200))
        #expect(client.closeCode == 1012 && outcomes(server) == [0, 1, 0])
    }

    @Test func theTimeoutBoundsATurn() throws {
        let server = try makeServer { $0.drain.timeout = .seconds(1) }
        let client = server.openClient()
        let idle = server.openClient()
        server.run()
        ask(client)
        server.run(for: .milliseconds(500))
        drain(server)
        server.run(for: .milliseconds(990))
        #expect(client.closeCode == nil)
        server.run(for: .milliseconds(20))
        #expect(client.closeCode == 1012 && idle.closeCode == 1012, "jitter ends there, too")
        #expect(!client.eventTypes.contains("response.done"))
        #expect(outcomes(server) == [1, 0, 1] && server.hasStopped)
    }

    @Test func aClientThatDoesNotAnswerTheCloseIsCutOffAfterTheCloseTimeout() throws {
        let server = try makeServer { $0.drain.jitter = .zero }
        let client = server.openClient()
        client.isPolite = false
        server.run()
        drain(server)
        server.run(for: .milliseconds(4_900))
        #expect(client.closeCode == 1012 && !server.hasStopped)
        server.run(for: .milliseconds(200))
        #expect(server.hasStopped && server.io.openHandles == 0)
    }

    @Test func aSlowReaderGetsTheWholeReplyBeforeItsClose() throws {
        let server = try makeServer { $0.drain.jitter = .zero }
        let client = server.openClient()
        server.run()
        ask(client)
        server.run(for: .milliseconds(300))
        drain(server)
        client.isReading = false
        client.peer.window = 20_000
        // The reply is over after 6 s, but most of it waits for room.
        server.run(for: .seconds(10))
        #expect(outcomes(server) == [0, 0, 0])
        client.isReading = true
        server.run(for: .seconds(1))
        #expect(client.eventTypes.contains("response.done") && client.closeCode == 1012)
        #expect(server.hasStopped)
    }

    // MARK: The listeners

    @Test func readinessTurnsBeforeTheListenersClose() throws {
        let server = try makeServer {
            $0.drain.delay = .seconds(3)
            $0.drain.jitter = .zero
        }
        let kept = server.connect()
        kept.send(readiness)
        server.run()
        #expect(try statuses(kept) == [200])
        drain(server)
        server.run(for: .seconds(2))
        // Balancers that have not noticed still send people here, and they are served.
        let late = server.openClient()
        kept.send(readiness)
        server.run()
        #expect(late.answer?.status == 101 && late.closeCode == nil)
        let (responses, _) = try parseResponses(kept.receive(), answering: [.get])
        #expect(responses.map(\.status) == [503])
        #expect(responses.first?.fields["Retry-After"] == "5")
        #expect(responses.first?.fields["Connection"] == "close")
        server.run(for: .milliseconds(1_100))
        #expect(late.closeCode == 1012)
        #expect(server.connect().isReset, "no socket listens any more")
    }

    @Test func connectionsThatWaitToBeAcceptedAreServedAndClosedLikeTheOthers() throws {
        let server = try makeServer { $0.loop.maxAcceptsPerTick = 2 }
        server.run()
        let queued = (0..<9).map { _ in server.connect() }
        let clients = (0..<3).map { _ in server.openClient() }
        drain(server)
        server.run()
        #expect(!queued.contains { $0.isReset || $0.isClosed })
        #expect(clients.allSatisfy { $0.isOpen })
        server.run(for: .milliseconds(500))
        queued[0].send(readiness)
        server.run()
        #expect(try statuses(queued[0]) == [503])
        server.run(for: .seconds(6))
        #expect(clients.map(\.closeCode) == [1012, 1012, 1012])
        #expect(server.hasStopped && server.io.openHandles == 0)
    }

    @Test func keptConnectionsMayAskButNotUpgradeWhileSessionsLast() throws {
        let server = try makeServer()
        let session = server.openClient()
        let (kept, other) = (server.connect(), server.connect())
        kept.send(readiness)
        other.send(readiness)
        server.run()
        #expect(try statuses(kept) == [200] && statuses(other) == [200])
        ask(session)
        server.run(for: .milliseconds(100))
        drain(server)
        server.run(for: .seconds(1))
        kept.send(readiness)
        var upgrade = ByteWriter(capacity: 512)
        WebSocketHandshake.writeRequest(
            target: "/v1/realtime", host: "localhost", key: "dGhlIHNhbXBsZSBub25jZQ==",
            into: &upgrade)
        other.send(upgrade.copiedBytes)
        server.run()
        for peer in [kept, other] {
            let (responses, _) = try parseResponses(peer.receive(), answering: [.get])
            #expect(responses.map(\.status) == [503])
            #expect(responses.first?.fields["Retry-After"] == "5")
            #expect(responses.first?.fields["Connection"] == "close")
        }
        #expect(session.closeCode == nil)
    }

    @Test func aClientThatAsksNothingDelaysTheEndByItsGraceOnly() throws {
        let server = try makeServer()
        let mute = server.connect()
        server.run()
        drain(server)
        server.run(for: .milliseconds(900))
        #expect(!mute.isClosed, "its request may be on the way")
        server.run(for: .milliseconds(300))
        #expect(mute.isClosed && server.hasStopped)
    }

    @Test func stoppingEndsADrain() throws {
        let server = try makeServer()
        let client = server.openClient()
        server.run()
        ask(client)
        server.run(for: .milliseconds(200))
        drain(server)
        server.run(for: .milliseconds(200))
        #expect(client.closeCode == nil)
        server.shard.stop(.goingAway)
        server.run()
        #expect(client.closeCode == 1001 && server.hasStopped)
    }

    // MARK: The owner of the listeners

    @Test func aSharedPortIsLeftAtOnceAndItsQueueIsServed() throws {
        let server = try makeServer { $0.loop.maxAcceptsPerTick = 2 }
        server.shard.duty = .shared
        let waiting = (0..<9).map { _ in server.openClient() }
        drain(server)
        #expect(server.connect().isReset, "the simulated kernel knows no successor")
        server.run()
        #expect(waiting.allSatisfy { $0.isOpen })
        server.run(for: .seconds(6))
        #expect(waiting.allSatisfy { $0.closeCode == 1012 } && server.hasStopped)
    }

    @Test func aSharedPortsServerEndsAfterTheFirstRequestsOfItsClients() throws {
        let server = try makeServer()
        server.shard.duty = .shared
        let (late, mute) = (server.connect(), server.connect())
        server.run()
        drain(server)
        // On a busy machine a client may be suspended between its connection and its request.
        server.run(for: .seconds(9))
        #expect(!late.isClosed && !mute.isClosed && !server.hasStopped)
        late.send(readiness)
        server.run()
        #expect(try statuses(late) == [503])
        late.finishWriting()
        server.run(for: .milliseconds(900))
        #expect(late.isClosed && !mute.isClosed && !server.hasStopped)
        server.run(for: .milliseconds(200))
        #expect(mute.isClosed && server.hasStopped, "header-timeout-ms, as at any time")
    }

    @Test func theDrainTimeoutBoundsTheWaitForFirstRequests() throws {
        let server = try makeServer { $0.drain.timeout = .seconds(2) }
        server.shard.duty = .shared
        let mute = server.connect()
        server.run()
        drain(server)
        server.run(for: .milliseconds(1_900))
        #expect(!mute.isClosed)
        server.run(for: .milliseconds(200))
        #expect(mute.isClosed && server.hasStopped)
    }

    @Test func anInheritedSocketIsDealtOutAndItsQueueIsLeftAlone() throws {
        let server = try makeServer { $0.loop.maxAcceptsPerTick = 1 }
        let given = Mutex<[String]>([])
        let siblings = (1...2).map { number in
            ShardSibling(
                adopt: { handle, _ in given.withLock { $0.append("\(number): \(handle)") } },
                drain: { delay in given.withLock { $0.append("\(number): drain \(delay)") } })
        }
        server.shard.duty = .inherited(siblings)
        for _ in 0..<6 { _ = server.connect() }
        server.run()
        #expect(server.metrics.total(of: .connectionsOpen) == 2)
        #expect(given.withLock { $0 } == ["1: 1", "2: 2", "1: 4", "2: 5"])
        let waiting = (0..<5).map { _ in server.connect() }
        drain(server)
        // The tick of the drain accepted one more, which is the first sibling's. The simulated kernel
        // knows no supervisor that keeps the queue, so that the others show as reset.
        #expect(waiting.map(\.isReset) == [false, true, true, true, true])
        let last = given.withLock { Array($0.suffix(3)) }
        #expect(last[0].hasPrefix("1: "))
        #expect(Array(last[1...]) == ["1: drain 0.0 seconds", "2: drain 0.0 seconds"])
    }

    @Test func aConnectionThatWasDealtIsServed() throws {
        let server = try makeServer()
        let other = server.connect()
        server.shard.asSibling.adopt(try acceptDirectly(server), .unspecified)
        other.send(readiness)
        server.run()
        #expect(try statuses(other) == [200])
        let late = server.connect()
        let handle = try acceptDirectly(server)
        server.shard.stop(.goingAway)
        server.shard.asSibling.adopt(handle, .unspecified)
        server.run()
        #expect(
            late.isClosed && server.io.openHandles == 0, "a stopped shard takes no connection over")
    }
}
