// How much memory a conversation takes, and that its items come back as they were.

import CLinux
import Codec
import Glibc
import Testing

@testable import Session

@Suite struct ConversationMemoryTests {
    private static let items: [ConversationItem] = [
        ConversationItem(id: "a", kind: .message(role: .system, content: [.inputText("s")])),
        ConversationItem(id: "b", kind: .message(role: .user, content: [.inputText("")])),
        ConversationItem(
            id: "c", kind: .message(role: .user, content: [.inputAudio(bytes: [], transcript: nil)])
        ),
        ConversationItem(
            id: "d", kind: .message(role: .user, content: [.inputAudio(bytes: [], transcript: "t")])
        ),
        ConversationItem(
            id: "e", status: .inProgress, kind: .message(role: .assistant, content: [])),
        ConversationItem(
            id: "f", status: .incomplete,
            kind: .message(role: .assistant, content: [.outputText("o")])),
        ConversationItem(
            id: "g", kind: .message(role: .assistant, content: [.outputAudio(transcript: "o")])),
        ConversationItem(
            id: "h",
            kind: .message(
                role: .user,
                content: [.inputText("x"), .inputImage(url: "https://a.test", detail: .low)])),
        ConversationItem(
            id: "i", status: .incomplete,
            kind: .functionCall(callID: "c", name: "f", arguments: "{}")),
        ConversationItem(id: "j", kind: .functionCallOutput(callID: "c", output: "1")),
    ]

    @Test(arguments: items)
    func anItemComesBackAsItWas(_ item: ConversationItem) {
        var entry = ConversationEntry(item)
        #expect(entry.item == item && entry.textBytes == item.textBytes)
        let speech = Conversation.Speech(
            marks: [.init(transcriptBytes: 1, audioMilliseconds: 20)], sentMilliseconds: 20,
            wholeTranscript: "whole")
        entry.set(item, speech: speech)
        #expect(entry.item == item && entry.speech == speech)
        #expect(entry.textBytes == item.textBytes + 5)
        for other in Self.items {
            var other = other
            other.id = item.id
            entry.set(other, speech: Conversation.Speech())
            #expect(entry.item == other && entry.speech == Conversation.Speech())
        }
    }

    @Test func anEntryIsSmall() {
        #expect(MemoryLayout<ConversationEntry>.stride <= 48)
    }

    /// A turn is 40 bytes of the user's and 160 of the agent's, in three spoken clauses. In a
    /// process of its own, so that nothing else is counted.
    @Test func aSpokenTurnTakesLittleMoreThanItsWords() async {
        let run = await #expect(
            processExitsWith: .success, observing: [\.standardOutputContent]
        ) {
            var conversation = Conversation(maxItems: 10_000, maxBytes: 1 << 20)
            let before = Int(mallinfo2().uordblks)
            for turn in 0..<1_000 {
                let question = String(repeating: "words ", count: 6) + "\(1_000 + turn)"
                _ = conversation.append(
                    ConversationItem(
                        id: "item_u\(10_000 + turn)",
                        kind: .message(
                            role: .user, content: [.inputAudio(bytes: [], transcript: question)])))
                let answer = String(repeating: "answers ", count: 19) + "\(10_000_000 + turn)"
                let item = ConversationItem(
                    id: "item_a\(10_000 + turn)",
                    kind: .message(role: .assistant, content: [.outputAudio(transcript: answer)]))
                _ = conversation.append(item)
                let marks = (1...3).map {
                    Conversation.SpokenMark(
                        transcriptBytes: 50 * $0, audioMilliseconds: 3_000 * $0)
                }
                conversation.update(
                    item, speech: Conversation.Speech(marks: marks, sentMilliseconds: 9_000))
            }
            let perTurn = (Int(mallinfo2().uordblks) - before) / 1_000
            print("a spoken turn of 200 bytes of words takes \(perTurn) bytes")
            fflush(nil)
            precondition(conversation.textBytes == 200_000 && (200...640).contains(perTurn))
        }
        print(String(decoding: run?.standardOutputContent ?? [], as: UTF8.self))
    }
}
