// The arguments of a call as servers write them, and as clients, tools and later requests get them.

import Testing

@testable import Session

@Suite struct CallArgumentsTests {
    @Test(arguments: [
        ("", "{}"), (" \n", "{}"), ("null", "{}"), ("{ \"a\": 1 }", "{ \"a\": 1 }"),
        (#""{\"a\":1}""#, #"{"a":1}"#),
        // Half of a character, which the next service would refuse; and a whole one.
        (#"{"a":"\ud83d"}"#, #"{"a":"\ufffd"}"#),
        (#"{"\ude00":["x\uD83D"]}"#, #"{"\ufffd":["x\ufffd"]}"#),
        (#""{\"a\":\"\\ud83d\"}""#, #"{"a":"\ufffd"}"#),
        (#"{"a":"\ud83d\ude00 \n"}"#, #"{"a":"\ud83d\ude00 \n"}"#),
    ])
    func theyAreAnObject(text: String, arguments: String) {
        #expect(CallArguments.object(text) == arguments)
    }

    @Test(arguments: [
        "[1]", "5", "true", "{}{}", #"{"a":NaN}"#, "```json\n{}\n```", #"{"a":"#, "\u{FEFF}{}",
        #""{""#,
    ])
    func anythingElseIsRefused(text: String) {
        #expect(CallArguments.object(text) == nil)
    }
}
