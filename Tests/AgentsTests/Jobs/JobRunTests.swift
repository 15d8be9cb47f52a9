// One run of a job, and the pieces of its answer: the state machine alone, with times as arguments.

import Codec
import Session
import Testing

@testable import Agents

/// Fields of an entry as Redis answers them.
func jobFields(_ fields: [String: String]) -> [String: [UInt8]] {
    fields.mapValues { Array($0.utf8) }
}

@Suite struct JobPieceTests {
    private func piece(_ fields: [String: String]) throws(JobPieceError) -> JobPiece {
        try JobPiece(job: "t.1", fields: jobFields(["n": "1"].merging(fields) { $1 }))
    }

    @Test func eachTypeIsRead() throws {
        #expect(try piece(["type": "text", "text": "Hé "]).content == .text(Array("Hé ".utf8)))
        #expect(try piece(["type": "text", "text": ""]).content == .text([]))
        #expect(try piece(["type": "message_end"]).content == .deltas([.messageEnded]))
        #expect(
            try piece(["type": "call", "name": "look", "call_id": "c", "arguments": #"{"a":1}"#])
                .content
                == .deltas([
                    .functionCallStarted(callID: "c", name: "look"),
                    .functionCallArguments(#"{"a":1}"#),
                ]))
        #expect(
            try piece(["type": "call", "name": "look"]).content
                == .deltas([
                    .functionCallStarted(callID: "call_t.1_1", name: "look"),
                    .functionCallArguments(""),
                ]))
        #expect(try piece(["type": "end"]).content == .end([]))
        #expect(
            try piece([
                "type": "end", "incomplete": "max_output_tokens", "input_tokens": "7",
                "output_tokens": "3",
            ]).content
                == .end([
                    .incomplete(reason: "max_output_tokens"),
                    .usage(inputTokens: 7, cachedTokens: 0, outputTokens: 3),
                ]))
        #expect(try piece(["type": "error", "message": "no"]).content == .error("no"))
        #expect(try piece(["type": "error"]).content == .error("no reason"))
    }

    @Test(arguments: [
        ([:], JobPieceError.badField("type")), (["type": "text"], .badField("text")),
        (["type": "song"], .unknownType("song")), (["type": "call"], .badField("name")),
        (["type": "call", "name": ""], .badField("name")),
        (["type": "end", "n": "0"], .badField("n")), (["type": "end", "n": "-1"], .badField("n")),
        (["type": "end", "n": "99999999999999999999"], .badField("n")),
        (["type": "end", "input_tokens": "many"], .badField("input_tokens")),
        (["type": "end", "input_tokens": "-1"], .badField("input_tokens")),
    ])
    func whatIsNoPieceIsAnError(fields: [String: String], error: JobPieceError) {
        #expect(throws: error) { try piece(fields) }
    }

    @Test(arguments: ["call_id", "name", "arguments"]) func aCallThatIsNoUTF8IsAnError(name: String)
    {
        var fields = jobFields(["n": "1", "type": "call", "name": "book"])
        fields[name] = [0xC3, 0x28]
        #expect(throws: JobPieceError.badField(name)) { try JobPiece(job: "t", fields: fields) }
    }
}

@Suite struct JobRunTests {
    private var run = JobRun(
        limits: JobLimits(
            pickup: .milliseconds(10_000), firstPiece: .milliseconds(20_000),
            silence: .seconds(5), total: .milliseconds(60_000)))

    private func piece(_ number: Int, _ text: String) throws -> JobPiece {
        try JobPiece(
            job: "t.1", fields: jobFields(["n": "\(number)", "type": "text", "text": text]))
    }

    private func end(_ number: Int) throws -> JobPiece {
        try JobPiece(job: "t.1", fields: jobFields(["n": "\(number)", "type": "end"]))
    }

    private mutating func say(
        _ number: Int, _ text: String, at time: Int = 0
    ) throws -> Bool { run.handle(try piece(number, text), at: .milliseconds(time)) }

    private mutating func news(at time: Int = 0) -> JobNews {
        run.takeNews(at: .milliseconds(time)).news
    }

    private mutating func failure() -> String? {
        guard case .failed(let error)? = news().end else { return nil }
        return error.detail
    }

    @Test mutating func piecesComeInOrderEachOnce() throws {
        #expect(!run.hasNews)
        _ = try say(1, "a")
        _ = try say(1, "a")
        _ = try say(2, "b")
        #expect(run.bufferedBytes > 0)
        #expect(news() == JobNews(deltas: [.text("a"), .text("b")]))
        #expect(run.bufferedBytes == 0 && news() == JobNews())
        _ = run.handle(try end(3), at: .milliseconds(0))
        #expect(run.isOver && news() == JobNews(end: .completed))
        _ = try say(4, "d")
        #expect(!run.hasNews)
    }

    /// Each way to cut five characters of one to four bytes into two pieces, and into pieces of a byte.
    @Test func textMayBeCutWithinACharacter() throws {
        let text = "aé€😀!"
        let bytes = Array(text.utf8)
        let cuts = (0...bytes.count).map { [bytes[..<$0], bytes[$0...]] }
        for pieces in cuts + [bytes.indices.map { bytes[$0...$0] }] {
            #expect(try said(in: pieces.map { Array($0) }) == text)
        }
    }

    @Test(
        arguments: [
            ([[0xC3, 0x28]], "\u{FFFD}("), ([[0xF0, 0x9F], Array("a".utf8)], "\u{FFFD}a"),
            ([[0xE2, 0x82]], "\u{FFFD}"), ([[0x80]], "\u{FFFD}"),
        ] as [([[UInt8]], String)])
    func bytesThatAreNoCharacterAreReplaced(pieces: [[UInt8]], text: String) throws {
        #expect(try said(in: pieces) == text)
    }

