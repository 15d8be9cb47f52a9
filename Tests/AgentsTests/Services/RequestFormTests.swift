// Parameters that a service refuses: the request is made once more in the other form, and the form
// is remembered where it was answered.

import Codec
import Session
import Testing

@testable import Agents

@Suite struct RequestFormTests {
    private static let question = ModelRequest(
        model: "m", messages: [.user("Hi")], tools: [FunctionTool(name: "f")],
        parallelToolCalls: true, maxOutputTokens: 200)

    private static let fine = ScriptedAgentHost.Answer(chunks: [
        Array(
            "data: {\"choices\":[{\"delta\":{\"content\":\"Fine.\"},\"finish_reason\":\"stop\"}]}\n\n"
                .utf8)
    ])

    private static func refused(_ body: String, _ status: Int = 400) -> ScriptedAgentHost.Answer {
        .init(status: status, chunks: [Array(body.utf8)])
    }

    private static let maxTokens = refused(
        #"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. "#
            + #"Use 'max_completion_tokens' instead.","param":"max_tokens","#
            + #""code":"unsupported_parameter"}}"#)

    private func model(
        _ kind: ModelServiceKind = .chat, _ change: (inout ModelService) -> Void = { _ in }
    ) -> any LanguageModel {
        var service = ModelService(baseURL: "http://m/v1")
        service.name = "llm"
        change(&service)
        return kind.model(at: service)
    }

    /// The bodies of the requests.
    private func bodies(of host: ScriptedAgentHost) -> [String] {
        host.requests.map { String(decoding: $0.body, as: UTF8.self) }
    }

    @Test func theLimitOfTokensIsLearnt() async throws {
        let model = model()
        let host = ScriptedAgentHost(answers: [Self.maxTokens, Self.fine, Self.fine])
        #expect(try await model.deltas(for: Self.question, on: host).text == "Fine.")
        #expect(try await model.deltas(for: Self.question, on: host).text == "Fine.")
        let sent = bodies(of: host)
        #expect(sent.map { $0.contains(#""max_tokens":200"#) } == [true, false, false])
        #expect(sent.map { $0.contains(#""max_completion_tokens":200"#) } == [false, true, true])
        #expect(host.faults.map(\.isTolerated) == [true])
        // The request in another form is another one for a service that remembers keys.
        #expect(host.requests.count == 3)
    }

    @Test(arguments: [
        (
            #"{"detail":[{"loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}"#,
            422
        ),
        (#"{"error":{"message":"Unrecognized request argument supplied: stream_options"}}"#, 400),
        ("stream_options is not supported", 400),
    ])
    func streamOptionsAreLeftOut(body: String, status: Int) async throws {
        let host = ScriptedAgentHost(answers: [Self.refused(body, status), Self.fine])
        #expect(try await model().deltas(for: Self.question, on: host).text == "Fine.")
        #expect(bodies(of: host).map { $0.contains("stream_options") } == [true, false])
    }

    @Test func severalParametersAreLearntOneAfterTheOther() async throws {
        let parallel = Self.refused(#"{"error":{"message":"no","param":"parallel_tool_calls"}}"#)
        let host = ScriptedAgentHost(answers: [Self.maxTokens, parallel, Self.fine])
        #expect(try await model().deltas(for: Self.question, on: host).text == "Fine.")
        let last = try #require(bodies(of: host).last)
        #expect(last.contains("max_completion_tokens") && !last.contains("parallel_tool_calls"))
    }

    /// A reasoning model's server takes tools, and no choice among them.
    @Test func anAutomaticChoiceOfToolsIsLeftOut() async throws {
        let refusal = Self.refused(
            #"{"error":{"message":"This model does not support this tool_choice"}}"#)
        let model = model()
        let host = ScriptedAgentHost(answers: [refusal, Self.fine, refusal])
        #expect(try await model.deltas(for: Self.question, on: host).text == "Fine.")
        #expect(bodies(of: host).map { $0.contains("tool_choice") } == [true, false])
        // Another choice has no other form.
        var question = Self.question
        question.toolChoice = .required
        await #expect(throws: AgentError.self) { try await model.deltas(for: question, on: host) }
        #expect(bodies(of: host).last?.contains(#""tool_choice":"required""#) == true)
        #expect(host.requests.count == 3)
    }

    @Test func whereTheOtherFormIsRefusedTooTheFirstReasonCounts() async throws {
        let tooLarge = Self.refused(
            #"{"error":{"message":"max_tokens is too large","param":"max_tokens"}}"#)
        let other = Self.refused(
            #"{"error":{"message":"no such thing: max_completion_tokens"}}"#)
        let model = model()
        let host = ScriptedAgentHost(answers: [tooLarge, other, Self.fine])
        await #expect(throws: AgentError.upstream(status: 400, message: "max_tokens is too large"))
        {
            try await model.deltas(for: Self.question, on: host)
        }
        #expect(host.requests.count == 2)
        // Nothing was learnt of it.
        _ = try await model.deltas(for: Self.question, on: host)
        #expect(bodies(of: host).last?.contains(#""max_tokens":200"#) == true)
    }

    @Test func anotherRefusalIsNotRepeated() async throws {
        let host = ScriptedAgentHost(answers: [
            Self.refused(#"{"error":{"message":"The context is too long"}}"#), Self.fine,
        ])
        await #expect(throws: AgentError.self) {
            try await model().deltas(for: Self.question, on: host)
        }
        #expect(host.requests.count == 1)
        #expect(host.faults.map(\.status) == [400])
    }

    @Test(arguments: TokenLimitParameter.allCases)
    func theOperatorMayName(parameter: TokenLimitParameter) async throws {
        let host = ScriptedAgentHost(answers: [Self.maxTokens, Self.fine])
        _ = try? await model { $0.tokenLimit = parameter }.deltas(for: Self.question, on: host)
        let first = try #require(bodies(of: host).first)
        #expect(first.contains("max_completion_tokens") == (parameter == .maxCompletionTokens))
        #expect(host.requests.count == (parameter == .learnt ? 2 : 1))
    }

    @Test(arguments: StreamOptionsUse.allCases)
    func theOperatorMayDecideOnStreamOptions(use: StreamOptionsUse) async throws {
        let host = ScriptedAgentHost(answers: [
            Self.refused("stream_options is not supported"), Self.fine,
        ])
        _ = try? await model { $0.streamOptions = use }.deltas(for: Self.question, on: host)
        let first = try #require(bodies(of: host).first)
        #expect(first.contains("stream_options") == (use != .never))
        #expect(host.requests.count == (use == .learnt ? 2 : 1))
    }

    @Test func cacheMarksAreLeftOutWhereTheyAreRefused() async throws {
        let refused = Self.refused(
            #"{"message":"messages.0.content.0.cache_control: Extra inputs are not permitted"}"#)
        let answer = ScriptedAgentHost.Answer(chunks: [
            Array(
                (#"data: {"type":"content_block_start","content_block":{"type":"text","text":"Fine."}}"#
                    + "\n\n" + #"data: {"type":"message_stop"}"# + "\n\n").utf8)
        ])
        let host = ScriptedAgentHost(answers: [refused, answer])
        #expect(try await model(.anthropic).deltas(for: Self.question, on: host).text == "Fine.")
        #expect(bodies(of: host).map { $0.contains("cache_control") } == [true, false])
    }
}
