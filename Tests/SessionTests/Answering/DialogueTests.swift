// A session that a dialogue answers: audio in, audio and words out, interrupted at a point that was heard.
// No part of a cascade is asked.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct DialogueTests {
    private static let story = [
        "Once upon a time there was", " a small house by a long river,", " and nobody knew",
        " who had built it there", " or why its door was open", " in every night of the year.",
    ]

    private func script(
        _ dialogue: ScriptedDialogue, apology: Phrase = .none, agent: SessionAgent? = nil,
        _ configure: (inout SessionParameters) -> Void = { _ in }
    ) -> ScriptedSession {
        let script = ScriptedSession(
            {
                $0.outputTransport = .binary
                configure(&$0)
            }, voiceActivity: .installed, apology: apology, agent: agent,
            answerer: .dialogue(dialogue))
        dialogue.script = script
        return script
    }

    private func ends(_ script: ScriptedSession) -> [String] {
        script.events.filter { $0["type"] as? String == "response.done" }.compactMap {
            ($0["response"] as? [String: Any])?["status"] as? String
        }
    }

    private func time(of text: String, in script: ScriptedSession) -> Int? {
        script.transcript.first { $0.contains(text) }.flatMap {
            Int($0.dropFirst().prefix { $0 != "m" })
        }
    }

    private func itemID(_ script: ScriptedSession, of role: String, _ place: Int = 0) -> String {
        let items = script.events.filter { $0["type"] as? String == "conversation.item.added" }
            .compactMap { $0["item"] as? [String: Any] }
            .filter { $0["role"] as? String == role }.compactMap { $0["id"] as? String }
        return items.indices.contains(place) ? items[place] : "none"
    }

    private func responseID(_ script: ScriptedSession, _ place: Int = 0) -> String {
        let ids = script.events.filter { $0["type"] as? String == "response.created" }
            .compactMap { ($0["response"] as? [String: Any])?["id"] as? String }
        return ids.indices.contains(place) ? ids[place] : "none"
    }

    /// Nothing of a cascade has been asked.
    private func expectNoCascade(_ script: ScriptedSession) {
        #expect(script.requests.isEmpty && script.spoken.isEmpty)
        #expect(script.samplesTranscribed.isEmpty && script.hypotheses.isEmpty)
        #expect(script.responsesStopped == 0 && script.faults.isEmpty)
    }

    @Test func itHearsATurnAndItsAnswerIsHeardWhole() throws {
        let dialogue = ScriptedDialogue(saying: [Self.story])
        let script = script(dialogue)
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 1_000)
        script.speak(packets, from: 0)
        script.run(until: 20_000)
        // It hears all of it, and is told which part was the turn.
        #expect(dialogue.samplesHeard == packets.count * 320)
        #expect(dialogue.heardEnd == packets.count * 320)
        let turn = try #require(dialogue.turns.first)
        #expect(turn.lowerBound < 16 * 600 && turn.count > 16 * 1_500)
        #expect(turn.upperBound <= packets.count * 320)
        #expect(dialogue.items == [responseID(script): [itemID(script, of: "assistant")]])
        #expect(
            dialogue.told == [
                "commit \(itemID(script, of: "user"))", "answer \(responseID(script))",
            ])
        #expect(ends(script) == ["completed"])
        let words = script.events.last { $0["transcript"] != nil }?["transcript"] as? String
        #expect(words == Self.story.joined())
        // All of its speech left in order, at most 500 ms ahead of its playing.
        let count = Self.story.joined().split(separator: " ").count
        let samples = script.audioPackets.flatMap(\.payload.samples)
        #expect(samples.count == 2_400 * count)
        #expect(samples.indices.allSatisfy { samples[$0] == Int16(($0 + 1) % 32_768) })
        let begun = try #require(script.audioTimes.first)
        for (packet, time) in zip(script.audioPackets, script.audioTimes) {
            #expect(packet.position / 24 <= time - begun + 500)
        }
        #expect(script.measured.contains(.firstAudio) && script.measured.contains(.firstToken))
        expectNoCascade(script)
    }

    @Test(arguments: [false, true])
    func speechInterruptsItAtWhatWasHeard(isStillWriting: Bool) throws {
        let story = isStillWriting ? (0..<8).flatMap { _ in Self.story } : Self.story
        let dialogue = ScriptedDialogue(saying: [story, ["Yes?"]])
        let script = script(dialogue)
        let first = try SpeechRecording.goForward.packets(silenceMilliseconds: 1_000)
        script.speak(first, from: 0)
        script.run(until: 20 * first.count)
        let start = 20 * first.count + 600
        script.speak(try SpeechRecording.goForward.packets(silenceMilliseconds: 1_000), from: start)
        script.run(until: start + 12_000)
        #expect(ends(script) == ["cancelled", "completed"])
        let reply = itemID(script, of: "assistant")
        let cut = try #require(
            script.events.first { $0["type"] as? String == "conversation.item.truncated" })
        let heard = try #require(cut["audio_end_ms"] as? Int)
        // The reply is held when speech is noticed, and was heard until then, not as far as it was sent.
        let begun = try #require(script.audioTimes.first)
        let noticed = try #require(time(of: "drops queued audio", in: script))
        #expect(cut["item_id"] as? String == reply && heard == noticed - begun)
        // It is told of the cut, and stopped where it was still speaking.
        let stop = isStillWriting ? ["stop \(responseID(script))"] : []
        #expect(
            dialogue.told == [
                "commit \(itemID(script, of: "user"))", "answer \(responseID(script))",
            ] + stop + [
                "truncate \(reply) \(heard)", "commit \(itemID(script, of: "user", 1))",
                "answer \(responseID(script, 1))",
            ])
        // What it says later of that response is not heard.
        let late = script.audioPackets.filter { $0.itemID == reply }
        let last = try #require(late.last)
        #expect((last.position + last.payload.count / 2) / 24 <= heard + 500 + 20)
        // The conversation keeps the words that were heard, at the language's pace.
        let kept = try #require(script.session.items.first { $0.id == reply })
        guard case .message(_, let content) = kept.kind,
            case .outputAudio(let words)? = content.first
        else {
            Issue.record("\(kept)")
            return
        }
        #expect(
            story.joined().hasPrefix(words) && !words.isEmpty && words.count < story.joined().count)
        expectNoCascade(script)
    }

    @Test func itIsToldOfItemsAndOfWhatTheClientHeard() throws {
        let dialogue = ScriptedDialogue(saying: [Self.story])
        let script = script(dialogue)
        let typed = ConversationItem(
            id: "item_typed", kind: .message(role: .user, content: [.inputText("Tell me.")]))
        script.send(.conversationItemCreate(item: typed, previousItemID: nil), at: 0)
        script.send(.responseCreate(ResponseParameters()), at: 10)
        script.run(until: 1_500)
        let reply = itemID(script, of: "assistant")
        script.send(
            .conversationItemTruncate(itemID: reply, contentIndex: 0, audioEndMilliseconds: 700),
            at: 1_600)
        script.send(.conversationItemDelete(itemID: "item_typed"), at: 20_000)
        script.run(until: 21_000)
        #expect(
            dialogue.told == [
                "insert item_typed", "answer \(responseID(script))", "truncate \(reply) 700",
                "delete item_typed",
            ])
        #expect(ends(script) == ["completed"] && script.violations == [])
        // Nothing was sent after the client had cut it.
        #expect(script.audioTimes.allSatisfy { $0 <= 1_600 })
        expectNoCascade(script)
    }

    @Test func itCallsTheClientsFunctionsAndAnswersInText() throws {
        let dialogue = ScriptedDialogue(saying: [["In words", " alone."]])
        dialogue.functionCall = ("weather", #"{"city":"Oslo"}"#)
        let script = script(dialogue) { $0.outputModality = .text }
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 1_000)
        let done = try #require(
            script.events.first {
                $0["type"] as? String == "response.function_call_arguments.done"
            })
        #expect(done["arguments"] as? String == #"{"city":"Oslo"}"#)
        dialogue.functionCall = nil
        let output = ConversationItem(
            id: "item_output", kind: .functionCallOutput(callID: "call_1", output: "sunny"))
        script.send(.conversationItemCreate(item: output, previousItemID: nil), at: 1_000)
        script.send(.responseCreate(ResponseParameters()), at: 1_010)
        script.run(until: 3_000)
        #expect(
            dialogue.told == [
                "answer \(responseID(script))", "insert item_output",
                "answer \(responseID(script, 1))",
            ])
        #expect(ends(script) == ["completed", "completed"])
        let text = script.events.last { $0["text"] != nil }?["text"] as? String
        #expect(text == "In words alone." && script.audioPackets.isEmpty)
        expectNoCascade(script)
    }

    @Test func whatItSaysAfterTheClientHasSilencedItIsNotSent() throws {
        let dialogue = ScriptedDialogue(saying: [Self.story])
        let script = script(dialogue)
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.send(.outputAudioBufferClear, at: 500)
        script.run(until: 20_000)
        #expect(script.audioTimes.allSatisfy { $0 <= 500 } && !script.audioTimes.isEmpty)
        #expect(ends(script) == ["completed"])
        expectNoCascade(script)
    }

    @Test func twoMessagesOfAResponseHaveTheirOwnWordsAndSound() throws {
        let dialogue = ScriptedDialogue(
            saying: [["One message.", ScriptedDialogue.messageEnd, "And another one."]])
        let script = script(dialogue)
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 10_000)
        let (first, second) = (itemID(script, of: "assistant"), itemID(script, of: "assistant", 1))
        #expect(dialogue.items[responseID(script)] == [first, second])
        func samples(_ item: String) -> Int {
            script.audioPackets.filter { $0.itemID == item }.reduce(0) { $0 + $1.payload.count / 2 }
        }
        #expect(samples(first) == 2 * 2_400 && samples(second) == 3 * 2_400)
        #expect(ends(script) == ["completed"])
    }

    @Test func aTranscriptOfItsOwnIsShownAndNoneIsAskedFor() throws {
        let dialogue = ScriptedDialogue(saying: [Self.story])
        dialogue.transcript = "Go forward ten meters."
        let script = script(dialogue) {
            $0.transcription = TranscriptionParameters(model: "scripted")
        }
        script.speak(try SpeechRecording.goForward.packets(silenceMilliseconds: 1_000), from: 0)
        script.run(until: 20_000)
        let completed = script.events.filter {
            $0["type"] as? String == "conversation.item.input_audio_transcription.completed"
        }
        #expect(completed.map { $0["transcript"] as? String } == ["Go forward ten meters."])
        #expect(completed.first?["item_id"] as? String == itemID(script, of: "user"))
        #expect(ends(script) == ["completed"] && script.session.isIdle)
        expectNoCascade(script)
    }

    @Test func whereItFailsTheServersVoiceApologises() throws {
        let dialogue = ScriptedDialogue(saying: [["Well, I think"]])
        dialogue.failure = .overloaded
        let apology = try #require(Phrase("Sorry, I cannot answer."))
        let script = script(dialogue, apology: apology)
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 10_000)
        #expect(script.spoken == ["Sorry, I cannot answer."])
        #expect(ends(script) == ["failed"])
        #expect(script.context.counters.apologies == 1)
        // The dialogue is told of the words that it did not say.
        #expect(
            dialogue.told == [
                "answer \(responseID(script))", "stop \(responseID(script))",
                "insert \(itemID(script, of: "assistant", 1))",
            ])
    }

    @Test func audioThatIsNoTurnIsCleared() throws {
        let dialogue = ScriptedDialogue()
        let script = script(dialogue) { $0.turnDetection = nil }
        script.speak(try SpeechRecording.goForward.packets(silenceMilliseconds: 0), from: 0)
        script.send(.inputAudioBufferClear, at: 5_000)
        script.run(until: 6_000)
        #expect(dialogue.told == ["clear"] && dialogue.turns.isEmpty)
        #expect(script.session.ledger.response == dialogue.heldBytes)
        expectNoCascade(script)
    }
}

extension [UInt8] {
    /// Its samples, as PCM of 16 bits.
    fileprivate var samples: [Int16] {
        stride(from: 0, to: count - 1, by: 2).map {
            Int16(bitPattern: UInt16(self[$0]) | UInt16(self[$0 + 1]) << 8)
        }
    }
}
