// The memory that a request to a model charges to its session: the body, which may be sent again,
// and an incomplete answer. Both charges end with the response.

import Session
import Testing

@testable import Agents

@Suite struct AnswerMemoryTests {
    private let model = ModelServiceKind.chat.model(
        at: ModelService(baseURL: "http://models.test/v1"))

    private func question(_ words: Int) -> ModelRequest {
        ModelRequest(
            model: "m", messages: [.user(String(repeating: "word ", count: words))])
    }

    private func pieces(_ text: String) -> [[UInt8]] {
        let bytes = Array(text.utf8)
        return stride(from: 0, to: bytes.count, by: 1_000).map {
            Array(bytes[$0..<min(bytes.count, $0 + 1_000)])
        }
    }

    @Test func theBodyIsChargedUntilTheFirstWord() async throws {
        let event = #"data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}"# + "\n\n"
        let host = ScriptedAgentHost(
            answers: [.init(chunks: [Array(event.utf8), Array("data: [DONE]\n\n".utf8)])])
        try await model.respond(to: question(20_000), on: host) { _ in
            #expect(host.charged.now < ModelExchangeBytes.answering + 1_024)
        }
        #expect((100_000..<300_000).contains(host.charged.most), "\(host.charged)")
        #expect(host.charged.now == 0)
    }

    @Test func anAnswerThatIsNotStreamedIsChargedAsItArrives() async throws {
        let words = String(repeating: "w", count: 300_000)
        let answer =
            #"{"choices":[{"index":0,"message":{"role":"assistant","content":"\#(words)"},"#
            + #""finish_reason":"stop"}]}"#
        let host = ScriptedAgentHost(answers: [.init(chunks: pieces(answer))])
        try await model.respond(to: question(1), on: host) { _ in }
        #expect((300_000..<700_000).contains(host.charged.most), "\(host.charged)")
        #expect(host.charged.now == 0)
    }

    @Test func anEventThatDoesNotEndIsCharged() async throws {
        let text = "data: " + String(repeating: "w", count: 200_000)
        let host = ScriptedAgentHost(answers: [.init(chunks: pieces(text))])
        _ = try? await model.respond(to: question(1), on: host) { _ in }
        #expect((200_000..<500_000).contains(host.charged.most), "\(host.charged)")
        #expect(host.charged.now == 0)
    }
}
