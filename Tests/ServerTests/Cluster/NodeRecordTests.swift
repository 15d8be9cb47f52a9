// What nodes know of each other, from a store that may hold anything.

import Codec
import Testing

@testable import Server

@Suite struct NodeRecordTests {
    private static let secret = [UInt8](repeating: 7, count: 32)

    private func makeRecord(_ name: String, url: String? = "http://10.0.0.5:8080") -> NodeRecord {
        NodeRecord(name: name, url: url, started: 1_800_000_000, sessions: 12)
    }

    @Test func aRecordComesBack() throws {
        for record in [makeRecord("node_a"), makeRecord("node_b", url: nil)] {
            #expect(NodeRecord(record.json, parser: JSONParser()) == record)
        }
    }

    @Test(arguments: [
        "", "[]", "{}", #"{"name":""}"#, #"{"name":"a b"}"#, #"{"name":7}"#,
        #"{"name":"a","url":"ftp://h"}"#, #"{"name":"a","url":"http://"}"#,
        #"{"name":"a","url":"http://h/path"}"#, #"{"name":"a","url":"http://u@h"}"#,
        #"{"name":"a","url":"http://h\r\nX: y"}"#,
    ])
    func anythingElseIsNoRecord(text: String) {
        #expect(NodeRecord(Array(text.utf8), parser: JSONParser()) == nil)
    }

    @Test(arguments: ["http://10.0.0.5:8080", "https://node-1.example", "http://[fd00::1]:80"])
    func aURLOfAHostIsTaken(text: String) { #expect(NodeRecord.isURL(text)) }

    @Test func aNodeDoesNotKnowItselfAsAnother() {
        let directory = NodeDirectory(name: "node_b")
        let nodes = ["node_c", "node_b", "node_a"].map { makeRecord($0) }
        directory.replace(nodes + [makeRecord("node_d", url: nil)], secret: Self.secret)
        #expect(directory.others.map(\.name) == ["node_a", "node_c"])
        directory.replace(nodes, secret: [])
        #expect(directory.others.isEmpty)
        directory.replace((0..<200).map { makeRecord("node_\($0)x") }, secret: Self.secret)
        #expect(directory.others.count == NodeDirectory.maxNodes)
    }

    @Test func aRequestToANodeHasItsPass() throws {
        let directory = NodeDirectory(name: "node_a")
        directory.replace([makeRecord("node_b")], secret: Self.secret)
        let caller = Caller(access: .operator)
        let request = try #require(
            directory.request(
                .get, "/admin/sessions?scope=node", to: directory.others[0], for: caller, at: 100))
        #expect(request.url == "http://10.0.0.5:8080/admin/sessions?scope=node")
        #expect(request.pass.hasPrefix("3.-.-.110."))
    }

    // MARK: Answers

    private func list(_ rows: [(id: String, bytes: Int, age: Int)], hasMore: Bool = false)
        -> NodeAnswer
    {
        let data = rows.map {
            #"{"id":"\#($0.id)","node":"n","bytes":\#($0.bytes),"age_ms":\#($0.age)}"#
        }
        let text =
            #"{"shards":2,"shards_answered":1,"connections":5,"ledger_bytes":100,"#
            + #""resident_bytes":9,"states":{"idle":3},"data":["# + data.joined(separator: ",")
            + #"],"has_more":\#(hasMore)}"#
        return NodeAnswer(status: 200, body: Array(text.utf8))
    }

    @Test func theSessionsOfNodesAreAddedUp() throws {
        let answers = [
            list([("sess_a", 5, 70)]), list([("sess_b", 7, 60), ("sess_c", 1, 90)], hasMore: true),
            .none, NodeAnswer(status: 503, body: []), NodeAnswer(status: 200, body: [1, 2]),
        ]
        let sessions = NodeSessions(answers, to: SessionQuery())
        #expect(sessions.answered == 2 && sessions.shards == 4 && sessions.shardsAnswered == 2)
        #expect(sessions.connections == 10 && sessions.ledgerBytes == 200)
        #expect(sessions.residentBytes == 18 && sessions.states[0] == 6 && sessions.hasMore)
        let rows = sessions.rows.sorted { $0.rank < $1.rank }
        #expect(rows.map(\.rank.id) == ["sess_b", "sess_a", "sess_c"])
        #expect(rows[0].json.text.contains(#""id":"sess_b","node":"n""#))
    }

