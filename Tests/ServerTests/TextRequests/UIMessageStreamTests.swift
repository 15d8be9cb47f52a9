// `POST /api/chat` and its resumption through a real shard on a simulated kernel: the order of the
// parts, the messages that the model gets of a chat, and resumed replies.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct UIMessageStreamTests {
    private func ask(_ id: String = "chat", _ extra: String = "") -> String {
        TextWorld.post(
            "/api/chat",
            #"{"id":"\#(id)","trigger":"submit-message","messages":[{"id":"m1","role":"user","#
                + #""parts":[{"type":"text","text":"hi"}]}]\#(extra)}"#)
    }

    private func resume(_ id: String = "chat") -> String {
        "GET /api/chat/\(id)/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
    }

    /// Replies with a word per second.
    private static let slow = { @Sendable () -> ClosureModel in
        ClosureModel { _, host, reply in
            for number in 1...10 {
                try await reply(.text("\(number) "))
                try await host.sleep(for: .seconds(1))
            }
        }
    }

    private func said(_ answer: StreamedAnswer) -> String {
        answer.values(of: "delta").joined()
    }

    @Test func aReplyIsPartsInOrder() throws {
        let world = try TextWorld(
            ClosureModel { _, _, reply in
                try await reply(.text("Wait"))
                try await reply(.functionCallStarted(callID: "c1", name: "f"))
                try await reply(.functionCallArguments(#"{"a":1}"#))
                try await reply(.text("Done"))
            })
        let peer = world.send(ask())
        let answer = StreamedAnswer(peer.receive())
        #expect(answer.status == 200 && answer.isComplete)
        #expect(answer.head.contains("x-vercel-ai-ui-message-stream: v1"))
        #expect(answer.head.contains("Content-Type: text/event-stream"))
        #expect(
            answer.values(of: "type") == [
                "start", "start-step", "text-start", "text-delta", "text-end", "tool-input-start",
                "tool-input-delta", "tool-input-available", "text-start", "text-delta", "text-end",
                "finish-step", "finish",
            ])
        #expect(answer.events.last == "[DONE]")
        #expect(
            answer.events[7]
                == #"{"type":"tool-input-available","toolCallId":"c1","toolName":"f","#
                + #""input":{"a":1}}"#)
        #expect(answer.events[12] == #"{"type":"finish","finishReason":"tool-calls"}"#)
        #expect(Set(answer.values(of: "id")).count == 2, "each text has an id of its own")
    }

    @Test func argumentsThatAreNoObjectFailTheReply() throws {
        let world = try TextWorld(
            ClosureModel { _, _, reply in
                try await reply(.functionCallStarted(callID: "c1", name: "f"))
                try await reply(.functionCallArguments(#"{"a":"#))
            })
        let answer = StreamedAnswer(world.send(ask()).receive())
        #expect(
            answer.values(of: "type")
                == ["start", "start-step", "tool-input-start", "tool-input-delta", "error"])
    }

    @Test func aModelThatFailsIsAnErrorPart() throws {
        let world = try TextWorld(ClosureModel { _, _, _ in throw AgentError.overloaded })
        let answer = StreamedAnswer(world.send(ask()).receive())
        #expect(answer.status == 200 && answer.isComplete)
        #expect(answer.values(of: "type") == ["start", "start-step", "error"])
    }

    @Test func theModelGetsTheChat() throws {
        let model = ClosureModel(words: ["ok"])
        let world = try TextWorld(model)
        let messages =
            #"[{"id":"s","role":"system","parts":[{"type":"text","text":"Be brief."}]},"#
            + #"{"id":"u","role":"user","parts":[{"type":"text","text":"2+2?"},"#
            + #"{"type":"data-x","data":{}}]},"#
            + #"{"id":"a","role":"assistant","parts":[{"type":"step-start"},"#
            + #"{"type":"reasoning","text":"hm"},{"type":"text","text":"Let me see."},"#
            + #"{"type":"tool-add","toolCallId":"c1","state":"output-available","#
            + #""input":{"a":2},"output":{"sum":4}},"#
            + #"{"type":"dynamic-tool","toolName":"say","toolCallId":"c2","state":"output-error","#
            + #""input":{},"errorText":"no voice"},"#
            + #"{"type":"tool-add","toolCallId":"c3","state":"input-streaming","input":{}}]}]"#
        let body =
            #"{"id":"chat","messages":\#(messages),"system":"Be kind.","#
            + #""tools":{"add":{"description":"d","parameters":{"type":"object"}}}}"#
        let answer = StreamedAnswer(world.send(TextWorld.post("/api/chat", body)).receive())
        let asked = try #require(model.requests.first)
        #expect(
            asked.messages == [
                .system("Be brief."), .user("2+2?"), .assistant("Let me see."),
                .functionCall(callID: "c1", name: "add", arguments: #"{"a":2}"#),
                .functionCall(callID: "c2", name: "say", arguments: "{}"),
                .functionOutput(callID: "c1", output: #"{"sum":4}"#),
                .functionOutput(callID: "c2", output: "no voice"),
            ])
        #expect(asked.instructions == "Be kind." && asked.tools.map(\.name) == ["add"])
        #expect(answer.values(of: "messageId") == ["a"], "the reply goes on in the same message")
    }

    @Test func aMessageThatIsWrittenAnewIsLeftOut() throws {
        let model = ClosureModel(words: ["ok"])
        let world = try TextWorld(model)
        let body =
            #"{"id":"chat","trigger":"regenerate-message","messageId":"a","messages":["#
            + #"{"id":"u","role":"user","parts":[{"type":"text","text":"hi"}]},"#
            + #"{"id":"a","role":"assistant","parts":[{"type":"text","text":"no"}]}]}"#
        let answer = StreamedAnswer(world.send(TextWorld.post("/api/chat", body)).receive())
        #expect(model.requests.first?.messages == [.user("hi")])
        #expect(answer.values(of: "messageId").first?.hasPrefix("msg_") == true)
    }

    // MARK: Resumption

    @Test func aReplyGoesOnWithoutItsClientAndIsReplayed() throws {
        let world = try TextWorld(Self.slow())
        let first = world.send(ask())
        #expect(world.server.run(for: .milliseconds(3_500)))
        let before = StreamedAnswer(first.receive())
        #expect(said(before) == "1 2 3 4 ")
        first.reset()
        #expect(world.server.run(for: .seconds(2)))
        #expect(world.openRequests == 1 && world.model.cancelled == 0)
        let second = world.send(resume())
        let replay = StreamedAnswer(second.receive())
        #expect(said(replay) == "1 2 3 4 5 6 " && !replay.isComplete)
        #expect(replay.values(of: "messageId") == before.values(of: "messageId"))
        second.send("")
        #expect(world.server.run(for: .seconds(10)))
        let rest = String(decoding: second.receive(), as: UTF8.self)
        #expect(rest.contains(#""delta":"10 ""#) && rest.contains("data: [DONE]"))
        #expect(world.server.metrics.total(of: .textRepliesResumed) == 1)
        let third = world.send(resume())
        let (answers, _) = try parseResponses(third.receive(), answering: [.get])
        #expect(answers.map(\.status) == [204], "a delivered part is not sent twice")
        second.reset()
        third.reset()
        world.expectNothingLeft()
    }

    @Test func twoMayReadTheSameReply() throws {
        let world = try TextWorld(Self.slow())
        let first = world.send(ask())
        #expect(world.server.run(for: .milliseconds(2_500)))
        let second = world.send(resume())
        #expect(world.server.run(for: .seconds(10)))
        #expect(said(StreamedAnswer(first.receive())) == "1 2 3 4 5 6 7 8 9 10 ")
        #expect(said(StreamedAnswer(second.receive())) == "1 2 3 4 5 6 7 8 9 10 ")
        first.reset()
        second.reset()
        world.expectNothingLeft()
    }

    @Test func aReplyThatIsNotResumedExpires() throws {
        let model = ClosureModel { _, host, reply in
            try await reply(.text("One"))
            try await host.sleep(for: .seconds(1_000))
        }
        let world = try TextWorld(model)
        let peer = world.send(ask())
        peer.reset()
        #expect(world.server.run(for: .seconds(29)))
        #expect(world.openRequests == 1 && model.cancelled == 0)
        #expect(world.server.run(for: .seconds(2)))
        #expect(world.openRequests == 0 && model.cancelled == 1)
        world.expectNothingLeft()
    }

    @Test func aReplyThatEndedUnreadIsKeptForAWhile() throws {
        let world = try TextWorld(Self.slow())
        world.send(ask()).reset()
        #expect(world.server.run(for: .seconds(15)))
        #expect(world.openRequests == 0)
        let answer = StreamedAnswer(world.send(resume()).receive())
        #expect(said(answer) == "1 2 3 4 5 6 7 8 9 10 " && answer.isComplete)
        let late = try TextWorld(Self.slow())
        late.send(ask()).reset()
        #expect(late.server.run(for: .seconds(50)))
        let (answers, _) = try parseResponses(
            late.send(resume()).receive(), answering: [.get])
        #expect(answers.map(\.status) == [204])
    }

    private func stop(_ id: String = "chat", _ fields: String = "") -> String {
        "DELETE /api/chat/\(id)/stream HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n"
    }

    @Test func aStoppedReplyEndsItsModelAndIsResumedAsFarAsItCame() throws {
        let world = try TextWorld(Self.slow())
        world.send(ask()).reset()
        #expect(world.server.run(for: .milliseconds(2_500)))
        let page = world.send(stop("chat", "Origin: http://localhost\r\n"))
        let (answers, _) = try parseResponses(page.receive(), answering: [.delete])
        #expect(answers.map(\.status) == [204], "without a body, a page needs no type")
        #expect(world.openRequests == 0 && world.model.cancelled == 1)
        let answer = StreamedAnswer(world.send(resume()).receive())
        #expect(said(answer) == "1 2 3 " && answer.isComplete)
        #expect(answer.values(of: "type").last == "abort" && answer.events.last == "[DONE]")
        // Once it was delivered, as any other reply.
        for request in [resume(), stop(), stop("none")] {
            let method: HTTPMethod = request.hasPrefix("GET") ? .get : .delete
            let (late, _) = try parseResponses(
                world.send(request).receive(), answering: [method])
            #expect(late.map(\.status) == [204])
        }
    }

    @Test func aReaderOfAStoppedReplySeesItsEnd() throws {
        let world = try TextWorld(Self.slow())
        let reader = world.send(ask())
        #expect(world.server.run(for: .milliseconds(1_500)))
        let stopper = world.send(stop())
        let answer = StreamedAnswer(reader.receive())
        #expect(said(answer) == "1 2 " && answer.isComplete && world.model.cancelled == 1)
        reader.reset()
        stopper.reset()
        world.expectNothingLeft()
    }

    @Test func theNewestReplyOfAChatIsTheOneToResume() throws {
        let world = try TextWorld(Self.slow())
        let first = world.send(ask())
        #expect(world.server.run(for: .milliseconds(1_500)))
        let second = world.send(ask())
        first.reset()
        #expect(world.server.run(for: .milliseconds(10)))
        #expect(world.openRequests == 1, "no client can find the older one")
        second.reset()
        #expect(world.server.run(for: .milliseconds(10)))
        #expect(world.openRequests == 1)
        world.expectNothingLeft()
    }

    @Test func repliesToResumeAreBounded() throws {
        let world = try TextWorld(Self.slow()) { $0.textRequests.maxResumableReplies = 2 }
        let peers = ["a", "b", "c"].map { world.send(ask($0)) }
        for peer in peers { peer.reset() }
        #expect(world.server.run(for: .milliseconds(10)))
        #expect(world.openRequests == 2 && world.model.cancelled == 1, "the third has no place")
        world.expectNothingLeft()
        let off = try TextWorld(Self.slow()) { $0.textRequests.resumeTimeout = .zero }
        off.send(ask()).reset()
        #expect(off.server.run(for: .milliseconds(10)))
        #expect(off.openRequests == 0)
    }

    @Test func aReplyIsReadOnAnotherShardsConnection() {
        let reviews = CallCounter()
        let log = ReplyLog(messageID: "m") { reviews.increase() }
        let here = ReplyReader(shard: 0, token: EventToken(.connection, index: 1, generation: 1))
        let there = ReplyReader(shard: 1, token: here.token)
        let wakes = CallCounter()
        log.addReader(here, needsAll: false) { _ in wakes.increase() }
        log.addReader(there, needsAll: false) { _ in wakes.increase() }
        #expect(log.read(as: here, atMost: 100).isEmpty)
        #expect(log.read(as: there, atMost: 100).isEmpty)
        for waiter in log.append(.text(message: 0, "one")) { waiter.wake(waiter.reader.token) }
        #expect(wakes.count == 2)
        #expect(
            log.append(.text(message: 0, " two")).isEmpty, "a reader that was woken does not wait")
        #expect(log.read(as: here, atMost: 100) == [.text(message: 0, "one two")])
        #expect(log.status.unreadBytes == 0, "the fastest has read all")
        _ = log.append(.text(message: 0, " three"))
        #expect(log.read(as: here, atMost: 100) == [.text(message: 0, " three")])
        #expect(log.read(as: there, atMost: 100) == [.text(message: 0, "one two three")])
        log.setModelPaused(true)
        _ = log.append(.finished(.stop, ResponseUsage()))
        _ = log.append(.text(message: 0, "late"))
        #expect(log.read(as: there, atMost: 100) == [.finished(.stop, ResponseUsage())])
        #expect(reviews.count == 1, "the owner waits for readers")
        #expect(log.read(as: there, atMost: 100).isEmpty)
        log.removeReader(there)
        log.removeReader(there)
        #expect(reviews.count == 2 && log.status.readers == 1)
    }
}
