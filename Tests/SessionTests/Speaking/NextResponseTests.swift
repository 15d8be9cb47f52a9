// What a client does between the model's end and the end of the playing: it answers a call, or asks for
// another response. The reply before is sent to its end at once, and played to its end.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct NextResponseTests {
    /// 2.9 s of speech.
    private static let preamble = "One moment, I will look up the weather in Rome for you now"

    private func script(
        _ replies: [ScriptedReply], hears: Bool = false
    ) -> ScriptedSession {
        let script = ScriptedSession(voiceActivity: hears ? .installed : nil)
        script.replies = replies
        return script
    }

    private static func call(after text: String) -> ScriptedReply {
        ScriptedReply(pieces: [
            (.milliseconds(100), .text(text)),
            (.milliseconds(20), .functionCallStarted(callID: "call_1", name: "weather")),
            (.zero, .functionCallArguments("{}")),
        ])
    }

    private func time(_ type: String, _ number: Int = 0, in script: ScriptedSession) throws -> Int {
        let lines = script.lines("S→C \(type) ")
        let line = try #require(lines.count > number ? lines[number] : nil, "\(type) \(number)")
        return try #require(Int(line.dropFirst().prefix(while: \.isNumber)))
    }

    private func say(_ text: String, to script: ScriptedSession, at milliseconds: Int) {
        let item = ConversationItem(
            id: "", kind: .message(role: .user, content: [.inputText(text)]))
        script.send(.conversationItemCreate(item: item, previousItemID: nil), at: milliseconds)
        script.send(.responseCreate(ResponseParameters()), at: milliseconds, eventID: "mine")
    }

    private func errors(_ script: ScriptedSession) -> [String] {
        script.events.compactMap { ($0["error"] as? [String: Any])?["code"] as? String }
    }

    private func statuses(_ script: ScriptedSession) -> [String] {
        script.events.filter { $0["type"] as? String == "response.done" }.compactMap {
            ($0["response"] as? [String: Any])?["status"] as? String
        }
    }

    /// Milliseconds of audio of each response, and when the first of it was sent.
    private func audio(_ script: ScriptedSession) -> [(milliseconds: Int, first: Int)] {
        var responses: [(id: String, milliseconds: Int, first: Int)] = []
        for (event, line) in zip(script.events, script.transcript.filter { $0.contains("S→C") }) {
            guard event["type"] as? String == "response.output_audio.delta",
                let id = event["response_id"] as? String, let delta = event["delta"] as? String
            else { continue }
            if responses.last?.id != id {
                responses.append((id, 0, Int(line.dropFirst().prefix(while: \.isNumber)) ?? -1))
            }
            responses[responses.count - 1].milliseconds += delta.utf8.count * 3 / 4 / 48
        }
        return responses.map { ($0.milliseconds, $0.first) }
    }

    @Test func aReplyWithACallIsDoneWhenItIsMade() throws {
        let script = script([Self.call(after: Self.preamble), .text("It is sunny in Rome.")])
        script.send(.responseCreate(ResponseParameters()), at: 0)
        let output = ConversationItem.Kind.functionCallOutput(callID: "call_1", output: "sunny")
        script.send(
            .conversationItemCreate(
                item: ConversationItem(id: "", kind: output), previousItemID: nil), at: 500)
        script.send(.responseCreate(ResponseParameters()), at: 500)
        script.run(until: 10_000)
        let written = try time("response.function_call_arguments.done", in: script)
        let done = try time("response.done", in: script)
        #expect(done - written <= 50)
        #expect(errors(script) == [] && script.violations == [])
        #expect(statuses(script) == ["completed", "completed"])
        // The model is asked at once, and its words follow the others.
        #expect(
            script.requests.last?.messages.last
                == .functionOutput(callID: "call_1", output: "sunny"))
        let replies = audio(script)
        #expect(replies.map(\.milliseconds) == [2_900, 1_000])
        #expect(replies[1].first >= 130 + 2_900 - 500)
    }

    @Test(arguments: [700, 1_500, 2_500])
    func aTypedMessageDuringAReplyIsAnsweredAfterIt(at milliseconds: Int) throws {
        let script = script([.text(Self.preamble + "."), .text("It is sunny.")])
        script.send(.responseCreate(ResponseParameters()), at: 0)
        say("And in Oslo?", to: script, at: milliseconds)
        script.run(until: 10_000)
        #expect(errors(script) == [] && script.violations == [])
        #expect(statuses(script) == ["completed", "completed"])
        #expect(try time("response.done", in: script) <= milliseconds + 50)
        #expect(try time("response.created", 1, in: script) <= milliseconds + 50)
        #expect(script.requests.last?.messages.last == .user("And in Oslo?"))
        let replies = audio(script)
        #expect(replies[0].milliseconds == 2_950)
        #expect(replies[1].first >= 2_950 - 500)
    }

    @Test func aResponseIsActiveWhileItIsWrittenAndOnlyOneFollows() throws {
        let slow = ScriptedReply(pieces: [
            (.milliseconds(100), .text("One. ")), (.milliseconds(2_000), .text("Two.")),
        ])
        let script = script([slow])
        script.send(.responseCreate(ResponseParameters()), at: 0)
        say("Well?", to: script, at: 1_000)
        script.run(until: 10_000)
        #expect(errors(script) == ["conversation_already_has_active_response"])
        #expect(statuses(script) == ["completed"])
    }

    /// The user speaks over a reply that was sent ahead: neither it nor the one behind it goes on.
    @Test func speechOverBothInterruptsBoth() throws {
        let long = String(repeating: "A long answer follows here. ", count: 10)
        let script = script([.text(long), .text("And more.")], hears: true)
        script.transcripts = [.success("stop")]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        say("And then?", to: script, at: 3_000)
        script.speak(try SpeechRecording.goForward.packets(), from: 4_000)
        script.run(until: 30_000)
        #expect(statuses(script) == ["completed", "cancelled", "completed"])
        let cuts = script.events.filter { $0["type"] as? String == "conversation.item.truncated" }
        let ends = cuts.compactMap { $0["audio_end_ms"] as? Int }
        // Nothing of the second was heard; of the first what was played until the user spoke.
        #expect(ends.count == 2 && (4_000...4_600).contains(ends[0]) && ends[1] == 0)
        #expect(script.requests.last?.messages.last == .user("stop"))
        #expect(script.violations == [])
    }

    @Test func aClientThatCancelsGetsBothEnds() throws {
        let script = script([
            .text(String(repeating: "Wait a moment. ", count: 20)), .text("More."),
        ])
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 3_000)
        #expect(script.session.activeResponse?.isWritten == true)
        say("Well?", to: script, at: 3_000)
        script.send(.responseCancel(responseID: nil), at: 3_005)
        script.run(until: 30_000)
        #expect(statuses(script).count == 2 && statuses(script).contains("cancelled"))
        #expect(errors(script) == [] && script.violations == [])
        #expect(script.session.isIdle)
    }
}
