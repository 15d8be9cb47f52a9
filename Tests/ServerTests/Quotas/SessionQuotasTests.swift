// The quotas of one session: what it takes ahead, what it gives back, and how the tokens of replies
// are counted.

import Codec
import Session
import Testing

@testable import Server

@Suite struct SessionQuotasTests {
    private static let start = Instant.milliseconds(1_000)
    private static let subject = QuotaSubject.principal(SHA256Digest(of: "key"))

    private func account(_ quotas: String...) -> QuotaAccount {
        QuotaAccount(subject: Self.subject, quotas: quotas.compactMap(Quota.init))
    }

    private func quotas(
        own: [String] = [], _ account: QuotaAccount, in table: QuotaTable
    ) throws -> SessionQuotas {
        try #require(
            SessionQuotas(own: own.compactMap(Quota.init), accounts: [account], in: table))
    }

    private func response(
        _ id: String, input: Int = 0, output: Int = 0, text: String = ""
    ) -> ResponseDescription {
        var response = ResponseDescription(
            id: id, conversationID: nil, outputModality: .text, outputFormat: .pcm,
            voice: "alloy")
        var usage = ResponseUsage()
        usage.inputTextTokens = input
        usage.outputTextTokens = output
        response.usage = usage
        response.output = [
            ConversationItem(
                id: "item", kind: .message(role: .assistant, content: [.outputText(text)]))
        ]
        return response
    }

    @Test func withoutQuotasThereIsNoObject() {
        #expect(SessionQuotas(own: [], accounts: [account()], in: QuotaTable()) == nil)
    }

    @Test func eventsAreTakenAheadAndTheRestGivenBack() throws {
        let table = QuotaTable()
        let key = account("events=100/minute")
        do {
            let session = try quotas(key, in: table)
            for _ in 0..<5 { try session.takeEvent(at: Self.start) }
            let left = table.balance(of: .events, in: [key], at: Self.start)?.remaining
            #expect(left == 100 - SessionQuotas.eventsAtATime)
        }
        #expect(table.balance(of: .events, in: [key], at: Self.start)?.remaining == 95)
    }

    @Test func twoSessionsOfAKeyShareItsEvents() throws {
        let table = QuotaTable()
        let key = account("events=20/minute")
        let (one, other) = (try quotas(key, in: table), try quotas(key, in: table))
        for _ in 0..<16 { try one.takeEvent(at: Self.start) }
        for _ in 0..<4 { try other.takeEvent(at: Self.start) }
        let refusal = #expect(throws: QuotaRefusal.self) { try other.takeEvent(at: Self.start) }
        #expect(refusal?.owner == .key)
        #expect(refusal?.retryAfterSeconds == 3)
        #expect(
            refusal?.message
                == "Rate limit reached: 20 events per minute for this key. Try again in 3 s.")
        try other.takeEvent(at: Self.start + .seconds(3))
    }

    @Test func aSessionHasQuotasOfItsOwn() throws {
        let table = QuotaTable()
        let key = account("turns=100/minute")
        let session = try quotas(own: ["turns=1/minute"], key, in: table)
        let request = ModelRequest(model: "m", messages: [])
        try session.takeTurn(for: "resp_1", request, at: Self.start)
        let refusal = #expect(throws: QuotaRefusal.self) {
            try session.takeTurn(for: "resp_2", request, at: Self.start)
        }
        #expect(refusal?.owner == .session)
        #expect(table.balance(of: .turns, in: [key], at: Self.start)?.remaining == 99)
        #expect(session.balance(of: .turns, at: Self.start)?.remaining == 0)
    }

    @Test func whatWasUsedInAnotherProcessCountsOnce() throws {
        let table = QuotaTable()
        let key = account("tokens=1000/day")
        let limits = ["tokens=1000/day", "turns=5/minute"]
        let first = try quotas(own: limits, key, in: table)
        let request = ModelRequest(
            model: "m", messages: [.user(String(repeating: "x", count: 400))])
        try first.takeTurn(for: "resp_1", request, at: Self.start)
        #expect(first.openEstimates.keys.elementsEqual(["resp_1"]))
        let second = try quotas(own: limits, key, in: table)
        second.restore(
            ownFullTimes: first.ownFullTimes(at: Self.start), estimates: first.openEstimates,
            at: Self.start)
        #expect(second.balance(of: .turns, at: Self.start)?.remaining == 4)
        second.noteEnd(of: response("resp_1", input: 100, output: 50), at: Self.start)
        #expect(second.balance(of: .tokens, at: Self.start)?.remaining == 850)
        #expect(table.balance(of: .tokens, in: [key], at: Self.start)?.remaining == 850)
    }

    @Test func whatARecordSaysWasUsedIsBounded() throws {
        let session = try quotas(
            own: ["turns=5/minute", "tokens=10/day"], account(), in: QuotaTable())
        let far = Self.start + .seconds(1 << 32)
        session.restore(
            ownFullTimes: [-1: far, 6: far, 9: far, 10: far], estimates: [:], at: Self.start)
        #expect(session.balance(of: .turns, at: Self.start)?.reset == .seconds(120))
        #expect(session.balance(of: .tokens, at: Self.start)?.reset == .seconds(2 * 86_400))
    }

    @Test func audioIsCountedByItsDuration() throws {
        let table = QuotaTable()
        let key = account("audio-seconds=10/day")
        let session = try quotas(key, in: table)
        for _ in 0..<100 {
            try session.prepareAudio(at: Self.start)
            session.noteAudio(samples: 320, at: Self.start)
        }
        #expect(table.balance(of: .audioSeconds, in: [key], at: Self.start)?.remaining == 8)
        // One message of 7.5 s: what was not taken for it is charged.
        try session.prepareAudio(at: Self.start)
        session.noteAudio(samples: 7_500 * 16, at: Self.start)
        #expect(table.balance(of: .audioSeconds, in: [key], at: Self.start)?.remaining == 1)
        try session.prepareAudio(at: Self.start)
        session.noteAudio(samples: 500 * 16, at: Self.start)
        #expect(throws: QuotaRefusal.self) { try session.prepareAudio(at: Self.start) }
        #expect(session.isAudioErrorDue(at: Self.start))
        #expect(!session.isAudioErrorDue(at: Self.start + .seconds(9)))
        #expect(session.isAudioErrorDue(at: Self.start + .seconds(10)))
    }

    @Test func thePiecesOfAudioMayBeShorterThanAMillisecond() throws {
        let table = QuotaTable()
        let key = account("audio-seconds=10/day")
        let session = try quotas(key, in: table)
        for _ in 0..<16_001 {
            try session.prepareAudio(at: Self.start)
            session.noteAudio(samples: 1, at: Self.start)
        }
        #expect(table.balance(of: .audioSeconds, in: [key], at: Self.start)?.remaining == 8)
    }

    @Test func theRefusalIsThatOfTheQuotaThatLastsLongest() throws {
        let table = QuotaTable()
        let session = try quotas(
            own: ["turns=1/minute"], account("turns=1/day"), in: table)
        let request = ModelRequest(model: "m", messages: [])
        try session.takeTurn(for: "resp_1", request, at: Self.start)
        #expect(session.objectionToTurn(at: Self.start)?.owner == .key)
        #expect(session.objectionToTurn(at: Self.start)?.retryAfterSeconds == 86_400)
        let other = try quotas(own: ["turns=1/day"], account("turns=1/minute"), in: QuotaTable())
        try other.takeTurn(for: "resp_1", request, at: Self.start)
        #expect(other.objectionToTurn(at: Self.start)?.owner == .session)
    }

    @Test func aReplyThatHasFailedWithoutAWordTakesNoTokens() throws {
        let session = try quotas(account("tokens=1000/minute"), in: QuotaTable())
        let request = ModelRequest(
            model: "m", messages: [.user(String(repeating: "word", count: 396))])
        try session.takeTurn(for: "resp_1", request, at: Self.start)
        var failed = response("resp_1")
        failed.output = []
        failed.status = .failed(type: "server_error", code: "upstream_error", message: "")
        session.noteEnd(of: failed, at: Self.start)
        #expect(session.balance(of: .tokens, at: Self.start)?.remaining == 1_000)
    }

    @Test func tokensAreEstimatedAndThenCounted() throws {
        let table = QuotaTable()
        let key = account("tokens=1000/minute")
        let session = try quotas(key, in: table)
        let request = ModelRequest(
            model: "m", messages: [.user(String(repeating: "word", count: 396))])
        try session.takeTurn(for: "resp_1", request, at: Self.start)
        func remaining() -> Int? { session.balance(of: .tokens, at: Self.start)?.remaining }
        #expect(remaining() == 600, "4 bytes each, and 4 tokens of the message")
        session.noteEnd(of: response("resp_1", input: 100, output: 50), at: Self.start)
        #expect(remaining() == 850, "the model counted fewer")
        // A reply that was stopped before the model told its tokens.
        try session.takeTurn(for: "resp_2", request, at: Self.start)
        session.noteEnd(of: response("resp_2", text: "12345678"), at: Self.start)
        #expect(remaining() == 448)
        session.noteEnd(of: response("resp_3", output: 500), at: Self.start)
        #expect(remaining() == 0)
        let refusal = #expect(throws: QuotaRefusal.self) {
            try session.takeTurn(for: "resp_4", request, at: Self.start)
        }
        #expect(refusal?.unit == .tokens)
    }

    @Test func manyRequestsAtOnceCannotAllUseTheLastToken() throws {
        let session = try quotas(account("tokens=10/minute"), in: QuotaTable())
        let request = ModelRequest(
            model: "m", instructions: "forty bytes of instructions, and more", messages: [])
        try session.takeTurn(for: "resp_1", request, at: Self.start)
        #expect(session.objectionToTurn(at: Self.start)?.unit == .tokens)
    }
}
