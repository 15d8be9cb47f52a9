// The routes by which an operator reads ended sessions and deletes them: requests become questions to the
// RecordLibrary, and its findings become answers. Pure; ShardRecordQuestions asks.
//
// Invariant: the JSON is what the tables say; docs/http.md has the same in words.

import Codec
import Session

/// The questions and answers of the operator's routes.
enum RecordRoutes {
    /// Bytes of a recording in one answer. 256 KiB: about 80 s of one side.
    static let maxPieceBytes = 256 << 10
    /// Bytes of an id, or of the name of a recording.
    private static let maxNameBytes = 160
    private static let recordingPath = "/admin/recordings/{name}"

    /// The question of a request.
    /// - Parameters:
    ///   - route: its route.
    ///   - maxBytes: how many an answer may have.
    /// - Throws: for values that cannot be meant, as status 400.
    static func question(
        of request: HTTPRequest, to route: Route, maxBytes: Int
    ) throws(ClientEventError) -> RecordQuestion {
        // No session has an id that is not text.
        let name = route.parameter(of: request.path) ?? ""
        guard name.utf8.count <= maxNameBytes else { throw invalid("id", "is too long") }
        if route.path == recordingPath {
            return .listen(try piece(of: name, request, maxBytes: maxBytes))
        }
        guard route.path.hasSuffix("}") else { return .list(try search(of: request)) }
        return request.method == .delete ? .delete(name) : .show(name)
    }

    private static func invalid(_ name: StaticString, _ rule: String) -> ClientEventError {
        ClientEventError(
            code: "invalid_value", message: "'\(name)' \(rule).", param: "\(name)")
    }

    private static func search(
        of request: HTTPRequest
    ) throws(ClientEventError) -> RecordSearch {
        var search = RecordSearch()
        search.text = request.queryValue("search") ?? ""
        guard search.text.utf8.count <= SessionQuery.maxSearchBytes else {
            throw invalid("search", "has at most \(SessionQuery.maxSearchBytes) bytes")
        }
        if let text = request.queryValue("limit") {
            guard let limit = Int(text), RecordSearch.limits.contains(limit) else {
                throw invalid("limit", "is a whole number from 1 to 100")
            }
            search.limit = limit
        }
        if let cursor = request.queryValue("after") {
            let parts = cursor.split(separator: ":", maxSplits: 1)
            guard parts.count == 2, let start = Int(parts[0]), parts[1].utf8.count <= maxNameBytes
            else { throw invalid("after", "is 'next' of an earlier list") }
            search.after = RecordSearch.Place(startedAt: start, id: String(parts[1]))
        }
        return search
    }

