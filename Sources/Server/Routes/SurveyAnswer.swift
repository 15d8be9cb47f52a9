// The answers of the admin routes: the shards' reports as JSON, the tables that describe it in the
// documents, and the routes themselves. Access is decided by the routes and ShardSurveys.
//
// Invariant: the JSON is what the tables say; docs/http.md has the same in words.

import Codec
import Session

/// The answer to a survey.
struct SurveyAnswer {
    private let survey: Survey
    /// The sessions of other nodes.
    private let others: NodeSessions
    /// The name of this node.
    private let node: String

    init(_ survey: Survey, of node: String) {
        self.survey = survey
        self.node = node
        others = NodeSessions(survey.nodeAnswers, to: survey.query)
    }

    /// One session of the list: this node's own, or another's.
    private enum Shown {
        case own(SessionRow)
        case other(NodeSessions.Row)
    }

    /// The answer to the client.
    var response: HTTPResponse {
        guard survey.query.id == nil else { return single }
        let shown = rows.prefix(survey.query.limit)
        var json = JSONWriter(ByteWriter(capacity: 512 + 320 * shown.count))
        json.object { json in
            json.member("object", "list")
            json.member("nodes", survey.nodes + 1)
            json.member("nodes_answered", others.answered + 1)
            json.member("shards", survey.shards + others.shards)
            json.member("shards_answered", survey.reports.count + others.shardsAnswered)
            json.member("connections", sum(\.connections) + others.connections)
            json.member("ledger_bytes", sum(\.ledgerBytes) + others.ledgerBytes)
            json.member("resident_bytes", ProcessMemory.current.resident + others.residentBytes)
            json.object("states") { json in
                for state in SessionState.allCases {
                    json.key(text: state.rawValue)
                    json.integer(sum(\.states[state.index]) + others.states[state.index])
                }
            }
            json.array("data") { json in
                for row in shown {
                    switch row {
                    case .own(let row): row.write(of: node, into: &json)
                    case .other(let row): json.raw(row.json)
                    }
                }
            }
            let total = sum(\.matching) + others.rows.count
            json.member("has_more", others.hasMore || total > shown.count)
        }
        return Self.response(json.finish())
    }

    /// The rows of all shards and nodes, in the order of the query.
    private var rows: [Shown] {
        let own = survey.reports.flatMap(\.rows)
        guard !others.rows.isEmpty else {
            return own.sorted { $0.rank < $1.rank }.map(Shown.own)
        }
        let order = survey.query.order
        let ranked = own.map { ($0.rank(in: order), Shown.own($0)) }
        return (ranked + others.rows.map { ($0.rank, .other($0)) })
            .sorted { $0.0 < $1.0 }.map(\.1)
    }

    private func sum(_ figure: KeyPath<SurveyReport, Int>) -> Int {
        survey.reports.reduce(0) { $0 + $1[keyPath: figure] }
    }

    private var single: HTTPResponse {
        if let row = survey.reports.lazy.flatMap(\.rows).first {
            var json = JSONWriter(ByteWriter(capacity: 1_024))
            row.write(of: node, into: &json)
            return Self.response(json.finish())
        }
        if let other = others.single { return Self.kept(.json(other)) }
        // A shard or a node that has not answered may have it.
        let isCertain =
            survey.reports.count == survey.shards && others.answered == survey.nodes
        return (isCertain ? RouteFailure.noSession : .shardsAway).response
    }

    private static func response(_ body: consuming ByteWriter) -> HTTPResponse {
        kept(.json(body))
    }

    private static func kept(_ answer: HTTPResponse) -> HTTPResponse {
        var response = answer
        // It is true for a moment only, and names clients.
        response.fields.append("Cache-Control", "no-store")
        return response
    }
}

