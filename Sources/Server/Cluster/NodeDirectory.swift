// The nodes of a cluster as one of them knows them: the others, and the secret that all share. The
// store's heartbeat renews it; a server alone has an empty one. Any thread.
//
// Invariant: it never holds this node itself, and at most `maxNodes` others.

import Codec
import Session
import Synchronization

/// The other nodes, over all shards.
package final class NodeDirectory: Sendable {
    /// Other nodes that are known. 64: each request for all of them asks all.
    static let maxNodes = 64
    /// How long a server counts as alive after a heartbeat. 3 s: the claim of a session of a dead
    /// server waits no longer.
    static let lifetime = Duration.seconds(3)

    private struct State {
        var others: [NodeRecord] = []
        var key: JSONWebKey?
        /// When a node was first asked that has not answered since, by its name.
        var silentSince: [String: Instant] = [:]
    }

    /// The name of this node.
    package let name: String
    private let state = Mutex(State())

    /// Creates the directory of a server that knows no other.
    package init(name: String) { self.name = name }

    /// Replaces the known nodes.
    /// - Parameters:
    ///   - records: all nodes that are alive, this one too.
    ///   - secret: 32 bytes or more; fewer count as none.
    package func replace(_ records: [NodeRecord], secret: [UInt8]) {
        let others = records.filter { $0.name != name && $0.url != nil }
            .sorted { $0.name < $1.name }.prefix(Self.maxNodes)
        let key = JSONWebKey(secret: secret)
        state.withLock { $0 = State(others: Array(others), key: key) }
    }

    /// Answers without those of nodes that have been silent for as long as the store would have kept
    /// them. For use while the store is away: it cannot say then that a node is gone, and a client
    /// would wait for that node's session until the store is back.
    /// - Parameter asked: when the nodes were asked.
    func withoutSilent(_ answers: [NodeAnswer], asked: Instant) -> [NodeAnswer] {
        state.withLock { state in
            answers.filter { answer in
                guard answer.status == 0 else {
                    state.silentSince[answer.node] = nil
                    return true
                }
                let since = state.silentSince[answer.node] ?? asked
                state.silentSince[answer.node] = since
                return asked - since < Self.lifetime
            }
        }
    }

    /// Those that can be asked.
    var others: [NodeRecord] { state.withLock { $0.key == nil ? [] : $0.others } }

    /// The other node with a name.
    func node(named name: String) -> NodeRecord? { others.first { $0.name == name } }

    /// A request to another node.
    /// - Parameter target: path and query, in characters that a URL may have.
    /// - Returns: nil where the node cannot be reached.
    func request(
        _ method: HTTPMethod, _ target: String, to node: NodeRecord, for caller: Caller,
        at wallSeconds: Int
    ) -> NodeRequest? {
        guard let key = state.withLock({ $0.key }), let url = node.url,
            let pass = NodePass(for: caller, at: wallSeconds)
                .text(for: method, target, to: node.name, by: key)
        else { return nil }
        return NodeRequest(node: node.name, method: method, url: url + target, pass: pass)
    }

    /// The caller whose request another node passes on, or nil where the pass is not valid.
    func caller(passedBy text: String, in request: HTTPRequest, at wallSeconds: Int) -> Caller? {
        guard let key = state.withLock({ $0.key }),
            let pass = NodePass(text, for: request, to: name, by: key, at: wallSeconds)
        else { return nil }
        return Caller(
            access: pass.access, principal: pass.principal, secret: pass.secret, isNode: true)
    }
}
