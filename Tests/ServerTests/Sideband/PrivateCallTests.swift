// Functions that a sideband takes the calls of: the client sees neither the tools nor the calls nor
// their outputs, and is not left waiting when the sideband leaves.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct PrivateCallTests {
    private let output =
        #"{"type":"conversation.item.create","item":{"type":"function_call_output","#
        + #""call_id":"call_private_of_the_model","output":"42"}}"#

    /// A session whose sideband offers a private function beside the client's.
    private func makeCall() throws -> (SidebandWorld, SimulatedClient, SimulatedClient) {
        let world = try SidebandWorld()
        let client = world.openClient()
        world.offer("weather", by: client)
        let sideband = try world.join(client, tools: "lookup,refund")
        world.offer("weather", "lookup", by: sideband)
        return (world, client, sideband)
    }

    @Test func theFieldOfASavedSessionIsReadBack() throws {
        var calls = PrivateCalls()
        calls.add(["lookup", "refund"])
        let call = ConversationItem(
            id: "item_1", status: .completed,
            kind: .functionCall(callID: "call_1", name: "lookup", arguments: "{}"))
        calls.note(.responseOutputItemAdded(responseID: "resp_1", outputIndex: 0, call))
        calls.note(.conversationItemAdded(call, previousItemID: "item_0"))
        calls.note(.responseOutputItemDone(responseID: "resp_1", outputIndex: 0, call))
        var read = try #require(PrivateCalls(field: calls.field, parser: JSONParser()))
        #expect(read.names == ["lookup", "refund"])
        #expect(read.isHidden("item_1", from: []) && !read.isHidden("item_1", from: ["lookup"]))
        #expect(read.visible("item_1", to: []) == "item_0")
        // Its response has ended with the process.
        #expect(read.takeOrphans { _ in false } == ["call_1"])
        #expect(PrivateCalls(field: read.field, parser: JSONParser())?.field == read.field)
    }

    @Test(arguments: [
        "", "[]", "{}", #"{"names":[],"offered":[]}"#, #"{"names":[1],"offered":[],"items":[]}"#,
        #"{"names":"a","offered":[],"items":[]}"#, #"{"names":[],"offered":[],"items":[{}]}"#,
        #"{"names":[],"offered":[],"items":[{"id":"i","name":"n","call_id":"c"}]}"#,
        #"{"names":["# + Array(repeating: #""n""#, count: 129).joined(separator: ",")
            + #"],"offered":[],"items":[]}"#,
    ])
    func anyOtherFieldIsNone(_ text: String) {
        #expect(PrivateCalls(field: Array(text.utf8), parser: JSONParser()) == nil)
    }

    @Test func toolsOfASidebandAreHiddenFromTheClient() throws {
        let (world, client, sideband) = try makeCall()
        let updates = client.events("session.updated").count
        #expect(sideband.toolNames == ["weather", "lookup"])
        #expect(client.toolNames == ["weather"])
        #expect(updates == 2, "it is not told of what it cannot see")
        world.offer("time", by: client)
        #expect(client.toolNames == ["time"])
        #expect(sideband.toolNames == ["time", "lookup"], "the update has replaced its own")
        client.send(#"{"type":"session.update","session":{"type":"realtime","tools":null}}"#)
        world.run()
        #expect(client.toolNames == [] && sideband.toolNames == ["lookup"])
        #expect(!client.hasSeen(#""lookup""#))
    }

    @Test func aClientCannotDemandACallThatItCannotSee() throws {
        let (world, client, sideband) = try makeCall()
        let choice = #""tool_choice":{"type":"function","name":"lookup"}"#
        client.send(#"{"type":"response.create","response":{\#(choice)}}"#)
        world.run()
        #expect(world.model.requests.last?.toolChoice == .auto)
        client.send(#"{"type":"session.update","session":{"type":"realtime",\#(choice)}}"#)
        world.say("weather please now", client)
        #expect(world.model.requests.last?.toolChoice == .auto)
        sideband.send(#"{"type":"response.create","response":{\#(choice)}}"#)
        world.run()
        #expect(world.model.requests.last?.toolChoice == .function(name: "lookup"))
    }

    @Test func aPrivateCallIsSeenAndAnsweredByItsSidebandAlone() throws {
        let (world, client, sideband) = try makeCall()
        let recorder = try world.join(client, on: world.first)
        world.say("call lookup", client)
        #expect(world.model.requests.last?.tools.map(\.name) == ["weather", "lookup"])
        #expect(sideband.events("response.function_call_arguments.done").count == 1)
        #expect(sideband.events("response.done").last?.contains("lookup") == true)
        sideband.send(output)
        sideband.send(#"{"type":"response.create"}"#)
        world.run()
        #expect(world.model.requests.count == 2)
        for viewer in [client, recorder] {
            #expect(viewer.events("response.done").count == 2)
            #expect(!viewer.hasSeen(#""lookup""#) && !viewer.hasSeen("call_private"))
            #expect(!viewer.hasSeen("function_call"))
            #expect(viewer.hasSeen("One moment.") && viewer.hasSeen("Done."))
        }
        #expect(sideband.hasSeen(#""output":"42""#))
        // What follows a hidden item is shown behind the last that is not.
        let added = client.events("conversation.item.added")
        let ids = try added.map { try JSONParser().parse($0)["item"]?["id"]?.string }
        let previous = try added.map {
            try JSONParser().parse($0)["previous_item_id"]?.string
        }
        #expect(ids.count == 3 && previous == [nil] + ids.dropLast())
    }

    @Test func anItemOfTheClientDoesNotPartACallFromItsOutput() throws {
        let (world, client, sideband) = try makeCall()
        world.say("slowly lookup", client)
        world.run(for: .seconds(1))
        sideband.send(output)
        world.run()
        let added = try #require(client.events("conversation.item.added").last)
        let last = try #require(try JSONParser().parse(added)["item"]?["id"]?.string)
        client.send(
            #"{"type":"conversation.item.create","previous_item_id":"\#(last)","item":{"#
                + #""type":"message","role":"user","content":"#
                + #"[{"type":"input_text","text":"And now?"}]}}"#)
        client.send(#"{"type":"response.create"}"#)
        world.run()
        let messages = try #require(world.model.requests.last).messages
        #expect(messages.last == .user("And now?"))
        #expect(messages.count == 4, "words, call, output, words")
        let shown = try #require(client.events("conversation.item.added").dropLast().last)
        #expect(try JSONParser().parse(shown)["previous_item_id"]?.string == last)
    }

    @Test func otherCallsOfTheSameResponseStayWhole() throws {
        let (world, client, sideband) = try makeCall()
        world.say("both lookup", client)
        let done = try #require(client.events("response.output_item.done").last)
        #expect(try JSONParser().parse(done)["output_index"]?.int == 0)
        #expect(client.events("response.function_call_arguments.done").count == 1)
        #expect(client.events("response.output_item.done").count == 1)
        #expect(sideband.events("response.output_item.done").count == 2)
        let response = try #require(client.events("response.done").last)
        #expect(try JSONParser().parse(response)["response"]?["output"]?.elements?.count == 1)
    }

    @Test func aCallThatASidebandLeavesIsAnsweredWithAnError() throws {
        let (world, client, sideband) = try makeCall()
        world.say("call lookup", client)
        sideband.close()
        world.run()
        #expect(world.model.requests.count == 2, "the model is asked again")
        guard case .functionOutput(_, let text)? = world.model.requests.last?.messages.last else {
            Issue.record("no result: \(world.model.requests.last?.messages ?? [])")
            return
        }
        #expect(text.contains("not available"))
        #expect(world.model.requests.last?.tools.map(\.name) == ["weather"], "nobody serves it")
        #expect(client.hasSeen("Done.") && !client.hasSeen(#""lookup""#))
        #expect(!client.hasSeen("not available") && client.events("error").isEmpty)
        #expect(client.toolNames == ["weather"])
    }

    @Test func aCallThatIsStillWrittenIsAnsweredWhenItsResponseIsOver() throws {
        let (world, client, sideband) = try makeCall()
        world.say("slowly lookup", client)
        sideband.peer.reset()
        world.run()
        #expect(world.model.requests.count == 1)
        world.run(for: .seconds(1))
        #expect(world.model.requests.count == 2)
        #expect(client.events("response.done").count == 2)
        #expect(client.hasSeen("Done.") && !client.hasSeen(#""lookup""#))
    }

    @Test func anAnsweredCallIsNotAnsweredAgain() throws {
        let (world, client, sideband) = try makeCall()
        world.say("call lookup", client)
        sideband.send(output)
        world.run()
        sideband.close()
        world.run()
        #expect(world.model.requests.count == 1)
        // The name is the client's again, and the past stays hidden.
        world.offer("lookup", by: client)
        #expect(client.toolNames == ["lookup"])
        world.say("call lookup", client)
        #expect(client.events("response.function_call_arguments.done").count == 1)
    }

    @Test func aFunctionIsServedByOneSideband() throws {
        let (world, client, sideband) = try makeCall()
        let other = try world.join(client, tools: "refund")
        #expect(other.answer?.status == 409 && other.refusal == "tools_taken")
        sideband.close()
        world.run()
        #expect(try world.join(client, tools: "refund").answer?.status == 101)
    }

    @Test func aSecondOutputIsHiddenToo() throws {
        let (world, client, sideband) = try makeCall()
        world.say("call lookup", client)
        sideband.close()
        world.run()
        // It comes back, and corrects what was answered for it.
        let again = try world.join(client, tools: "lookup")
        for _ in 0..<2 {
            again.send(output)
            world.run()
        }
        #expect(again.events("conversation.item.added").count == 2)
        #expect(!client.hasSeen("function_call_output") && !client.hasSeen("call_private"))
    }

    @Test func anOutputOfTheClientsIsShownWhereTheModelUsesACallIDAgain() throws {
        let (world, client, sideband) = try makeCall()
        world.say("call lookup", client)
        sideband.send(output)
        world.run()
        world.say("call weather", client)
        client.send(output)
        world.run()
        #expect(client.hasSeen("function_call_output"))
    }

    @Test func aClientsOwnToolStaysWhenASidebandThatHasNotAddedItLeaves() throws {
        let (world, client, _) = try makeCall()
        let silent = try world.join(client, tools: "weather")
        silent.close()
        world.run()
        world.say("Hi", client)
        #expect(world.model.requests.last?.tools.map(\.name) == ["weather", "lookup"])
        world.say("call weather", client)
        #expect(client.events("response.function_call_arguments.done").count == 1)
        // One that has put its own in the client's place takes that with it.
        let taker = try world.join(client, tools: "weather")
        world.offer("weather", by: taker)
        taker.close()
        world.run()
        world.say("Hi", client)
        #expect(world.model.requests.last?.tools.map(\.name) == ["lookup"])
    }

    @Test(arguments: [false, true])
    func aCallThatTheConversationDoesNotHaveIsNoOrphan(isDeleted: Bool) {
        var calls = PrivateCalls()
        calls.add(["f"])
        var item = ConversationItem(
            id: "item_1", kind: .functionCall(callID: "call_1", name: "f", arguments: "{}"))
        item.status = .completed
        calls.note(.responseOutputItemAdded(responseID: "resp_1", outputIndex: 0, item))
        if isDeleted { calls.note(.conversationItemAdded(item, previousItemID: nil)) }
        calls.note(.responseOutputItemDone(responseID: "resp_1", outputIndex: 0, item))
        calls.note(
            .responseDone(
                ResponseDescription(
                    id: "resp_1", conversationID: nil, outputModality: .text, outputFormat: .pcm,
                    voice: "v")))
        #expect(calls.hasOrphans { _ in false } == isDeleted)
        if isDeleted { calls.note(.conversationItemDeleted(itemID: "item_1")) }
        #expect(!calls.hasOrphans { _ in false })
        #expect(calls.takeOrphans { _ in false } == [])
    }

    @Test func whatIsRememberedIsBounded() {
        var calls = PrivateCalls()
        calls.add(["f"])
        for number in 0..<1_000 {
            calls.note(
                .responseOutputItemAdded(
                    responseID: "resp_\(number)", outputIndex: 0,
                    ConversationItem(
                        id: "item_\(number)",
                        kind: .functionCall(callID: "call_\(number)", name: "f", arguments: ""))))
        }
        #expect(calls.isHidden("item_999", from: []) && !calls.isHidden("item_0", from: []))
        #expect(calls.heldBytes < 200 * PrivateCalls.maxItems)
    }
}
