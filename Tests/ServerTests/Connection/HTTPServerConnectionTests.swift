// The transitions of HTTP on a connection, one row each, without a shard: the table at the top of
// HTTPServerConnection.swift, line by line. Then bytes in pieces of any size, the deadlines, and
// the memory.

import Codec
import Session
import Testing

@testable import Server

/// Drives a connection's HTTP as a shard does, and writes down the events.
private final class HTTPDriver {
    let http = HTTPServerConnection(at: .milliseconds(0))
    var settings = ConnectionSettings()
    var now = Instant.milliseconds(0)
    var lastReceived = Instant.milliseconds(0)
    /// Whether an answer waits to be sent.
    var hasOutput = false
    /// Whether each request is answered at once.
    var answersAtOnce = false
    /// Whether the verdict on a head comes later.
    var judgesLater = false
    /// The last whole request.
    private(set) var request: HTTPRequest?

    /// Bytes come.
    /// - Returns: the events that follow, as words.
    func receive(_ text: String) -> [String] {
        lastReceived = now
        var bytes = Array(text.utf8)
        var events: [String] = []
        bytes.withUnsafeMutableBytes {
            if http.pending.isEmpty {
                http.handleFirstBytes(at: now)
                var input = $0
                events = takeEvents(in: &input)
                if !input.isEmpty { http.keep(input) }
            } else {
                http.append($0)
                if http.isParsing { events = usePending() }
            }
        }
        return events
    }

    /// The events of the bytes that are pending, as words.
    func usePending() -> [String] {
        var events: [String] = []
        http.usePending {
            var input = $0
            events = takeEvents(in: &input)
            return input.count
        }
        return events
    }

    private func takeEvents(in input: inout UnsafeMutableRawBufferPointer) -> [String] {
        var events: [String] = []
        while let event = http.nextEvent(
            in: &input, hasOutput: hasOutput, at: now, settings.http)
        {
            switch event {
            case .request(let request):
                events.append("request \(request.path) \(request.body.count)")
                self.request = request
                if answersAtOnce { http.endAnswer(keepsConnection: true, at: now) }
            case .judgeHead(let head):
                events.append("judgeHead \(head.path)")
                if judgesLater { http.beginJudging() }
            case .sendContinue: events.append("sendContinue")
            case .pause: events.append("pause")
            case .failed(let error): events.append("failed \(error)")
            }
        }
        return events
    }

    /// The phase as a word.
    var phase: String {
        switch http.phase {
        case .idle: "idle"
        case .receiving: "receiving"
        case .serving: "serving"
        case .answering(.reply): "answering reply"
        case .answering(.survey): "answering survey"
        case .answering(.record): "answering record"
        case .answering(.call): "answering call"
        case .answering(.claim): "answering claim"
        case .answering(.sender): "answering sender"
        case .answering(.relay): "answering relay"
        case .judging: "judging"
        case .paused(nil): "paused"
        case .paused(.some): "paused within a request"
        case .ended: "ended"
        }
    }

    /// When it must be looked at.
    var deadline: Instant { http.deadline(lastReceived: lastReceived, settings) }

    /// The meaning of a deadline that has passed, as a word.
    var overdue: String {
        switch http.overdue {
        case .reply: "reply"
        case .relay: "relay"
        case .slowRequest: "slow request"
        case .idleConnection: "idle"
        }
    }

    /// An answer to the last request, of which nothing was sent.
    func makeReply() throws -> TextAnswer {
        let log = ReplyLog(messageID: "msg_1", review: {})
        let token = EventToken(.connection, index: 0, generation: 1)
        return TextAnswer(
            log: log, reader: ReplyReader(shard: 0, token: token), chat: nil,
            style: .whole(.init(id: "chatcmpl-1", created: 0, model: "m")), fields: HTTPFields(),
            answering: try #require(request), keepAlive: true, at: now)
    }
}

/// Something that happens to a connection's HTTP.
private enum Happening: CustomStringConvertible {
    case bytes(String)
    case bytesBehindOutput(String)
    case beginReply
    case beginSurvey
    case answered
    case answeredLast
    case resume
    case end

