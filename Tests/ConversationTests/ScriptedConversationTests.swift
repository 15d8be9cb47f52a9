// Runs every conversation of Tests/Fixtures/conversations on the virtual clock and compares each
// event and its exact time. `UPDATE_GOLDEN=1 make unit T=ScriptedConversationTests` writes the
// observed events into the files. Review the difference; ConversationRules check it too.

import TestMaterial
import Testing

@Suite struct ScriptedConversationTests {
    @Test(arguments: Fixtures.conversations)
    func everyEventComesAtItsTime(name: String) throws {
        let conversation = try ScriptedConversation(name)
        let run = try ConversationRun(conversation)
        try run.run()
        #expect(run.violations == [])
        for problem in ConversationRules(conversation, run).problems {
            Issue.record("\(name): \(problem)")
        }
        let difference = try conversation.file.difference(
            from: conversation.text(expecting: run.seen),
            stored: conversation.text(expecting: conversation.expected))
        if let difference { Issue.record("\(difference)") }
    }

    @Test func thereAreConversations() { #expect(Fixtures.conversations.count >= 12) }
}
