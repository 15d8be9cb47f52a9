// What a caller of `parley call` does at each tick, without a server.

import Codec
import Glibc
import Testing

@testable import parley

@Suite struct CallProgressTests {
    private func progress(
        _ turns: [CallScript.Turn], keys: String = "", greeting: Bool = false,
        patience: Double = 1
    ) -> CallProgress {
        CallProgress(
            CallScript(turns: turns, keys: keys, awaitsGreeting: greeting, patience: patience))
    }

    /// Ticks in which nothing comes, and the steps but `listen`.
    private func quiet(_ ticks: Int, _ progress: inout CallProgress) -> [CallProgress.Step] {
        (0..<ticks).map { _ in progress.tick(hasNews: false, isQuiet: true) }
            .filter { $0 != .listen }
    }

    @Test func aTurnIsToldAndItsReplyAwaited() {
        var caller = progress([.words("hello"), .words("again")])
        #expect(caller.tick(hasNews: false, isQuiet: true) == .tell(turn: 0))
        #expect(quiet(10, &caller).isEmpty)
        #expect(caller.tick(hasNews: true, isQuiet: false) == .listen)
        // The reply has a pause that does not end it.
        #expect(quiet(CallProgress.quietTicks, &caller).isEmpty)
        #expect(caller.tick(hasNews: true, isQuiet: false) == .listen)
        #expect(quiet(CallProgress.quietTicks + 1, &caller) == [.tell(turn: 1)])
        #expect(caller.delays == [11])
        #expect(caller.tick(hasNews: true, isQuiet: true) == .listen)
        #expect(caller.tick(hasNews: true, isQuiet: true) == .listen)
        #expect(quiet(CallProgress.quietTicks + 1, &caller) == [.hangUp])
    }

    /// 100 ms of sound and 400 ms of silence.
    @Test(arguments: [(10, 5), (30, 25)])
    func theDelayCountsFromTheEndOfSpeech(replyAt: Int, delay: Int) throws {
        let samples = [Int16](repeating: 8_000, count: 800) + [Int16](repeating: 0, count: 3_200)
        let file = WAVFile(rate: .hz8000, samples: samples).encoded()
        let path = "/tmp/parley-call-\(UInt64.random(in: 0 ... .max)).wav"
        #expect(writeWholeFile(path, file))
        defer { unlink(path) }
        var caller = progress([.speech(try Recording(path: path, format: .pcmu))])
        let said = quiet(replyAt, &caller)
        #expect(said.count == min(replyAt, 25))
        #expect(said.first == .say(turn: 0, packet: 0))
        #expect(caller.tick(hasNews: true, isQuiet: false) == .listen)
        #expect(caller.delays == [delay])
    }

    @Test func aCallWithoutAReplyFails() {
        var caller = progress([.words("hello")], patience: 0.2)
        #expect(quiet(11, &caller) == [.tell(turn: 0), .fail])
    }

    @Test func aGreetingIsAwaitedFirst() {
        var caller = progress([.words("hello")], greeting: true)
        #expect(quiet(20, &caller).isEmpty)
        #expect(caller.tick(hasNews: true, isQuiet: false) == .listen)
        #expect(quiet(CallProgress.quietTicks + 1, &caller) == [.tell(turn: 0)])
        #expect(caller.delays.isEmpty)
    }

    @Test func keysArePressedOneAfterAnother() {
        var caller = progress([], keys: "12")
        #expect(
            quiet(12, &caller) == [.press(turn: 0, key: 0), .press(turn: 0, key: 1)])
    }

    @Test func keysThatAreNoTurnEndTheCall() {
        var caller = CallProgress(
            CallScript(
                turns: [], keys: "1", awaitsGreeting: false, answersKeys: false, patience: 1))
        #expect(quiet(11, &caller) == [.press(turn: 0, key: 0), .hangUp])
    }

    @Test func aCallWithoutTurnsEnds() {
        var caller = progress([])
        #expect(quiet(1, &caller) == [.hangUp])
    }

    @Test(arguments: [
        ("ws://h:1", "/twilio"), ("ws://h:1/", "/twilio"),
        ("wss://h/telnyx/s3cret", "/telnyx/s3cret"),
        ("ws://h/x?a=b#c", "/x?a=b"),
    ])
    func theCarriersPathIsAddedWhereThereIsNone(text: String, target: String) throws {
        #expect(try RealtimeURL(text, path: "/twilio").target == target)
    }

    @Test(arguments: [
        ["--carrier", "nobody"], ["--carrier", "twilio", "--text", "x"],
        ["--carrier", "conversation-relay", "--wav", "x.wav"], ["--parameter", "voice"],
        ["--press", "1x"], ["--calls", "0"], ["--carrier", "telnyx", "--auth-token", "t"],
    ])
    func optionsThatDoNotFitAreRefused(arguments: [String]) {
        #expect(throws: (any Error).self) { try CallCommand.parse(arguments) }
    }
}