    var description: String {
        switch self {
        case .bytes(let text): "bytes \(text.prefix(20).debugDescription)"
        case .bytesBehindOutput(let text): "bytes behind output \(text.prefix(20).debugDescription)"
        case .beginReply: "beginReply"
        case .beginSurvey: "beginSurvey"
        case .answered: "answered"
        case .answeredLast: "answeredLast"
        case .resume: "resume"
        case .end: "end"
        }
    }

    /// Lets it happen.
    /// - Returns: the events that follow.
    func apply(to driver: HTTPDriver) throws -> [String] {
        switch self {
        case .bytes(let text): return driver.receive(text)
        case .bytesBehindOutput(let text):
            driver.hasOutput = true
            defer { driver.hasOutput = false }
            return driver.receive(text)
        case .beginReply: driver.http.beginAnswer(.reply(try driver.makeReply()))
        case .beginSurvey: driver.http.beginAnswer(.survey(1))
        case .answered: driver.http.endAnswer(keepsConnection: true, at: driver.now)
        case .answeredLast: driver.http.endAnswer(keepsConnection: false, at: driver.now)
        case .resume:
            driver.http.resume()
            return driver.usePending()
        case .end: driver.http.end()
        }
        return []
    }
}

/// One line of the table.
private struct Transition: CustomTestStringConvertible {
    /// The happenings that lead to the phase.
    let before: [Happening]
    let phase: String
    let happening: Happening
    let events: [String]
    let next: String

    init(
        _ before: [Happening], _ phase: String, _ happening: Happening, _ events: [String],
        _ next: String
    ) {
        self.before = before
        self.phase = phase
        self.happening = happening
        self.events = events
        self.next = next
    }

    var testDescription: String { "\(phase), \(happening) → \(next)" }

    static let whole = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
    static let part = "GET /a HT"
    static let rest = "TP/1.1\r\nHost: a\r\n\r\n"
    static let wrong = "GET /a HTTP/1.1\nHost: a\n\n"
    static let waiting =
        "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    static let long = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"
    static let many = String(repeating: "x", count: HTTPServerConnection.maxUnjudgedBytes)

