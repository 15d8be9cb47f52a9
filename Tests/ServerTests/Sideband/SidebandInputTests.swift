// The queues of sidebands' events: in turn, in order, bounded, and on the sideband's ledger.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct SidebandInputTests {
    private let first = EventToken(.connection, index: 1, generation: 1)
    private let second = EventToken(.connection, index: 2, generation: 1)

    private func makeLink() -> SidebandLink {
        SidebandLink(observer: first, tools: [], post: { _ in })
    }

    private func add(
        _ texts: String, of link: SidebandLink, to token: EventToken, _ inputs: inout SidebandInputs
    ) {
        for text in texts.utf8 {
            inputs.append(SidebandInput(text: [text], link: link, token: token))
        }
    }

    private func take(
        _ limit: Int, _ inputs: inout SidebandInputs, where mustWait: (EventToken) -> Bool
    ) -> String {
        String(
            decoding: inputs.take(atMost: limit, where: mustWait).flatMap(\.text), as: UTF8.self)
    }

    @Test func sidebandsAreServedInTurn() {
        var inputs = SidebandInputs()
        add("abcdefgh", of: makeLink(), to: first, &inputs)
        add("12", of: makeLink(), to: second, &inputs)
        add("X", of: makeLink(), to: second, &inputs)
        #expect(take(4, &inputs) { _ in false } == "a1Xb")
        #expect(take(3, &inputs) { _ in false } == "2cd")
        #expect(take(9, &inputs) { _ in false } == "efgh")
        #expect(inputs.isEmpty)
    }

    @Test func aSessionThatTakesNothingYetHoldsNobodyUp() {
        var inputs = SidebandInputs()
        add("abc", of: makeLink(), to: first, &inputs)
        add("123", of: makeLink(), to: second, &inputs)
        #expect(take(2, &inputs) { $0 == first } == "12")
        #expect(take(2, &inputs) { $0 == first } == "3")
        #expect(take(2, &inputs) { $0 == first } == "")
        #expect(!inputs.isEmpty)
        #expect(take(9, &inputs) { _ in false } == "abc")
    }

    @Test func aFloodDelaysNoOtherSessionsSideband() throws {
        let world = try SidebandWorld()
        let clients = [world.openClient(), world.openClient()]
        let sidebands = [try world.join(clients[0]), try world.join(clients[1])]
        for _ in 0..<500 { sidebands[0].send("{}") }
        sidebands[1].send(#"{"type":"response.cancel"}"#)
        #expect(world.second.run())
        // Only one tick of the sessions' shard.
        _ = world.first.shard.tick()
        #expect(world.second.run())
        #expect(sidebands[1].events("error").count == 1)
        #expect(sidebands[0].events("error").count < 100)
        world.run()
    }

    @Test func smallEventsCountWithWhatTheyTakeAndAreBounded() throws {
        let world = try SidebandWorld()
        let client = world.openClient()
        let sideband = try world.join(client)
        let (token, joined) = try #require(world.second.shard.sidebands.joined.first)
        for _ in 0..<100 { sideband.send("{}") }
        #expect(world.second.run())
        #expect(joined.link.inputCount == 100 && joined.link.inputBytes > 100 * 48)
        let ledger = try #require(world.second.shard.ledger(ofConnection: token))
        #expect(ledger.receive >= joined.link.inputBytes)
        for _ in 0..<SidebandLink.maxInputs - 100 { sideband.send("{}") }
        #expect(world.second.run())
        #expect(sideband.closeCode == nil)
        sideband.send("{}")
        #expect(world.second.run())
        #expect(sideband.closeCode == 1013)
        world.run()
        #expect(joined.link.inputCount == 0 && joined.link.inputBytes == 0)
        #expect(client.closeCode == nil)
    }
}
