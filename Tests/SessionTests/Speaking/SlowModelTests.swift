// When a clause is spoken that a slow model has just completed: not only with the next word.

import Codec
import Testing

@testable import Session

@Suite struct SlowModelTests {
    private static func script(_ pieces: [(Int, String)]) -> ScriptedSession {
        let script = ScriptedSession { $0.outputTransport = .binary }
        script.replies = [
            ScriptedReply(pieces: pieces.map { (.milliseconds($0.0), .text($0.1)) })
        ]
        script.send(.responseCreate(ResponseParameters()), at: 0)
        script.run(until: 9_000)
        return script
    }

    @Test func aSentenceIsSpokenWhenTheModelPauses() throws {
        let script = Self.script([(100, "This is"), (200, " the end."), (2_000, " Of it all.")])
        let first = try #require(script.audioTimes.first)
        // The scripted synthesiser takes 15 ms.
        #expect(first == 300 + ClauseSplitter.pauseMilliseconds + 15)
        #expect(script.spoken == ["This is the end.", " Of it all."])
        #expect(script.violations.isEmpty)
    }

    /// A count with pauses, as the guide's, is heard number by number.
    @Test func aNumberIsSpokenWhenTheModelPausesBehindItsComma() throws {
        let script = Self.script([(100, "1,"), (1_500, " 2,"), (1_500, " 3,"), (1_500, " 4.")])
        let first = try #require(script.audioTimes.first)
        #expect(first == 100 + ClauseSplitter.longPauseMilliseconds + 15)
        #expect(script.spoken == ["1,", " 2,", " 3,", " 4."])
        #expect(script.violations.isEmpty)
    }

    @Test func digitsOfOneNumberStayTogether() {
        let script = Self.script([(100, "1,"), (150, "000"), (150, " and 3."), (150, "5")])
        #expect(script.spoken == ["1,000 and 3.5"])
    }

    @Test func tokensOfOneWordStayTogether() {
        let script = Self.script([
            (100, "Write to me at example."), (39, "com today."), (1, " Bye!"),
        ])
        #expect(script.spoken == ["Write to me at example.com today.", " Bye!"])
    }

    @Test func nothingIsCutWhileThereIsSomethingToHear() {
        // Three seconds of speech are being sent when the second sentence stops within "3.5".
        let script = Self.script([
            (100, "This takes a while to be said, and so it will be heard for long. "),
            (100, "It is version"), (50, " one."), (1_000, "5 of it. "),
        ])
        #expect(script.spoken.last == " It is version one.5 of it.")
    }
}
