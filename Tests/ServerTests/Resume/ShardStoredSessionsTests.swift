// Two servers with one store, on simulated kernels: a session that a client takes from one to the
// other, two that both believe they own it, and a store that is slow, away or has lost data.

import Codec
import Session
import Simulation
import TestMaterial
import Testing

@testable import Server

@Suite struct ShardStoredSessionsTests {
    private let store = SimulatedStore()
    private let first: ResumeWorld
    private let second: ResumeWorld

    init() throws {
        first = try ResumeWorld(seed: 1, store: store)
        second = try ResumeWorld(seed: 2, store: store)
    }

    /// Both servers' time goes on.
    private func run(for duration: Duration = .zero) {
        #expect(first.server.run(for: duration))
        #expect(second.server.run(for: duration))
    }

    private func total(_ metric: ShardMetric, _ world: ResumeWorld) -> Int {
        world.server.metrics.total(of: metric)
    }

    /// The words of a conversation's last reply, as a client knows its items.
    private func lastReply(_ client: SimulatedClient) -> String? {
        let done = client.parsed.last(where: {
            $0["type"]?.string == "conversation.item.done"
                && $0["item"]?["role"]?.string == "assistant"
        })
        return done?["item"]?["content"]?.elements.map(Array.init)?.first?["text"]?.string
    }

    // MARK: Taken over

    @Test func aReplyThatARestartCutsIsAskedForAgain() throws {
        let client = first.open()
        first.count(to: 10, client)
        run(for: .milliseconds(350))
        first.server.shard.stop(.goingAway)
        run()
        #expect(client.closeCode == 1012 || client.closeCode == 1001)
        #expect(client.words == "1 2 3 ")
        #expect(total(.sessionsHandedOver, first) == 1 && store.count == 1)
        let again = try second.comeBack(from: client, at: client.offsets.last)
        #expect(again.parsed.first?["recovered"]?.bool == true)
        #expect(total(.resumesRecovered, second) == 1)
        run(for: .seconds(3))
        // Its model had not finished: it is asked again, and what it had written goes.
        #expect(again.eventTypes.dropFirst().first == "conversation.item.deleted")
        #expect(again.words == "1 2 3 4 5 6 7 8 9 10 ")
        #expect(lastReply(again) == again.words)
        second.count(to: 2, again)
        run(for: .seconds(1))
        #expect(again.words.hasSuffix("1 2 "))
        #expect(again.offsets == Array((client.offsets.last! + 1)...again.offsets.last!))
    }

    @Test func aSessionAtRestGoesOnElsewhere() throws {
        let client = first.open()
        first.count(to: 3, client)
        run(for: .seconds(2))
        first.server.shard.stop(.goingAway)
        run()
        let again = try second.comeBack(from: client, at: client.offsets.last)
        #expect(again.eventTypes == ["parley.resumed"])
        #expect(again.parsed[0]["recovered"]?.bool == true)
        #expect(again.parsed[0]["session"]?["output_modalities"]?.raw.text == #"["text"]"#)
        #expect(second.sessionCount == 1)
        again.close()
        run()
        #expect(store.count == 0, "a session that has ended leaves no record")
    }

    @Test func eventsThatWereNotReadFollowElsewhere() throws {
        let client = first.open()
        client.isReading = false
        let last = client.offsets.last
        first.count(to: 3, client)
        run(for: .seconds(2))
        first.server.shard.stop(.goingAway)
        run()
        let again = try second.comeBack(from: client, at: last)
        #expect(again.parsed.first?["recovered"]?.bool == true)
        #expect(again.words == "1 2 3 ")
        #expect(again.eventTypes.contains("response.done"))
    }

