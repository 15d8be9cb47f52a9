// Requests for a session that may be at another node: to hang it up, and to list sessions. The node
// that was asked puts the question to its own shards and to all other nodes at once; a node that was
// asked by another asks its shards only.
//
// Invariant: a question is passed on once. The client gets one answer, also where nodes are away.

import Codec
import Session

extension Shard {
    /// Whether a caller's question concerns other nodes too.
    func asksNodes(_ caller: Caller) -> Bool {
        !caller.isNode && upstream != nil && !services.nodes.others.isEmpty
    }

    /// Puts a question to all other nodes.
    /// - Parameters:
    ///   - target: path and query.
    ///   - then: takes their answers, one for each node. Any thread.
    func askNodes(
        _ method: HTTPMethod, _ target: String, for caller: Caller,
        then: @escaping @Sendable ([NodeAnswer]) -> Void
    ) {
        guard let upstream else { return then([]) }
        let seconds = services.wallSeconds()
        let requests = services.nodes.others.compactMap {
            services.nodes.request(method, target, to: $0, for: caller, at: seconds)
        }
        Task(executorPreference: gate.executor.task) {
            then(await NodeRequest.answers(to: requests, by: upstream))
        }
    }

    /// Asks the other nodes to hang a session up. Their answer counts as that of one more shard.
    func askNodesToHangUp(_ sessionID: String, for caller: Caller, as id: CallID) {
        let path = "/v1/realtime/calls/\(sessionID)/hangup"
        askNodes(.post, path, for: caller) { [postToThisShard] answers in
            postToThisShard(.answer(CallAnswer(toHangUp: answers), to: id))
        }
    }

    /// Asks the other nodes for their sessions.
    func askNodesForSessions(_ query: SessionQuery, for caller: Caller, as id: SurveyID) {
        askNodes(.get, query.target, for: caller) { [mailbox = inbox.mailbox] answers in
            mailbox.post(.noteNodes(answers, for: id))
        }
    }
}

extension CallAnswer {
    /// What nodes say together: one of them has had the session, none has it, or some do not answer.
    init(toHangUp answers: [NodeAnswer]) {
        if answers.contains(where: { $0.status == 200 }) {
            self = .hungUp
        } else if answers.allSatisfy({ $0.status == 404 }) {
            self = .missing
        } else {
            self = .away
        }
    }
}

extension SessionQuery {
    /// Whether an id can be put into a path as it is. All ids of sessions can.
    static func isPlain(_ id: String) -> Bool {
        !id.isEmpty && id.utf8.count <= 64
            && id.utf8.allSatisfy {
                $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-")
            }
    }

    /// Path and query that ask the same of another node.
    var target: String {
        if let id { return "/admin/sessions/\(id)" }
        let state = state.map { "&state=\($0.rawValue)" } ?? ""
        return "/admin/sessions?scope=node&order=\(order.rawValue)&limit=\(limit)\(state)"
    }
}