extension SessionRow {
    /// Writes it as an object.
    /// - Parameter node: the name of this node.
    func write(of node: String, into json: inout JSONWriter) {
        json.object { json in
            json.member("id", id)
            json.member("node", node)
            json.member("shard", shard)
            json.member("state", state.rawValue)
            json.member("bytes", bytes)
            json.member("age_ms", max(0, age.wholeMilliseconds))
            json.member("idle_ms", max(0, idle.wholeMilliseconds))
            json.member("client", client == .unspecified ? nil : "\(client)")
            json.member("model", model)
            json.member("turns", turns)
            json.member("sidebands", sidebands)
            json.member("joined", joined)
            json.key("last_turn")
            if let turn = lastTurn {
                json.object { json in
                    json.member("transcript_ms", turn[.transcript])
                    json.member("first_token_ms", turn[.firstToken])
                    json.member("first_audio_ms", turn[.firstAudio])
                }
            } else {
                json.null()
            }
            json.key("call")
            if let call {
                json.object { json in
                    json.member("carrier", call.carrier.rawValue)
                    json.member("call_id", call.callID)
                    json.member("from", call.from)
                    json.member("to", call.to)
                }
            } else {
                json.null()
            }
            guard let parts else { return }
            json.object("parts") { json in
                for part in MemoryPart.allCases {
                    json.key(text: part.rawValue)
                    json.integer(parts[part])
                }
            }
        }
    }
}

extension RouteFailure {
    static let noSession = RouteFailure(
        status: 404, code: "session_not_found", message: "There is no session with this id.")
    static let shardsAway = unavailable(
        "shards_away", "A part of the server did not answer in time.", retryAfterSeconds: 1)
    static let tooManySurveys = unavailable(
        "too_many_surveys", "Too many ask for sessions at once.", retryAfterSeconds: 1)
    static let loopbackOnly = RouteFailure(
        status: 403, code: "loopback_only",
        message: "Without credentials only this machine may ask: give the server an API key.")
}

// MARK: - Routes

extension Route {
    /// Routes for the operator of the server.
    static let administration = [
        Route(
            path: "/admin/sessions", methods: [.get], access: .operator, pages: .sameOrigin,
            summary: "The sessions of all nodes: who they are, what they do, what they hold.",
            service: .survey, content: { .sessions }),
        Route(
            path: "/admin/sessions/{id}", methods: [.get], access: .operator, pages: .sameOrigin,
            summary: "One session, with what it holds part by part.",
            service: .survey, content: { .sessionDetail }),
        Route(
            path: "/admin/live", methods: [.get], access: .operator, pages: .sameOrigin,
            summary: "A WebSocket for the operator's page: the server, its sessions, one of them.",
            service: .webSocket(.administration), content: { .operatorSocket }),
    ]
}

extension RouteContent {
    private static let count = ValueSchema.integer(0...Int.max)

    private static var rowFields: [FieldEntry] {
        [
            FieldEntry("id", .text(), "sess_…, or conn_… of a connection without a session."),
            FieldEntry("node", .text(), "The node that has it; a new name at each start."),
            FieldEntry("shard", count, "Which shard of the node it lives on, from 0."),
            FieldEntry("state", state, "What it does now."),
            FieldEntry("bytes", count, "What it makes the process hold."),
            FieldEntry("age_ms", count, "Milliseconds since it began."),
            FieldEntry("idle_ms", count, "Milliseconds since a message last came or left."),
            FieldEntry(
                "client", .text(), isNullable: true,
                "The client's address; behind a proxy of an IPv6 client its /64."),
            FieldEntry("model", .text(), isNullable: true, "Its model; null without a session."),
            FieldEntry("turns", count, "Responses that it has begun."),
            FieldEntry("sidebands", count, "Sidebands that have joined it."),
            FieldEntry(
                "joined", .text(), isNullable: true,
                "The session that it has joined as a sideband; null: it is none."),
            FieldEntry(
                "last_turn", .object(lastTurn), isNullable: true,
                "How its last turn went; null before the first."),
            FieldEntry(
                "call", .object(call), isNullable: true,
                "The telephone call that it is of; null: it is of none."),
        ]
    }

    private static var state: ValueSchema { .choice(SessionState.allCases.map(\.rawValue)) }

    private static var call: ObjectTable {
        ObjectTable(
            "TelephoneCall", "A telephone call.",
            [
                FieldEntry(
                    "carrier", .choice(TelephoneCarrier.allCases.map(\.rawValue)),
                    "The carrier that connected it."),
                FieldEntry("call_id", .text(), "The carrier's name for it."),
                FieldEntry("from", .text(), isNullable: true, "The caller's number."),
                FieldEntry("to", .text(), isNullable: true, "The number that was called."),
            ])
    }