    @Test func aKilledServerCostsNoItem() throws {
        let client = first.open()
        first.count(to: 3, client)
        run(for: .seconds(2))
        first.count(to: 20, client)
        run(for: .milliseconds(1_550))
        // What follows is not written any more.
        store.mood = .away
        run(for: .milliseconds(300))
        first.cut(client)
        store.mood = .quick
        let again = try second.comeBack(from: client, at: client.offsets.last)
        #expect(again.parsed.first?["recovered"]?.bool == false)
        #expect(total(.resumesRestored, second) == 1)
        run(for: .seconds(5))
        let items = again.parsed.filter { $0["type"]?.string == "conversation.item.added" }
        #expect(items.count >= 4)
        #expect(again.eventTypes.contains("response.done"))
        second.count(to: 2, again)
        run(for: .seconds(1))
        #expect(lastReply(again) == "1 2 ")
    }

    @Test func whatAClientHearsAfterTheLastEventIsWritten() throws {
        let client = first.open(modality: "audio")
        first.count(to: 3, client)
        run(for: .seconds(10))
        #expect(client.eventTypes.contains("response.done"))
        let writes = store.writes.count
        run(for: .seconds(10))
        #expect(store.writes.count == writes)
        store.mood = .away
        first.cut(client)
        store.mood = .quick
        let again = try second.comeBack(from: client, at: client.offsets.last)
        #expect(again.parsed.first?["recovered"]?.bool == true)
        run(for: .seconds(5))
        // All was heard, so that nothing is said again.
        #expect(again.eventTypes == ["parley.resumed"])
    }

    @Test func aClientThatHasNotGotTheNewHandleComesWithTheOldOne() throws {
        let client = first.open()
        run(for: .seconds(1))
        first.server.shard.stop(.goingAway)
        run()
        let unlucky = try second.comeBack(from: client, at: client.offsets.last)
        second.cut(unlucky)
        run(for: .seconds(1))
        let again = try second.comeBack(from: client, at: client.offsets.last)
        let ids = [client, again].map { $0.parsed.first?["session"]?["id"]?.string }
        #expect(ids[0] == ids[1] && second.sessionCount == 1)
    }

    @Test func aSessionEndsWhenItWouldHaveEnded() throws {
        let store = SimulatedStore()
        let first = try ResumeWorld(seed: 3, store: store) {
            $0.credentials.maxSessionSeconds = 100
        }
        let second = try ResumeWorld(seed: 4, store: store) {
            $0.credentials.maxSessionSeconds = 100
        }
        let client = first.open()
        #expect(first.server.run(for: .seconds(60)) && second.server.run(for: .seconds(60)))
        first.server.shard.stop(.goingAway)
        #expect(first.server.run())
        let again = try second.comeBack(from: client, at: client.offsets.last)
        #expect(again.parsed.first?["recovered"]?.bool == true)
        #expect(second.server.run(for: .seconds(30)))
        #expect(again.closeCode == nil)
        #expect(second.server.run(for: .seconds(15)))
        #expect(again.closeCode != nil)
    }

