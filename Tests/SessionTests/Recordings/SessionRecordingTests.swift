// The recording of whole sessions: the user as heard, the agent as played and cut where it was
// interrupted. The agent's samples count up, so that each shows its place in the reply.

import Codec
import Glibc
import TestMaterial
import Testing

@testable import Session

@Suite struct SessionRecordingTests {
    /// The samples of one side.
    private static func samples(_ chunks: [RecordingChunk]) -> [Int16] {
        chunks.flatMap { chunk in
            let bytes = chunk.agent.bytes
            return stride(from: 0, to: bytes.count - 1, by: 2).map {
                Int16(bitPattern: UInt16(bytes[$0]) | UInt16(bytes[$0 + 1]) << 8)
            }
        }
    }

    private static func recorded(
        format: AudioFormat = .pcm, until end: Int, _ script: (BargeIn) throws -> Void
    ) rethrows -> BargeIn {
        let talk = BargeIn(format: format)
        talk.script.session.beginRecording(at: .milliseconds(0))
        try script(talk)
        talk.script.run(until: end)
        talk.script.endRecording()
        return talk
    }

    private func counted(to count: Int) -> [Int16] { (1...count).map { Int16($0 % 32_768) } }

    @Test func aReplyIsRecordedAsItIsPlayed() throws {
        let talk = Self.recorded(until: 9_000) { _ in }
        let samples = Self.samples(talk.script.chunks)
        #expect(samples.count == BargeIn.reply.count * 1_200)
        let isWhole = samples == counted(to: samples.count)
        #expect(isWhole)
        // It begins when it is sent, because a client plays at once.
        let begun = try #require(talk.script.audioTimes.first)
        let first = try #require(talk.script.chunks.flatMap(\.agent.runs).first)
        #expect(first.end == .milliseconds(begun) + .samples(Int(first.samples)))
        // About a chunk a second, none of them with more than came in it.
        #expect((6...8).contains(talk.script.chunks.count))
        let most = talk.script.chunks.map(\.audioBytes).max() ?? 0
        #expect(most <= 24_000 * 2 * 3 / 2)
    }

