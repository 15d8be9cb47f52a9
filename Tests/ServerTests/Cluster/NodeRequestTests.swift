// Questions to several nodes at once, of which some never answer.

import Codec
import Session
import Synchronization
import Testing

@testable import Server

/// Nodes by their addresses: each answers with its status, or waits for the question's end.
private final class Nodes: UpstreamClient {
    /// 0: it does not answer.
    let statuses: [String: Int]
    let cancelled = Mutex<[String]>([])

    init(_ statuses: [String: Int]) { self.statuses = statuses }

    final class Answer: UpstreamResponse {
        let status: Int

        init(status: Int) { self.status = status }

        func nextChunk() async throws -> [UInt8]? { nil }
    }

    func send(
        _ request: UpstreamRequest, for owner: EventToken?
    ) async throws -> any UpstreamResponse {
        let status = statuses[request.url] ?? 0
        if status > 0 { return Answer(status: status) }
        let (silence, end) = AsyncStream.makeStream(of: Void.self)
        for await _ in silence {}
        withExtendedLifetime(end) {}
        cancelled.withLock { $0.append(request.url) }
        throw CancellationError()
    }

    func heldBytes(of owner: EventToken) -> Int { 0 }
    func handleReady(fd: Int32, readable: Bool, writable: Bool, failed: Bool) {}
    func handleTimer() {}
    func shutdown() {}

    /// A question to all of them.
    var requests: [NodeRequest] {
        statuses.keys.sorted().map { NodeRequest(node: $0, method: .get, url: $0, pass: "") }
    }
}

@Suite(.timeLimit(.minutes(1))) struct NodeRequestTests {
    @Test func oneNodesAnswerIsEnoughWhereAnotherIsSilent() async {
        let nodes = Nodes(["a": 0, "b": 200, "c": 0])
        let answers = await NodeRequest.answers(to: nodes.requests, by: nodes) { $0.status == 200 }
        #expect(answers.contains(NodeAnswer(status: 200, body: [], node: "b")))
        #expect(nodes.cancelled.withLock { $0.sorted() } == ["a", "c"])
        #expect("\(CallAnswer(toFind: answers))" == #"elsewhere("b")"#)
    }

    @Test func everyNodeIsAskedWhereNoneHasIt() async {
        let nodes = Nodes(["a": 404, "b": 404, "c": 401])
        let answers = await NodeRequest.answers(to: nodes.requests, by: nodes) { $0.status == 200 }
        #expect(answers.map(\.status).sorted() == [401, 404, 404])
        #expect(nodes.cancelled.withLock { $0.isEmpty })
    }

    @Test("Clients of a killed node wait while the store is full")
    func aNodeThatStaysSilentWithoutTheStoreCountsAsGone() {
        let directory = NodeDirectory(name: "a")
        let (silent, other) = (
            NodeAnswer(status: 0, body: [], node: "b"), NodeAnswer(status: 404, body: [], node: "c")
        )
        func verdict(_ answers: NodeAnswer..., at milliseconds: Int) -> String {
            let counted = directory.withoutSilent(answers, asked: .milliseconds(milliseconds))
            return "\(CallAnswer(toFind: counted))"
        }
        #expect(verdict(silent, other, at: 1_000) == "away")
        #expect(verdict(silent, other, at: 3_999) == "away")
        #expect(verdict(silent, other, at: 4_000) == "missing")
        // An answer is a new beginning, and so is the store's list.
        #expect(verdict(NodeAnswer(status: 404, body: [], node: "b"), at: 5_000) == "missing")
        #expect(verdict(silent, at: 6_000) == "away")
        directory.replace([], secret: [])
        #expect(verdict(silent, at: 60_000) == "away")
    }

    @Test func aListHasTheAnswersOfAll() async {
        let nodes = Nodes(["a": 200, "b": 200, "c": 503])
        let answers = await NodeRequest.answers(to: nodes.requests, by: nodes)
        #expect(answers.map(\.node).sorted() == ["a", "b", "c"])
    }
}
