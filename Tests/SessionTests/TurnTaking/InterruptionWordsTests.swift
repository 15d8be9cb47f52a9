// Which words over a reply mean to interrupt it.

import Testing

@testable import Session

@Suite struct InterruptionWordsTests {
    private static let reply = "you can take the train at half past nine from the main station"

    @Test(arguments: [
        ("", InterruptionWords.Judgement.none), (" … ", .none), ("Mhm.", .backchannel),
        ("Uh-huh, yeah.", .backchannel), ("Okay, I see.", .backchannel),
        ("That makes sense.", .backchannel), ("Right, got it!", .backchannel),
        ("Yeah yeah yeah yeah", .backchannel), ("take the train at half", .echo),
        ("The train at have past nine", .echo), ("Nine.", .words(1)), ("Half nine.", .words(2)),
        ("Train at nine, half main", .words(5)), ("Hannah Hannah", .words(1)),
        ("Stop.", .command), ("Okay, but wait.", .command), ("Okay, stop.", .command),
        ("Why?", .command), ("All right, that’s right.", .backchannel),
        ("I see, I understand.", .backchannel), ("Go on, go ahead.", .backchannel),
        ("No, I want the bus at ten.", .command), ("I see a train coming", .words(5)),
    ])
    func judges(transcript: String, expected: InterruptionWords.Judgement) {
        #expect(InterruptionWords.judge(transcript, over: Self.reply, in: .english) == expected)
    }

    @Test func aWordIsEnoughWhereAnEchoIsLikely() {
        #expect(InterruptionWords.judge("Nine.", over: Self.reply, in: .english, run: 1) == .echo)
        #expect(
            InterruptionWords.judge("Ten.", over: Self.reply, in: .english, run: 1) == .words(1))
    }

    @Test func withoutAReplyNothingIsItsEcho() {
        #expect(InterruptionWords.judge("take the train", over: "", in: .english) == .words(3))
    }

    @Test func wordsMayBeTheBeginningOfAnAssent() {
        for words in ["Of", "Okay, I", "That makes"] {
            #expect(
                InterruptionWords.judge(words, over: "", in: .english, isWhole: false)
                    == .backchannel)
            #expect(InterruptionWords.judge(words, over: "", in: .english) != .backchannel)
        }
    }
}