    @Test func aReplyThatIsInterruptedEndsAtWhatWasHeard() throws {
        let talk = try Self.recorded(until: 9_000) { talk in
            talk.script.transcripts = [.success("go forward")]
            talk.script.replies.append(.text(""))
            try talk.speak(milliseconds: 1_700, at: 2_000)
        }
        let heard = try #require(
            talk.events("conversation.item.truncated").first?["audio_end_ms"] as? Int)
        let samples = Self.samples(talk.script.chunks)
        #expect(samples.count == heard * 24)
        #expect(samples.count < BargeIn.reply.count * 1_200)
        let isWhole = samples == counted(to: heard * 24)
        #expect(isWhole)
        // Its last sample was played when the user interrupted.
        let held = try #require(talk.time(of: "drops queued audio"))
        #expect(talk.script.chunks.flatMap(\.agent.runs).last?.end == .milliseconds(held))
    }

    @Test func aFalseInterruptionIsAPauseAndNothingTwice() throws {
        let talk = try Self.recorded(until: 15_000) { talk in
            talk.script.transcripts = [.success("")]
            try talk.speak(milliseconds: 260, at: 2_000)
        }
        #expect(talk.statuses == ["completed"])
        let samples = Self.samples(talk.script.chunks)
        #expect(samples.count == BargeIn.reply.count * 1_200)
        let isWhole = samples == counted(to: samples.count)
        #expect(isWhole)
        var track = RecordedTrack(start: .milliseconds(0), jitter: .zero)
        var pauses: [Int] = []
        for chunk in talk.script.chunks {
            track.append(chunk.agent)
            while let piece = track.next(at: chunk.takenAt) {
                if case .silence(let samples) = piece { pauses.append(samples / 48) }
            }
        }
        // Before the reply, and while it was held.
        #expect(pauses.count == 2 && pauses[1] > 300)
    }

    @Test func whatTheClientHasHeardLessOfIsRecordedOnce() throws {
        let talk = try Self.recorded(until: 15_000) { talk in
            talk.script.transcripts = [.success("")]
            try talk.speak(milliseconds: 260, at: 2_000)
            talk.script.run(until: 2_249)
            talk.script.send(
                .outputAudioBufferPlayed(
                    itemID: talk.replyItem, contentIndex: 0, audioEndMilliseconds: 1_500),
                at: 2_250)
        }
        #expect(talk.statuses == ["completed"])
        #expect(talk.rewinds.count == 1)
        let samples = Self.samples(talk.script.chunks)
        #expect(samples.count == BargeIn.reply.count * 1_200)
        let isWhole = samples == counted(to: samples.count)
        #expect(isWhole)
    }

    @Test func packetsOfOpusAreRecordedAsTheyWereSent() {
        let talk = Self.recorded(format: .opus, until: 9_000) { _ in }
        let sent = talk.script.audioPackets.flatMap(\.payload)
        let isWhole = talk.script.chunks.flatMap(\.agent.bytes) == sent
        #expect(isWhole && !sent.isEmpty)
    }

    @Test func anInterruptedPacketOfOpusIsTheLast() throws {
        let talk = try Self.recorded(format: .opus, until: 9_000) { talk in
            talk.script.transcripts = [.success("go forward")]
            talk.script.replies.append(.text(""))
            try talk.speak(milliseconds: 1_700, at: 2_000)
        }
        let heard = try #require(
            talk.events("conversation.item.truncated").first?["audio_end_ms"] as? Int)
        let packets = talk.script.chunks.flatMap(\.agent.runs).count
        #expect(packets == (heard + 19) / 20)
    }

    @Test func whatWaitsForTheSocketWasNotHeard() throws {
        let talk = BargeIn()
        talk.script.session.beginRecording(at: .milliseconds(0))
        talk.script.run(until: 1_000)
        talk.script.unsentFrom = 48 * 700
        talk.script.send(.responseCancel(responseID: nil), at: 2_000)
        talk.script.run(until: 2_001)
        talk.script.endRecording()
        #expect(Self.samples(talk.script.chunks).count == 24 * 700)
    }

    @Test func theUsersPacketsAreRecordedAsTheyCame() throws {
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 0)
        let script = ScriptedSession()
        script.session.beginRecording(at: .milliseconds(0))
        script.speak(packets, from: 20)
        script.run(until: 4_000)
        script.endRecording()
        let isWhole = script.chunks.flatMap(\.user.bytes) == packets.flatMap { $0 }
        #expect(isWhole)
        let runs = script.chunks.flatMap(\.user.runs)
        #expect(runs.map(\.end) == packets.indices.map { .milliseconds(20 + 20 * $0) })
        #expect(script.chunks.allSatisfy { $0.agent.isEmpty && $0.startedAt == .milliseconds(0) })
        guard case .end? = script.chunks.last?.sequel else {
            Issue.record("the recording does not end")
            return
        }
    }

    @Test func lateAndLostPacketsAreNotRecorded() throws {
        let packets = try OpusSender().packets(
            of: SpeechRecording.goForward.samplesAt48Kilohertz(), length: 960)
        var messages = numbered(packets, from: 65_500)
        messages.remove(at: 60)
        messages.insert(messages[90], at: 91)
        let script = ScriptedSession {
            $0.inputFormat = .opus
            $0.inputIsNumbered = true
            $0.turnDetection = nil
        }
        script.session.beginRecording(at: .milliseconds(0))
        script.speak(messages, from: 0)
        script.run(until: 4_000)
        script.endRecording()
        var expected = packets
        expected.remove(at: 60)
        let isWhole = script.chunks.flatMap(\.user.bytes) == expected.flatMap { $0 }
        #expect(isWhole)
        let lost = script.chunks.flatMap(\.user.runs).map(\.lost)
        #expect(lost.count { $0 > 0 } == 1 && lost[60] == 960)
    }

    @Test func aLongMessageLeavesInSeveralChunks() {
        let script = ScriptedSession { $0.turnDetection = nil }
        script.session.beginRecording(at: .milliseconds(0))
        script.append([UInt8](repeating: 0, count: 300_000), at: 10)
        script.run(until: 11)
        // It does not wait for the end of the second.
        #expect(script.chunks.map(\.user.bytes.count) == [300_000])
    }

    @Test func manySmallMessagesLeaveEarly() {
        let recording = SessionRecording(
            of: "sess_1", isContinued: false, at: .milliseconds(0))
        let sample: [UInt8] = [0, 0]
        for _ in 0..<11_000 {
            recording.noteUser(
                sample.span.bytes, format: .pcm, missing: nil, at: .milliseconds(1))
        }
        // 22 kB of audio; what describes it takes more.
        #expect(recording.isDue(at: .milliseconds(2)))
    }

    @Test func onlyARecordedSessionHoldsAudio() throws {
        let packets = try SpeechRecording.goForward.packets(silenceMilliseconds: 0)
        func bytes(isRecorded: Bool) -> (during: Int, after: Int, chunks: Int) {
            let script = ScriptedSession { $0.turnDetection = nil }
            if isRecorded { script.session.beginRecording(at: .milliseconds(0)) }
            script.speak(packets, from: 0)
            script.run(until: 900)
            let during = script.session.ledger.session
            script.endRecording()
            return (during, script.session.ledger.session, script.chunks.count)
        }
        let recorded = bytes(isRecorded: true)
        let plain = bytes(isRecorded: false)
        #expect(recorded.during > plain.during + 40_000)
        #expect(recorded.after == plain.after && plain.chunks == 0)
    }

    /// Where in the reply the samples are not those of the voice, in milliseconds, by runs.
    private func beeps(in samples: [Int16]) -> [Range<Int>] {
        var runs: [Range<Int>] = []
        for index in samples.indices where samples[index] != Int16((index + 1) % 32_768) {
            let place = index / 24
            if let last = runs.last, place <= last.upperBound + 5 {
                runs[runs.count - 1] = last.lowerBound..<place + 1
            } else {
                runs.append(place..<place + 1)
            }
        }
        return runs
    }

    @Test func aToneIsMixedIntoWhatIsPlayed() {
        let talk = BargeIn()
        talk.script.session.beginRecording(beepEvery: .seconds(2), at: .milliseconds(0))
        talk.script.run(until: 9_000)
        talk.script.endRecording()
        let samples = Self.samples(talk.script.chunks)
        // The reply is not longer for it, and the client hears it, too.
        #expect(samples.count == BargeIn.reply.count * 1_200)
        let isPlayed =
            talk.script.audioPackets.flatMap(\.payload)
            == talk.script.chunks.flatMap(\.agent.bytes)
        #expect(isPlayed)
        let runs = beeps(in: samples)
        #expect(runs.count == 3)
        #expect(runs.first?.lowerBound == 0)
        #expect(runs.allSatisfy { (195...201).contains($0.count) }, "\(runs)")
        for (run, next) in zip(runs, runs.dropFirst()) {
            #expect((1_900...2_600).contains(next.lowerBound - run.lowerBound), "\(runs)")
        }
    }

    /// A phrase that is said again is synthesised twice, and then kept; not where a tone is in it.
    @Test(arguments: [(60, 2), (5, 4)])
    func aPhraseWithAToneIsNotKeptForOthers(interval: Int, spoken: Int) {
        let script = ScriptedSession { $0.outputFormat = .opus }
        script.session.beginRecording(beepEvery: .seconds(interval), at: .milliseconds(0))
        script.replies = Array(repeating: .text("Hello, my friend."), count: 4)
        for turn in 0..<4 {
            script.send(.responseCreate(ResponseParameters()), at: turn * 10_000)
        }
        script.run(until: 40_000)
        #expect(script.spoken.count == spoken)
    }

    /// How much of the power of samples is the tone's, by Goertzel's algorithm: 1 for nothing else.
    private func share(_ samples: some Collection<Int16>, at rate: SampleRate) -> Double {
        let step = 2 * cos(2 * Double.pi * Double(RecordingBeep.hertz) / Double(rate.hertz))
        var (last, before, power) = (0.0, 0.0, 0.0)
        for sample in samples {
            let next = Double(sample) + step * last - before
            (last, before) = (next, last)
            power += Double(sample) * Double(sample)
        }
        let tone = last * last + before * before - step * last * before
        return power == 0 ? 0 : 2 * tone / (Double(samples.count) * power)
    }

    /// Three seconds of a low hum, as a speech service sends them that encodes itself.
    private func hum() throws -> OpusPackets {
        var encoder = try OpusEncoder(rate: .hz24000)
        let room = UnsafeMutableRawBufferPointer.allocate(
            byteCount: OpusEncoder.maxPacketBytes, alignment: 1)
        defer { room.deallocate() }
        var packets = OpusPackets()
        for frame in 0..<150 {
            let samples = (0..<480).map { index in
                let time = Double(frame * 480 + index) / 24_000
                return Int16(2_000 * sin(2 * Double.pi * 150 * time))
            }
            let count = try samples.withUnsafeBufferPointer { try encoder.encode($0, into: room) }
            try packets.append(UnsafeRawBufferPointer(rebasing: room[..<count]).bytes)
        }
        return packets
    }

    private func decoded(_ payloads: [[UInt8]], _ format: AudioFormat) throws -> [Int16] {
        guard format == .opus else {
            let bytes = payloads.flatMap { $0 }
            return [Int16](unsafeUninitializedCapacity: bytes.count) { room, count in
                G711.decode(
                    bytes.span.bytes, law: .mu, into: .init(rebasing: room[..<bytes.count]))
                count = bytes.count
            }
        }
        var decoder = try OpusDecoder(rate: .hz24000)
        return try payloads.flatMap { packet in
            try [Int16](unsafeUninitializedCapacity: 480) { room, count in
                count = try decoder.decode(packet.span.bytes, into: room)
            }
        }
    }

    @Test(arguments: [AudioFormat.opus, .pcmu])
    func aToneIsMixedIntoPacketsOfTheService(format: AudioFormat) throws {
        let packets = try hum()
        let talk = BargeIn(format: format, reply: [.text("One sentence.")])
        talk.script.speech = { _ in [SpeechChunk(packets: packets)] }
        talk.script.session.beginRecording(beepEvery: .seconds(60), at: .milliseconds(0))
        talk.script.run(until: 9_000)
        talk.script.endRecording()
        let played = talk.script.audioPackets.map(\.payload)
        let isRecorded = talk.script.chunks.flatMap(\.agent.bytes) == played.flatMap { $0 }
        #expect(isRecorded)
        let rate = format == .opus ? SampleRate.hz24000 : .hz8000
        let samples = try decoded(played, format)
        #expect(samples.count == rate.samples(inMilliseconds: 3_000))
        let end = rate.samples(inMilliseconds: RecordingBeep.milliseconds)
        #expect(share(samples[..<end], at: rate) > 0.5)
        // A frame for the way from one encoder's packets to the other's.
        #expect(share(samples[(end + rate.samples(inMilliseconds: 40))...], at: rate) < 0.01)
        guard format == .opus else { return }
        // The others pass through untouched, and the reply is no longer.
        let isUntouched = played.dropFirst(10).elementsEqual(
            (10..<packets.count).map { Array(packets[$0]) })
        #expect(isUntouched)
    }

    @Test func aToneIsMixedIntoAPhraseOfTheCache() throws {
        let script = ScriptedSession {
            $0.outputFormat = .opus
            $0.outputTransport = .binary
        }
        script.replies = Array(repeating: .text("Hello, my friend."), count: 4)
        for turn in 0..<4 {
            script.send(.responseCreate(ResponseParameters()), at: turn * 10_000)
        }
        script.run(until: 15_000)
        script.session.beginRecording(beepEvery: .seconds(60), at: .milliseconds(15_000))
        script.run(until: 40_000)
        // The third and the fourth are of the cache.
        #expect(script.spoken.count == 2)
        var phrases: [[[UInt8]]] = []
        var responseID = ""
        for packet in script.audioPackets {
            if packet.part.responseID != responseID { phrases.append([]) }
            responseID = packet.part.responseID
            phrases[phrases.count - 1].append(packet.payload)
        }
        try #require(phrases.count == 4)
        let isAsKept = phrases[3] == phrases[1]
        #expect(isAsKept)
        let isAsKeptBehind = phrases[2].dropFirst(10).elementsEqual(phrases[1].dropFirst(10))
        #expect(isAsKeptBehind)
        let tone = try decoded(Array(phrases[2].prefix(10)), .opus)
        #expect(share(tone, at: .hz24000) > 0.2)
        #expect(share(try decoded(Array(phrases[1].prefix(10)), .opus), at: .hz24000) < 0.05)
    }

    /// The flag lies in padding, and the track of a timeline where others were.
    @Test func whatIsNotRecordedTakesNoMoreMemory() {
        #expect(PlayoutTimeline.objectBytes == 208)
    }

    @Test func aRecordingMayBeginAndEndWithinASession() throws {
        let talk = BargeIn()
        talk.script.run(until: 2_000)
        talk.script.session.beginRecording(at: .milliseconds(2_000))
        #expect(talk.script.session.isRecorded)
        talk.script.run(until: 4_000)
        talk.script.endRecording(discards: true)
        #expect(!talk.script.session.isRecorded)
        let count = talk.script.chunks.count
        talk.script.run(until: 9_000)
        #expect(talk.script.chunks.count == count)
        // What was sent before is not in it.
        let samples = Self.samples(talk.script.chunks)
        let first = try #require(samples.first)
        #expect(Int(first) > 24 * 1_500 || Int(first) < 24 * 1_000)
        guard case .discard? = talk.script.chunks.last?.sequel else {
            Issue.record("the recording is not discarded")
            return
        }
    }
}
