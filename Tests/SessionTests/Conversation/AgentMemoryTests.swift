// What an agent gets back with the next request: its mementos, how many of the messages it knows, and
// how much of its last reply was heard.

import Codec
import Testing

@testable import Session

@Suite struct AgentMemoryTests {
    /// A conversation of a question and a spoken reply, which the agent gave a memento for.
    private struct Talk {
        var conversation = Conversation(maxItems: 100, maxBytes: 10_000)
        private var number = 0

        mutating func ask(_ text: String) {
            number += 1
            _ = conversation.append(
                ConversationItem(
                    id: "user_\(number)",
                    kind: .message(role: .user, content: [.inputText(text)])))
        }

        mutating func reply(_ text: String, memento: String?) {
            let id = "reply_\(number)"
            let item = ConversationItem(
                id: id,
                kind: .message(role: .assistant, content: [.outputAudio(transcript: text)]))
            _ = conversation.append(item)
            let mark = Conversation.SpokenMark(
                transcriptBytes: text.utf8.count, audioMilliseconds: 1_000)
            conversation.update(
                item, speech: Conversation.Speech(marks: [mark], sentMilliseconds: 1_000))
            if let memento { conversation.keep(memento: memento, of: "p", upTo: id) }
        }

        mutating func turn(_ number: Int) {
            ask("Question \(number)?")
            reply("This is answer \(number).", memento: "m\(number)")
        }

        /// The mementos as words: text, known messages, and whether the reply was heard.
        var mementos: [String] {
            conversation.mementos.map {
                "\($0.text) \($0.knownMessages.map(String.init) ?? "-") \($0.wasHeard)"
            }
        }
    }

    @Test func theNewestMementoComesBackWithWhatItsAgentKnows() {
        var talk = Talk()
        #expect(talk.mementos.isEmpty && talk.conversation.heardReply == nil)
        talk.turn(1)
        talk.turn(2)
        talk.ask("And?")
        #expect(talk.mementos == ["m2 4 true"])
        #expect(talk.conversation.heardReply == nil)
    }

    @Test func whereAReplyWasCutTheOneBeforeItComesToo() throws {
        var talk = Talk()
        talk.turn(1)
        talk.turn(2)
        _ = talk.conversation.cutAtHeard("reply_2", milliseconds: 500)
        #expect(talk.mementos == ["m1 2 true", "m2 4 false"])
        let heard = try #require(talk.conversation.heardReply)
        let text = try #require(talk.conversation.words(of: "reply_2")).speech.wholeTranscript
        #expect(heard.itemID == "reply_2" && text == "This is answer 2.")
        #expect((1..<16).contains(heard.characters))
        // The next reply that is heard whole makes both useless.
        talk.turn(3)
        #expect(talk.mementos == ["m3 6 true"] && talk.conversation.heardReply == nil)
    }

    @Test func aCutOfEverythingLeavesNothingHeard() throws {
        var talk = Talk()
        talk.turn(1)
        try talk.conversation.truncate("reply_1", contentIndex: 0, audioMilliseconds: 0)
        #expect(talk.conversation.heardReply == HeardReply(itemID: "reply_1", characters: 0))
    }

    @Test func anAgentDoesNotKnowAHistoryThatChanged() throws {
        var talk = Talk()
        talk.turn(1)
        talk.turn(2)
        talk.ask("And?")
        let note = ConversationItem(
            id: "note", kind: .message(role: .system, content: [.inputText("Be kind.")]))
        try talk.conversation.insert(note, after: "user_1")
        #expect(talk.mementos == ["m2 - true"])
        talk.reply("Well.", memento: "m3")
        #expect(talk.mementos == ["m3 7 true"])
        try talk.conversation.remove("reply_1")
        #expect(talk.mementos == ["m3 - true"])
    }

    @Test func whatComesAfterItChangesNothing() throws {
        var talk = Talk()
        talk.turn(1)
        talk.ask("One more?")
        talk.ask("Or not?")
        try talk.conversation.remove("user_2")
        #expect(talk.mementos == ["m1 2 true"])
    }

    @Test func theOldestItemsMayGo() {
        var talk = Talk()
        talk.turn(1)
        talk.turn(2)
        _ = talk.conversation.removeOldest()
        #expect(talk.mementos == ["m2 3 true"], "of the messages that are left")
    }

    @Test func aMementoThatIsTooLongIsNotKept() {
        var talk = Talk()
        talk.turn(1)
        let before = talk.conversation.heldBytes
        talk.ask("More?")
        talk.reply("Yes.", memento: String(repeating: "x", count: AgentMemory.maxBytes + 1))
        #expect(talk.mementos == ["m1 2 true"])
        talk.ask("More?")
        talk.reply("Yes.", memento: String(repeating: "x", count: AgentMemory.maxBytes))
        #expect(talk.conversation.heldBytes > before + AgentMemory.maxBytes)
    }
}
