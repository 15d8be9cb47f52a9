// A model's thoughts between tags, which are left out of its reply however they are spelled and cut.

import Codec
import TestMaterial
import Testing

@testable import Session

@Suite struct ThoughtFilterTests {
    private func shown(_ text: String, size: Int) -> String {
        var filter = ThoughtFilter()
        let shown = text.deltas(ofScalars: size).map { filter.append($0) }.joined()
        return shown + filter.finish()
    }

    private func expect(
        _ text: String, shows expected: String, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        for size in [1, 2, 3, 5, 7, 1_000] {
            #expect(shown(text, size: size) == expected, sourceLocation: sourceLocation)
        }
    }

    @Test(arguments: [
        ("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<Thought>", "</Thought>"),
        ("<|thought|>", "<|/thought|>"), ("<|thought|>", "</|thought|>"),
        ("<|begin_of_thought|>", "<|end_of_thought|>"), ("<|START_THINKING|>", "<|END_THINKING|>"),
        ("<reasoning>", "</reasoning>"), ("<inner_monologue>", "</inner_monologue>"),
        ("<seed:think>", "</seed:think>"), ("<mm:think>", "</mm:think>"), ("[THINK]", "[/THINK]"),
        ("◁think▷", "◁/think▷"), ("<think depth=\"3\">", "</think>"),
        ("<scratchpad>", "</scratchpad>"), ("<antThinking>", "</antThinking>"),
        ("<|channel|>analysis<|message|>", "<|end|>"),
        ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
        ("<think>", "</thinking>"), ("<unused94>", "<unused95>"),
        ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
        ("<|begin_of_thought|>", "<|end_of_thought|><|begin_of_solution|>"),
    ])
    func everySpellingIsLeftOut(opening: String, closing: String) {
        expect(
            "\(opening)\nThe code is 4711. a < b [x]\n\(closing)\n\nWe are open.",
            shows: "We are open.")
        expect("\n\(opening)hm\(closing)We are open.", shows: "We are open.")
        expect("Well. \(opening)hm\(closing)We are open.", shows: "Well. We are open.")
        // The end of the reply ends the thought.
        expect("\(opening)The code is 4711.", shows: "")
    }

    @Test(arguments: [
        "a < b and c > d", "<b>bold</b> and <br>", "<thin ice>", "See [the docs](https://a.b).",
        "[think] twice", "<table><tr><td>1</td></tr></table>", "1 <", "x [", "I ◁ you", "<thinker>",
        "Use `<think>` for it.", "```\n<think>\n```\nThat is it.", "<start> and <end>",
        "  two  spaces ",
        "<<<think", "a <|b |> c", "x <|> y", "<|im_end", "f <| g", "`<|im_end|>`", "<unused9>",
        "\u{3000}第一", "\u{200C}می", "<reason why>", "", "Zeile <t\nnext", "ends with <think",
    ])
    func otherTextStays(text: String) { expect(text, shows: text) }

    @Test func aClosingTagAloneIsLeftOut() {
        expect("So it is.</think>We are open.", shows: "So it is.We are open.")
    }

    @Test(arguments: [
        "<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|END_RESPONSE|>", "<|end_of_solution|>",
        "<|end|>",
        "<|eom_id|><|eot_id|>", "<|reserved_special_token_12|>",
    ])
    func tokensOfTemplatesAreLeftOut(token: String) {
        expect("We are open.\(token)", shows: "We are open.")
        expect("\(token)We are \(token)open.", shows: "We are open.")
    }

    @Test(arguments: ["\u{A0}", "\u{200B}\n", "\u{FEFF}", "\u{3000}", "\u{2028}", "\u{85}"])
    func whatShowsNothingIsNoWord(text: String) {
        expect(text, shows: "")
        expect("\(text)<think>hm</think>\(text)We are open.", shows: "We are open.")
    }

    @Test func whiteSpaceWaitsForAWord() {
        var filter = ThoughtFilter()
        #expect(filter.append(" \n") == "")
        #expect(filter.append("Hello") == " \nHello")
        #expect(filter.append(" ") == " ")
        #expect(filter.finish() == "")
        #expect(filter.append("\n\n") == "")
        #expect(filter.finish() == "")
    }
}

@Suite struct ThoughtsOfAResponseTests {
    private let core = BareSession()

    /// Neither shown nor kept for the next request, and no message is made of it alone.
    @Test func thoughtsLeaveNoTrace() {
        let playout = PlayoutTimeline(lead: .milliseconds(500), keepsAudio: false)
        let response = core.begin("resp_1", on: playout, parameters: ResponseParameters())
        response.handleAsked()
        _ = core.takeOutputs()
        for delta in ["<th", "ink>The code", " is 4711.</thi", "nk>\n", "\n"] {
            response.handle(.text(delta), at: .milliseconds(0))
        }
        #expect(core.takeOutputs() == [])
        response.handle(.text("We are open."), at: .milliseconds(0))
        #expect(core.takeOutputs().contains("responseOutputTextDelta"))
        response.handleModelFinished(at: .milliseconds(0))
        #expect(core.conversation.modelMessages() == [.assistant("We are open.")])
    }

    /// A function's call begins: what was held back belongs to the message before it.
    @Test func aCallEndsTheMessage() {
        let playout = PlayoutTimeline(lead: .milliseconds(500), keepsAudio: false)
        let response = core.begin("resp_1", on: playout, parameters: ResponseParameters())
        response.handleAsked()
        response.handle(.text("One moment <"), at: .milliseconds(0))
        response.handle(.functionCallStarted(callID: "c", name: "f"), at: .milliseconds(0))
        response.handle(.functionCallArguments("{}"), at: .milliseconds(0))
        response.handleModelFinished(at: .milliseconds(0))
        #expect(
            core.conversation.modelMessages() == [
                .assistant("One moment <"), .functionCall(callID: "c", name: "f", arguments: "{}"),
            ])
    }
}
