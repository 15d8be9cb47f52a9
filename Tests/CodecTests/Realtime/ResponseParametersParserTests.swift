// Parsing the `response` object of `response.create`. SessionUpdateParserTests has the fields that
// it shares with a session.

import TestMaterial
import Testing

@testable import Codec

extension SessionUpdateParserTests {
    static let wholeResponse =
        #""instructions":"Whisper.","output_modalities":["audio"],"conversation":"none","#
        + #""max_output_tokens":"inf","tools":[],"tool_choice":{"type":"function","name":"f"},"#
        + #""metadata":{"client_event_id":"e1", "topic": "x"},"#
        + #""reasoning":{"effort":"low"},"input":[{"type":"item_reference","id":"i"},"#
        + #"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}],"#
        + #""audio":{"output":{"format":{"type":"audio/pcma"},"voice":"v"}}"#

    static func parsedResponse(_ response: String) throws -> ResponseParameters {
        let event = try ClientEventParserTests.parsed(
            #"{"type":"response.create","response":{\#(response)}}"#)
        guard case .responseCreate(let parameters) = event else {
            Issue.record("not a response.create")
            return ResponseParameters()
        }
        return parameters
    }

    @Test func readsEveryResponseField() throws {
        var expected = ResponseParameters()
        expected.instructions = "Whisper."
        expected.outputModality = .audio
        expected.isInConversation = false
        expected.maxOutputTokens = .null
        expected.tools = []
        expected.mcpTools = []
        expected.toolChoice = .function(name: "f")
        expected.metadata = RawJSON(#"{"client_event_id":"e1", "topic": "x"}"#)
        expected.input = [
            ConversationItem(id: "i", kind: .reference),
            ConversationItem(id: "", kind: .message(role: .user, content: [.inputText("hi")])),
        ]
        expected.outputFormat = .pcma
        expected.outputOpus = OpusSettings()
        expected.voice = "v"
        #expect(try Self.parsedResponse(Self.wholeResponse) == expected)
        #expect(RealtimeSchema.shared.violations(inClientEvent: Self.texts[1]).isEmpty)
    }

    @Test func responseNullsAreAbsence() throws {
        let parameters = try Self.parsedResponse(
            #""instructions":null,"output_modalities":null,"conversation":null,"tools":null,"#
                + #""metadata":null,"input":null,"audio":null,"tool_choice":null"#)
        #expect(parameters == ResponseParameters())
        #expect(try Self.parsedResponse(#""conversation":"auto""#) == ResponseParameters())
        #expect(try Self.parsedResponse(#""max_output_tokens":9"#).maxOutputTokens == .value(9))
    }

    static let badResponseFields: [BadFields] = [
        bad(#""conversation":"conv_1""#, "invalid_value", "conversation"),
        bad(#""conversation":5"#, "invalid_type", "conversation"),
        bad(#""metadata":[]"#, "invalid_type", "metadata"),
        bad(#""metadata":{"a":5}"#, "invalid_type", "metadata.a"),
        bad(#""input":{}"#, "invalid_type", "input"),
        bad(#""input":[5]"#, "invalid_type", "input[0]"),
        bad(
            #""input":[{"type":"item_reference"}]"#, "missing_required_parameter",
            "input[0].id"),
        bad(#""prompt":{"id":"p"}"#, "unsupported_prompt", "prompt"),
        bad(#""prompt":{}"#, "missing_required_parameter", "prompt.id"),
        bad(#""reasoning":{"effort":5}"#, "invalid_type", "reasoning.effort"),
        bad(
            #""input":[{"type":"message","role":"user","content":[{"type":"input_text"}]}]"#,
            "missing_required_parameter", "input[0].content[0].text"),
    ]

    @Test(arguments: badGenerationFields + badResponseFields)
    func refusesResponse(_ bad: BadFields) {
        let error = #expect(throws: ClientEventError.self) {
            try ClientEventParserTests.parsed(
                #"{"type":"response.create","response":{\#(bad.fields)}}"#)
        }
        #expect(error?.code == bad.code)
        #expect(error?.param == "response.\(bad.param)")
    }

    @Test func metadataHasAtMostSixteenPairs() throws {
        func metadata(_ count: Int) -> String {
            let pairs = (0..<count).map { #""k\#($0)":"v""# }
            return #""metadata":{\#(pairs.joined(separator: ","))}"#
        }
        #expect(try Self.parsedResponse(metadata(16)).metadata != nil)
        let error = #expect(throws: ClientEventError.self) {
            try Self.parsedResponse(metadata(17))
        }
        #expect(error?.code == "invalid_value" && error?.param == "response.metadata")
    }
}
