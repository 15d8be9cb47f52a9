// What a model is asked: the session's settings, the overrides of one response, and the items that
// fit. Whole sessions are tested in ContextTruncationTests.

import Codec
import Testing

@testable import Session

@Suite struct RequestComposerTests {
    private func core(contextTokens: Int = 1_000) -> BareSession {
        var limits = SessionLimits()
        limits.modelContextTokens = contextTokens
        let core = BareSession(limits: limits)
        core.parameters.instructions = "Be brief."
        for index in 1...3 {
            _ = core.conversation.append(
                ConversationItem(
                    id: "item_\(index)",
                    kind: .message(
                        role: .user, content: [.inputText(String(repeating: "word ", count: 40))])))
        }
        return core
    }

    private func composer(
        _ core: BareSession, _ overrides: ResponseParameters = ResponseParameters()
    ) -> RequestComposer {
        RequestComposer(core: core, tools: nil, overrides: overrides)
    }

    @Test func overridesReplaceTheSessionsSettings() {
        let core = core()
        core.parameters.maxOutputTokens = 50
        var overrides = ResponseParameters()
        #expect(composer(core).request(nil, for: "resp_1").maxOutputTokens == 50)
        #expect(composer(core).request(nil, for: "resp_1").instructions == "Be brief.")
        overrides.instructions = "Sing."
        overrides.maxOutputTokens = .null
        overrides.input = [
            ConversationItem(id: "item_2", kind: .reference),
            ConversationItem(id: "item_9", kind: .reference),
        ]
        let request = composer(core, overrides).request(nil, for: "resp_1")
        #expect(request.instructions == "Sing." && request.maxOutputTokens == nil)
        #expect(request.messages.count == 1, "the other item was deleted meanwhile")
    }

    @Test func theOldestItemsAreLeftOutWhereTheSessionAllowsIt() {
        let core = core(contextTokens: 240)
        core.parameters.maxOutputTokens = 100
        core.parameters.truncation = .disabled
        #expect(!composer(core).fitContext(nil))
        core.parameters.truncation = .auto
        #expect(composer(core).fitContext(nil))
        #expect(composer(core).request(nil, for: "resp_1").messages.count < 3)
        #expect(core.conversation.items.count == 3, "the client still has them")
    }

    @Test func itemsThatTheClientChoseAreNotLeftOut() {
        let core = core(contextTokens: 240)
        core.parameters.maxOutputTokens = 100
        core.parameters.truncation = .auto
        var overrides = ResponseParameters()
        overrides.input = core.conversation.items
        #expect(!composer(core, overrides).fitContext(nil))
    }
}
