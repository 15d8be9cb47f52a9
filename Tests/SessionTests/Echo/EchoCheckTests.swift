// The agent's own voice in the microphone: recognised by its delay and its level, and told apart
// from a user who speaks over it. Reply and user are recordings of a person; the clock is the
// audio's.

import Codec
import TestMaterial
import Testing

@testable import Session

/// A loudspeaker, a room and a microphone, in windows of 32 ms.
private final class OpenMicrophone {
    let check = EchoCheck(lead: .milliseconds(500))
    /// What is played and what the user says, at 16 kHz from time 0 on.
    private let reply: [Int16]
    private var user: [Int16] = []
    private let delay: Int
    private let gain: Float
    private var sent = 0
    private var window = 0
    private var noise = SeededGenerator(seed: 5)
    /// The loudspeaker is silent for so many samples more than the clock says, and from here on.
    private var skipped = 0
    private var silentFrom = Int.max

    /// - Parameter gain: the echo's, as a factor; 0: headphones.
    init(
        delayMilliseconds: Int = 150, gain: Float = 0.25,
        reply words: ArraySlice<Int16> = SpeechRecording.goForward.samples[
            (16 * 450)..<(16 * 2_600)]
    ) {
        reply = Array(words + words + words)
        delay = 16 * delayMilliseconds
        self.gain = gain
    }

    var now: Instant { .milliseconds(32 * window) }
    var replyMilliseconds: Int { reply.count / 16 }

    /// Something is said over the reply, louder than in its recording by a factor.
    func speak(
        at milliseconds: Int, _ factor: Float,
        _ words: ArraySlice<Int16> = SpeechRecording.doSomething.samples[(16 * 440)...]
    ) {
        user = [Int16](repeating: 0, count: 16 * milliseconds)
        user += words.map { Int16(Float($0) * factor) }
    }

    /// Hears until a time.
    /// - Returns: for each window whether it is explained.
    func hear(until milliseconds: Int) -> [Bool] {
        var explained: [Bool] = []
        while 32 * (window + 1) <= milliseconds {
            sendReply()
            let samples = (512 * window..<512 * (window + 1)).map { place -> Int16 in
                let played = place - delay - skipped
                let isAudible = reply.indices.contains(played) && place - delay < silentFrom
                var sample = isAudible ? gain * Float(reply[played]) : 0
                if user.indices.contains(place) { sample += Float(user[place]) }
                return Int16(clamping: Int(sample) + Int(noise.next() % 17) - 8)
            }
            window += 1
            explained.append(samples.withUnsafeBufferPointer { check.explains($0, endingAt: now) })
        }
        return explained
    }

    /// Sends what is due: 500 ms ahead.
    private func sendReply() {
        while silentFrom == .max, sent + 320 <= reply.count,
            sent + skipped < 512 * window + 16 * 500
        {
            reply[sent..<sent + 320].withUnsafeBufferPointer {
                check.handleReply(
                    $0, rate: .hz16000, playedFrom: .milliseconds((sent + skipped) / 16))
            }
            sent += 320
        }
    }

    /// The reply is held now.
    func hold() {
        check.hold(at: now)
        silentFrom = 512 * window
    }

    /// It goes on from where it was held.
    func goOn() {
        let place = silentFrom - skipped
        skipped = 512 * window - place
        silentFrom = .max
        check.goOn(with: 3 * (sent - place), at: now)
    }
}

@Suite struct EchoCheckTests {
    @Test(arguments: [60, 150, 300], [0.5, 0.25, 0.1] as [Float])
    func theReplysEchoIsKnownAfterAMomentOfIt(delay: Int, gain: Float) throws {
        let room = OpenMicrophone(delayMilliseconds: delay, gain: gain)
        _ = room.hear(until: 1_800)
        let found = try #require(room.check.delayMilliseconds)
        #expect(abs(found - delay) <= 32)
        let explained = room.hear(until: room.replyMilliseconds)
        // The other windows are those in which nothing can be heard.
        #expect(explained.count { $0 } > explained.count / 2)
    }

    @Test(arguments: [1, 0.5] as [Float])
    func whoSpeaksOverItIsHeard(level: Float) throws {
        let room = OpenMicrophone()
        room.speak(at: 3_200, 0.25 * level)
        _ = room.hear(until: 3_200)
        let explained = room.hear(until: 3_900)
        // Two windows in a row are what turn detection asks for.
        let first = zip(explained, explained.dropFirst()).enumerated()
            .first { !$0.element.0 && !$0.element.1 }?.offset
        #expect(try #require(first) <= 8)
    }

    @Test func withHeadphonesNothingIsExplained() {
        let recordings = [SpeechRecording.goForward, .doSomething, .sentence].map {
            Array($0.samples[(16 * 400)...])
        }
        for (number, reply) in recordings.enumerated() {
            for other in recordings.indices where other != number {
                for start in [300, 1_300] {
                    let room = OpenMicrophone(gain: 0, reply: reply[...])
                    room.speak(at: start, 1, recordings[other][...])
                    #expect(!room.hear(until: 6_000).contains(true), "\(number) \(other) \(start)")
                    #expect(room.check.delayMilliseconds == nil)
                }
            }
        }
    }

    @Test func whileTheReplyIsHeldNothingIs() {
        let room = OpenMicrophone()
        _ = room.hear(until: 2_000)
        room.hold()
        #expect(!room.hear(until: 3_000).contains(true))
    }

    @Test func whatIsSentAgainIsKnownAtOnce() throws {
        let room = OpenMicrophone()
        _ = room.hear(until: 2_000)
        let delay = try #require(room.check.delayMilliseconds)
        room.hold()
        _ = room.hear(until: 3_008)
        room.goOn()
        _ = room.hear(until: 3_200)
        let explained = room.hear(until: 6_000)
        // Two frames of 16 ms.
        #expect(abs(try #require(room.check.delayMilliseconds) - delay) <= 32)
        #expect(explained.count { $0 } > explained.count / 2)
    }

    @Test func whenTheEchoHasDiedAwayOnlyWhatWasLearnedIsKept() throws {
        let room = OpenMicrophone()
        _ = room.hear(until: room.replyMilliseconds + 600)
        room.check.releaseIfOver(at: room.now)
        #expect(room.check.heldBytes > EchoCheck.objectBytes + 1_000)
        _ = room.hear(until: room.replyMilliseconds + 900)
        room.check.releaseIfOver(at: room.now)
        #expect(room.check.heldBytes == EchoCheck.objectBytes)
        #expect(room.check.delayMilliseconds != nil)
    }

    @Test func aReplyThatIsOverIsNoLongerExpected() {
        let room = OpenMicrophone()
        _ = room.hear(until: 2_000)
        room.hold()
        room.check.stop(at: room.now)
        _ = room.hear(until: 2_400)
        // The sound that would have been the reply is the user's voice now.
        room.speak(at: 2_700, 1)
        #expect(!room.hear(until: 4_000).contains(true))
    }
}