    private static func piece(
        of name: String, _ request: HTTPRequest, maxBytes: Int
    ) throws(ClientEventError) -> RecordingPiece {
        guard let side = request.queryValue("side").flatMap(RecordingPiece.Side.init) else {
            throw invalid("side", "is 'user' or 'agent'")
        }
        // RFC 9110 §14.1.2. The last byte may be left out.
        let bounds = request.fields["Range"].flatMap { range in
            range.hasPrefix("bytes=")
                ? range.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false) : nil
        }
        guard let bounds, bounds.count == 2, let first = Int(bounds[0]), first >= 0,
            let last = bounds[1].isEmpty ? Int.max : Int(bounds[1]), last >= first
        else { throw invalid("Range", "is needed, as 'bytes=0-'") }
        let limit = min(maxPieceBytes, maxBytes)
        return RecordingPiece(
            name: name, side: side, offset: first,
            count: last - first < limit ? last - first + 1 : limit)
    }

    // MARK: Answers

    /// The answer to a question.
    /// - Parameter maxBytes: how many it may have.
    static func response(
        to question: RecordQuestion, _ finding: RecordFinding, maxBytes: Int
    ) -> HTTPResponse {
        switch finding {
        case .list(let rows, let hasMore): kept(.json(list(rows, hasMore: hasMore)))
        case .record(let documents, let recordings):
            documents.reduce(0, { $0 + $1.utf8.count }) <= maxBytes
                ? kept(.json(record(question, documents, recordings)))
                : RouteFailure.recordTooLong.response
        case .piece(let bytes, let total): piece(bytes, of: total, question)
        case .deleted: HTTPResponse(status: 204)
        case .missing: RouteFailure.noRecord.response
        case .open: RouteFailure.recordOpen.response
        case .failed(let reason): RouteFailure.recordsUnusable(reason).response
        }
    }

    /// It names clients, and may be deleted.
    private static func kept(_ answer: HTTPResponse) -> HTTPResponse {
        var response = answer
        response.fields.append("Cache-Control", "no-store")
        return response
    }

    private static func list(_ rows: [RecordListing], hasMore: Bool) -> ByteWriter {
        var json = JSONWriter(ByteWriter(capacity: 256 + 512 * rows.count))
        json.object { json in
            json.member("object", "list")
            json.array("data") { json in
                for row in rows { json.object { row.write(into: &$0) } }
            }
            json.member(
                "next", hasMore ? rows.last.map { "\($0.startedAt):\($0.id)" } : nil)
        }
        return json.finish()
    }

    private static func record(
        _ question: RecordQuestion, _ documents: [String], _ recordings: [RecordingListing]
    ) -> ByteWriter {
        var json = JSONWriter(ByteWriter(capacity: 4_096))
        json.object { json in
            if case .show(let id) = question { json.member("id", id) }
            json.array("documents") { json in
                for document in documents { json.raw(RawJSON(document)) }
            }
            json.array("recordings") { json in
                for recording in recordings {
                    json.object { json in
                        json.member("name", recording.name)
                        json.member("user_bytes", recording.userBytes)
                        json.member("agent_bytes", recording.agentBytes)
                    }
                }
            }
        }
        return json.finish()
    }

    /// RFC 9110 §15.3.7, and §15.5.17 where the piece begins behind the end.
    private static func piece(
        _ bytes: [UInt8], of total: Int, _ question: RecordQuestion
    ) -> HTTPResponse {
        guard case .listen(let piece) = question, !bytes.isEmpty else {
            return RouteFailure(
                status: 416, code: "range_not_satisfiable",
                message: "The file ends before this range.",
                headers: [("Content-Range", "bytes */\(total)")]
            ).response
        }
        var response = HTTPResponse(status: 206, body: bytes)
        response.fields.append("Content-Type", "audio/ogg; codecs=opus")
        response.fields.append(
            "Content-Range",
            "bytes \(piece.offset)-\(piece.offset + bytes.count - 1)/\(total)")
        return kept(response)
    }
}

extension RecordListing {
    fileprivate func write(into json: inout JSONWriter) {
        json.member("id", id)
        json.member("started_at", Timestamp.text(milliseconds: startedAt))
        json.member("ended_at", Timestamp.text(milliseconds: endedAt))
        json.member("end_reason", endReason)
        json.member("turns", turns)
        json.member("failed_turns", failedTurns)
        json.member("session", RawJSON(facts))
    }
}

extension RouteFailure {
    static let recordsOff = RouteFailure(
        status: 404, code: "records_off",
        message: "This server keeps no records: start it with --records FILE.")
    static let noRecord = RouteFailure(
        status: 404, code: "record_not_found", message: "Nothing is kept with this id.")
    static let recordOpen = RouteFailure(
        status: 409, code: "session_open",
        message: "The session has not ended: close it before its record is deleted.")
    static let recordTooLong = RouteFailure(
        status: 500, code: "record_too_long",
        message: "The record is too long for an answer: parley sessions export has it.")
    static let tooManyRecordQuestions = unavailable(
        "too_many_record_questions", "Too many ask for records at once.", retryAfterSeconds: 1)
    static let recordsAway = unavailable(
        "records_away", "What keeps the records does not answer.", retryAfterSeconds: 5)

    static func recordsUnusable(_ reason: String) -> RouteFailure {
        RouteFailure(status: 503, code: "records_unusable", message: reason)
    }
}

// MARK: - Routes