    /// The words of an answer in these pieces.
    private func said(in pieces: [[UInt8]]) throws -> String {
        var run = run
        for (index, bytes) in pieces.enumerated() {
            var fields = jobFields(["n": "\(index + 1)", "type": "text"])
            fields["text"] = bytes
            _ = run.handle(try JobPiece(job: "t", fields: fields), at: .milliseconds(0))
        }
        _ = run.handle(try end(pieces.count + 1), at: .milliseconds(0))
        let news = run.takeNews(at: .milliseconds(0)).news
        #expect(news.end == .completed)
        return news.deltas.reduce(into: "") { said, delta in
            if case .text(let text) = delta { said += text }
        }
    }

    @Test mutating func aGapFailsTheRun() throws {
        _ = try say(1, "a")
        _ = try say(3, "c")
        let news = news()
        #expect(news.deltas == [.text("a")])
        #expect(
            news.end
                == .failed(
                    .upstream(status: 0, message: "Redis has lost a piece of a worker's answer.")))
    }

    @Test mutating func theWorkersErrorAndAPieceThatCannotBeReadFailTheRun() throws {
        var other = run
        let error = ["n": "1", "type": "error", "message": "out of tea"]
        _ = run.handle(try JobPiece(job: "t", fields: jobFields(error)), at: .milliseconds(0))
        #expect(failure() == "A worker could not answer: out of tea")
        other.handle(.unknownType("song"))
        #expect(
            other.takeNews(at: .milliseconds(0)).news.end
                == .failed(
                    .malformedReply(
                        message: "The agent's answer cannot be read.",
                        detail: "a piece of the type song")))
    }

    @Test mutating func aWorkerThatWritesTooFastIsHeld() throws {
        let long = String(repeating: "x", count: JobRun.heldBytes / 2)
        #expect(try !say(1, long))
        #expect(try say(2, long, at: 100))
        #expect(try !say(3, "y"))
        #expect(run.heldSince == .milliseconds(100))
        // While it is held, no limit but that of the buffer counts.
        run.handleTime(.milliseconds(70_000))
        #expect(run.takeNews(at: .milliseconds(70_000)).goesOn == false)
        let (nothing, goesOn) = run.takeNews(at: .milliseconds(70_000))
        #expect(nothing == JobNews() && goesOn)
        run.handleTime(.milliseconds(70_100))
        #expect(!run.hasNews)
        // The silence of the worker, and the total limit, begin where it may go on.
        run.handleTime(.milliseconds(75_000))
        #expect(failure() == "A worker said nothing more.")
    }

    @Test mutating func aWorkerThatDoesNotObeyFails() throws {
        let long = String(repeating: "x", count: JobRun.heldBytes)
        for number in 1...JobRun.maxBufferedBytes / JobRun.heldBytes {
            _ = try say(number, long)
        }
        guard case .failed(.malformedReply(let message, _))? = news().end else {
            Issue.record("it goes on")
            return
        }
        #expect(message == "The agent's answer is too large.")
    }

    @Test mutating func anAnswerHasALimit() throws {
        let long = String(repeating: "x", count: 1 << 19)
        for number in 1...32 {
            _ = try say(number, long)
            if number < 32 { #expect(news().end == nil) }
        }
        #expect(failure() == "The agent's answer is too large.")
    }

    // MARK: Time

    @Test mutating func noWorkerTakesIt() {
        run.handle(.waiting, hasRead: true)
        run.handleTime(.milliseconds(9_999))
        #expect(!run.hasNews)
        run.handleTime(.milliseconds(10_000))
        #expect(failure() == "No worker has taken the turn in time.")
    }

    @Test(arguments: [JobSight.taken, .running])
    mutating func aWorkerThatHasItMayThink(sight: JobSight) {
        run.handle(sight, hasRead: true)
        run.handleTime(.milliseconds(19_999))
        #expect(!run.hasNews)
        run.handleTime(.milliseconds(20_000))
        #expect(failure() == "A worker said nothing in time.")
    }

    @Test mutating func silenceAndLengthAreLimited() throws {
        _ = try say(1, "a", at: 1_000)
        _ = news()
        run.handleTime(.milliseconds(5_999))
        #expect(!run.hasNews)
        var other = run
        run.handleTime(.milliseconds(6_000))
        #expect(failure() == "A worker said nothing more.")
        _ = other.handle(try piece(2, "b"), at: .milliseconds(59_000))
        other.handleTime(.milliseconds(60_000))
        guard case .failed(let error)? = other.takeNews(at: .milliseconds(0)).news.end else {
            Issue.record("it goes on")
            return
        }
        #expect(error.detail == "A worker's answer took too long.")
    }

    // MARK: Death

    @Test mutating func aDeadWorkerIsNews() {
        run.handle(.lost, hasRead: false)
        #expect(!run.isOver && news() == JobNews(end: .lost))
        // It is told again where nothing has happened.
        run.handle(.lost, hasRead: false)
        #expect(news() == JobNews(end: .lost))
    }

    @Test mutating func aPieceShowsThatItsWorkerLives() throws {
        run.handle(.lost, hasRead: false)
        _ = try say(1, "a")
        #expect(news() == JobNews(deltas: [.text("a")]))
    }

    @Test mutating func aJobThatIsGoneIsLostOnceAllPiecesWereRead() throws {
        run.handle(.gone, hasRead: false)
        #expect(!run.hasNews)
        var finished = run
        run.handle(.gone, hasRead: true)
        #expect(news().end == .gone)
        _ = finished.handle(try end(1), at: .milliseconds(0))
        finished.handle(.gone, hasRead: true)
        #expect(finished.takeNews(at: .milliseconds(0)).news.end == .completed)
    }
}
