// What is taken out of the words of a record, and what stays.

import Codec
import Testing

@testable import Session

@Suite struct RecordRedactionTests {
    @Test(arguments: [
        ("", ""), ("no numbers here", "no numbers here"),
        ("My card is 4111 1111, thanks.", "My card is #### ####, thanks."),
        ("Room B12 at 10:30", "Room B## at ##:##"),
        ("call four one two, please", "call # # #, please"),
        ("I have, um, two cats, due once", "I have, um, two cats, due once"),
        ("son treinta y dos", "son # y #"), ("vingt et un", "# et #"),
        ("einundzwanzig, zwei", "#, #"), ("salt and two", "salt and two"),
        ("Twenty-one people", "#-# people"), ("One of them", "One of them"),
        ("one or two", "one or two"), ("٤٢ and ４２", "## and ##"),
        ("double seven", "# #"), ("phone", "phone"),
    ])
    func digits(_ text: String, _ redacted: String) {
        #expect(RecordRedaction.digits.redacted(text) == redacted)
        #expect(RecordRedaction.none.redacted(text) == text)
        #expect(RecordRedaction.text.redacted(text) == (text.isEmpty ? "" : "[redacted]"))
    }

    private func change(_ kinds: [ConversationItem.Kind]) -> RecordChange {
        var change = RecordChange(
            sessionID: "sess_1", fence: 1, takenAt: .milliseconds(0),
            summary: SessionSummary(startedAt: .milliseconds(0)))
        change.items = kinds.enumerated().map { index, kind in
            RecordedItem(
                item: ConversationItem(id: "item_\(index)", kind: kind), addedAt: .milliseconds(0),
                written: "secret 1")
        }
        var response = ResponseDescription(
            id: "resp_1", conversationID: nil, outputModality: .text, outputFormat: .pcm, voice: "a"
        )
        response.output = change.items.map(\.item)
        response.status = .failed(type: "t", code: "c", message: "secret 1")
        response.metadata = RawJSON(#"{"a":"secret 1"}"#)
        change.summary.call = TelephoneCall(carrier: .twilio)
        change.summary.call?.from = "secret 1"
        change.turns = [
            RecordedTurn(
                number: 1, response: response, startedAt: .milliseconds(0),
                endedAt: .milliseconds(0), hops: [:])
        ]
        return change
    }

    @Test(arguments: [
        (
            RecordRedaction.digits, #"{"seat 1":["B12",4.5,-3,true,null],"who":"\u0037 Ann"}"#,
            ##"{"seat #":["B##","#.#","-#",true,null],"who":"# Ann"}"##
        ),
        (.digits, #"{"n":{}}"#, #"{"n":{}}"#), (.text, #"{"is_angry":true}"#, #""[redacted]""#),
        (.none, #"{"n":1}"#, #"{"n":1}"#),
    ])
    func answersAboutASession(redaction: RecordRedaction, data: String, left: String) {
        var change = change([])
        change.afterCall = .answered(.data(RawJSON(data)))
        redaction.apply(to: &change)
        #expect(change.afterCall == .answered(.data(RawJSON(left))))
        change.afterCall = .answered(.text("Room 12"))
        redaction.apply(to: &change)
        #expect(change.afterCall == .answered(.text(redaction.redacted("Room 12"))))
        change.afterCall = .answered(.failed(code: "code_1", message: "Room 12"))
        redaction.apply(to: &change)
        let message = redaction.redacted("Room 12")
        #expect(change.afterCall == .answered(.failed(code: "code_1", message: message)))
    }

    /// Every text of every kind of item.
    @Test func nothingIsForgotten() {
        var call = MCPCall(serverLabel: "s", name: "n", arguments: #"{"a":"secret 1"}"#)
        call.output = "secret 1"
        var failed = call
        failed.error = .http(code: 500, message: "secret 1")
        let kinds: [ConversationItem.Kind] = [
            .message(role: .system, content: [.inputText("secret 1")]),
            .message(
                role: .user,
                content: [
                    .inputAudio(bytes: [1, 2], transcript: "secret 1"),
                    .inputImage(url: "https://secret1", detail: .auto),
                ]),
            .message(
                role: .assistant,
                content: [.outputText("secret 1"), .outputAudio(transcript: "secret 1")]),
            .functionCall(callID: "call_1", name: "f", arguments: "secret 1"),
            .functionCallOutput(callID: "call_1", output: "secret 1"),
            .mcp(.call(call)), .mcp(.call(failed)),
            .mcp(.approvalRequest(serverLabel: "s", name: "n", arguments: "secret 1")),
            .mcp(.approvalResponse(requestID: "r", isApproved: true, reason: "secret 1")),
        ]
        for redaction in [RecordRedaction.text, .digits] {
            var change = change(kinds)
            redaction.apply(to: &change)
            let written =
                change.items.map { RecordJSON.item($0.item) + ($0.written ?? "") }
                + change.turns.map { RecordJSON.turn($0) { _ in 0 } }
                + change.turns.flatMap { $0.response.output.map(RecordJSON.item) }
                + [RecordJSON.facts(change.summary)]
            #expect(written.count == 2 * kinds.count + 2)
            for text in written {
                #expect(!text.contains("secret 1") && !text.contains("secret1"), "\(text)")
                #expect(redaction == .digits || !text.contains("secret"), "\(text)")
            }
        }
    }
}
