// Sessions that outlive their connection, on a real shard with simulated sockets: what the client is
// told, what it gets when it comes back, and what ends a session for good.

import Codec
import Session
import Simulation
import TestMaterial
import Testing

@testable import Server

@Suite struct ShardResumeTests {
    // MARK: Asking

    @Test func aClientThatDoesNotAskSeesNothingOfIt() throws {
        let world = try ResumeWorld()
        let client = world.open("")
        world.count(to: 3, client)
        #expect(world.server.run(for: .seconds(200)))
        #expect(client.words == "1 2 3 ")
        #expect(client.resumes.isEmpty && client.offsets.isEmpty)
        world.cut(client)
        #expect(world.sessionCount == 0)
    }

    @Test func aClientThatAsksGetsAHandleAndNumbers() throws {
        let world = try ResumeWorld()
        let client = world.open()
        let resume = try #require(client.parsed.first?["resume"])
        #expect(resume["handle"]?.string.flatMap { ResumeHandle($0) } != nil)
        #expect(resume["expires_at"]?.raw.text == "\(SimulatedServer.firstSecond + 240)")
        world.count(to: 3, client)
        #expect(world.server.run(for: .seconds(1)))
        #expect(client.offsets == Array(1...UInt64(client.texts.count)))
    }

    @Test func theWishMayComeInAnUpdate() throws {
        let world = try ResumeWorld()
        let client = world.open("")
        client.send(#"{"type":"session.update","session":{"type":"realtime","resume":true}}"#)
        #expect(world.server.run())
        #expect(client.parsed.last?["type"]?.string == "session.updated")
        #expect(client.parsed.last?["resume"] != nil && client.offsets == [1])
        client.send(#"{"type":"session.update","session":{"type":"realtime","resume":false}}"#)
        #expect(world.server.run())
        #expect(client.parsed.last?["resume"] == nil)
        world.cut(client)
        #expect(world.sessionCount == 0)
    }

    @Test func theHandleIsRenewed() throws {
        let world = try ResumeWorld()
        let client = world.open()
        #expect(world.server.run(for: .seconds(241)))
        #expect(client.eventTypes.suffix(2) == ["parley.resume.updated", "parley.resume.updated"])
        let handles = client.resumes.compactMap { $0["handle"]?.string }
        #expect(Set(handles).count == 3)
        world.cut(client)
        let again = try world.comeBack(from: client, at: client.offsets.last)
        #expect(again.parsed.first?["recovered"]?.bool == true)
    }

    @Test func switchedOffItIsIgnored() throws {
        let world = try ResumeWorld { $0.resume.window = .zero }
        #expect(world.open().resumes.isEmpty)
    }

    // MARK: Coming back

    @Test func whatWasMissedFollowsOnceAndInOrder() throws {
        let world = try ResumeWorld()
        let client = world.open()
        world.count(to: 10, client)
        #expect(world.server.run(for: .milliseconds(350)))
        let heard = client.words
        world.cut(client)
        #expect(world.sessionCount == 1 && world.detachedCount == 1)
        #expect(world.server.run(for: .milliseconds(300)))
        let again = try world.comeBack(from: client, at: client.offsets.last)
        #expect(world.detachedCount == 0)
        #expect(again.eventTypes.first == "parley.resumed")
        #expect(again.parsed.first?["recovered"]?.bool == true)
        #expect(world.server.run(for: .seconds(2)))
        #expect(heard + again.words == "1 2 3 4 5 6 7 8 9 10 ")
        let offsets = client.offsets + again.offsets
        #expect(offsets == Array(1...UInt64(offsets.count)))
        #expect(again.eventTypes.last == "rate_limits.updated")
    }

    @Test func aPositionFurtherBackIsSentAgain() throws {
        let world = try ResumeWorld()
        let client = world.open()
        world.count(to: 2, client)
        #expect(world.server.run(for: .milliseconds(250)))
        world.cut(client)
        let last = try #require(client.offsets.last)
        let again = try world.comeBack(from: client, at: last - 3)
        #expect(Array(again.texts.dropFirst().prefix(3)) == client.texts.suffix(3))
    }

    @Test(arguments: [nil, (1, 7), (0, 9_999)] as [(Int, UInt64)?])
    func withoutItsPlaceTheClientGetsTheConversation(_ place: (Int, UInt64)?) throws {
        let world = try ResumeWorld()
        let client = world.open()
        world.count(to: 3, client)
        #expect(world.server.run(for: .milliseconds(250)))
        world.cut(client)
        let epoch = try #require(client.resumes.last?["epoch"].flatMap { Int($0.raw.text) })
        let again = try world.comeBack(
            from: client, at: place?.1, epoch: place.map { epoch ^ $0.0 })
        #expect(again.parsed.first?["recovered"]?.bool == false)
        #expect(again.resumes.last?["epoch"]?.raw.text != "\(epoch)")
        #expect(world.server.run(for: .seconds(1)))
        #expect(again.words == "1 2 3 ", "what was written so far comes in one piece")
        #expect(again.offsets == Array(1...UInt64(again.offsets.count)))
        let added = again.eventTypes.filter { $0 == "conversation.item.added" }
        #expect(added.count == 2 && again.eventTypes.contains("response.done"))
    }

    @Test func beyondTheLogTheConversationIsToldAnew() throws {
        let world = try ResumeWorld { $0.resume.maxBytes = 4_096 }
        let client = world.open()
        world.count(to: 60, client)
        #expect(world.server.run(for: .milliseconds(150)))
        world.cut(client)
        #expect(world.server.run(for: .seconds(10)))
        let again = try world.comeBack(from: client, at: client.offsets.last)
        #expect(again.parsed.first?["recovered"]?.bool == false)
        #expect(again.texts.contains { $0.contains(#""text":"1 2 3 4"#) })
    }

    @Test func twoClientsWithOneHandleNeverHaveTheSessionBoth() throws {
        let world = try ResumeWorld()
        let first = world.open()
        world.count(to: 10, first)
        #expect(world.server.run(for: .milliseconds(250)))
        let second = try world.comeBack(from: first, at: first.offsets.last)
        #expect(first.closeCode == 4409)
        let seen = first.texts.count
        #expect(world.server.run(for: .seconds(2)))
        #expect(first.texts.count == seen && second.words.hasSuffix(" 10 "))
        #expect(world.sessionCount == 1)
        #expect(world.server.metrics.total(of: .resumesTakenOver) == 1)
    }

    @Test func aSessionCanBeLostAndFoundManyTimes() throws {
        let world = try ResumeWorld()
        var client = world.open()
        world.count(to: 40, client)
        var words = ""
        for _ in 0..<8 {
            #expect(world.server.run(for: .milliseconds(330)))
            words += client.words
            world.cut(client)
            #expect(world.server.run(for: .milliseconds(110)))
            client = try world.comeBack(from: client, at: client.offsets.last)
        }
        #expect(world.server.run(for: .seconds(5)))
        words += client.words
        #expect(words.split(separator: " ").compactMap { Int($0) } == Array(1...40))
    }

    @Test func neitherALossNorAReturnIsLatenessOfTheLoop() throws {
        let world = try ResumeWorld()
        var client = world.open()
        world.count(to: 3, client)
        for _ in 0..<3 {
            #expect(world.server.run(for: .milliseconds(2_300)))
            world.cut(client)
            #expect(world.server.run(for: .milliseconds(30)))
            client = try world.comeBack(from: client, at: client.offsets.last)
            world.count(to: 3, client)
        }
        #expect(world.server.run(for: .seconds(5)))
        let lateness = world.server.metrics.shards[0].distribution(of: .eventLoopLag)
        #expect(lateness.counts.first ?? 0 > 0 && lateness.sum == 0)
    }

    // MARK: What ends a session

    @Test func aCloseIsTheEnd() throws {
        let world = try ResumeWorld()
        let client = world.open()
        client.close()
        #expect(world.server.run())
        #expect(world.sessionCount == 0 && world.detachedCount == 0)
    }

    @Test func aSessionWaitsForTheWindowAndNoLonger() throws {
        let world = try ResumeWorld()
        let client = world.open()
        world.cut(client)
        #expect(world.server.run(for: .seconds(119)))
        #expect(world.sessionCount == 1)
        #expect(world.server.run(for: .seconds(2)))
        #expect(world.sessionCount == 0 && world.detachedCount == 0)
    }

    @Test func theConversationIsKeptForClientsThatComeTooLate() throws {
        let world = try ResumeWorld()
        let client = world.open()
        world.count(to: 3, client)
        #expect(world.server.run(for: .seconds(2)))
        world.cut(client)
        #expect(world.server.run(for: .seconds(600)))
        #expect(world.sessionCount == 0)
        let again = try world.comeBack(from: client, at: client.offsets.last)
        #expect(again.parsed.first?["recovered"]?.bool == true)
        let ids = [client, again].map { $0.parsed.first?["session"]?["id"]?.string }
        #expect(ids[0] == ids[1])
        world.count(to: 2, again)
        #expect(world.server.run(for: .seconds(2)))
        #expect(again.words == "1 2 ")
        #expect(world.server.metrics.total(of: .resumesUnknown) == 0)
    }

    @Test func twoLateReturnsLeadToOneSession() throws {
        let world = try ResumeWorld()
        let client = world.open()
        world.count(to: 3, client)
        #expect(world.server.run(for: .seconds(2)))
        world.cut(client)
        #expect(world.server.run(for: .seconds(130)))
        let one = try world.comeBack(from: client, at: client.offsets.last)
        let two = try world.comeBack(from: client, at: client.offsets.last)
        #expect(two.parsed.first?["recovered"]?.bool == true)
        #expect(one.closeCode == 4_409 && world.sessionCount == 1)
        // What was said since is kept for the next time too.
        world.count(to: 2, two)
        #expect(world.server.run(for: .seconds(2)))
        world.cut(two)
        #expect(world.server.run(for: .seconds(130)))
        let three = try world.comeBack(from: two, at: nil)
        #expect(three.parsed.contains { $0["item"]?.raw.text.contains("1 2 \"") == true })
        three.close()
        #expect(world.server.run())
        let four = try world.comeBack(from: two, at: nil)
        #expect(four.eventTypes.prefix(2) == ["parley.resumed", "session.created"])
    }

    @Test func aShardThatWasLateLosesNoClient() throws {
        let world = try ResumeWorld()
        let client = world.open()
        world.server.io.suspend(for: .seconds(3))
        #expect(world.server.run(for: .seconds(1)))
        world.cut(client)
        #expect(world.detachedCount == 1)
        let again = try world.comeBack(from: client, at: client.offsets.last)
        #expect(again.parsed.first?["recovered"]?.bool == true)
    }

    @Test func whereTooManyWaitTheLastStateIsKept() throws {
        let world = try ResumeWorld { $0.resume.maxDetachedSessions = 1 }
        let clients = [world.open(), world.open()]
        for client in clients { world.cut(client) }
        #expect(world.detachedCount == 1 && world.sessionCount == 1)
        for client in clients {
            let again = try world.comeBack(from: client, at: client.offsets.last)
            #expect(again.parsed.first?["recovered"]?.bool == true)
        }
        #expect(world.sessionCount == 2)
    }

    @Test func alsoOfAClientThatIsSilent() throws {
        let world = try ResumeWorld { $0.resume.maxDetachedSessions = 1 }
        let clients = [world.open(), world.open()]
        world.cut(clients[0])
        clients[1].isReading = false
        #expect(world.server.run(for: .seconds(100)))
        #expect(world.detachedCount == 1 && world.sessionCount == 1)
        let again = try world.comeBack(from: clients[1], at: clients[1].offsets.last)
        #expect(again.parsed.first?["session"]?["id"]?.string == clients[1].sessionID)
    }

    @Test func afterTenWindowsASessionIsUnknown() throws {
        let world = try ResumeWorld()
        let client = world.open()
        world.cut(client)
        #expect(world.server.run(for: .seconds(1_321)))
        let again = try world.comeBack(from: client, at: 1)
        #expect(again.eventTypes.prefix(2) == ["parley.resumed", "session.created"])
        #expect(again.parsed.first?["recovered"]?.bool == false)
        #expect(world.server.metrics.total(of: .resumesUnknown) == 1)
    }

    @Test func silenceIsALostConnection() throws {
        let world = try ResumeWorld()
        let client = world.open()
        client.isReading = false
        #expect(world.server.run(for: .seconds(100)))
        #expect(world.detachedCount == 1 && world.sessionCount == 1)
        let again = try world.comeBack(from: client, at: client.offsets.last)
        #expect(again.parsed.first?["recovered"]?.bool == true)
    }

    @Test func noMoreThanSoManyWait() throws {
        let world = try ResumeWorld { $0.resume.maxDetachedSessions = 1 }
        let clients = [world.open(), world.open()]
        clients.forEach(world.cut)
        #expect(world.sessionCount == 1 && world.detachedCount == 1)
        #expect(world.server.metrics.total(of: .detachmentsRefused) == 1)
    }

    /// Sixteen may wait in any case.
    @Test func oneCallersShareOfWaitingSessionsIsBounded() throws {
        let world = try ResumeWorld { $0.resume.maxDetachedSessions = 40 }
        for _ in 0..<25 { world.cut(world.open()) }
        #expect(world.detachedCount == 20)
        world.cut(world.open(key: ResumeWorld.otherKey))
        #expect(world.detachedCount == 21)
    }

    @Test func aFullServerTakesItsClientsBack() throws {
        let world = try ResumeWorld { $0.admission.maxSessions = 1 }
        let client = world.open()
        world.cut(client)
        let again = try world.comeBack(from: client, at: client.offsets.last)
        #expect(again.parsed.first?["recovered"]?.bool == true)
    }

    @Test func aCallerThatLeavesManyBehindKeepsNoOtherOut() throws {
        let world = try ResumeWorld {
            $0.resume.maxDetachedSessions = 3
            $0.admission.maxSessions = 5
        }
        let many = (0..<3).map { _ in world.open() }
        many.forEach(world.cut)
        #expect(world.detachedCount == 3)
        // Its own next one ends instead of an older one.
        world.cut(world.open())
        #expect(world.detachedCount == 3 && world.sessionCount == 3)
        // Another's waits, and the oldest of the first ends, of which the last state is kept.
        let other = world.open(key: ResumeWorld.otherKey)
        world.cut(other)
        #expect(world.detachedCount == 3)
        let back = try world.comeBack(
            from: other, at: other.offsets.last, key: ResumeWorld.otherKey)
        #expect(back.parsed.first?["recovered"]?.bool == true)
        // A new session finds a place as long as one waits, whose ever it is, and the server says so.
        let live = (0..<2).map { _ in world.open(key: ResumeWorld.otherKey) }
        #expect(live.allSatisfy { $0.sessionID != nil })
        for waiting in [1, 0] {
            #expect(try world.readiness() == 200)
            let next = world.open(key: waiting == 1 ? ResumeWorld.otherKey : ResumeWorld.key)
            #expect(next.sessionID != nil && world.detachedCount == waiting)
            #expect(world.sessionCount == 5)
        }
        #expect(try world.readiness() == 503)
        let refused = world.server.openClient("/v1/realtime?model=test", key: ResumeWorld.key)
        #expect(world.server.run())
        #expect(refused.answer?.status == 503)
    }

    @Test func anotherKeyDoesNotOpenTheSession() throws {
        let world = try ResumeWorld()
        let client = world.open()
        world.cut(client)
        let thief = try world.comeBack(from: client, at: 1, key: ResumeWorld.otherKey)
        #expect(thief.parsed.first?["recovered"]?.bool == false)
        #expect(thief.parsed.first?["session"]?["id"]?.string != client.sessionID)
        let owner = try world.comeBack(from: client, at: client.offsets.last)
        #expect(owner.parsed.first?["session"]?["id"]?.string == client.sessionID)
    }

    @Test func aSessionThatWaitsEndsWithItsTime() throws {
        let world = try ResumeWorld { $0.credentials.maxSessionSeconds = 60 }
        let client = world.open()
        #expect(world.server.run(for: .seconds(31)))
        #expect(client.eventTypes.last == "parley.going_away")
        #expect(client.texts.last?.contains(#""reason":"session_limit""#) == true)
        world.cut(client)
        #expect(world.server.run(for: .seconds(31)))
        #expect(world.sessionCount == 0 && world.detachedCount == 0)
    }

    @Test func aRestartIsAnnouncedAndEndsWhatWaits() throws {
        let world = try ResumeWorld()
        let (client, lost) = (world.open(), world.open())
        world.cut(lost)
        world.server.shard.drain(.zero)
        #expect(world.server.run(for: .seconds(10)))
        #expect(client.eventTypes.last == "parley.going_away" && client.closeCode == 1012)
        #expect(world.server.hasStopped && world.detachedCount == 0)
    }
}

extension SimulatedClient {
    fileprivate var sessionID: String? { parsed.first?["session"]?["id"]?.string }
}
