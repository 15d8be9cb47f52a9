// When the audio of a speech in progress is recognised, and how much of it in all.

import Testing

@testable import Session

/// 32 ms in samples.
private let window = 512

/// Walks through audio in windows: speech (true) or silence, each hypothesis answered after
/// `delay` windows, or refused.
private struct Walk {
    var partial = PartialTranscript(start: 0)
    var end = 0
    var speechEnd = 0
    var delay = 3
    var isRefused = false
    var onset: Int?
    var asked: [PartialTranscript.Snapshot] = []
    private var answerAt: Int?

    mutating func go(milliseconds: Int, isSpeech: Bool, showsWords: Bool = true) {
        for _ in 0..<milliseconds / 32 {
            end += window
            if isSpeech { speechEnd = end }
            if let due = answerAt, due <= end {
                answerAt = nil
                if isRefused { partial.handleFailure() } else { partial.handleHypothesis("words") }
            }
            let next = partial.nextSnapshot(
                end: end, speechEnd: speechEnd, showsWords: showsWords, decisiveFrom: onset)
            guard let next else { continue }
            partial.handleAsked(next)
            asked.append(next)
            answerAt = end + delay * window
        }
    }

    var samplesAsked: Int { asked.reduce(0) { $0 + $1.end } }
}

@Suite struct PartialTranscriptTests {
    @Test func growingSpeechIsRecognisedAtGrowingIntervals() {
        var walk = Walk()
        walk.go(milliseconds: 20_000, isSpeech: true)
        let intervals = zip(walk.asked.dropFirst(), walk.asked).map { $0.end - $1.end }
        #expect(walk.asked.first?.end == 8_192)
        #expect(intervals.allSatisfy { $0 >= PartialTranscript.minInterval })
        #expect(intervals.last! > 3 * intervals.first!)
        #expect(walk.asked.count < 12)
    }

    /// The first ones are in the windows after 400, 500, 650 and 1,000 ms of speech.
    @Test func wordsThatDecideAboutAReplyAreHeardSooner() {
        var walk = Walk()
        walk.delay = 1
        walk.onset = 4_800
        walk.go(milliseconds: 1_600, isSpeech: true)
        let after = walk.asked.map { ($0.end - 4_800) / 16 }
        #expect(after.prefix(4) == [404, 500, 660, 1_012])
        #expect(walk.samplesAsked <= PartialTranscript.workFactor * walk.end)
    }

    @Test(arguments: [1_000, 3_000, 10_000, 60_000])
    func theWorkIsBoundedByTheAudio(milliseconds: Int) {
        var walk = Walk()
        walk.go(milliseconds: milliseconds, isSpeech: true)
        #expect(walk.samplesAsked <= PartialTranscript.workFactor * walk.end)
    }

    @Test func someoneWhoPausesAllTheTimeIsRecognisedNoMoreThanThat() {
        var walk = Walk()
        for _ in 0..<60 {
            walk.go(milliseconds: 600, isSpeech: true)
            walk.go(milliseconds: 320, isSpeech: false)
        }
        #expect(walk.samplesAsked <= (PartialTranscript.workFactor + 1) * walk.end)
        #expect(walk.asked.contains { $0.isPause })
    }

    @Test func oneHypothesisIsInFlightAtATimeUntilAPauseMakesItPointless() {
        var walk = Walk()
        walk.delay = 1_000
        walk.go(milliseconds: 5_000, isSpeech: true)
        #expect(walk.asked.count == 1)
        walk.go(milliseconds: 400, isSpeech: false)
        #expect(walk.asked.map(\.isPause) == [false, true])
        walk.go(milliseconds: 1_000, isSpeech: false)
        #expect(walk.asked.count == 2)
    }

    @Test func aPauseIsRecognisedOnceAfterTwoHundredMilliseconds() {
        var walk = Walk()
        walk.go(milliseconds: 960, isSpeech: true, showsWords: false)
        #expect(walk.asked.isEmpty, "nobody wants to see the words")
        walk.go(milliseconds: 2_000, isSpeech: false, showsWords: false)
        #expect(walk.asked.count == 1)
        let snapshot = walk.asked[0]
        #expect(snapshot.isPause && snapshot.speechEnd == 30 * window)
        #expect(snapshot.end == 37 * window)
        #expect(walk.partial.words(upTo: 30 * window) == "words")
        #expect(walk.partial.words(upTo: 31 * window) == nil)
    }

