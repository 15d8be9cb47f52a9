// Sessions without a connection: an operator sees one that waits, it is hung up and evicted like any
// other, and it is charged for as long as it is there.

import Codec
import Session
import Simulation
import Synchronization
import TestMaterial
import Testing

@testable import Server

@Suite struct WaitingSessionTests {
    private func survey(_ world: ResumeWorld, _ query: SessionQuery) throws -> SurveyReport {
        let reports = Mutex<[SurveyReport]>([])
        world.server.shard.questions.surveys.begin(
            SurveyQuestion(query: query) { report in reports.withLock { $0.append(report) } },
            at: world.server.io.now)
        #expect(world.server.run())
        return try #require(reports.withLock { $0.first })
    }

    private func id(of client: SimulatedClient) throws -> String {
        try #require(client.parsed.first?["session"]?["id"]?.string)
    }

    @Test func anOperatorSeesItAmongTheOthers() throws {
        let world = try ResumeWorld()
        let away = world.open()
        let there = world.open()
        #expect(world.server.run(for: .seconds(3)))
        world.cut(away)
        #expect(world.server.run(for: .seconds(2)))
        let report = try survey(world, SessionQuery())
        #expect(report.connections == 1)
        #expect(report.states.reduce(0, +) == 2)
        #expect(Set(report.rows.map(\.rank.id)) == [try id(of: away), try id(of: there)])
        let row = try #require(try survey(world, SessionQuery(id: try id(of: away))).rows.first)
        #expect(row.age >= .seconds(5) && row.idle >= .seconds(2) && row.state == .idle)
        #expect(row.bytes == row.parts?.total && row.bytes > 300)
        #expect(report.ledgerBytes == report.rows.reduce(0) { $0 + $1.bytes })
        #expect(world.server.shard.isBalanced)
    }

    @Test func itIsHungUpByItsID() throws {
        let world = try ResumeWorld()
        let client = world.open()
        world.cut(client)
        #expect(world.detachedCount == 1)
        let peer = world.server.connect()
        peer.send(
            "POST /v1/realtime/calls/\(try id(of: client))/hangup HTTP/1.1\r\nHost: localhost\r\n"
                + "Authorization: Bearer \(ResumeWorld.key)\r\nContent-Length: 0\r\n\r\n")
        #expect(world.server.run())
        let answers = try parseResponses(peer.receive(), answering: [.post]).0
        #expect(answers.map(\.status) == [200])
        #expect(world.sessionCount == 0 && world.detachedCount == 0)
        #expect(world.server.shard.sessions.count == 0 && world.server.shard.isBalanced)
    }

    /// The reply goes on, and what the client will have missed is kept.
    @Test func itIsEvictedWhereItGrowsTooLarge() throws {
        let world = try ResumeWorld { $0.memory.maxConnectionBytes = 40_000 }
        let client = world.open()
        world.count(to: 1_000, client)
        world.cut(client)
        #expect(world.detachedCount == 1)
        #expect(world.server.run(for: .seconds(110)))
        #expect(world.server.metrics.total(of: .memoryClosesConnection) == 1)
        #expect(world.sessionCount == 0 && world.detachedCount == 0)
        #expect(world.server.shard.ledgerBytes == 0 && world.server.shard.isBalanced)
    }

    /// A report, a delivery or a handle may be for a session that has ended since.
    @Test func itsTokenMeansNoSessionAfterIt() throws {
        let world = try ResumeWorld()
        let first = world.open()
        let token = try #require(world.server.shard.sessions[slot: 0]).token
        first.close()
        #expect(world.server.run(for: .seconds(1)))
        _ = world.open()
        let live = try #require(world.server.shard.sessions[slot: 0])
        #expect(live.token.index == token.index && live.token != token)
        #expect(world.server.shard.sessions[token] == nil)
    }

    /// Ten seconds of audio take ten ticks. The client is gone before, or has come back on another
    /// connection.
    @Test(arguments: [true, false]) func theRestOfALongMessageIsHeard(isBack: Bool) throws {
        let world = try ResumeWorld()
        let client = world.open()
        client.send(
            #"{"type":"session.update","session":{"type":"realtime","audio":{"input":{"#
                + #""format":{"type":"audio/pcmu"},"turn_detection":null}}}}"#)
        #expect(world.server.run())
        client.send(.binary, [UInt8](repeating: 0xFF, count: 80_000))
        let live = try #require(world.server.shard.sessions[slot: 0])
        for _ in 0..<20 where !live.session.hasUnheardAudio { #expect(world.server.shard.tick()) }
        #expect(live.session.hasUnheardAudio)
        if isBack {
            let again = try world.comeBack(from: client, at: client.offsets.last)
            #expect(!live.session.hasUnheardAudio)
            world.count(to: 1, again)
            #expect(world.server.run(for: .seconds(1)))
            #expect(again.words == "1 ")
        } else {
            world.cut(client)
            #expect(world.server.run(for: .seconds(1)))
        }
        #expect(!live.session.hasUnheardAudio && !live.hasEnded)
        #expect((158_000...162_000).contains(world.server.metrics.total(of: \.samplesIn)))
    }

    /// A client does not come back for the work that it may ask for.
    @Test func aReturnFillsNoBudget() throws {
        let world = try ResumeWorld { $0.connection.webSocket.maxTurnsPerSecond = 1 }
        let client = world.open()
        for _ in 0..<40 { world.count(to: 1, client) }
        let token = try #require(world.server.shard.sessions[slot: 0]).token
        let wait = { world.server.shard.clients.work.wait(of: token, at: world.server.io.now) }
        #expect(wait() > .zero)
        world.cut(client)
        _ = try world.comeBack(from: client, at: client.offsets.last)
        #expect(wait() > .zero)
    }
}
