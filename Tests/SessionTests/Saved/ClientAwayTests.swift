// A client that loses its connection and comes back: the reply is held and goes on where the client
// stopped hearing it, speech ends by its silence, and all else goes on meanwhile.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct ClientAwayTests {
    /// Samples of the whole reply.
    private static let wholeReply = 1_200 * BargeIn.reply.count

    /// Milliseconds of an item's audio that a client has received.
    private func received(_ talk: BargeIn, _ packets: Int? = nil) -> Int {
        let packets = talk.script.audioPackets.prefix(packets ?? .max)
        guard let last = packets.last(where: { $0.itemID == talk.replyItem }) else { return 0 }
        return (last.position + last.payload.count / 2) / 24
    }

    /// Nothing is sent from one time to another.
    private func isSilent(_ talk: BargeIn, from start: Int, to end: Int) -> Bool {
        !talk.script.audioTimes.contains { $0 > start && $0 < end }
    }

    @Test func theReplyGoesOnFromWhatTheClientHas() {
        let talk = BargeIn(isResumable: true)
        talk.script.leave(at: 2_000)
        talk.script.comeBack(at: 4_000) {
            PlayedAudio(itemID: talk.replyItem, milliseconds: received(talk))
        }
        talk.script.run(until: 15_000)
        #expect(isSilent(talk, from: 2_000, to: 4_000))
        #expect(talk.rewinds.isEmpty)
        #expect(received(talk) * 24 == Self.wholeReply)
        #expect(talk.statuses == ["completed"])
        #expect(talk.script.context.counters.falseInterruptions == 0)
    }

    @Test func withoutItsWordTheReplyGoesOnFromTheEstimate() throws {
        let talk = BargeIn(isResumable: true)
        talk.script.leave(at: 2_000)
        talk.script.comeBack(at: 4_000)
        talk.script.run(until: 15_000)
        let begun = try #require(talk.script.audioTimes.first)
        let packet = try #require(talk.script.audioTimes.firstIndex(of: 4_000))
        #expect(talk.rewinds.map(\.packet) == [packet])
        #expect(talk.script.audioPackets[packet].position == (2_000 - begun) * 24)
        #expect(received(talk) * 24 == Self.wholeReply)
        #expect(talk.statuses == ["completed"])
    }

    @Test func audioThatIsSentAgainTellsItsPosition() throws {
        let talk = BargeIn(transport: .json, isResumable: true)
        talk.script.leave(at: 2_000)
        talk.script.comeBack(at: 2_000) {
            PlayedAudio(itemID: talk.replyItem, milliseconds: 1_500)
        }
        talk.script.run(until: 15_000)
        let starts = talk.events("response.output_audio.delta").compactMap {
            $0["audio_start_ms"] as? Int
        }
        #expect(starts.first == 1_500)
        #expect(talk.statuses == ["completed"])
    }

    @Test func audioThatIsNotKeptCountsAsHeard() throws {
        let sentence = "This is a sentence of one second, or so. "
        let reply = String(repeating: sentence, count: 10) + "End."
        let talk = BargeIn(isResumable: true, reply: [.text(reply)])
        talk.script.leave(at: 15_000)
        talk.script.comeBack(at: 16_000) { PlayedAudio(itemID: talk.replyItem, milliseconds: 0) }
        talk.script.run(until: 60_000)
        let packet = try #require(talk.script.audioTimes.firstIndex(of: 16_000))
        let again = talk.script.audioPackets[packet].position / 24
        #expect(again > 4_000 && again <= 6_000)
        #expect(received(talk) * 24 == 1_200 * reply.count)
        #expect(talk.statuses == ["completed"])
    }

    @Test(arguments: ["item_unknown", ""])
    func wordOfAnItemThatIsNotPlayedChangesNothing(itemID: String) {
        let talk = BargeIn(isResumable: true)
        talk.script.leave(at: 2_000)
        talk.script.comeBack(at: 2_500) { PlayedAudio(itemID: itemID, milliseconds: .max) }
        talk.script.run(until: 15_000)
        #expect(talk.rewinds.count == 1)
        #expect(received(talk) * 24 == Self.wholeReply)
    }

    @Test func aReplyThatBeginsMeanwhileIsHeardFromItsBeginning() throws {
        let talk = BargeIn(isResumable: true)
        talk.script.leave(at: 50)
        talk.script.comeBack(at: 10_000)
        talk.script.run(until: 9_999)
        #expect(talk.script.audioPackets.isEmpty)
        let text = talk.events("response.output_audio_transcript.delta").compactMap {
            $0["delta"] as? String
        }
        #expect(text.joined() == BargeIn.reply && talk.statuses.isEmpty)
        talk.script.run(until: 20_000)
        #expect(talk.script.audioTimes.first == 10_000)
        #expect(talk.script.audioPackets.first?.position == 0 && talk.rewinds.isEmpty)
        #expect(received(talk) * 24 == Self.wholeReply && talk.statuses == ["completed"])
    }

    @Test func speechIsMadeNoFurtherThanTheUsualQueue() {
        let sentence = "This sentence is one of very many that take long. "
        let talk = BargeIn(
            isResumable: true, reply: [.text(String(repeating: sentence, count: 60))])
        talk.script.leave(at: 1_000)
        talk.script.run(until: 60_000)
        let seconds = talk.script.spoken.reduce(0) { $0 + $1.count } / 20
        let most = talk.script.context.limits.maxQueuedSpeechSeconds
        #expect(seconds < most + 5 && talk.statuses.isEmpty)
        #expect(talk.script.session.nextDeadline(after: .milliseconds(60_000)) == nil)
    }

    @Test func speechEndsByItsSilenceAndIsAnswered() throws {
        let script = ScriptedSession(voiceActivity: .installed, isResumable: true)
        script.transcripts = [.success("go forward ten")]
        script.replies = [.text("I go.")]
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 0)
        // The recording is cut off in the middle of the speech.
        script.speak(Array(packets[..<75]), from: 0)
        script.leave(at: 1_490)
        script.run(until: 1_900)
        #expect(script.lines("input_audio_buffer.speech_started").count == 1)
        #expect(script.lines("input_audio_buffer.speech_stopped").isEmpty)
        script.comeBack(at: 8_000)
        script.run(until: 7_999)
        #expect(script.lines("input_audio_buffer.committed").count == 1)
        #expect(script.requests.map(\.messages) == [[.user("go forward ten")]])
        #expect(script.audioPackets.isEmpty)
        script.run(until: 20_000)
        #expect(script.events.contains { $0["type"] as? String == "response.done" })
        #expect(script.audioTimes.first == nil || script.audioTimes.first == 8_000)
        #expect(script.session.isIdle)
    }

    @Test func aShortBreakDoesNotSplitAnUtterance() throws {
        let script = ScriptedSession(voiceActivity: .installed, isResumable: true)
        script.transcripts = [.success("go forward ten meters")]
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 900)
        script.speak(Array(packets[..<75]), from: 0)
        script.leave(at: 1_490)
        script.comeBack(at: 1_800)
        script.speak(Array(packets[75...]), from: 1_800)
        script.run(until: 20_000)
        #expect(script.lines("input_audio_buffer.committed").count == 1)
        #expect(script.requests.map(\.messages) == [[.user("go forward ten meters")]])
    }

    @Test func withoutTurnDetectionTheAudioWaitsForTheClient() {
        let script = ScriptedSession({ $0.turnDetection = nil }, isResumable: true)
        script.transcripts = [.success("hello")]
        script.append([UInt8](repeating: 0, count: 48_000), at: 0)
        script.leave(at: 100)
        script.comeBack(at: 10_000)
        script.append([UInt8](repeating: 0, count: 48_000), at: 10_001)
        script.send(.inputAudioBufferCommit, at: 10_002)
        script.run(until: 20_000)
        #expect(script.samplesTranscribed == [32_000])
    }

    @Test func packetsAreNumberedAnew() {
        let script = ScriptedSession({ $0.turnDetection = nil }, isResumable: true)
        let silence = [UInt8](repeating: 0, count: 960)
        func send(from number: UInt16, at time: Int) {
            for index in 0..<10 {
                script.append(
                    silence, sequence: number + UInt16(index), at: time + 20 * index)
            }
        }
        send(from: 100, at: 0)
        script.leave(at: 300)
        script.comeBack(at: 400)
        send(from: 0, at: 500)
        script.run(until: 1_000)
        #expect(script.context.counters.packetsLate == 0)
        #expect(script.context.counters.samplesIn == 2 * 10 * 320)
    }

    @Test func aCoughBeforeTheBreakDoesNotSendAnything() throws {
        let talk = BargeIn(isResumable: true)
        talk.script.transcripts = [.success("")]
        try talk.speak(milliseconds: 260, at: 2_000, silence: 0)
        talk.script.leave(at: 2_300)
        talk.script.comeBack(at: 6_000)
        talk.script.run(until: 5_999)
        let held = try #require(talk.time(of: "drops queued audio"))
        #expect(held < 2_300 && talk.script.audioTimes.allSatisfy { $0 <= held })
        #expect(talk.types.contains("input_audio_buffer.speech_stopped"))
        talk.script.run(until: 20_000)
        #expect(talk.rewinds.count == 1 && talk.rewinds.first?.by ?? 0 > 0)
        #expect(received(talk) * 24 == Self.wholeReply && talk.statuses == ["completed"])
    }

    @Test func wordsThatAreKnownMeanwhileInterruptTheReply() throws {
        let talk = BargeIn(isResumable: true) { $0.turnDetection?.interruption = .words }
        talk.script.replies.append(.text("The answer."))
        talk.script.transcripts = [.success("wait a moment please")]
        talk.script.recognitionDelay = .milliseconds(1_000)
        try talk.speak(milliseconds: 1_000, at: 2_000, silence: 0)
        talk.script.leave(at: 3_000)
        talk.script.comeBack(at: 8_000)
        talk.script.run(until: 7_999)
        #expect(talk.statuses == ["cancelled"])
        #expect(talk.events("conversation.item.truncated").count == 1)
        #expect(talk.script.audioTimes.allSatisfy { $0 <= 3_000 })
        #expect(talk.script.requests.count == 2)
        talk.script.run(until: 20_000)
        let after = zip(talk.script.audioTimes, talk.script.audioPackets).filter { $0.0 >= 8_000 }
        #expect(after.first?.0 == 8_000 && after.first?.1.position == 0)
        #expect(after.allSatisfy { $0.1.itemID != talk.replyItem })
        #expect(talk.statuses == ["cancelled", "completed"])
    }

    @Test func speechThatIsStillWeighedHoldsTheReplyOn() throws {
        let talk = BargeIn(isResumable: true)
        talk.script.transcripts = [.success("")]
        try talk.speak(milliseconds: 260, at: 2_000)
        talk.script.leave(at: 2_200)
        talk.script.comeBack(at: 2_200)
        talk.script.run(until: 2_210)
        #expect(talk.script.session.playback?.timeline?.isHeldBySpeech == true)
        talk.script.run(until: 20_000)
        #expect(received(talk) * 24 == Self.wholeReply && talk.statuses == ["completed"])
    }

    @Test func aReplyInTextIsCompleteMeanwhile() {
        let talk = BargeIn(isResumable: true) { $0.outputModality = .text }
        talk.script.leave(at: 150)
        talk.script.comeBack(at: 5_000)
        talk.script.run(until: 4_999)
        #expect(talk.statuses == ["completed"])
        talk.script.run(until: 6_000)
        #expect(talk.events("conversation.item.truncated").isEmpty)
    }

    @Test func aFailingModelEndsItOnceMeanwhile() throws {
        var reply = ScriptedReply.text(BargeIn.reply)
        reply.pieces.append((.milliseconds(500), .text(" More.")))
        reply.end = .some(.overloaded)
        let talk = BargeIn(isResumable: true, reply: [reply])
        talk.script.leave(at: 700)
        talk.script.comeBack(at: 5_000)
        talk.script.run(until: 20_000)
        #expect(talk.statuses == ["failed"])
        let begun = try #require(talk.script.audioTimes.first)
        let cuts = talk.events("conversation.item.truncated").map { $0["audio_end_ms"] as? Int }
        #expect(cuts == [700 - begun])
        #expect(talk.script.session.isIdle)
    }

    @Test func aClientThatIsAwayIsNotPrompted() throws {
        let talk = BargeIn(isResumable: true) {
            $0.turnDetection?.idleTimeoutMilliseconds = 5_000
        }
        talk.script.leave(at: 7_000)
        talk.script.comeBack(at: 60_000)
        talk.script.run(until: 64_999)
        #expect(!talk.types.contains("input_audio_buffer.timeout_triggered"))
        talk.script.run(until: 65_001)
        #expect(talk.types.contains("input_audio_buffer.timeout_triggered"))
    }

    @Test func aResponseOutsideOfTheConversationGoesOnToo() throws {
        var parameters = ResponseParameters()
        parameters.isInConversation = false
        let script = ScriptedSession({ $0.outputTransport = .binary }, isResumable: true)
        script.replies = [.text(BargeIn.reply)]
        script.send(.responseCreate(parameters), at: 0)
        script.leave(at: 2_000)
        script.comeBack(at: 4_000) {
            script.audioPackets.last.map {
                PlayedAudio(
                    itemID: $0.itemID, milliseconds: ($0.position + $0.payload.count / 2) / 24)
            }
        }
        script.run(until: 15_000)
        var expected = 0
        for packet in script.audioPackets {
            #expect(packet.position == expected)
            expected = packet.position + packet.payload.count / 2
        }
        #expect(expected == Self.wholeReply)
        #expect(!script.audioTimes.contains { $0 > 2_000 && $0 < 4_000 })
    }

    @Test func goingAndComingTwiceChangesNothing() {
        let script = ScriptedSession(isResumable: true)
        script.comeBack(at: 0)
        script.leave(at: 1)
        script.leave(at: 2)
        script.run(until: 3)
        #expect(script.session.isClientAway && script.session.isIdle)
        script.comeBack(at: 4)
        script.comeBack(at: 5)
        script.run(until: 6)
        #expect(!script.session.isClientAway && script.faults.isEmpty)
    }

    /// Connections break at random, each with the loss of some audio that was sent last.
    @Test(arguments: 0..<40)
    func nothingIsLostAndNothingIsHeardTwice(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        let talk = BargeIn(isResumable: true)
        /// What the client has, in samples of the reply.
        var has = 0
        var seen = 0
        func receive(losing lost: Int) {
            let packets = talk.script.audioPackets
            for packet in packets[seen..<max(seen, packets.count - lost)] {
                #expect(packet.position <= has, "seed \(seed): a gap")
                #expect(packet.position == has, "seed \(seed): twice")
                has = packet.position + packet.payload.count / 2
            }
            seen = packets.count
        }
        var time = 0
        while time < 20_000, !talk.types.contains("response.output_audio.done") {
            time += Int(random.next() % 900)
            talk.script.run(until: time)
            guard !talk.types.contains("response.output_audio.done") else { break }
            receive(losing: Int(random.next() % 5))
            talk.script.leave(at: time)
            time += random.next() % 3 == 0 ? 0 : Int(random.next() % 3_000)
            talk.script.comeBack(at: time) {
                PlayedAudio(itemID: talk.replyItem, milliseconds: has / 24)
            }
            talk.script.run(until: time)
        }
        talk.script.run(until: 60_000)
        receive(losing: 0)
        #expect(has == Self.wholeReply)
        #expect(talk.statuses == ["completed"] && talk.script.violations.isEmpty)
    }
}
