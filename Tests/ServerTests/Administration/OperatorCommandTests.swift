// Messages of an operator's page as commands, without a shard.

import Codec
import Testing

@testable import Server

@Suite struct OperatorCommandTests {
    private func read(_ text: String) throws(ClientEventError) -> OperatorCommand {
        let bytes = Array(text.utf8)
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(ClientEventError) in try OperatorCommand(bytes) }
        }
        return try result.get()
    }

    @Test func commandsAreRead() throws {
        let id = #""id":"sess_a""#
        #expect(try read(#"{"type":"session.watch",\#(id)}"#) == .watchSession("sess_a"))
        #expect(try read(#"{"type":"session.close",\#(id)}"#) == .closeSession("sess_a"))
        #expect(try read(#"{"type":"session.unwatch"}"#) == .ignoreSession)
        #expect(try read(#"{"type":"sessions.unwatch"}"#) == .ignoreSessions)
        #expect(try read(#"{"type":"server.drain"}"#) == .drain)
    }

    @Test func aPageWithoutWishesIsTheFirstByBytes() throws {
        var query = SessionQuery()
        query.limit = 50
        #expect(try read(#"{"type":"sessions.watch"}"#) == .watchSessions(query))
        let nulls =
            #""sort":null,"order":null,"state":null,"limit":null,"search":null,"after":null"#
        #expect(try read(#"{"type":"sessions.watch",\#(nulls)}"#) == .watchSessions(query))
    }

    @Test func aPageIsReadWithAllThatItMayHave() throws {
        var query = SessionQuery()
        query.order = .latency
        query.isReversed = true
        query.state = .speaking
        query.limit = 100
        query.search = Array("né".utf8)
        query.start = .after(SessionRank(value: -7, id: "sess_a:b", isReversed: true))
        let text =
            #"{"type":"sessions.watch","sort":"latency","order":"ascending","#
            + #""state":"speaking","limit":100,"search":"né","after":"-7:sess_a:b"}"#
        #expect(try read(text) == .watchSessions(query))
        var last = SessionQuery()
        (last.limit, last.start) = (50, .last)
        #expect(try read(#"{"type":"sessions.watch","before":""}"#) == .watchSessions(last))
    }

    @Test func aCursorIsItsRank() {
        for value in [Int.min, -1, 0, Int.max] {
            let rank = SessionRank(value: value, id: "conn_0_1_2", isReversed: false)
            #expect(SessionRank(cursor: rank.cursor, isReversed: false) == rank)
        }
    }

    @Test(
        arguments: [
            ("", nil), ("null", nil), ("[]", "type"), ("{", nil), ("{}", "type"),
            (#"{"type":7}"#, "type"), (#"{"type":"session.update"}"#, "type"),
            (#"{"type":"session.watch"}"#, "id"), (#"{"type":"session.close","id":""}"#, "id"),
            (#"{"type":"session.close","id":["sess_a"]}"#, "id"),
            (#"{"type":"sessions.watch","sort":"size"}"#, "sort"),
            (#"{"type":"sessions.watch","sort":1}"#, "sort"),
            (#"{"type":"sessions.watch","order":"down"}"#, "order"),
            (#"{"type":"sessions.watch","state":"busy"}"#, "state"),
            (#"{"type":"sessions.watch","limit":0}"#, "limit"),
            (#"{"type":"sessions.watch","limit":101}"#, "limit"),
            (#"{"type":"sessions.watch","limit":1e99}"#, "limit"),
            (#"{"type":"sessions.watch","limit":"50"}"#, "limit"),
            (#"{"type":"sessions.watch","search":5}"#, "search"),
            (#"{"type":"sessions.watch","after":"sess_a"}"#, "after"),
            (#"{"type":"sessions.watch","after":"5:"}"#, "after"),
            (#"{"type":"sessions.watch","after":"99999999999999999999:a"}"#, "after"),
            (#"{"type":"sessions.watch","before":"x:a"}"#, "before"),
            (#"{"type":"sessions.watch","before":3}"#, "before"),
            (#"{"type":"sessions.watch","after":"5:a","before":"5:b"}"#, "before"),
        ] as [(String, String?)])
    func nonsenseIsATypedError(text: String, param: String?) {
        let error = #expect(throws: ClientEventError.self) { try read(text) }
        #expect(error?.param == param)
    }

    @Test func textsHaveLimits() {
        func fails(_ text: String) -> String? {
            (#expect(throws: ClientEventError.self) { try read(text) })?.code
        }
        let long = String(repeating: "x", count: 65)
        #expect(fails(#"{"type":"session.watch","id":"\#(long)"}"#) == "invalid_value")
        #expect(fails(#"{"type":"sessions.watch","search":"\#(long)"}"#) == "invalid_value")
        #expect(fails(#"{"type":"sessions.watch","after":"1:\#(long)"}"#) == "invalid_value")
        let blanks = String(repeating: " ", count: OperatorCommand.maxBytes)
        #expect(fails(#"{"type":"server.drain"}"# + blanks) == "message_too_long")
    }
}
