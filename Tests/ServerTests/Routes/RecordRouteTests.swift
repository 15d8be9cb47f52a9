// An operator's requests for ended sessions: what is asked of the library, what is answered, and who gets
// nothing.

import Codec
import Session
import Simulation
import Synchronization
import Testing

@testable import Server

/// A library that answers with what a test has given it.
private final class ScriptedLibrary: RecordLibrary {
    private struct State {
        var finding: RecordFinding?
        var asked: [RecordQuestion] = []
        var isFull = false
    }

    private let state = Mutex(State())

    var asked: [RecordQuestion] { state.withLock { $0.asked } }

    /// Answers with this from now on; nil: with nothing.
    func answer(_ finding: RecordFinding?, isFull: Bool = false) {
        state.withLock { ($0.finding, $0.isFull) = (finding, isFull) }
    }

    func ask(
        _ question: RecordQuestion, answer: @escaping @Sendable (RecordFinding) -> Void
    ) -> Bool {
        let (finding, isFull) = state.withLock { state in
            state.asked.append(question)
            return (state.finding, state.isFull)
        }
        if let finding, !isFull { answer(finding) }
        return !isFull
    }

    func shutdown() {}
}

@Suite struct RecordRouteTests {
    private let library = ScriptedLibrary()

    private func makeServer(
        keepsRecords: Bool = true, _ edit: (inout ServerConfiguration) -> Void = { _ in }
    ) throws -> SimulatedServer {
        var configuration = ServerConfiguration()
        edit(&configuration)
        return try SimulatedServer(configuration: configuration) { services in
            services.library = keepsRecords ? library : nil
        }
    }

