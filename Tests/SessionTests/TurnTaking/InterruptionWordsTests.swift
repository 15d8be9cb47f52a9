// Which words over a reply mean to interrupt it.

import Testing

@testable import Session

@Suite struct InterruptionWordsTests {
    private static let reply = "you can take the train at half past nine from the main station"

    @Test(arguments: [
        ("", InterruptionWords.Judgement.none), (" … ", .none), ("Mhm.", .backchannel),
        ("Uh-huh, yeah.", .backchannel), ("Okay, I see.", .backchannel),
        ("That makes sense.", .backchannel), ("Right, got it!", .backchannel),
        ("take the train at half", .echo), ("The train at have past nine", .echo),
        ("Nine.", .words), ("Half nine.", .words), ("Train at nine, half main", .words),
        ("Stop.", .words), ("Okay, but wait.", .words),
        ("No, I want the bus at ten.", .words), ("I see a train coming", .words),
    ])
    func judges(transcript: String, expected: InterruptionWords.Judgement) {
        #expect(InterruptionWords.judge(transcript, over: Self.reply, in: .english) == expected)
    }

    @Test func aWordIsEnoughWhereAnEchoIsLikely() {
        #expect(InterruptionWords.judge("Nine.", over: Self.reply, in: .english, run: 1) == .echo)
        #expect(InterruptionWords.judge("Ten.", over: Self.reply, in: .english, run: 1) == .words)
    }

    @Test func withoutAReplyNothingIsItsEcho() {
        #expect(InterruptionWords.judge("take the train", over: "", in: .english) == .words)
    }
}