    static let table: [Transition] = [
        // A request's bytes.
        Transition([], "idle", .bytes(part), [], "receiving"),
        Transition([], "idle", .bytes(whole), ["request /a 0"], "serving"),
        Transition([], "idle", .bytes(wrong), ["failed bareLineFeed"], "ended"),
        Transition([.bytes(part)], "receiving", .bytes("TP"), [], "receiving"),
        Transition([.bytes(part)], "receiving", .bytes(rest), ["request /a 0"], "serving"),
        Transition(
            [.bytes(part)], "receiving", .bytes("XX\r\n\r\n"), ["failed malformedVersion"],
            "ended"),
        // A body that is judged before it comes.
        Transition([], "idle", .bytes(long), [], "receiving"),
        Transition([.bytes(long)], "receiving", .bytes(many), ["judgeHead /b"], "receiving"),
        Transition(
            [.bytes(long + many)], "receiving", .bytes("x"), [], "receiving"),
        Transition(
            [.bytes(long + many)], "receiving",
            .bytes(String(repeating: "x", count: 100_000 - many.count)), ["request /b 100000"],
            "serving"),
        Transition(
            [], "idle", .bytes(waiting), ["judgeHead /b", "sendContinue"], "receiving"),
        Transition([.bytes(waiting)], "receiving", .bytes("xy"), [], "receiving"),
        Transition([.bytes(waiting)], "receiving", .bytes("xyz"), ["request /b 3"], "serving"),
        Transition([.bytes(waiting)], "receiving", .end, [], "ended"),
        // Answers.
        Transition([.bytes(whole)], "serving", .answered, [], "idle"),
        Transition([.bytes(whole)], "serving", .answeredLast, [], "ended"),
        Transition([.bytes(whole)], "serving", .beginReply, [], "answering reply"),
        Transition([.bytes(whole)], "serving", .beginSurvey, [], "answering survey"),
        Transition([.bytes(whole)], "serving", .end, [], "ended"),
        Transition([.bytes(whole), .beginReply], "answering reply", .answered, [], "idle"),
        Transition([.bytes(whole), .beginReply], "answering reply", .answeredLast, [], "ended"),
        Transition([.bytes(whole), .beginReply], "answering reply", .end, [], "ended"),
        Transition([.bytes(whole), .beginSurvey], "answering survey", .answered, [], "idle"),
        Transition([.bytes(whole), .beginSurvey], "answering survey", .answeredLast, [], "ended"),
        Transition(
            [.bytes(whole), .answered], "idle", .bytes(whole), ["request /a 0"], "serving"),
        // Bytes behind an answer wait.
        Transition([.bytes(whole)], "serving", .bytes(whole), [], "serving"),
        Transition(
            [.bytes(whole), .beginReply], "answering reply", .bytes(wrong), [], "answering reply"),
        Transition(
            [.bytes(whole), .beginSurvey], "answering survey", .bytes(part), [],
            "answering survey"),
        // Output that does not leave.
        Transition([], "idle", .bytesBehindOutput(whole), ["pause"], "paused"),
        Transition([], "idle", .bytesBehindOutput(wrong), ["pause"], "paused"),
        Transition(
            [.bytes(part)], "receiving", .bytesBehindOutput(rest), ["pause"],
            "paused within a request"),
        Transition([.bytesBehindOutput(whole)], "paused", .bytes(whole), [], "paused"),
        Transition(
            [.bytesBehindOutput(whole)], "paused", .resume, ["request /a 0"], "serving"),
        Transition([.bytesBehindOutput(part)], "paused", .resume, [], "receiving"),
        Transition(
            [.bytes(part), .bytesBehindOutput(rest)], "paused within a request", .resume,
            ["request /a 0"], "serving"),
        Transition([.bytesBehindOutput(whole)], "paused", .end, [], "ended"),
        // The end.
        Transition([], "idle", .end, [], "ended"),
        Transition([.end], "ended", .bytes(whole), [], "ended"),
        Transition([.end], "ended", .resume, [], "ended"),
        Transition([.bytes(wrong)], "ended", .bytes(whole), [], "ended"),
        Transition([], "idle", .resume, [], "idle"),
    ]
}

@Suite struct HTTPServerConnectionTests {
    @Test(arguments: Transition.table)
    private func theTableHolds(_ transition: Transition) throws {
        let driver = HTTPDriver()
        for happening in transition.before { _ = try happening.apply(to: driver) }
        #expect(driver.phase == transition.phase)
        #expect(try transition.happening.apply(to: driver) == transition.events)
        #expect(driver.phase == transition.next)
    }

    // MARK: Bytes

    /// The same requests, in whatever pieces they come.
    @Test func piecesOfAnySizeMakeTheSameEvents() {
        let input =
            Transition.whole + "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nxyz"
            + Transition.waiting + "xyz" + Transition.whole + Transition.wrong
        let whole = HTTPDriver()
        whole.answersAtOnce = true
        let events = whole.receive(input)
        // The client that waits has already sent its body.
        #expect(
            events == [
                "request /a 0", "request /b 3", "request /b 3", "request /a 0",
                "failed bareLineFeed",
            ])
        for size in 1...input.utf8.count {
            let driver = HTTPDriver()
            driver.answersAtOnce = true
            var rest = Substring(input)
            var seen: [String] = []
            while !rest.isEmpty {
                seen += driver.receive(String(rest.prefix(size)))
                rest = rest.dropFirst(size)
            }
            seen.removeAll { $0 == "judgeHead /b" || $0 == "sendContinue" }
            #expect(seen == events, "in pieces of \(size)")
            #expect(driver.phase == "ended")
        }
    }

    @Test func eachRequestIsJudgedAndContinuedOnce() {
        let driver = HTTPDriver()
        driver.answersAtOnce = true
        for _ in 0..<3 {
            #expect(driver.receive(Transition.waiting) == ["judgeHead /b", "sendContinue"])
            #expect(driver.receive("x") == [])
            #expect(driver.receive("yz") == ["request /b 3"])
        }
    }