    private func send(
        _ path: String, method: HTTPMethod = .get, fields: String = "",
        to server: SimulatedServer, from address: String = "127.0.0.1"
    ) throws -> HTTPResponse {
        let peer = server.connect(from: address)
        peer.send("\(method.name) \(path) HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\n")
        server.run()
        server.run()
        return try #require(
            try parseResponses(peer.receive(), answering: [method]).responses.first, "no answer")
    }

    private func code(_ response: HTTPResponse) throws -> String? {
        try JSONParser().parse(response.body)["error"]?["code"]?.string
    }

    // MARK: Questions

    @Test func aRequestBecomesItsQuestion() throws {
        let server = try makeServer()
        library.answer(.missing)
        for path in [
            "/admin/records", "/admin/records?limit=7&search=caf%C3%A9&after=-5:sess_a:b",
            "/admin/records/sess_%31",
        ] { _ = try send(path, to: server) }
        _ = try send("/admin/records/sess_1", method: .delete, to: server)
        _ = try send(
            "/admin/recordings/sess_1-1?side=agent", fields: "Range: bytes=7-9\r\n", to: server)
        _ = try send(
            "/admin/recordings/sess_1?side=user", fields: "Range: bytes=0-\r\n", to: server)
        var search = RecordSearch()
        (search.limit, search.text) = (7, "café")
        search.after = RecordSearch.Place(startedAt: -5, id: "sess_a:b")
        #expect(
            library.asked == [
                .list(RecordSearch()), .list(search), .show("sess_1"), .delete("sess_1"),
                .listen(RecordingPiece(name: "sess_1-1", side: .agent, offset: 7, count: 3)),
                .listen(
                    RecordingPiece(
                        name: "sess_1", side: .user, offset: 0, count: RecordRoutes.maxPieceBytes)),
            ])
    }

    @Test(
        arguments: [
            "/admin/records?limit=0", "/admin/records?limit=101", "/admin/records?limit=x",
            "/admin/records?after=sess_1", "/admin/records?after=x:sess_1",
            "/admin/records?after=99999999999999999999:a",
            "/admin/records?search=" + String(repeating: "x", count: 65),
            "/admin/records/" + String(repeating: "x", count: 161),
            "/admin/recordings/sess_1", "/admin/recordings/sess_1?side=both",
        ])
    func nonsenseIsNoQuestion(path: String) throws {
        let response = try send(path, fields: "Range: bytes=0-\r\n", to: try makeServer())
        #expect(response.status == 400)
        #expect(library.asked.isEmpty)
    }

    @Test(
        arguments: [
            "", "Range: bytes=\r\n", "Range: bytes=-5\r\n", "Range: bytes=5-4\r\n",
            "Range: bytes=0-1,4-5\r\n", "Range: items=0-1\r\n",
            "Range: bytes=99999999999999999999-\r\n",
        ])
    func aPieceNeedsItsRange(fields: String) throws {
        let response = try send(
            "/admin/recordings/sess_1?side=user", fields: fields, to: try makeServer())
        #expect(response.status == 400)
        #expect(library.asked.isEmpty)
    }

    // MARK: Answers

    @Test func aListNamesWhatFollows() throws {
        let server = try makeServer()
        let row = RecordListing(
            id: "sess_1", startedAt: 1_795_464_556_290, endedAt: 1_795_464_557_000,
            endReason: "client_closed", facts: #"{"model":"m"}"#, turns: 3, failedTurns: 1)
        library.answer(.list([row], hasMore: true))
        let response = try send("/admin/records", to: server)
        #expect(response.status == 200 && response.fields["Cache-Control"] == "no-store")
        let body = try JSONParser().parse(response.body)
        #expect(body["next"]?.string == "1795464556290:sess_1")
        let shown = try #require(body["data"]?.elements?.first { _ in true })
        #expect(shown["started_at"]?.string == "2026-11-23T20:09:16.290Z")
        #expect(shown["failed_turns"]?.int == 1 && shown["session"]?["model"]?.string == "m")
        library.answer(.list([row], hasMore: false))
        let last = try send("/admin/records", to: server)
        #expect(try JSONParser().parse(last.body)["next"]?.isNull == true)
    }

    @Test func eachFindingHasItsStatus() throws {
        let server = try makeServer()
        let recording = RecordingListing(name: "sess_1", userBytes: 5, agentBytes: 6)
        library.answer(.record(documents: [#"{"id":"sess_1"}"#], recordings: [recording]))
        let record = try JSONParser().parse(try send("/admin/records/sess_1", to: server).body)
        #expect(record["documents"]?.elements?.first { _ in true }?["id"]?.string == "sess_1")
        #expect(
            record["recordings"]?.elements?.first { _ in true }?["agent_bytes"]?.int == 6)
        for (finding, status, expected) in [
            (.missing, 404, "record_not_found"), (.open, 409, "session_open"),
            (.failed("The file is gone."), 503, "records_unusable"),
        ] as [(RecordFinding, Int, String)] {
            library.answer(finding)
            let response = try send("/admin/records/sess_1", method: .delete, to: server)
            #expect(response.status == status)
            #expect(try code(response) == expected)
        }
        library.answer(.deleted)
        #expect(try send("/admin/records/sess_1", method: .delete, to: server).status == 204)
    }

    @Test func aPieceSaysWhereItIs() throws {
        let server = try makeServer()
        func listen(_ range: String) throws -> HTTPResponse {
            try send(
                "/admin/recordings/sess_1?side=user", fields: "Range: bytes=\(range)\r\n",
                to: server)
        }
        library.answer(.piece(Array("Ogg".utf8), of: 40))
        let piece = try listen("7-9")
        #expect(piece.status == 206 && piece.body == Array("Ogg".utf8))
        #expect(piece.fields["Content-Range"] == "bytes 7-9/40")
        #expect(piece.fields["Content-Type"] == "audio/ogg; codecs=opus")
        library.answer(.piece([], of: 40))
        let behind = try listen("40-")
        #expect(behind.status == 416 && behind.fields["Content-Range"] == "bytes */40")
    }

    @Test func aRecordThatIsTooLongIsRefused() throws {
        let server = try makeServer { $0.connection.maxQueuedOutputBytes = 1 << 20 }
        let long = "\"" + String(repeating: "x", count: 600_000) + "\""
        library.answer(.record(documents: [long], recordings: []))
        #expect(try code(try send("/admin/records/sess_1", to: server)) == "record_too_long")
    }

    // MARK: No answer

    @Test func aSilentLibraryIsNotWaitedForLong() throws {
        let server = try makeServer()
        library.answer(nil)
        let peer = server.connect()
        peer.send("GET /admin/records HTTP/1.1\r\nHost: localhost\r\n\r\n")
        server.run()
        #expect(peer.receive().isEmpty)
        server.run(for: HTTPServerConnection.recordPatience)
        server.run()
        let response = try #require(
            try parseResponses(peer.receive(), answering: [.get]).responses.first)
        #expect(response.status == 503)
        #expect(try code(response) == "records_away")
    }

    @Test func tooManyQuestionsAreRefused() throws {
        let server = try makeServer()
        library.answer(nil, isFull: true)
        #expect(try code(try send("/admin/records", to: server)) == "too_many_record_questions")
        library.answer(nil)
        for _ in 0..<RecordQuestions.maxAsked {
            server.connect().send("GET /admin/records HTTP/1.1\r\nHost: localhost\r\n\r\n")
        }
        server.run()
        #expect(try code(try send("/admin/records", to: server)) == "too_many_record_questions")
    }

    @Test func withoutRecordsThePageIsTold() throws {
        let response = try send("/admin/records", to: try makeServer(keepsRecords: false))
        #expect(response.status == 404)
        #expect(try code(response) == "records_off")
    }

    // MARK: Access

    @Test func withoutCredentialsOnlyThisMachineMayAsk() throws {
        let server = try makeServer()
        let response = try send(
            "/admin/records/sess_1", method: .delete, to: server, from: "203.0.113.9")
        #expect(response.status == 403)
        #expect(library.asked.isEmpty)
    }

    @Test(arguments: ["Origin: https://evil.example", "Sec-Fetch-Site: cross-site"])
    func anotherPageDeletesNothing(field: String) throws {
        let response = try send(
            "/admin/records/sess_1", method: .delete, fields: field + "\r\n", to: try makeServer())
        #expect(response.status == 403)
        #expect(try code(response) == "origin_not_allowed")
        #expect(library.asked.isEmpty)
    }
}