    @Test func wordsBeforeMoreSpeechAreNotTheTurns() {
        var walk = Walk()
        walk.go(milliseconds: 960, isSpeech: true, showsWords: false)
        walk.go(milliseconds: 320, isSpeech: false, showsWords: false)
        #expect(walk.partial.isRecognizing(upTo: walk.speechEnd) || walk.partial.newest != nil)
        walk.go(milliseconds: 96, isSpeech: true, showsWords: false)
        #expect(walk.partial.words(upTo: walk.speechEnd) == nil)
        #expect(!walk.partial.isRecognizing(upTo: walk.speechEnd))
        walk.go(milliseconds: 640, isSpeech: false, showsWords: false)
        #expect(walk.asked.count == 2)
        #expect(walk.partial.words(upTo: walk.speechEnd) == "words")
    }

    @Test func whatWasRefusedIsAskedForAgainAfterAWhile() {
        var walk = Walk()
        walk.isRefused = true
        walk.delay = 0
        walk.go(milliseconds: 960, isSpeech: true, showsWords: false)
        walk.go(milliseconds: 1_000, isSpeech: false, showsWords: false)
        let ends = walk.asked.map(\.end)
        #expect(ends.count == 3)
        #expect(
            zip(ends.dropFirst(), ends).allSatisfy { $0 - $1 == PartialTranscript.retryInterval })
    }

    /// A refused hypothesis costs nothing: it is asked for again at the shortest interval, and takes
    /// nothing from the share of those to come.
    @Test func whatWasRefusedIsNoWork() {
        var walk = Walk()
        walk.isRefused = true
        walk.go(milliseconds: 6_400, isSpeech: true)
        let intervals = zip(walk.asked.dropFirst(), walk.asked).map { $0.end - $1.end }
        #expect(walk.asked.count == 12)
        #expect(intervals.allSatisfy { $0 == 8_192 })
        walk.isRefused = false
        let refused = walk.asked.count
        walk.go(milliseconds: 1_600, isSpeech: true)
        #expect(walk.asked.count > refused + 1)
        walk.go(milliseconds: 320, isSpeech: false)
        #expect(walk.asked.last?.isPause == true)
    }

    @Test func aPauseBeginsWithItsLastSample() {
        let partial = PartialTranscript(start: 0)
        let end = 16_000 + PartialTranscript.pauseSilence
        #expect(partial.nextSnapshot(end: end - 1, speechEnd: 16_000, showsWords: false) == nil)
        #expect(
            partial.nextSnapshot(end: end, speechEnd: 16_000, showsWords: false)
                == .init(speechEnd: 16_000, end: end, isPause: true))
    }

    /// Words that are shown may have used up their share of the work; the pause has its own.
    @Test func aPauseIsRecognisedAfterSpeechThatWasRecognisedToTheFull() {
        var partial = PartialTranscript(start: 0)
        for _ in 0..<PartialTranscript.workFactor {
            partial.handleAsked(.init(speechEnd: 20_000, end: 20_000, isPause: false))
            partial.handleHypothesis("words")
        }
        #expect(partial.nextSnapshot(end: 20_001, speechEnd: 20_001, showsWords: true) == nil)
        let end = 20_000 + PartialTranscript.pauseSilence
        #expect(partial.nextSnapshot(end: end, speechEnd: 20_000, showsWords: true) != nil)
    }

    @Test func onlyThePausesOwnHypothesisIsTheTurns() {
        var partial = PartialTranscript(start: 0)
        partial.handleAsked(.init(speechEnd: 9_000, end: 9_000, isPause: false))
        #expect(!partial.isRecognizing(upTo: 9_000), "the end of its last word may be missing")
        partial.handleHypothesis("go")
        #expect(partial.words(upTo: 9_000) == nil)
        partial.handleAsked(.init(speechEnd: 9_000, end: 12_200, isPause: true))
        #expect(partial.isRecognizing(upTo: 9_000) && !partial.isRecognizing(upTo: 9_512))
    }

    @Test func softSpeechIsNotRecognisedWhileItMayBeAPause() {
        var walk = Walk()
        walk.go(milliseconds: 480, isSpeech: true)
        walk.go(milliseconds: 160, isSpeech: false)
        #expect(walk.asked.isEmpty)
        walk.go(milliseconds: 32, isSpeech: true)
        #expect(walk.asked.map(\.isPause) == [false])
    }
}