    @Test func requestsBehindAnAnswerWaitInOrder() {
        let driver = HTTPDriver()
        #expect(driver.receive(Transition.whole + Transition.waiting) == ["request /a 0"])
        driver.http.beginAnswer(.survey(7))
        #expect(driver.http.survey == 7 && driver.http.isAnswering)
        #expect(driver.receive("xyz" + Transition.whole) == [])
        driver.http.endAnswer(keepsConnection: true, at: driver.now)
        #expect(driver.usePending() == ["request /b 3"])
        #expect(driver.http.pending.count == Transition.whole.utf8.count)
        driver.http.endAnswer(keepsConnection: true, at: driver.now)
        #expect(driver.usePending() == ["request /a 0"])
        #expect(driver.http.pending.isEmpty)
    }

    @Test func aCallIsAnsweredLaterOrBecomesAWebSocket() {
        let driver = HTTPDriver()
        #expect(driver.receive(Transition.whole) == ["request /a 0"])
        driver.http.beginAnswer(.call(3))
        #expect(driver.http.call == 3 && driver.http.asksElsewhere && driver.http.survey == nil)
        #expect(driver.phase == "answering call")
        driver.http.endAnswer(keepsConnection: true, at: driver.now)
        #expect(driver.phase == "idle" && !driver.http.asksElsewhere)
        #expect(driver.receive(Transition.whole) == ["request /a 0"])
        driver.http.beginAnswer(.claim)
        #expect(driver.http.isClaiming && driver.http.asksElsewhere && driver.http.call == nil)
        #expect(driver.phase == "answering claim")
        driver.http.endAnswer(keepsConnection: true, at: driver.now)
        #expect(driver.receive(Transition.whole) == ["request /a 0"])
        driver.http.beginAnswer(.call(4))
        driver.http.end()
        #expect(driver.phase == "ended" && driver.http.call == nil)
    }

    @Test func aHeadWhoseVerdictComesLaterIsJudgedOnce() {
        let driver = HTTPDriver()
        driver.judgesLater = true
        #expect(driver.receive(Transition.waiting) == ["judgeHead /b"])
        #expect(driver.phase == "judging" && driver.http.awaitsSender)
        #expect(driver.http.mustStopReading && driver.http.asksElsewhere)
        #expect(driver.receive("x") == [])
        driver.http.endJudging()
        #expect(driver.phase == "receiving" && !driver.http.asksElsewhere)
        #expect(driver.usePending() == ["sendContinue"])
        #expect(driver.receive("yz") == ["request /b 3"])
    }

    @Test func aRequestIsServedOnceItsSenderIsFoundOut() {
        let driver = HTTPDriver()
        #expect(driver.receive(Transition.whole + Transition.part) == ["request /a 0"])
        driver.http.beginAnswer(.sender)
        #expect(driver.phase == "answering sender" && driver.http.awaitsSender)
        driver.http.beginServing()
        let rest = driver.http.takePending()
        #expect(rest == Array(Transition.part.utf8) && driver.http.pending.isEmpty)
        driver.http.putBack(rest)
        driver.http.endAnswer(keepsConnection: true, at: driver.now)
        #expect(driver.usePending() == [] && driver.phase == "receiving")
        #expect(driver.receive(Transition.rest) == ["request /a 0"])
    }

    @Test func readingStopsWhereTooMuchWaits() {
        let driver = HTTPDriver()
        _ = driver.receive(Transition.whole)
        driver.http.beginAnswer(.survey(1))
        let most = HTTPServerConnection.maxPendingBehindAnswer
        _ = driver.receive(String(repeating: "x", count: most - 1))
        #expect(!driver.http.mustStopReading)
        _ = driver.receive("x")
        #expect(driver.http.mustStopReading)
        let paused = HTTPDriver()
        paused.hasOutput = true
        _ = paused.receive(Transition.whole)
        #expect(paused.http.mustStopReading && paused.http.isPaused)
    }

    /// Pausing is for the next bytes: what has been parsed needs no room in the output.
    @Test func outputThatWaitsDoesNotPauseTheStepsOfAHead() {
        let driver = HTTPDriver()
        #expect(driver.receive(Transition.waiting) == ["judgeHead /b", "sendContinue"])
        #expect(driver.phase == "receiving")
        driver.hasOutput = true
        #expect(driver.receive("xyz") == ["pause"])
    }

