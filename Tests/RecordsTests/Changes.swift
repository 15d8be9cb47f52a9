// Changes as sessions make them, for tests of what keeps them.

import Codec

@testable import Records
@testable import Session

/// Makes the changes of one session.
struct Changes {
    var id = "sess_1"
    var fence: UInt64 = 1
    /// The time of day of every change, in milliseconds since 1970.
    var time = 1_795_464_556_290

    /// A change at `time`.
    func entry(
        _ items: [RecordedItem] = [], deleted: [String] = [], turns: [RecordedTurn] = [],
        isFirst: Bool = false, end: SessionEnd? = nil,
        _ edit: (inout RecordChange) -> Void = { _ in }
    ) -> RecordDatabase.Entry {
        var change = RecordChange(
            sessionID: id, fence: fence, takenAt: .milliseconds(10_000),
            summary: SessionSummary(startedAt: .milliseconds(5_000)))
        change.summary.model = "test"
        change.summary.turns = turns.count
        change.items = items
        change.deleted = deleted.map {
            RecordChange.DeletedItem(id: $0, at: .milliseconds(9_000))
        }
        change.turns = turns
        change.isFirst = isFirst
        change.end = end
        edit(&change)
        return RecordDatabase.Entry(change: change, takenAt: time)
    }

    /// What came of the question about the session.
    func answer(_ answer: AfterCallAnswer) -> RecordDatabase.Entry {
        entry { $0.afterCall = .answered(answer) }
    }

    /// The end of the session of an agent that has a question.
    func questionedEnd() -> RecordDatabase.Entry {
        entry(end: SessionEnd(.clientClosed)) { change in
            change.summary.agent = "desk"
            change.afterCall = .asked
        }
    }

    /// A message of the user.
    func question(_ text: String, id: String = "item_q") -> RecordedItem {
        RecordedItem(
            item: ConversationItem(
                id: id, kind: .message(role: .user, content: [.inputText(text)])),
            addedAt: .milliseconds(6_000))
    }

    /// A spoken reply.
    func reply(
        _ text: String, written: String? = nil, heard: Int = 1_000, id: String = "item_r"
    ) -> RecordedItem {
        var item = RecordedItem(
            item: ConversationItem(
                id: id, kind: .message(role: .assistant, content: [.outputAudio(transcript: text)])),
            addedAt: .milliseconds(7_000), written: written)
        item.speech = RecordedItem.Speech(
            sentMilliseconds: 1_000, heardMilliseconds: heard, isCut: heard < 1_000)
        return item
    }

    /// A response that has ended.
    func turn(_ id: String = "resp_1", output: [RecordedItem] = []) -> RecordedTurn {
        var response = ResponseDescription(
            id: id, conversationID: "conv_1", outputModality: .audio, outputFormat: .pcm, voice: "a"
        )
        response.status = .completed
        response.output = output.map(\.item)
        response.usage = ResponseUsage()
        return RecordedTurn(
            number: 1, response: response, startedAt: .milliseconds(6_500),
            endedAt: .milliseconds(9_500), hops: [.firstToken: 20, .firstAudio: 45])
    }
}
