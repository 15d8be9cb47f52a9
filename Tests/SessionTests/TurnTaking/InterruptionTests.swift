// Speech over a reply: when it interrupts, and when the reply is resumed. HeldReplyTests has what
// clients may do meanwhile, PlayoutTruthTests how much of a reply is kept.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct InterruptionTests {
    @Test func aCoughHoldsTheReplyWhichGoesOnFromWhatWasHeard() throws {
        let talk = BargeIn()
        talk.script.transcripts = [.success("")]
        try talk.speak(milliseconds: 260, at: 2_000)
        talk.script.run(until: 15_000)
        let packets = talk.script.audioPackets
        let held = try #require(talk.time(of: "drops queued audio"))
        let begun = try #require(talk.script.audioTimes.first)
        #expect(talk.rewinds.count == 1)
        let rewind = try #require(talk.rewinds.first)
        // Nothing left while it was held.
        #expect(talk.script.audioTimes[rewind.packet - 1] <= held)
        let stopped = try #require(talk.time(of: "speech_stopped"))
        #expect(talk.script.audioTimes[rewind.packet] == stopped)
        // It goes on with the very sample that was due when the sound began.
        #expect(packets[rewind.packet].position == (held - begun) * 24)
        // Every byte is where it belongs, and the last one came.
        for packet in packets {
            for sample in 0..<(packet.payload.count / 2) {
                let value =
                    Int(packet.payload[2 * sample]) | Int(packet.payload[2 * sample + 1]) << 8
                try #require(value == (packet.position + sample + 1) % 32_768)
            }
        }
        let last = try #require(packets.last)
        #expect(last.position + last.payload.count / 2 == 1_200 * BargeIn.reply.count)
        #expect(talk.statuses == ["completed"])
        #expect(talk.types.count { $0 == "input_audio_buffer.speech_started" } == 1)
        #expect(talk.types.count { $0 == "input_audio_buffer.speech_stopped" } == 1)
        #expect(!talk.types.contains("conversation.item.truncated"))
        #expect(talk.script.requests.count == 1)
        #expect(
            talk.script.session.isIdle && talk.script.session.playback?.timeline?.isHeld != true)
        #expect(talk.script.context.counters.falseInterruptions == 1)
        #expect(talk.script.violations == [])
    }

    @Test(arguments: [AudioFormat.pcmu, .pcma, .opus])
    func otherFormatsGoOnToo(format: AudioFormat) throws {
        let talk = BargeIn(format: format)
        talk.script.transcripts = [.success("")]
        try talk.speak(milliseconds: 260, at: 2_000)
        talk.script.run(until: 15_000)
        let packets = talk.script.audioPackets
        let held = try #require(talk.time(of: "drops queued audio"))
        let begun = try #require(talk.script.audioTimes.first)
        let heard = (held - begun) * format.sampleRate.hertz / 1_000
        let index = try #require(
            packets.indices.dropFirst().first { packets[$0].position <= packets[$0 - 1].position })
        let position = packets[index].position
        #expect(position <= heard && heard - position < (format == .opus ? 960 : 2))
        #expect(talk.statuses == ["completed"])
    }

    @Test func longSpeechInterruptsAndTheItemIsCutAtWhatWasHeard() throws {
        let talk = BargeIn(transport: .json)
        talk.script.transcripts = [.success("go forward ten meters")]
        try talk.speak(milliseconds: 1_700, at: 2_000)
        talk.script.run(until: 15_000)
        try expectGolden(talk.script, "interruption")
        #expect(talk.statuses == ["cancelled", "completed"])
        #expect(talk.events("conversation.item.truncated").count == 1)
        let said = talk.script.requests.last?.messages
        // 2 s of 50 ms a letter, less what a clause begins with: some 36 letters.
        #expect(
            said == [
                .assistant("The first sentence of this reply"), .user("go forward ten meters"),
            ])
        #expect(talk.script.context.counters.interruptions == 1)
        #expect(talk.script.violations == [])
    }

    @Test func nothingOfTheReplyIsSentWhileSomebodySpeaks() throws {
        let talk = BargeIn()
        talk.script.transcripts = [.success("go forward ten meters")]
        try talk.speak(milliseconds: 1_700, at: 2_000)
        talk.script.run(until: 3_500)
        let started = try #require(talk.time(of: "speech_started"))
        #expect(try #require(talk.script.audioTimes.last) <= started)
    }

    @Test func withZeroTheReplyEndsAtTheOnset() throws {
        let talk = BargeIn { $0.turnDetection?.minInterruptionMilliseconds = 0 }
        talk.script.transcripts = [.success("")]
        try talk.speak(milliseconds: 260, at: 2_000)
        talk.script.run(until: 15_000)
        #expect(talk.statuses == ["cancelled"])
        #expect(talk.time(of: "speech_started") == talk.time(of: "response.done"))
        #expect(talk.events("conversation.item.truncated").count == 1)
    }

    @Test func aShortWordInterruptsOnceItIsUnderstood() throws {
        let talk = BargeIn()
        talk.script.transcripts = [.success("Stop.")]
        try talk.speak(milliseconds: 260, at: 2_000)
        talk.script.run(until: 3_500)
        // It goes on at the end of the sound, and stops when the word is there.
        #expect(talk.rewinds.count == 1)
        #expect(talk.statuses.first == "cancelled")
        talk.script.run(until: 15_000)
        #expect(talk.script.requests.count == 2)
        #expect(talk.script.requests.last?.messages.last == .user("Stop."))
    }

    @Test func assentIsNotAnswered() throws {
        let talk = BargeIn()
        talk.script.transcripts = [.success("Mm-hmm.")]
        try talk.speak(milliseconds: 260, at: 2_000)
        talk.script.run(until: 15_000)
        #expect(talk.statuses == ["completed"])
        #expect(talk.script.requests.count == 1)
        #expect(talk.rewinds.count == 1)
    }

    @Test func theReplysOwnEchoIsNotAnsweredNorShownToTheModel() throws {
        let talk = BargeIn { $0.turnDetection?.interruption = .words }
        talk.script.transcripts = [.success("of this reply is quite")]
        try talk.speak(milliseconds: 1_300, at: 2_000)
        talk.script.send(.responseCreate(ResponseParameters()), at: 14_000)
        talk.script.run(until: 20_000)
        #expect(talk.statuses == ["completed", "completed"])
        #expect(talk.script.requests.last?.messages == [.assistant(BargeIn.reply)])
        #expect(talk.types.contains("conversation.item.deleted"))
    }

    @Test func whereWordsAreAskedNoiseOfAnyLengthHoldsAndThenGoesOn() throws {
        let talk = BargeIn(makesHypotheses: true) {
            $0.turnDetection?.interruption = .words
        }
        talk.script.hypothesis = { _ in "" }
        talk.script.transcripts = [.success("")]
        try talk.speak(milliseconds: 1_700, at: 2_000)
        talk.script.run(until: 20_000)
        #expect(talk.statuses == ["completed"])
        #expect(talk.rewinds.count == 1)
    }

    @Test func whereWordsAreAskedTheyInterruptWhileTheyAreSpoken() throws {
        let talk = BargeIn(makesHypotheses: true) {
            $0.transcription = nil
            $0.turnDetection?.interruption = .words
        }
        talk.script.hypothesis = { $0 < 600 ? "okay" : "okay but go forward" }
        talk.script.transcripts = [.success("okay but go forward ten meters")]
        try talk.speak(milliseconds: 1_700, at: 2_000)
        talk.script.run(until: 20_000)
        #expect(talk.statuses == ["cancelled", "completed"])
        #expect(talk.script.hypotheses.first?.use == .interruption, "a busy server sheds it last")
        let done = try #require(talk.time(of: "response.done"))
        let stopped = try #require(talk.time(of: "speech_stopped"))
        #expect(done < stopped)
        let end = talk.events("conversation.item.truncated").first?["audio_end_ms"] as? Int
        let held = try #require(talk.time(of: "drops queued audio"))
        #expect(end == held - (talk.script.audioTimes.first ?? 0))
    }

    @Test func withoutInterruptResponseNothingIsHeld() throws {
        let talk = BargeIn { $0.turnDetection?.interruptResponse = false }
        talk.script.transcripts = [.success("go forward")]
        try talk.speak(milliseconds: 1_700, at: 2_000)
        talk.script.run(until: 20_000)
        #expect(talk.rewinds.isEmpty)
        #expect(talk.statuses == ["completed", "completed"])
    }

    @Test func aFailedTranscriptionLetsTheReplyGoOn() throws {
        let talk = BargeIn { $0.turnDetection?.interruption = .words }
        talk.script.transcripts = [.failure(.overloaded)]
        try talk.speak(milliseconds: 1_700, at: 2_000)
        talk.script.run(until: 20_000)
        #expect(talk.statuses == ["completed"])
        #expect(talk.rewinds.count == 1)
    }

    // MARK: Where words are known while they are spoken, they decide by default

    @Test(arguments: ["Mm-hmm.", "Yeah, yeah, yeah.", "Okay, I see.", "Of course."])
    func aNodOfAnyLengthDoesNotStopTheReply(words: String) throws {
        let talk = BargeIn(makesHypotheses: true)
        talk.script.hypothesis = { _ in words }
        try talk.speak(milliseconds: 900, at: 2_000)
        talk.script.run(until: 15_000)
        #expect(talk.statuses == ["completed"])
        #expect(talk.script.requests.count == 1)
        #expect(talk.rewinds.count == 1)
        #expect(talk.script.violations == [])
        // Its words are known 200 ms and a hypothesis after its end: the reply goes on then, and
        // not after the turn detection's 500 ms.
        let started = try #require(talk.time(of: "speech_started"))
        let next = try #require(talk.script.audioTimes.first { $0 > started })
        #expect(next == talk.time(of: "speech_stopped") && next - started < 1_300)
    }

    @Test func aCommandStopsItSoonerThanOtherWords() throws {
        func stopped(by words: String) throws -> Int {
            let talk = BargeIn(makesHypotheses: true)
            talk.script.hypothesis = { _ in words }
            talk.script.hypothesisDelay = .milliseconds(40)
            try talk.speak(milliseconds: 1_700, at: 2_000)
            talk.script.run(until: 15_000)
            #expect(talk.statuses.first == "cancelled")
            let started = try #require(talk.time(of: "speech_started"))
            return try #require(talk.time(of: "response.done")) - started
        }
        let times = try ["Wait.", "Another museum.", "Museum."].map { try stopped(by: $0) }
        #expect(times == times.sorted() && Set(times).count == 3)
        #expect(times[2] < 750)
    }

    /// The end of the reply is a question: "yes" answers it.
    @Test(arguments: [("Shall I book it?", 2), ("I have booked it.", 1)])
    func anAssentAnswersAQuestionThatEnds(end: String, requests: Int) throws {
        let text = "There is one table left at eight. " + end
        let talk = BargeIn(
            makesHypotheses: true, reply: [ScriptedReply.text(text), ScriptedReply.text("Done.")])
        talk.script.hypothesis = { _ in "Yes." }
        talk.script.transcripts = [.success("Yes.")]
        try talk.speak(milliseconds: 500, at: 2_100)
        talk.script.run(until: 15_000)
        #expect(talk.script.requests.count == requests)
    }

    /// The model thinks: nothing is heard yet that the user could nod at.
    @Test(arguments: ["At eight.", "Yes, please."])
    func shortWordsBeforeTheFirstSoundAreAnswered(words: String) throws {
        let talk = BargeIn(makesHypotheses: true)
        talk.script.hypothesis = { _ in words }
        talk.script.transcripts = [.success(words)]
        try talk.speak(milliseconds: 400, at: 100)
        talk.script.run(until: 15_000)
        #expect(talk.script.requests.last?.messages.last == .user(words))
    }

    @Test(arguments: [
        (TurnDetectionParameters.Interruption.any, "cancelled"), (.words, "cancelled"),
        (.strict, "completed"),
    ])
    func twoWordsInterruptUnlessTheRuleIsStrict(
        rule: TurnDetectionParameters.Interruption, status: String
    ) throws {
        let talk = BargeIn(makesHypotheses: true) { $0.turnDetection?.interruption = rule }
        talk.script.hypothesis = { _ in "go forward" }
        try talk.speak(milliseconds: 1_200, at: 2_000)
        talk.script.run(until: 15_000)
        #expect(talk.statuses.first == status)
    }

    @Test func withoutHypothesesTheDurationDecides() throws {
        let talk = BargeIn()
        talk.script.transcripts = [.success("Yeah, yeah, yeah.")]
        try talk.speak(milliseconds: 900, at: 2_000)
        talk.script.run(until: 15_000)
        #expect(talk.statuses.first == "cancelled")
    }

    @Test func withZeroTheReplyEndsAtTheOnsetWhereTheRuleIsNotSet() throws {
        let talk = BargeIn(makesHypotheses: true) {
            $0.turnDetection?.minInterruptionMilliseconds = 0
        }
        try talk.speak(milliseconds: 260, at: 2_000)
        talk.script.run(until: 15_000)
        #expect(talk.time(of: "speech_started") == talk.time(of: "response.done"))
    }
}
