// A request to another node, and its answer: HTTP by the shard's own client, with limits of time and
// size. The callers in ShardForwarding give it its meaning.
//
// Invariant: every request has one answer, within `patience`. A node that is away is an answer.

import Codec
import Session

/// The answer of another node.
struct NodeAnswer: Equatable, Sendable {
    /// HTTP status; 0: the node did not answer in time, or with too much.
    let status: Int
    let body: [UInt8]
    /// The node's name.
    var node = ""

    static let none = NodeAnswer(status: 0, body: [])
}

/// A question for another node, or one that passes the caller's request on. `pass` replaces the
/// credential.
struct NodeRequest: Sendable {
    /// Time for an answer. 2 s: the node itself waits 1 s for its shards.
    static let patience = Duration.seconds(2)
    /// Time that all answers together take at most.
    static let wholePatience = patience + .milliseconds(200)
    /// The most bytes of an answer. 1 MiB: a thousand sessions take a third of that.
    static let maxAnswerBytes = 1 << 20

    /// The receiver's name.
    let node: String
    let method: HTTPMethod
    let url: String
    let pass: String

    /// Sends it.
    func answer(by client: any UpstreamClient) async -> NodeAnswer {
        var request = UpstreamRequest(
            url: url, method: method.name, headers: [(NodePass.field, pass)],
            timeout: Self.patience, totalTimeout: Self.patience)
        // The pass is for the other node alone.
        request.usesProxy = false
        if method == .post { request.headers.append(("Content-Type", "application/json")) }
        do {
            let response = try await client.send(request, for: nil)
            var body: [UInt8] = []
            while let chunk = try await response.nextChunk() {
                guard body.count + chunk.count <= Self.maxAnswerBytes else { return none }
                body += chunk
            }
            return NodeAnswer(status: response.status, body: body, node: node)
        } catch {
            return none
        }
    }

    private var none: NodeAnswer { NodeAnswer(status: 0, body: [], node: node) }

    /// The answers to several requests, in any order.
    /// - Parameter isEnough: whether an answer makes the others needless. Requests that have none
    ///   yet are cancelled then, so that a node that is away delays no other.
    static func answers(
        to requests: [NodeRequest], by client: any UpstreamClient,
        until isEnough: (NodeAnswer) -> Bool = { _ in false }
    ) async -> [NodeAnswer] {
        await withTaskGroup(of: NodeAnswer.self) { group in
            for request in requests { group.addTask { await request.answer(by: client) } }
            var answers: [NodeAnswer] = []
            for await answer in group {
                answers.append(answer)
                if isEnough(answer) {
                    group.cancelAll()
                    break
                }
            }
            return answers
        }
    }
}
