// No request to a model is made again once a byte of its answer has come, whatever the API: an agent
// that has begun to answer has begun to act. Before that, a transient failure is retried.

import Session
import Testing

@testable import Agents

@Suite struct AnswerRetryTests {
    private let failure = AgentError.upstream(status: 0, message: "reset")

    /// The first event of an answer in each API, none of which has a word.
    private static let beginnings: [(ModelServiceKind, String)] = [
        (.chat, #"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#),
        (.anthropic, #"{"type":"message_start","message":{"usage":{"input_tokens":1}}}"#),
        (.responses, #"{"type":"response.created","response":{"id":"r"}}"#),
        (.agUI, #"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#),
    ]

    private func asked(_ kind: ModelServiceKind, _ answers: [ScriptedAgentHost.Answer]) async -> Int
    {
        var service = ModelService(baseURL: "http://agent.test")
        service.retries = RetryPolicy(maxRetries: 2)
        service.keepsState = kind.keepsState
        let host = ScriptedAgentHost(answers: answers)
        let request = ModelRequest(model: "m", messages: [.user("Hi")])
        _ = try? await kind.model(at: service).deltas(for: request, on: host)
        return host.requests.count
    }

    @Test func everyAPIIsTested() {
        // Workers are not asked by requests of HTTP.
        let kinds = Set(ModelServiceKind.allCases).subtracting([.redisStream])
        #expect(Set(Self.beginnings.map(\.0)) == kinds)
    }

    @Test(arguments: beginnings)
    func aRequestIsMadeAgainBeforeTheFirstByteOnly(kind: ModelServiceKind, event: String) async {
        let beginning = Array("data: \(event)\n\n".utf8)
        #expect(await asked(kind, [.init(failure: failure), .init(status: 503), .init()]) == 3)
        #expect(await asked(kind, [.init(chunks: [beginning], failure: failure), .init()]) == 1)
        #expect(await asked(kind, [.init(chunks: [[UInt8(ascii: ":")]], failure: failure)]) == 1)
    }

    @Test(arguments: beginnings)
    func aServiceThatIsAskedTooOftenIsALimitOnlyWhereItSaysForHowLong(
        kind: ModelServiceKind, event: String
    ) async {
        let service = ModelService(baseURL: "http://agent.test")
        let request = ModelRequest(model: "m", messages: [.user("Hi")])
        func error(_ answer: ScriptedAgentHost.Answer) async -> AgentError? {
            await #expect(throws: AgentError.self) {
                try await kind.model(at: service).deltas(
                    for: request, on: ScriptedAgentHost(answers: [answer]))
            }
        }
        let body = [Array(#"{"error":{"message":"slow down"}}"#.utf8)]
        #expect(
            await error(.init(status: 429, retryAfter: .seconds(7), chunks: body))
                == .rateLimited(retryAfter: .seconds(7), detail: "status 429: slow down"))
        #expect(
            await error(.init(status: 429, chunks: body))
                == .upstream(status: 429, message: "slow down"))
        #expect(
            await error(.init(status: 503, retryAfter: .seconds(7), chunks: body))
                == .upstream(status: 503, message: "slow down"))
    }
}
