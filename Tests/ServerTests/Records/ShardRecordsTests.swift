// What a shard hands to the keeper of records: when, what of a conversation, and why it has ended.

import Codec
import Session
import Simulation
import TestMaterial
import Testing

@testable import Server

@Suite struct ShardRecordsTests {
    private let keeper = CollectingKeeper()

    private func world(
        _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws -> ResumeWorld {
        try ResumeWorld(records: keeper, change)
    }

    private func text(of item: RecordedItem) -> String {
        guard case .message(_, let content) = item.item.kind, let part = content.first else {
            return ""
        }
        switch part {
        case .inputText(let text), .outputText(let text), .outputAudio(let text): return text
        case .inputAudio(_, let transcript): return transcript ?? ""
        case .inputImage: return ""
        }
    }

    // MARK: When

    @Test func aTypedTurnIsOneChange() throws {
        let world = try world()
        let client = world.open("")
        #expect(world.server.run(for: .seconds(2)))
        let before = keeper.changes.count
        world.count(to: 2, client)
        #expect(world.server.run(for: .seconds(5)))
        #expect(keeper.changes.count == before + 1)
        let change = try #require(keeper.changes.last)
        #expect(change.items.map(text) == ["2", "1 2 "])
        #expect(change.turns.map(\.number) == [1])
        let turn = try #require(change.turns.first)
        #expect(turn.response.status == .completed && turn.hops[.firstToken] == 100)
        #expect((turn.endedAt - turn.startedAt).wholeMilliseconds == 200)
        #expect(change.summary.turns == 1 && change.summary.peakBytes > 1_000)
        #expect(keeper.changes.map(\.isFirst) == [true] + Array(repeating: false, count: before))
    }

    /// Not more than half a second of a reply is lost with the process.
    @Test func aLongReplyIsKeptAsItComes() throws {
        let world = try world()
        let client = world.open("")
        world.count(to: 40, client)
        var known = 0
        for _ in 0..<7 {
            #expect(world.server.run(for: .milliseconds(500)))
            let words = keeper.items.last.map(text)?.split(separator: " ").count ?? 0
            #expect(words >= known + 4, "\(words)")
            known = words
        }
        #expect(keeper.items.last?.item.status == .inProgress)
    }

    @Test func anIdleSessionIsKeptOnceAndNotAgain() throws {
        let world = try world()
        let client = world.open("")
        #expect(world.server.run(for: .seconds(60)))
        #expect(keeper.changes.count <= 2 && client.isOpen)
    }

    @Test func withoutAKeeperNothingIsRecorded() throws {
        let world = try ResumeWorld()
        let client = world.open("")
        let connection = try #require(world.server.shard.connections[slot: 0])
        #expect(connection.live?.session.recorder == nil && client.isOpen)
    }

    @Test func whatTheKeeperRefusesIsGivenAgain() throws {
        let world = try world()
        let client = world.open("")
        keeper.isFull = true
        world.count(to: 2, client)
        #expect(world.server.run(for: .seconds(3)))
        client.send(#"{"type":"conversation.item.delete","item_id":"none"}"#)
        #expect(world.server.run(for: .seconds(3)))
        #expect(keeper.changes.isEmpty && keeper.refused > 3)
        keeper.isFull = false
        #expect(world.server.run(for: .seconds(1)))
        let change = try #require(keeper.changes.first)
        #expect(keeper.changes.count == 1 && change.isFirst)
        #expect(change.items.map(text) == ["2", "1 2 "] && change.turns.count == 1)
    }

    @Test func whatWaitsForTheKeeperIsCharged() throws {
        let world = try world()
        let client = world.open("")
        keeper.isFull = true
        #expect(world.server.run(for: .seconds(1)))
        let before = world.server.shard.ledgerBytes
        for number in 0..<200 {
            let id = String(repeating: "a", count: 400) + "\(number)"
            client.send(
                #"{"type":"conversation.item.create","item":{"id":"\#(id)","type":"message","#
                    + #""role":"user","content":[{"type":"input_text","text":"a"}]}}"#)
            client.send(#"{"type":"conversation.item.delete","item_id":"\#(id)"}"#)
            #expect(world.server.run(for: .milliseconds(20)))
        }
        #expect(world.server.shard.ledgerBytes > before + 200 * 400)
        keeper.isFull = false
        #expect(world.server.run(for: .seconds(1)))
        #expect(keeper.changes.flatMap(\.deleted).count == 200)
        #expect(world.server.shard.ledgerBytes < before + 200 * 100)
    }

    // MARK: What was heard

    /// The reply is spoken for a second a clause, 500 ms ahead.
    @Test func aReplyThatIsBeingHeardChangesWithTime() throws {
        let world = try world()
        let client = world.open("", modality: "audio")
        world.count(to: 3, client)
        #expect(world.server.run(for: .milliseconds(1_400)))
        let playing = try #require(keeper.items.last?.speech)
        #expect(playing.isCut && playing.heardMilliseconds < 1_000)
        #expect(world.server.run(for: .seconds(3)))
        let heard = try #require(keeper.items.last)
        let speech = try #require(heard.speech)
        #expect(speech.sentMilliseconds == 1_000 && speech.heardMilliseconds == 1_000)
        #expect(!speech.isCut)
        #expect(text(of: heard) == "1 2 3 " && heard.written == nil)
        let count = keeper.changes.count
        #expect(world.server.run(for: .seconds(20)))
        #expect(keeper.changes.count == count && client.isOpen)
    }

    @Test func aSessionThatEndsInMidReplyHasWhatWasHeard() throws {
        let world = try world()
        let client = world.open("", modality: "audio")
        world.count(to: 3, client)
        #expect(world.server.run(for: .milliseconds(900)))
        client.close()
        #expect(world.server.run())
        let last = try #require(keeper.items.last)
        let speech = try #require(last.speech)
        #expect(speech.isCut && (1...999).contains(speech.heardMilliseconds))
        #expect(last.written == "1 2 3 " && text(of: last).count < 6)
        #expect(last.item.status != .inProgress)
    }

    @Test func deletedItemsAreNamed() throws {
        let world = try world()
        let client = world.open("")
        client.send(
            #"{"type":"conversation.item.create","item":{"id":"item_a","type":"message","#
                + #""role":"user","content":[{"type":"input_text","text":"a"}]}}"#)
        #expect(world.server.run(for: .seconds(1)))
        client.send(#"{"type":"conversation.item.delete","item_id":"item_a"}"#)
        #expect(world.server.run(for: .seconds(1)))
        #expect(keeper.items.map(\.item.id) == ["item_a"])
        #expect(keeper.changes.flatMap(\.deleted).map(\.id) == ["item_a"])
    }

    @Test func aResponseOutsideTheConversationIsMarked() throws {
        let world = try world()
        let client = world.open("")
        client.send(
            #"{"type":"response.create","response":{"conversation":"none","input":[{"type":"message","#
                + #""role":"user","content":[{"type":"input_text","text":"2"}]}]}}"#)
        #expect(world.server.run(for: .seconds(2)))
        #expect(keeper.items.map(\.isOutOfBand) == [true])
        #expect(keeper.items.map(text) == ["1 2 "])
        #expect(keeper.changes.flatMap(\.turns).count == 1)
    }

    // MARK: The end

    @Test func theClientsCloseIsTheReason() throws {
        let world = try world()
        world.open("").close()
        #expect(world.server.run())
        #expect(keeper.end == SessionEnd(.clientClosed, closeCode: .normalClosure))
    }

    @Test func aLostConnectionIsTheReason() throws {
        let world = try world()
        world.cut(world.open(""))
        #expect(keeper.end == SessionEnd(.connectionLost))
    }

    @Test func aClientThatDoesNotComeBackIsTheReason() throws {
        let world = try world()
        let client = world.open()
        world.cut(client)
        #expect(keeper.end == nil)
        #expect(world.server.run(for: .seconds(130)))
        #expect(keeper.end == SessionEnd(.notResumed))
        // The conversation goes on in memory, with the same id and all of its items.
        let again = try world.comeBack(from: client, at: nil)
        #expect(world.server.run(for: .seconds(2)))
        let change = try #require(keeper.changes.last)
        #expect(again.isOpen && change.end == nil && change.fence > 1)
        #expect(Set(keeper.changes.map(\.sessionID)).count == 1 && change.summary.isContinued)
    }

    @Test func theServersStopIsTheReason() throws {
        let world = try world()
        _ = world.open("")
        world.server.shard.stop(.goingAway)
        #expect(world.server.run(for: .seconds(10)))
        #expect(
            keeper.end
                == SessionEnd(
                    .serverClosed, closeCode: .goingAway, message: "The server is stopping."))
    }

    @Test func aBrokenRuleIsTheReason() throws {
        let world = try world()
        let client = world.open("")
        client.peer.send([0xF1, 0x80, 0, 0, 0, 0])
        #expect(world.server.run())
        #expect(keeper.end?.closeCode == .protocolError)
    }
}