    // MARK: Time

    @Test func theFirstRequestHasItsTimeFromTheConnectionsStart() {
        let driver = HTTPDriver()
        #expect(driver.deadline == .milliseconds(10_000) && driver.overdue == "idle")
        driver.now = .milliseconds(9_000)
        _ = driver.receive("G")
        #expect(driver.deadline == .milliseconds(10_000) && driver.overdue == "slow request")
    }

    @Test func aHeadMustKeepThePaceOfARequest() {
        let driver = HTTPDriver()
        driver.settings.http.headerTimeout = .seconds(100)
        _ = driver.receive(String(repeating: "G", count: 10))
        // 5 s of grace, and 500 bytes a second.
        #expect(driver.deadline == .milliseconds(5_020))
    }

    @Test func aBodyMayTakeLongerThanAHead() {
        let driver = HTTPDriver()
        driver.now = .milliseconds(1_000)
        _ = driver.receive(Transition.long + String(repeating: "x", count: 20_000))
        let milliseconds = 1_000 + 5_000 + (Transition.long.utf8.count + 20_000) * 2
        #expect(driver.deadline == .milliseconds(milliseconds))
        #expect(driver.overdue == "slow request")
    }

    @Test func anAnsweredConnectionMayBeSilentForLonger() {
        let driver = HTTPDriver()
        driver.answersAtOnce = true
        driver.now = .milliseconds(2_000)
        #expect(!driver.http.hasHadRequest && !driver.http.isKeptAlive)
        _ = driver.receive(Transition.whole)
        #expect(driver.http.hasHadRequest && driver.http.isKeptAlive)
        #expect(driver.deadline == .milliseconds(77_000) && driver.overdue == "idle")
        // The next request has its time from its first byte, or from the end of the one before it.
        driver.now = .milliseconds(50_000)
        _ = driver.receive("GET")
        #expect(driver.http.requestStart == .milliseconds(50_000))
        #expect(driver.deadline == .milliseconds(55_006) && driver.overdue == "slow request")
        driver.now = .milliseconds(51_000)
        _ = driver.receive(" /a HTTP/1.1\r\nHost: a\r\n\r\nGET")
        #expect(driver.http.requestStart == .milliseconds(51_000))
    }

    @Test func aReplyHasItsOwnDeadlineAndWhatWaitsBehindItNone() throws {
        let driver = HTTPDriver()
        _ = driver.receive(Transition.whole)
        let reply = try driver.makeReply()
        driver.http.beginAnswer(.reply(reply))
        driver.now = .milliseconds(3_000)
        _ = driver.receive("GET")
        #expect(
            driver.deadline == reply.deadline(ping: .seconds(25), patience: .seconds(60)))
        #expect(driver.overdue == "reply")
        driver.now = .milliseconds(40_000)
        driver.http.endAnswer(keepsConnection: true, at: driver.now)
        #expect(driver.http.requestStart == driver.now)
    }

    @Test func aPausedConnectionIsIdleWhenItsTimeIsOver() {
        let driver = HTTPDriver()
        driver.hasOutput = true
        _ = driver.receive(Transition.whole)
        #expect(driver.deadline == .milliseconds(75_000) && driver.overdue == "idle")
    }

    // MARK: Memory

    @Test func onlyAnIncompleteRequestHasAParser() throws {
        let driver = HTTPDriver()
        let bare = HTTPServerConnection.objectBytes
        #expect(driver.http.heldBytes == bare)
        _ = driver.receive(Transition.part)
        #expect(driver.http.heldBytes == bare + HTTPServerConnection.IncompleteRequest.objectBytes)
        _ = driver.receive(Transition.rest)
        #expect(driver.http.heldBytes == bare && driver.http.pending.isEmpty)
        driver.http.beginAnswer(.reply(try driver.makeReply()))
        #expect(driver.http.heldBytes == bare + TextAnswer.objectBytes)
        #expect(driver.http.end() != nil)
        #expect(driver.http.heldBytes == bare)
    }
}