extension Route {
    /// Ended sessions, for the operator of the server.
    static let records = [
        Route(
            path: "/admin/records", methods: [.get], access: .operator, pages: .sameOrigin,
            summary: "Ended sessions that records are kept of, the newest first.",
            service: .records, content: { .records }),
        Route(
            path: "/admin/records/{id}", methods: [.get, .delete], access: .operator,
            pages: .sameOrigin,
            summary: "The record of a session and its recordings; with DELETE, their end.",
            service: .records, content: { .record }),
        Route(
            path: "/admin/recordings/{name}", methods: [.get], access: .operator,
            pages: .sameOrigin,
            summary: "A piece of one side of a recording, as Ogg Opus.",
            service: .records, content: { .recording }),
    ]
}

extension RouteContent {
    private static let count = ValueSchema.integer(0...Int.max)
    private static let off = RouteAnswer(
        status: 404, "Nothing is kept with this name, or no records are kept at all.", .failure)

    /// `GET /admin/records`
    fileprivate static var records: RouteContent {
        let row = ObjectTable(
            "RecordListing", "An ended session.",
            [
                FieldEntry("id", .text(), "sess_…"),
                FieldEntry("started_at", .text(), "When it began: RFC 3339, in UTC."),
                FieldEntry("ended_at", .text(), "When it ended."),
                FieldEntry("end_reason", .text(), "Why it ended; docs/records.md has the words."),
                FieldEntry("turns", count, "Responses that began."),
                FieldEntry("failed_turns", count, "Responses that failed."),
                FieldEntry("session", .anyObject, "What it was, as in its record."),
            ])
        let list = ObjectTable(
            "RecordList", "Ended sessions.",
            [
                FieldEntry("object", .constant("list"), "What this object is."),
                FieldEntry(
                    "data", .list(.object(row), atMost: RecordSearch.limits.upperBound),
                    "The newest first."),
                FieldEntry(
                    "next", .text(), isNullable: true,
                    "The value of `after` for the sessions before these; null: there are none."),
            ])
        return RouteContent(
            query: [
                .optional(
                    "limit", .integer(RecordSearch.limits), "The most sessions; 50 without it."),
                .optional(
                    "search", .text(),
                    "Occurs in the id, in a fact of the session or in what was said; at most 64 bytes."
                ),
                .optional("after", .text(), "`next` of the list before."),
            ],
            answers: [RouteAnswer(status: 200, "The sessions.", .json(.object(list))), off])
    }

    /// `GET` and `DELETE /admin/records/{id}`
    fileprivate static var record: RouteContent {
        let recording = ObjectTable(
            "RecordingListing", "A complete recording in the server's folder.",
            [
                FieldEntry("name", .text(), "Its name at /admin/recordings."),
                FieldEntry("user_bytes", count, "Bytes of the user's side."),
                FieldEntry("agent_bytes", count, "Bytes of the agent's side."),
            ])
        let record = ObjectTable(
            "SessionRecord", "What is kept of a session.",
            [
                FieldEntry("id", .text(), "sess_…"),
                FieldEntry(
                    "documents", .list(.anyObject),
                    "Its record, one for each server that has had it: docs/records.md."),
                FieldEntry("recordings", .list(.object(recording)), "Its recordings."),
            ])
        return RouteContent(
            answers: [
                RouteAnswer(status: 200, "What is kept.", .json(.object(record))),
                RouteAnswer(status: 204, "With DELETE: nothing is kept any more."), off,
                RouteAnswer(status: 409, "With DELETE: the session has not ended.", .failure),
            ])
    }

    /// `GET /admin/recordings/{name}`
    fileprivate static var recording: RouteContent {
        RouteContent(
            query: [
                FieldEntry(
                    "side", .choice(RecordingPiece.Side.allCases.map(\.rawValue)),
                    "Whose voice.")
            ],
            answers: [
                RouteAnswer(
                    status: 206,
                    "A piece from the start of the range, of at most 256 KiB.",
                    RouteBody("audio/ogg", .text())),
                off, RouteAnswer(status: 416, "The range begins behind the end.", .failure),
            ])
    }
}
