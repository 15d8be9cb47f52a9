// Requests for what may be at another node: to hang a session up, to list sessions, and to find the
// node of a session or of a chat's reply. The node that was asked puts the question to its own shards
// and to all other nodes at once; a node that was asked by another asks its shards only. ShardRelays
// passes on what takes longer than an answer. The first node that has a session decides; only lists
// of sessions wait for all.
//
// Invariant: a question is passed on once. The client gets one answer, also where nodes are away.

import Codec
import Session

extension Shard {
    /// Whether a caller's question concerns other nodes too.
    func asksNodes(_ caller: Caller) -> Bool {
        !caller.isNode && upstreams.http != nil && !services.nodes.others.isEmpty
    }

    /// Puts a question to all other nodes.
    /// - Parameters:
    ///   - target: path and query.
    ///   - isOne: whether at most one node can have the thing asked for, so that its answer is
    ///     enough.
    ///   - then: takes their answers, one for each node at most. Any thread.
    func askNodes(
        _ method: HTTPMethod, _ target: String, forOne isOne: Bool, for caller: Caller,
        then: @escaping @Sendable ([NodeAnswer]) -> Void
    ) {
        guard let upstream = upstreams.http else { return then([]) }
        let seconds = services.wallSeconds()
        let requests = services.nodes.others.compactMap {
            services.nodes.request(method, target, to: $0, for: caller, at: seconds)
        }
        Task(executorPreference: agents.gate.executor.task) {
            then(
                await NodeRequest.answers(to: requests, by: upstream) {
                    isOne && $0.status == 200
                })
        }
    }

    /// Asks the other nodes to hang a session up. Their answer counts as the answer of one more
    /// shard.
    func askNodesToHangUp(_ sessionID: String, for caller: Caller, as id: CallID) {
        let path = "/v1/realtime/calls/\(sessionID)/hangup"
        askNodes(.post, path, forOne: true, for: caller) { [postToThisShard] answers in
            postToThisShard(.answer(CallAnswer(toHangUp: answers), to: id))
        }
    }

    /// Asks the other nodes which of them has something.
    func askNodesForPlace(of wanted: NodePlace, for caller: Caller, as id: CallID) {
        let (nodes, begun, isStoreAway) = (
            services.nodes, now, !returning.store.sessions.isReachable
        )
        askNodes(.get, wanted.target, forOne: true, for: caller) { [postToThisShard] answers in
            let counted = isStoreAway ? nodes.withoutSilent(answers, asked: begun) : answers
            postToThisShard(.answer(CallAnswer(toFind: counted), to: id))
        }
    }

    /// Answers a node that looks for a session or a chat. For other callers the path does not
    /// exist.
    /// - Returns: the answer where it comes at once, or nil where the shards are asked.
    func beginFinding(
        _ request: HTTPRequest, by caller: Caller, on connection: Connection
    ) -> HTTPResponse? {
        guard caller.isNode, let wanted = NodePlace(target: request.path) else {
            return RouteFailure.nothing(at: request.path).response
        }
        switch wanted {
        case .session(let id): return beginFinding(id, request, by: caller, on: connection)
        case .chat(let id):
            let hasReply = services.replies.log(of: ChatKey(of: caller, id: id)) != nil
            return hasReply
                ? HTTPResponse(status: 200) : RouteFailure.nothing(at: request.path).response
        }
    }

    /// Asks the other nodes for their sessions.
    func askNodesForSessions(_ query: SessionQuery, for caller: Caller, as id: SurveyID) {
        askNodes(.get, query.target, forOne: query.id != nil, for: caller) {
            [mailbox = inbox.mailbox] answers in
            mailbox.post(.noteNodes(answers, for: id))
        }
    }
}

extension CallAnswer {
    /// The combined answer of nodes: one has ended the session, none has it, or some do not answer.
    init(toHangUp answers: [NodeAnswer]) {
        if answers.contains(where: { $0.status == 200 }) {
            self = .hungUp
        } else if answers.allSatisfy({ $0.status == 404 }) {
            self = .missing
        } else {
            self = .away
        }
    }

    /// The combined answer of nodes: one of them has it, none has it, or some do not answer.
    init(toFind answers: [NodeAnswer]) {
        if let answer = answers.first(where: { $0.status == 200 }) {
            self = .elsewhere(answer.node)
        } else if answers.allSatisfy({ $0.status == 404 }) {
            self = .missing
        } else {
            self = .away
        }
    }
}

/// The session or chat that one node looks for at others.
enum NodePlace: Equatable, Sendable {
    case session(String)
    /// The newest reply of a chat of the caller's.
    case chat(String)

    /// Reads the path of another node's question. Nil for any other path.
    init?(target: String) {
        let parts = target.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[1] == "nodes",
            let id = HTTPRequest.percentDecoded(parts[3])
        else { return nil }
        switch parts[2] {
        case "sessions": self = .session(id)
        case "chats": self = .chat(id)
        default: return nil
        }
    }

    /// The path of the question.
    var target: String {
        switch self {
        case .session(let id): "/nodes/sessions/\(Self.encoded(id))"
        case .chat(let id): "/nodes/chats/\(Self.encoded(id))"
        }
    }

    private static func encoded(_ id: String) -> String {
        var text = ""
        for byte in id.utf8 {
            if byte.isASCIIAlphanumeric || byte == UInt8(ascii: "_") || byte == UInt8(ascii: "-") {
                text.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                let digits = String(byte, radix: 16, uppercase: true)
                text += digits.count == 1 ? "%0" + digits : "%" + digits
            }
        }
        return text
    }
}

extension Route {
    /// The questions of other nodes. Any other client is answered as if the paths did not exist.
    static let nodes = [
        Route(
            path: "/nodes/sessions/{id}", methods: [.get], access: .key, pages: .sameOrigin,
            summary: "For other nodes: whether this one has a session of the caller's.",
            service: .find, content: { .find }),
        Route(
            path: "/nodes/chats/{id}", methods: [.get], access: .session, pages: .sameOrigin,
            summary: "For other nodes: whether this one has a reply of the caller's chat.",
            service: .find, content: { .find }),
    ]
}

extension RouteContent {
    fileprivate static var find: RouteContent {
        RouteContent(
            answers: [
                RouteAnswer(status: 200, "It is here. The body is empty."),
                RouteAnswer(status: 404, "It is not here.", .failure),
            ])
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

    /// The path and query of the same question to another node.
    var target: String {
        if let id { return "/admin/sessions/\(id)" }
        let state = state.map { "&state=\($0.rawValue)" } ?? ""
        return "/admin/sessions?scope=node&order=\(order.rawValue)&limit=\(limit)\(state)"
    }
}
