// Schemas of tools on their way to a model's service: what services want is added, nothing else
// changes.

import Codec
import Testing

@testable import Agents

@Suite struct ToolSchemaTests {
    @Test(arguments: [
        (#"{"type":"object"}"#, #"{"type":"object","properties":{}}"#),
        (
            #"{"type":"object","additionalProperties":false}"#,
            #"{"type":"object","additionalProperties":false,"properties":{}}"#
        ),
        (#"{"type":"object","properties":null}"#, #"{"type":"object","properties":{}}"#),
        (#"{}"#, #"{"type":"object","properties":{}}"#),
        (
            #"{"type":null,"properties":{"a":{"type":"array","items":null,"description":null}},"#
                + #""required":null}"#,
            #"{"type":"object","properties":{"a":{"type":"array","items":{}}}}"#
        ),
        (
            #"{"properties":{"a":{"type":"string"}}}"#,
            #"{"type":"object","properties":{"a":{"type":"string"}}}"#
        ),
        (
            #"{"type":"object","properties":{"a":{"type":"array"},"b":{"type":["object","null"]}}}"#,
            #"{"type":"object","properties":{"a":{"type":"array","items":{}},"#
                + #""b":{"type":["object","null"],"properties":{}}}}"#
        ),
        (
            #"{"type":"object","properties":{"a":{"anyOf":[{"type":"array"},{"type":"null"}]}}}"#,
            #"{"type":"object","properties":{"a":{"anyOf":[{"type":"array","items":{}},"#
                + #"{"type":"null"}]}}}"#
        ),
        (#"[1]"#, #"{"type":"object","properties":{}}"#),
        (#"nonsense"#, #"{"type":"object","properties":{}}"#),
    ])
    func aSchemaIsCompleted(schema: String, completed: String) {
        #expect(ToolSchema.completed(RawJSON(schema))?.text == completed)
    }

    @Test(arguments: [
        #"{ "type":"object",  "properties":{"b":{},"a":{}} }"#,
        // A parameter that has the name of a keyword is none.
        #"{"type":"object","properties":{"items":{"type":"string"},"type":{"type":"string"}}}"#,
        #"{"type":"object","properties":{"a":{"type":"array","items":{"type":"number"}}}}"#,
        #"{"type":"object","properties":{"a":{"type":"string","default":{"type":"array"}}}}"#,
        #"{"type":"object","properties":{"a":{"type":"string","default":null},"b":{"const":null}}}"#,
        #"{"type":"object","properties":{"a":{"type":"array","prefixItems":[true]}},"additionalProperties":false}"#,
    ])
    func aCompleteSchemaStaysAsItIs(schema: String) {
        #expect(ToolSchema.completed(RawJSON(schema))?.text == schema)
    }

    @Test func noSchemaStaysNone() {
        #expect(ToolSchema.completed(nil) == nil)
    }
}