    /// A sideband's function is hidden from the client also where the sideband is gone with its server.
    @Test(arguments: [true, false])
    func privateFunctionsStayPrivateElsewhere(isRecovered: Bool) throws {
        let client = first.open()
        let id = try #require(client.parsed.first?["session"]?["id"]?.string)
        let sideband = first.server.openClient(
            "/v1/realtime?call_id=\(id)&tools=secret", key: ResumeWorld.key)
        run()
        sideband.send(
            #"{"type":"session.update","session":{"type":"realtime","#
                + #""tools":[{"type":"function","name":"secret"}]}}"#)
        run()
        first.ask("Now.", client)
        run(for: .seconds(1))
        #expect(sideband.texts.contains { $0.contains("call_secret") })
        first.cut(client)
        let again = try second.comeBack(
            from: client, at: isRecovered ? client.offsets.last : nil)
        #expect(again.parsed.first?["recovered"]?.bool == isRecovered)
        run(for: .seconds(1))
        #expect((client.texts + again.texts).allSatisfy { !$0.contains("secret") })
        // The call, which nobody answers any more, has failed, and the model has said so.
        #expect(again.words.contains("not available"))
        second.count(to: 2, again)
        run(for: .seconds(1))
        #expect(again.words.hasSuffix("1 2 "))
        // Hidden also in what the third server reads.
        let third = try ResumeWorld(seed: 7, store: store)
        second.cut(again)
        let last = try third.comeBack(from: again, at: nil)
        #expect(third.server.run(for: .seconds(1)))
        #expect(last.eventTypes.contains("conversation.item.added"))
        #expect(last.texts.allSatisfy { !$0.contains("secret") })
    }

    @Test func whatASessionHasUsedCountsElsewhere() throws {
        let store = SimulatedStore()
        let limit = [Quota(.turns, 3, per: .day), Quota(.events, 1_000, per: .minute)]
        let first = try ResumeWorld(seed: 5, store: store) { $0.quotas.perSession = limit }
        let second = try ResumeWorld(seed: 6, store: store) { $0.quotas.perSession = limit }
        let client = first.open()
        for _ in 0..<2 {
            first.count(to: 1, client)
            #expect(first.server.run(for: .seconds(1)))
        }
        first.server.shard.stop(.goingAway)
        #expect(first.server.run() && second.server.run(for: .seconds(2)))
        let again = try second.comeBack(from: client, at: client.offsets.last)
        for status in ["completed", "failed"] {
            second.count(to: 1, again)
            #expect(second.server.run(for: .seconds(1)))
            let done = again.parsed.last { $0["type"]?.string == "response.done" }
            #expect(done?["response"]?["status"]?.string == status)
        }
    }

    @Test func aSessionWithoutItsClientIsHandedOverAsSoonAsTheServerDoesNotListen() throws {
        let client = first.open()
        run(for: .seconds(1))
        first.cut(client)
        first.server.metrics.isDraining.store(true, ordering: .relaxed)
        first.server.shard.drain(.milliseconds(100))
        run()
        run(for: .milliseconds(150))
        #expect(first.detachedCount == 0 && total(.sessionsHandedOver, first) == 1)
        let again = try second.comeBack(from: client, at: client.offsets.last)
        #expect(again.parsed.first?["recovered"]?.bool == true)
    }

    // MARK: One owner

    @Test func ofTwoOwnersTheOlderEnds() throws {
        let client = first.open()
        run(for: .seconds(1))
        let again = try second.comeBack(from: client, at: client.offsets.last)
        #expect(again.parsed.first?["recovered"]?.bool == true)
        #expect(client.closeCode == nil, "nobody has told the first server")
        first.count(to: 3, client)
        run(for: .seconds(1))
        #expect(client.closeCode == 4_409)
        #expect(first.sessionCount == 0 && first.detachedCount == 0)
        #expect(total(.resumesTakenOver, first) == 1)
        second.count(to: 3, again)
        run(for: .seconds(1))
        #expect(again.closeCode == nil && again.words == "1 2 3 ")
    }

    @Test func theOlderOwnerIsToldByItsHeartbeat() throws {
        let client = first.open()
        run(for: .seconds(1))
        let id = try #require(client.parsed.first?["session"]?["id"]?.string)
        first.server.shard.handleFenced(id, fence: 1)
        first.server.shard.handleFenced("sess_other", fence: 2)
        run()
        #expect(client.closeCode == nil, "the fence is its own")
        first.server.shard.handleFenced(id, fence: 2)
        run()
        #expect(client.closeCode == 4_409 && first.sessionCount == 0)
        #expect(store.count == 1, "the record is the other server's")
    }

    @Test func aSessionIsItsCallersOnly() throws {
        let client = first.open()
        run(for: .seconds(1))
        let stranger = try second.comeBack(
            from: client, at: client.offsets.last, key: ResumeWorld.otherKey)
        #expect(stranger.eventTypes.prefix(2) == ["parley.resumed", "session.created"])
        #expect(stranger.parsed.first?["recovered"]?.bool == false)
        #expect(total(.resumesUnknown, second) == 1)
        first.count(to: 3, client)
        run(for: .seconds(1))
        #expect(client.closeCode == nil && client.words == "1 2 3 ")
    }

    @Test func aSessionMadeResumableByAnUpdateGoesOnElsewhere() throws {
        let client = first.open("")
        client.send(#"{"type":"session.update","session":{"type":"realtime","resume":true}}"#)
        run(for: .seconds(1))
        first.server.shard.stop(.goingAway)
        run()
        let again = try second.comeBack(from: client, at: client.offsets.last)
        #expect(again.parsed.first?["recovered"]?.bool == true)
    }

    // MARK: A store in trouble

    @Test func aStoreThatIsAwayIsNotFelt() throws {
        let client = first.open()
        run(for: .seconds(1))
        store.mood = .away
        first.count(to: 3, client)
        run(for: .seconds(5))
        #expect(client.words == "1 2 3 " && client.closeCode == nil)
        #expect(store.attempts <= 2, "a state that cannot be written is not made")
        let again = try second.comeBack(from: client, at: client.offsets.last)
        #expect(again.eventTypes.prefix(2) == ["parley.resumed", "session.created"])
        let before = store.attempts
        store.mood = .quick
        first.server.shard.reviewRecords()
        run(for: .seconds(6))
        #expect(store.writes.last?.isWhole == true && store.attempts > before)
    }

    @Test func aStoreThatHasLostItsDataGetsItAgain() throws {
        let client = first.open()
        run(for: .seconds(1))
        store.lose(try #require(client.parsed.first?["session"]?["id"]?.string))
        #expect(store.count == 0)
        first.count(to: 3, client)
        run(for: .seconds(3))
        #expect(store.count == 1 && store.writes.filter(\.isWhole).count == 2)
        #expect(client.words == "1 2 3 ")
    }

    @Test func aSlowStoreHoldsUpNobodyElse() throws {
        let client = first.open()
        run(for: .seconds(1))
        store.mood = .slow
        let again = try second.comeBack(from: client, at: client.offsets.last)
        let other = second.open("")
        #expect(again.answer == nil && other.eventTypes.first == "session.created")
        store.answer()
        run()
        #expect(again.parsed.first?["recovered"]?.bool == true)
    }

    @Test func aClientThatLeavesMeanwhileMayComeAgain() throws {
        let client = first.open()
        run(for: .seconds(1))
        store.mood = .slow
        let impatient = try second.comeBack(from: client, at: client.offsets.last)
        second.cut(impatient)
        store.answer()
        run()
        #expect(second.sessionCount == 0)
        store.mood = .quick
        let again = try second.comeBack(from: client, at: client.offsets.last)
        #expect(again.parsed.first?["recovered"]?.bool == true)
    }

    @Test func aRecordThatCannotBeReadBeginsASessionAnew() throws {
        let client = first.open()
        run(for: .seconds(1))
        let id = try #require(client.parsed.first?["session"]?["id"]?.string)
        let lifetime = Duration.seconds(100)
        store.view { .milliseconds(0) }.write(
            SessionChange(
                sessionID: id, fence: 1, set: [(SavedResume.name, [0xff])], lifetime: lifetime)
        ) { #expect($0 == .written) }
        let again = try second.comeBack(from: client, at: client.offsets.last)
        #expect(again.eventTypes.prefix(2) == ["parley.resumed", "session.created"])
        #expect(second.sessionCount == 1)
    }

    @Test func aSessionOfAnotherVersionIsLeftToServersOfIt() throws {
        let client = first.open()
        run(for: .seconds(1))
        let id = try #require(client.parsed.first?["session"]?["id"]?.string)
        let head = try #require(store.writes.last?.set.first { $0.name == "head" }).value
        let text = String(decoding: head, as: UTF8.self)
        let newer = text.replacing("\"version\":1", with: "\"version\":2")
        #expect(newer != text)
        let change = SessionChange(
            sessionID: id, fence: 1, set: [("head", Array(newer.utf8))], lifetime: .seconds(100))
        store.view { .milliseconds(0) }.write(change) { #expect($0 == .written) }
        for _ in 0..<2 {
            let refused = try second.comeBack(from: client, at: client.offsets.last)
            #expect(refused.answer?.status == 503)
        }
        #expect(second.sessionCount == 0 && store.count == 1)
        #expect(total(.resumesUnknown, second) == 0)
    }
}