    @Test(arguments: ["9223372036854775807", "-1", "1e300", "null", #""x""#])
    func anyNumberOfANodeIsTaken(number: String) {
        let text = String(decoding: list([("sess_a", 5, 70)]).body, as: UTF8.self)
            .replacing(#/:\d+/#) { _ in ":\(number)" }
        let answer = NodeAnswer(status: 200, body: Array(text.utf8))
        let sessions = NodeSessions([answer, answer, answer], to: SessionQuery())
        #expect(sessions.ledgerBytes >= 0 && sessions.rows.count == 3)
    }

    @Test func aNodeMayNameAStateOften() {
        let states = Array(repeating: #""idle":9007199254740992"#, count: 4_000)
        let text = #"{"data":[],"states":{"# + states.joined(separator: ",") + "}}"
        let sessions = NodeSessions(
            [NodeAnswer(status: 200, body: Array(text.utf8))], to: SessionQuery())
        #expect(sessions.states[0] == 1 << 53)
    }

    @Test func oneSessionIsFoundAtAnyNode() {
        let found = NodeAnswer(status: 200, body: Array("{}".utf8))
        let missing = NodeAnswer(status: 404, body: [])
        let query = SessionQuery(id: "sess_a")
        let sessions = NodeSessions([missing, found], to: query)
        #expect(sessions.single == found.body && sessions.answered == 2)
        let none = NodeSessions([missing, .none], to: query)
        #expect(none.single == nil && none.answered == 1)
    }

    @Test func aHangupIsMissedOnlyWhereAllNodesHaveAnswered() {
        let found = NodeAnswer(status: 200, body: [])
        let missing = NodeAnswer(status: 404, body: [])
        func outcome(_ answers: [NodeAnswer]) -> String { "\(CallAnswer(toHangUp: answers))" }
        #expect(outcome([missing, found]) == "hungUp" && outcome([.none, found]) == "hungUp")
        #expect(outcome([missing, missing]) == "missing" && outcome([]) == "missing")
        #expect(outcome([missing, .none]) == "away")
    }

    @Test func oneNodeIsFoundOrNoneIfAllHaveAnswered() {
        let found = NodeAnswer(status: 200, body: [], node: "node_c")
        let missing = NodeAnswer(status: 404, body: [], node: "node_b")
        let odd = NodeAnswer(status: 401, body: [], node: "node_d")
        func outcome(_ answers: [NodeAnswer]) -> String { "\(CallAnswer(toFind: answers))" }
        #expect(outcome([missing, .none, found]) == #"elsewhere("node_c")"#)
        #expect(outcome([missing]) == "missing" && outcome([]) == "missing")
        #expect(outcome([missing, .none]) == "away" && outcome([odd]) == "away")
    }

    @Test(arguments: ["chat-1_a", "a/b", "a b?c=%41", "é\u{0}", "..", "%2F"])
    func aPlaceReadsBackFromItsPath(id: String) throws {
        for place in [NodePlace.session(id), .chat(id)] {
            #expect(NodePlace(target: place.target) == place)
            #expect(place.target.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != 0x3F })
        }
    }

    @Test(arguments: ["", "/", "/nodes/chats", "/nodes/x/a", "/nodes/chats/a/b", "/x/chats/a"])
    func otherPathsNameNoPlace(path: String) { #expect(NodePlace(target: path) == nil) }

    @Test func onlyIDsThatAPathCanHoldArePassedOn() {
        #expect(SessionQuery.isPlain("sess_4zkhMYaodJ") && SessionQuery.isPlain("conn_1-2"))
        for odd in ["", "a/b", "a?b", "a b", "é", String(repeating: "a", count: 65)] {
            #expect(!SessionQuery.isPlain(odd))
        }
        var query = SessionQuery()
        (query.order, query.limit, query.state) = (.age, 7, .idle)
        #expect(query.target == "/admin/sessions?scope=node&order=age&limit=7&state=idle")
    }
}
