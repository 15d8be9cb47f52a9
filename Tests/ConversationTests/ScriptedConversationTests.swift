// Runs every conversation of Tests/Fixtures/conversations on the virtual clock and compares each
// event and its exact time. `PARLEY_RECORD=1 swift test --filter ConversationTests` writes the
// observed events into the files. Review the difference; ConversationRules check it too.

import Foundation
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
        if ProcessInfo.processInfo.environment["PARLEY_RECORD"] == "1" {
            try conversation.record(run.seen)
        } else if run.seen != conversation.expected {
            Issue.record("\(name):\n\(Self.difference(conversation.expected, run.seen))")
        }
    }

    @Test func thereAreConversations() { #expect(Fixtures.conversations.count >= 12) }

    @Test func aDifferenceShowsWhatWasExpectedAndWhatWasFound() {
        let lines = (0..<3).map { SeenEvent(at: $0, [("event", "e\($0)")]) }
        var found = lines
        found[1].at = 7
        #expect(
            Self.difference(lines, found) == """
                    {at: 0, event: e0}
                  - {at: 1, event: e1}
                  + {at: 7, event: e1}
                    {at: 2, event: e2}
                """)
    }

    /// All lines: `-` marks expected lines that are missing, `+` marks unexpected ones.
    private static func difference(_ expected: [SeenEvent], _ found: [SeenEvent]) -> String {
        let changes = found.map(\.description).difference(from: expected.map(\.description))
        let removed = Set(changes.removals.map { Self.offset($0) })
        let inserted = Set(changes.insertions.map { Self.offset($0) })
        var lines: [String] = []
        var old = 0
        var new = 0
        while old < expected.count || new < found.count {
            if removed.contains(old), old < expected.count {
                lines.append("  - \(expected[old])")
                old += 1
            } else if inserted.contains(new), new < found.count {
                lines.append("  + \(found[new])")
                new += 1
            } else {
                lines.append("    \(found[new])")
                old += 1
                new += 1
            }
        }
        return lines.joined(separator: "\n")
    }

    private static func offset(_ change: CollectionDifference<String>.Change) -> Int {
        switch change {
        case .insert(let offset, _, _), .remove(let offset, _, _): offset
        }
    }
}