    private static var lastTurn: ObjectTable {
        ObjectTable(
            "LastTurn", "Milliseconds from the end of the user's speech; null: not reached.",
            [
                FieldEntry("transcript_ms", count, isNullable: true, "Until the transcript."),
                FieldEntry(
                    "first_token_ms", count, isNullable: true,
                    "Until the model's first token; of a typed turn from the request."),
                FieldEntry(
                    "first_audio_ms", count, isNullable: true, "Until the reply's first audio."),
            ])
    }

    /// `GET /admin/sessions`
    fileprivate static var sessions: RouteContent {
        let states = ObjectTable(
            "SessionStates", "Connections and text requests by what they do.",
            [
                FieldEntry("idle", count, "Sessions in which nothing happens."),
                FieldEntry("listening", count, "Sessions with audio and no speech in it."),
                FieldEntry("speaking", count, "Sessions whose user speaks."),
                FieldEntry("replying", count, "Sessions with a turn in flight."),
                FieldEntry("connection", count, "Connections without a session."),
            ])
        let list = ObjectTable(
            "SessionList", "Sessions of all nodes.",
            [
                FieldEntry("object", .constant("list"), "What this object is."),
                FieldEntry("nodes", count, "Nodes that were asked, this one too."),
                FieldEntry("nodes_answered", count, "Those of them that answered in time."),
                FieldEntry("shards", count, "Shards that were asked."),
                FieldEntry("shards_answered", count, "Those of them that answered in time."),
                FieldEntry("connections", count, "Open connections."),
                FieldEntry(
                    "ledger_bytes", count,
                    "What they, text requests and sessions without a client make the process hold."),
                FieldEntry("resident_bytes", count, "Resident memory of the process."),
                FieldEntry("states", .object(states), "How many do what."),
                FieldEntry(
                    "data",
                    .list(
                        .object(ObjectTable("SessionRow", "A session.", rowFields)),
                        atMost: SessionQuery.limits.upperBound), "The first of those that fit."),
                FieldEntry("has_more", .boolean, "Whether more fit than are listed."),
            ])
        return RouteContent(
            query: [
                .optional(
                    "limit", .integer(SessionQuery.limits), "The most sessions; 100 without it."),
                .optional(
                    "scope", .choice(SessionQuery.Scope.allCases.map(\.rawValue)),
                    "Whose sessions: of all nodes (the default), or of the one that was asked."),
                .optional(
                    "order", .choice(SessionQuery.Order.allCases.map(\.rawValue)),
                    "First comes: most bytes (the default), age, idle time, turns, delay, id."),
                .optional(
                    "state", state,
                    "Only those in this state; without it all but connections without a session."),
            ],
            answers: [
                RouteAnswer(
                    status: 200, "The sessions.", RouteBody("application/json", .object(list)))
            ])
    }

    /// The parts of a ledger, each named as in `MemoryPart`.
    static var sessionParts: ObjectTable {
        ObjectTable(
            "SessionParts", "Bytes by what holds them.",
            [
                FieldEntry(
                    "connection", count,
                    "The connection itself and its places in the server's tables."),
                FieldEntry("receive", count, "Bytes that came and are not used yet."),
                FieldEntry("send", count, "Output that waits for the socket."),
                FieldEntry("tls", count, "The state of TLS."),
                FieldEntry("compression", count, "Contexts of permessage-deflate."),
                FieldEntry("session", count, "The session itself, its settings and tools."),
                FieldEntry("codec", count, "Decoder, encoder, resampler."),
                FieldEntry(
                    "listening", count,
                    "Voice activity, prosody, noise reduction, the reply's echo."),
                FieldEntry("input_audio", count, "The user's audio that no item has taken."),
                FieldEntry("conversation", count, "Items with their text and kept audio."),
                FieldEntry("response", count, "Responses in flight and their speech."),
                FieldEntry("task", count, "Agents at work, with what they were asked."),
                FieldEntry("upstream", count, "Transfers from and to models and services."),
            ])
    }

    /// `GET /admin/sessions/{id}`
    fileprivate static var sessionDetail: RouteContent {
        let detail = ObjectTable(
            "SessionDetail", "A session and what it holds.",
            rowFields + [FieldEntry("parts", .object(sessionParts), "Bytes by what holds them.")])
        return RouteContent(
            answers: [
                RouteAnswer(
                    status: 200, "The session.", RouteBody("application/json", .object(detail))),
                RouteAnswer(
                    status: 404, "There is none with this id.",
                    RouteBody("application/json", .object(failure))),
            ])
    }
}
