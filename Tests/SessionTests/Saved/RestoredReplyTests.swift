// Replies that one process begins and another finishes: no word is lost, and none is said twice but
// the one in progress. The ear hears numbered words, so it can tell.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct RestoredReplyTests {
    private static let words = 60
    private static let wholeReply = NumberedWords.text(words)

    /// A session whose model writes the numbered words.
    private func talk(
        _ reply: ScriptedReply = .text(RestoredReplyTests.wholeReply),
        _ configure: (inout SessionParameters) -> Void = { _ in }
    ) -> ScriptedSession {
        let script = ScriptedSession(
            {
                $0.outputTransport = .binary
                configure(&$0)
            }, voiceActivity: .installed, isResumable: true)
        script.replies = [reply]
        script.speech = NumberedWords.speech
        script.send(.responseCreate(ResponseParameters()), at: 0)
        return script
    }

    private func restore(
        _ saved: SavedSession, played: PlayedAudio?, announcesItems: Bool = true,
        reply: ScriptedReply? = nil, seed: UInt64 = 8
    ) throws -> ScriptedSession {
        let script = try ScriptedSession(restoring: saved, seed: seed)
        script.speech = NumberedWords.speech
        script.replies = reply.map { [$0] } ?? []
        script.startRestored(saved, played: played, announcesItems: announcesItems)
        return script
    }

    private func statuses(_ script: ScriptedSession) -> [String] {
        script.events.filter { $0["type"] as? String == "response.done" }.compactMap {
            ($0["response"] as? [String: Any])?["status"] as? String
        }
    }

    private func reasons(_ script: ScriptedSession) -> [String] {
        script.events.compactMap { event in
            let response = event["response"] as? [String: Any]
            return (response?["status_details"] as? [String: Any])?["reason"] as? String
        }
    }

    /// The words that a model would be shown now.
    private func context(_ script: ScriptedSession) -> String {
        script.session.conversation.modelMessages().map { message in
            if case .assistant(let text) = message { text } else { "?" }
        }.joined(separator: " ")
    }

    /// All words are heard in order. At a cut the client may hear the words again that were in
    /// progress: a clause is taken to begin with silence, so these are at most two.
    private func check(_ heard: [[Int]], _ note: String, mostTwice: Int = 2) {
        var next = 0
        for (index, words) in heard.enumerated() {
            guard let first = words.first else { continue }
            #expect(first <= next, "\(note): words \(next)..<\(first) are lost")
            #expect(
                index == 0 || first >= next - mostTwice, "\(note): \(first) again after \(next)")
            #expect(words == Array(first..<first + words.count), "\(note): \(words)")
            next = first + words.count
        }
        #expect(next == Self.words, "\(note): \(heard)")
    }

    @Test func aPlannedEndFinishesTheWordElsewhere() throws {
        for time in stride(from: 1_300, through: 19_000, by: 1_237) {
            let first = talk()
            first.run(until: time)
            #expect(first.session.canBeHandedOver)
            first.handOver()
            #expect(statuses(first) == ["incomplete"] && reasons(first) == ["handed_over"])
            var ear = Ear()
            ear.receive(first.audioPackets)
            let second = try restore(try first.save(), played: time % 2 == 0 ? ear.played : nil)
            second.run(until: 40_000)
            ear.receive(second.audioPackets)
            check(ear.words, "handed over at \(time)")
            #expect(second.requests.isEmpty && second.session.isIdle)
            #expect(statuses(second) == ["completed"])
            #expect(NumberedWords.numbers(in: context(second)) == Array(0..<Self.words))
        }
    }

    @Test func aPlannedEndWhileTheClientIsAwayKeepsWhatItHasNotHeard() throws {
        let first = talk()
        first.leave(at: 6_000)
        first.run(until: 9_000)
        first.handOver()
        #expect(statuses(first) == ["incomplete"] && !first.session.hasTurnInFlight)
        var ear = Ear()
        ear.receive(first.audioPackets)
        ear.lose(milliseconds: 2_000)
        let second = try restore(try first.save(), played: ear.played)
        second.run(until: 40_000)
        ear.receive(second.audioPackets)
        check(ear.words, "away")
    }

    @Test func nothingBeginsAfterAHandOver() throws {
        let script = talk()
        script.transcripts = [.success("more")]
        script.run(until: 2_000)
        script.handOver()
        script.run(until: 30_000)
        #expect(script.requests.count == 1)
        #expect(statuses(script).count == 1)
        let audio = script.audioTimes.last ?? 0
        #expect(audio <= 2_000)
    }

    @Test func aCrashIsRepairedFromTheLatestStateAndTheClientsWord() throws {
        for (time, lost) in [(2_200, 0), (3_000, 120), (5_111, 400), (9_000, 40), (18_000, 300)] {
            let first = talk()
            first.run(until: time - 700)
            let saved = try first.save()
            first.run(until: time)
            var ear = Ear()
            ear.receive(first.audioPackets)
            ear.lose(milliseconds: lost)
            let second = try restore(saved, played: ear.played)
            second.run(until: 40_000)
            ear.receive(second.audioPackets)
            check(ear.words, "lost \(lost) ms at \(time)")
            #expect(second.requests.isEmpty)
        }
    }

    @Test func withoutTheClientsWordTheEstimateCounts() throws {
        let first = talk()
        first.run(until: 5_000)
        let saved = try first.save()
        var ear = Ear()
        ear.receive(first.audioPackets)
        let second = try restore(saved, played: nil)
        second.run(until: 40_000)
        ear.receive(second.audioPackets)
        // The client had half a second more than it had played.
        check(ear.words, "estimate", mostTwice: 4)
    }

    @Test func aModelThatHadNotFinishedLeavesAnIncompleteReply() throws {
        var reply = ScriptedReply.text(NumberedWords.text(20))
        reply.pieces.append((.seconds(30), .text(" word20!")))
        let first = talk(reply)
        first.run(until: 3_000)
        #expect(!first.session.canBeHandedOver)
        var ear = Ear()
        ear.receive(first.audioPackets)
        let second = try restore(try first.save(), played: ear.played)
        second.run(until: 40_000)
        ear.receive(second.audioPackets)
        #expect(ear.words.flatMap { $0 }.last == 19)
        #expect(statuses(second) == ["incomplete"])
        #expect(reasons(second) == ["interrupted_by_restart"])
        #expect(second.requests.isEmpty)
    }

    @Test(arguments: [50, 110, 160])
    func aTurnOfWhichNothingWasHeardIsRunAgain(time: Int) throws {
        let first = talk()
        first.run(until: time)
        let before = first.requests.first?.messages
        let second = try restore(try first.save(), played: nil, reply: .text(Self.wholeReply))
        second.run(until: 40_000)
        #expect(second.requests.count == 1 && second.requests.first?.messages == before)
        var ear = Ear()
        ear.receive(second.audioPackets)
        check(ear.words, "again")
        #expect(statuses(second) == ["completed"])
        #expect(second.session.conversation.items.count == 1)
    }

    @Test func aWrittenReplyOfWhichNothingWasHeardIsSaidWithoutTheModel() throws {
        let first = talk()
        first.leave(at: 50)
        first.run(until: 5_000)
        let second = try restore(try first.save(), played: nil)
        second.run(until: 40_000)
        var ear = Ear()
        ear.receive(second.audioPackets)
        check(ear.words, "whole")
        #expect(second.requests.isEmpty && second.session.conversation.items.count == 1)
    }

    @Test func aSilencedReplyStaysSilent() throws {
        let first = talk()
        first.send(.outputAudioBufferClear, at: 2_000)
        first.run(until: 2_001)
        let second = try restore(try first.save(), played: nil)
        second.run(until: 40_000)
        #expect(second.audioPackets.isEmpty)
    }

    @Test func anInterruptedReplyIsNotGoneOnWith() throws {
        let first = talk()
        first.send(.responseCancel(responseID: nil), at: 3_000)
        first.run(until: 4_000)
        let saved = try first.save()
        #expect(saved.reply == nil)
        let item = try #require(saved.itemIDs.first)
        for played in [nil, PlayedAudio(itemID: item, milliseconds: 100)] {
            let second = try restore(saved, played: played)
            second.run(until: 40_000)
            #expect(second.audioPackets.isEmpty && second.requests.isEmpty)
        }
    }

    @Test func aFinishedReplyThatWasLostOnTheWayIsSaidAgain() throws {
        let first = talk(.text(NumberedWords.text(Self.words)))
        first.run(until: 40_000)
        #expect(statuses(first) == ["completed"] && first.session.isIdle)
        var ear = Ear()
        ear.receive(first.audioPackets)
        ear.lose(milliseconds: 3_000)
        let second = try restore(try first.save(), played: ear.played)
        second.run(until: 20_000)
        ear.receive(second.audioPackets)
        check(ear.words, "tail")
        #expect(statuses(second) == ["completed"])
    }

    @Test func theSameForAClientThatComesBackToTheSameProcess() throws {
        let script = talk()
        script.run(until: 40_000)
        var ear = Ear()
        ear.receive(script.audioPackets)
        ear.lose(milliseconds: 3_000)
        let packets = script.audioPackets.count
        script.leave(at: 40_001)
        script.comeBack(at: 41_000) { [ear] in ear.played }
        script.run(until: 80_000)
        ear.receive(script.audioPackets[packets...])
        check(ear.words, "tail")
        #expect(statuses(script) == ["completed", "completed"])
        #expect(NumberedWords.numbers(in: context(script)) == Array(0..<Self.words))
    }

    @Test func whereTheClientKeepsItsItemsItIsToldWhatHasChanged() throws {
        let first = talk()
        first.run(until: 5_000)
        let saved = try first.save()
        let item = try #require(saved.itemIDs.first)
        let second = try restore(
            saved, played: PlayedAudio(itemID: item, milliseconds: 3_000), announcesItems: false)
        let types = second.events.compactMap { $0["type"] as? String }
        #expect(types.first == "conversation.item.truncated")
        #expect(second.events.first?["audio_end_ms"] as? Int == 3_000)
        #expect(types.dropFirst().first == "conversation.item.done")
        // The response that the client has seen begin ends, before another one begins.
        let ended = try #require(second.events.dropFirst(2).first)
        let response = try #require(ended["response"] as? [String: Any])
        let begun = first.events.first { $0["type"] as? String == "response.created" }
        #expect(ended["type"] as? String == "response.done")
        #expect(
            response["id"] as? String == (begun?["response"] as? [String: Any])?["id"] as? String)
        #expect(response["status"] as? String == "incomplete")
        #expect((response["output"] as? [[String: Any]])?.map { $0["id"] as? String } == [item])
        #expect(reasons(second).first == "interrupted_by_restart")
        #expect(types.dropFirst(3).prefix(2) == ["rate_limits.updated", "response.created"])
    }

    @Test func theTokensOfAReplyThatWasCutAreReported() throws {
        var reply = ScriptedReply.text(Self.wholeReply)
        reply.pieces.append(
            (.zero, .usage(inputTokens: 70, cachedTokens: 30, outputTokens: 25)))
        let first = talk(reply)
        first.run(until: 5_000)
        let second = try restore(try first.save(), played: nil, announcesItems: false)
        let done = try #require(
            second.events.first { $0["type"] as? String == "response.done" })
        let usage = (done["response"] as? [String: Any])?["usage"] as? [String: Any]
        #expect(usage?["input_tokens"] as? Int == 70 && usage?["output_tokens"] as? Int == 25)
        let details = usage?["input_token_details"] as? [String: Any]
        #expect(details?["cached_tokens"] as? Int == 30)
    }

    @Test func sumsOfTokensThatARecordNamesDoNotOverflow() throws {
        let first = talk()
        first.run(until: 5_000)
        let fields = try first.save().fields().map { field in
            let text = String(decoding: field.value, as: UTF8.self)
                .replacing("put_tokens\":0", with: "put_tokens\":\(Int.max)")
            return (field.name, Array(text.utf8))
        }
        let saved = try SavedSession(fields: Dictionary(uniqueKeysWithValues: fields))
        let second = try restore(saved, played: nil, announcesItems: false)
        let done = second.events.first { $0["type"] as? String == "response.done" }
        let usage = (done?["response"] as? [String: Any])?["usage"] as? [String: Any]
        #expect(usage?["total_tokens"] as? Int == 2 << 40)
    }

    @Test func aResponseBesideTheConversationEndsWithItsProcess() throws {
        let first = talk()
        var aside = ResponseParameters()
        aside.isInConversation = false
        first.send(.responseCreate(aside), at: 100)
        first.run(until: 200)
        let saved = try first.save()
        #expect(saved.otherResponseIDs.count == 1)
        let second = try restore(saved, played: nil, announcesItems: false)
        let done = second.events.filter { $0["type"] as? String == "response.done" }
        let ids = done.compactMap { ($0["response"] as? [String: Any])?["id"] as? String }
        #expect(ids.prefix(2) == [try #require(saved.responseID), saved.otherResponseIDs[0]])
    }

    /// One process after another dies at a random moment, with a state up to a second old; some end
    /// as planned, and at times the client is away for a while before.
    @Test(arguments: 0..<60)
    func noWordIsLostOverManyProcesses(seed: Int) throws {
        var random = SeededGenerator(seed: UInt64(seed))
        var ear = Ear()
        var script = talk()
        // The model has finished: what it has not written, nobody knows.
        script.run(until: 1_500)
        var time = 1_500
        for generation in 0..<12 {
            let note = "seed \(seed), process \(generation)"
            time += Int(random.next() % 2_500)
            script.run(until: time)
            let isPlanned = random.next() % 3 == 0
            let isAway = random.next() % 4 == 0
            if isAway {
                script.leave(at: time)
                time += Int(random.next() % 3_000)
                script.run(until: time)
            }
            if isPlanned { script.handOver() }
            let saved = try script.save()
            if !isPlanned {
                time += Int(random.next() % 1_000)
                script.run(until: time)
            }
            ear.receive(script.audioPackets)
            if !isPlanned || isAway { ear.lose(milliseconds: Int(random.next() % 700)) }
            #expect(script.violations.isEmpty && script.faults.isEmpty, "\(note)")
            let announces = random.next() % 2 == 0
            script = try restore(
                saved, played: ear.tell(), announcesItems: announces,
                seed: UInt64(100 + generation))
            time = 0
        }
        script.run(until: 60_000)
        ear.receive(script.audioPackets)
        // Of the second before a crash the state knows no times of words.
        check(ear.words, "seed \(seed)", mostTwice: 4)
        #expect(script.session.isIdle && script.requests.isEmpty)
    }
}
