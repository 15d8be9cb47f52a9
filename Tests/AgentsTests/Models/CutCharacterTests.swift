// Answers whose deltas were cut within a character: JSON then has one half of a surrogate pair in one
// event and the other half in the next.

import Session
import Testing

@testable import Agents

@Suite struct CutCharacterTests {
    /// Two deltas of text, and the rest of a stream, as one service writes them.
    struct Service: Sendable, CustomTestStringConvertible {
        let kind: ModelServiceKind
        let before: [String]
        let text: @Sendable (String) -> String
        let after: [String]
        var testDescription: String { "\(kind)" }
    }

    static let services = [
        Service(
            kind: .chat, before: [#"{"choices":[{"index":0,"delta":{"role":"assistant"}}]}"#],
            text: { #"{"choices":[{"index":0,"delta":{"content":"\#($0)"}}]}"# },
            after: [#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#, "[DONE]"]),
        Service(
            kind: .responses, before: [],
            text: { #"{"type":"response.output_text.delta","output_index":0,"delta":"\#($0)"}"# },
            after: [#"{"type":"response.completed","response":{"status":"completed"}}"#]),
        Service(
            kind: .anthropic, before: [],
            text: {
                #"{"type":"content_block_delta","index":0,"#
                    + #""delta":{"type":"text_delta","text":"\#($0)"}}"#
            },
            after: [#"{"type":"message_stop"}"#]),
        Service(
            kind: .agUI, before: [#"{"type":"TEXT_MESSAGE_START","messageId":"m"}"#],
            text: { #"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\#($0)"}"# },
            after: [#"{"type":"RUN_FINISHED"}"#]),
    ]

    private func said(_ deltas: [String], by service: Service) async throws -> String {
        let events = service.before + deltas.map(service.text) + service.after
        let stream = events.map { "data: \($0)\n\n" }.joined()
        let model = service.kind.model(at: ModelService(baseURL: "http://models.test/v1"))
        let host = ScriptedAgentHost(answers: [.init(chunks: [Array(stream.utf8)])])
        let question = ModelRequest(model: "m", messages: [.user("Hi")])
        return try await model.deltas(for: question, on: host).reduce("") { text, delta in
            if case .text(let more) = delta { text + more } else { text }
        }
    }

    @Test(arguments: services)
    func halvesAreJoined(service: Service) async throws {
        #expect(try await said([#"Sun \ud83c"#, #"\udf1e!"#], by: service) == "Sun 🌞!")
        #expect(try await said([#"\uD83C"#, #"\uDF1E"#], by: service) == "🌞")
        #expect(try await said([#"a\ud83c"#, "", #"\udf1eb"#], by: service) == "a🌞b")
    }

    @Test(arguments: services)
    func aHalfThatStaysAloneIsReplaced(service: Service) async throws {
        #expect(try await said([#"a\ud83c"#, "b"], by: service) == "a\u{FFFD}b")
        #expect(try await said([#"a\ud83c"#], by: service) == "a\u{FFFD}")
        #expect(try await said(["a", #"\udf1eb"#], by: service) == "a\u{FFFD}b")
        #expect(try await said([#"a\udf1e\ud83cb"#], by: service) == "a\u{FFFD}\u{FFFD}b")
    }
}
