// Limits of calls and sidebands: searches for sessions, what may wait for a sideband, its URL's names;
// and that the end of a server answers who waits for a session.

import Codec
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

@Suite struct SidebandLimitTests {
    private func question(_ answer: @escaping @Sendable (CallAnswer) -> Void) -> CallQuestion {
        CallQuestion(sessionID: "sess_none", owner: nil, purpose: .hangUp, answer: answer)
    }

    // MARK: Searches

    @Test func aSearchIsDroppedWithItsCall() {
        var table = SidebandTable()
        table.beginSearch(question { _ in }, at: Instant(nanoseconds: 0))
        table.beginSearch(question { _ in }, at: Instant(nanoseconds: 500_000_000))
        table.dropLateSearches(at: Instant(nanoseconds: 999_999_999))
        #expect(table.searches.count == 2)
        table.dropLateSearches(at: Instant(nanoseconds: 1_000_000_000))
        #expect(table.searches.count == 1)
        table.dropLateSearches(at: Instant(nanoseconds: 1_500_000_000))
        #expect(!table.hasWork)
    }

    @Test func aShardThatHasManySearchesTakesNoMore() throws {
        let world = try SidebandWorld()
        let refused = Mutex<[Int]>([])
        for _ in 0..<SidebandTable.maxSearches + 10 {
            world.first.shard.handle(
                .ask(
                    question { answer in
                        guard case .refused(let failure) = answer else { return }
                        refused.withLock { $0.append(failure.response.status) }
                    }))
        }
        #expect(refused.withLock { $0 } == Array(repeating: 503, count: 10))
        world.run()
        #expect(!world.first.shard.sidebands.hasWork)
    }

    @Test func theEndOfAServerWaitsForTheAnswerToACall() throws {
        let world = try SidebandWorld()
        let peer = world.second.connect()
        peer.send(
            "POST /v1/realtime/calls/sess_none/hangup HTTP/1.1\r\nHost: localhost\r\n"
                + "Authorization: Bearer \(SidebandWorld.key)\r\nContent-Length: 0\r\n\r\n")
        #expect(world.second.run())
        world.second.shard.drain(.zero)
        #expect(world.second.run(for: .milliseconds(300)))
        #expect(!world.second.hasStopped)
        #expect(world.first.run())
        #expect(world.second.run(for: .seconds(1)))
        let (responses, _) = try parseResponses(peer.receive(), answering: [.post])
        #expect(responses.map(\.status) == [404])
    }

    // MARK: What waits for a sideband

    @Test func whatIsOnItsWayAndWhatIsUnsentCountTogether() throws {
        let world = try SidebandWorld { $0.sidebands.maxQueuedBytes = 64 << 10 }
        let client = world.openClient()
        let sideband = try world.join(client)
        let link = try #require(world.second.shard.sidebands.joined.values.first).link
        sideband.peer.window = 0
        let text = Array(#"{"type":"\#(String(repeating: "x", count: 25_000))"}"#.utf8)
        // Both are on the way; one arrives.
        link.send(text, isError: false)
        link.send(text, isError: false)
        world.second.shard.deliver(text, isError: false, to: link)
        #expect(world.first.metrics.total(of: .sidebandsCutOff) == 0)
        link.send(text, isError: false)
        world.second.shard.deliver(text, isError: false, to: link)
        #expect(world.first.metrics.total(of: .sidebandsCutOff) == 1, "75 KB wait")
        // The events that were delivered by hand are taken a second time.
        link.send(text, isError: false)
        world.run()
    }

    @Test func aSidebandGetsItsCloseBeforeTheLimitOfAllConnections() throws {
        let world = try SidebandWorld {
            $0.connection.maxQueuedOutputBytes = 128 << 10
            $0.connection.softQueuedOutputBytes = 128 << 10
        }
        let client = world.openClient()
        let sideband = try world.join(client)
        sideband.peer.window = 0
        world.writeLongItems(20, by: client)
        sideband.peer.window = 1 << 20
        world.run()
        #expect(sideband.closeCode == 1013 && client.closeCode == nil)
    }

    // MARK: Numbers and names

    @Test func aBetaClientsSidebandSeesEachNumberOnce() throws {
        let world = try SidebandWorld()
        let client = world.first.openClient(key: SidebandWorld.key, beta: "realtime=v1")
        world.run()
        let sideband = try world.join(client)
        world.say("Hi", client)
        let numbers = try sideband.texts.dropFirst().map {
            try JSONParser().parse($0)["event_id"]?.string
        }
        #expect(sideband.events("conversation.item.done").count >= 1)
        #expect(Set(numbers).count == numbers.count)
    }

    @Test func namesAreCountedBeforeTheyAreCompared() throws {
        let names = [String](repeating: "a", count: SidebandQuery.maxTools + 1)
        let world = try SidebandWorld()
        let client = world.second.openClient(
            "/v1/realtime?call_id=sess_1&tools=\(names.joined(separator: ","))",
            key: SidebandWorld.key)
        world.run()
        #expect(client.answer?.status == 400 && client.refusal == "invalid_value")
    }
}
