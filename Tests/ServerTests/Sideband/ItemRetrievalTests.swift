// The answer to `conversation.item.retrieve` in a session with sidebands: it is for the one that has
// asked, also where it comes in a later step, with audio.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ItemRetrievalTests {
    private let type = "conversation.item.retrieved"

    private func retrieve(_ id: String) -> String {
        #"{"type":"conversation.item.retrieve","item_id":"\#(id)"}"#
    }

    /// Adds an item, with a tenth of a second of audio or without.
    private func add(_ id: String, hasAudio: Bool, by client: SimulatedClient) {
        let content =
            hasAudio
            ? #"{"type":"input_audio","transcript":"Hi","audio":"\#(Base64.silence(4_800))"}"#
            : #"{"type":"input_text","text":"Hi"}"#
        client.send(
            #"{"type":"conversation.item.create","item":{"id":"\#(id)","type":"message","#
                + #""role":"user","content":[\#(content)]}}"#)
    }

    @Test(arguments: [false, true])
    func anItemComesToTheOneThatHasAskedForIt(hasAudio: Bool) throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        let viewers = [client, try world.join(client), try world.join(client, on: world.first)]
        add("item_1", hasAudio: hasAudio, by: client)
        world.run()
        for asker in viewers {
            let before = viewers.map { $0.events(type).count }
            asker.send(retrieve("item_1"))
            world.run()
            for (viewer, count) in zip(viewers, before) {
                #expect(viewer.events(type).count == count + (viewer === asker ? 1 : 0))
            }
            #expect(asker.events(type).last?.contains(#""audio":"AAAA"#) == hasAudio)
        }
        #expect(viewers.allSatisfy { $0.events("error").isEmpty })
    }

    @Test func aMissingItemIsToldToTheOneThatHasAskedForIt() throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        let viewers = [client, try world.join(client), try world.join(client)]
        for (number, asker) in viewers.enumerated() {
            asker.send(retrieve("item_none"))
            world.run()
            let counts = viewers.map { $0.events("error").count }
            #expect(counts == viewers.indices.map { $0 <= number ? 1 : 0 })
        }
        // The next answer for this id has a new asker.
        add("item_none", hasAudio: false, by: client)
        viewers[2].send(retrieve("item_none"))
        world.run()
        #expect(viewers.map { $0.events(type).count } == [0, 0, 1])
    }

    @Test func theAnswerForASidebandThatHasLeftIsForNobody() throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        let sideband = try world.join(client, on: world.first)
        let link = try #require(world.first.shard.sidebands.joined.values.first).link
        let observation = try #require(world.first.shard.sidebands.observations.values.first)
        let parameters = SessionParameters(model: "m")
        _ = observation.admit(
            .conversationItemRetrieve(itemID: "item_1"), from: link, to: parameters)
        sideband.close()
        world.run()
        #expect(world.first.shard.sidebands.observations.count == 1, "its answer is to come")
        add("item_1", hasAudio: false, by: client)
        world.run()
        let item = ConversationItem(id: "item_1", kind: .message(role: .user, content: []))
        #expect(observation.note(.conversationItemRetrieved(item)), "nothing is left behind")
        #expect(observation.view(of: .conversationItemRetrieved(item), for: nil) == nil)
    }

    @Test func whatIsRememberedIsBounded() {
        var retrievals = ItemRetrievals()
        for number in 0..<1_000 {
            retrievals.note(.conversationItemRetrieve(itemID: "item_\(number)"), from: nil)
        }
        #expect(retrievals.heldBytes < 100 * ItemRetrievals.maxOpen)
    }
}

extension Base64 {
    /// So many zero bytes, a multiple of three.
    fileprivate static func silence(_ count: Int) -> String {
        String(repeating: "AAAA", count: count / 3)
    }
}
