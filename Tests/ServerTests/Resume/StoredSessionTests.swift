// What is written of a session, and when; and the server's own fields of a record.

import Codec
import Session
import Testing

@testable import Server

@Suite struct StoredSessionTests {
    private let stored = StoredSession(fence: 3, principal: nil, at: .milliseconds(0))

    private static func time(_ milliseconds: Int) -> Instant {
        .milliseconds(milliseconds)
    }

    private static func item(_ id: String) -> ConversationItem {
        ConversationItem(id: id, kind: .message(role: .user, content: [.inputText("Hello.")]))
    }

    private static let delta = ServerEvent.responseOutputTextDelta(
        PartAddress(
            responseID: "resp_1", itemID: "item_1", outputIndex: 0, contentIndex: 0),
        delta: "word")

    /// Nothing has changed since the last change, which was written.
    private func settle(at milliseconds: Int = 0) {
        _ = stored.takeStep()
        #expect(stored.handle(.written, at: Self.time(milliseconds)))
    }

    @Test func theFirstChangeIsWhole() {
        #expect(stored.deadline == Self.time(20))
        let step = stored.takeStep()
        #expect(step.isWhole && step.items == nil && step.hasHandle && step.parts == .all)
        #expect(stored.deadline == nil)
        #expect(stored.handle(.written, at: Self.time(25)) && stored.deadline == nil)
    }

    @Test func theBoundaryOfAnItemIsWrittenAtOnce() {
        settle()
        stored.note(
            .conversationItemAdded(Self.item("item_1"), previousItemID: nil), at: Self.time(100))
        stored.note(
            .conversationItemDone(Self.item("item_1"), previousItemID: nil), at: Self.time(110))
        #expect(stored.deadline == Self.time(120))
        let step = stored.takeStep()
        #expect(!step.isWhole && step.items == ["item_1"] && !step.hasHandle)
        #expect(step.parts == [.head, .order])
    }

    @Test func wordsOfAReplyAreWrittenEverySecond() {
        settle()
        for milliseconds in stride(from: 100, to: 1_100, by: 50) {
            stored.note(Self.delta, at: Self.time(milliseconds))
        }
        #expect(stored.deadline == Self.time(1_100))
        #expect(stored.takeStep().items == ["item_1"])
        stored.note(Self.delta, at: Self.time(1_150))
        #expect(stored.deadline == nil, "one change is under way")
        #expect(stored.handle(.written, at: Self.time(1_160)))
        #expect(stored.deadline == Self.time(2_150))
    }

    @Test func aDeletedItemIsRemovedUnlessItIsThereAgain() {
        settle()
        stored.note(.conversationItemDeleted(itemID: "item_1"), at: Self.time(100))
        stored.note(.conversationItemDeleted(itemID: "item_2"), at: Self.time(100))
        stored.note(
            .conversationItemAdded(Self.item("item_2"), previousItemID: nil), at: Self.time(110))
        let step = stored.takeStep()
        #expect(step.removed == [SavedSession.fieldName(ofItem: "item_1")])
        #expect(step.items == ["item_2"])
    }

    @Test(arguments: [(StoreWriteOutcome.missing, 2_000), (.failed, 6_000)])
    func whatTheStoreHasLostIsWrittenWhole(_ outcome: StoreWriteOutcome, due: Int) {
        settle()
        stored.note(Self.delta, at: Self.time(0))
        _ = stored.takeStep()
        #expect(stored.handle(outcome, at: Self.time(1_000)))
        #expect(stored.deadline == Self.time(due))
        let step = stored.takeStep()
        #expect(step.isWhole && step.items == nil && step.hasHandle)
    }

    @Test func aStoreThatIsBackGetsTheHeadAtLeast() {
        settle()
        stored.noteStoreIsBack(at: Self.time(3_000))
        #expect(stored.deadline == Self.time(3_000))
        let step = stored.takeStep()
        #expect(!step.isWhole && step.parts == .head)
    }

    @Test func anotherOwnerIsNoticed() {
        _ = stored.takeStep()
        #expect(!stored.handle(.fenced, at: Self.time(10)))
    }

    @Test func aNewHandleIsWrittenAtOnce() {
        settle()
        stored.noteNewHandle(at: Self.time(500))
        #expect(stored.deadline == Self.time(500))
        let step = stored.takeStep()
        #expect(step.hasHandle && step.items == [] && step.parts == .head)
    }
}

@Suite struct SavedResumeTests {
    @Test(arguments: [RealtimeDialect.ga, .beta], [String?.none, "00ff"])
    func theFieldIsReadBack(dialect: RealtimeDialect, principal: String?) {
        var resume = SavedResume(
            epoch: .max, first: 1 << 40, principal: principal, dialect: dialect,
            end: principal == nil ? nil : 1_800_000_000)
        #expect(SavedResume(resume.bytes) == resume)
        resume.isRecorded = true
        resume.use.turns = .max
        resume.use.quotasFullAt = [0: 1_800_000_000, 9: .max]
        resume.use.estimates = ["resp_1": 70, "resp_2": 1]
        #expect(SavedResume(resume.bytes) == resume)
    }

    @Test(arguments: [
        "", "{", "[]", #"{"epoch":1}"#, #"{"epoch":0,"first":1}"#, #"{"epoch":1,"first":0}"#,
        #"{"epoch":4294967296,"first":1}"#, #"{"epoch":-1,"first":1}"#, #"{"epoch":"1","first":1}"#,
        #"{"epoch":1,"first":1,"x":""# + String(repeating: "x", count: 4_096) + #""}"#,
    ])
    func anythingElseIsNone(_ text: String) {
        #expect(SavedResume(Array(text.utf8)) == nil)
    }

    @Test(arguments: [
        "", #","use":5"#, #","use":{"turns":-1,"full_at":5,"estimates":{}}"#,
        #","use":{"turns":4294967296,"full_at":[[1],[1,2,3],["1",2],5],"estimates":[["r",0],["r"]]}"#,
        #","use":{"estimates":[["r",9223372036854775807],["s",-1],["t",1099511627777]]}"#,
    ])
    func useThatCannotBeReadCountsAsNone(_ use: String) throws {
        let resume = try #require(SavedResume(Array(#"{"epoch":1,"first":1\#(use)}"#.utf8)))
        #expect(resume.use == SavedUse())
    }

    @Test func thereMayBeNoField() { #expect(SavedResume(nil) == nil) }

    @Test func theLogIsReadBack() {
        var log = ResumeLog(first: 7)
        for text in ["{\"a\":1}", "{\"b\":\"é\"}", "{}"] {
            Array(text.utf8).withUnsafeBytes { log.append($0, limit: 1_000) }
        }
        log.forget(through: 7)
        let again = ResumeLog(lines: log.lines, first: log.first, limit: 1_000)
        #expect(again.first == 8 && again.next == 10)
        #expect(again.lines == log.lines)
        #expect(ResumeLog(lines: log.lines, first: 8, limit: 3).next == 10)
    }

    @Test func aLogThatIsNoTextIsEmpty() {
        let log = ResumeLog(lines: [0xff, 0xfe, 10, 65], first: 5, limit: 1_000)
        #expect(log.isEmpty && log.first == 5 && log.next == 5)
    }
}
