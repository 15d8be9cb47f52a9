// The screen of `parley top` for a server's answers, for keys and for window sizes.

import Codec
import Session
import Testing

@testable import parley

/// A view behind a reference, so that expectations can press its keys.
private final class Screen {
    var view: TopView

    init(_ view: TopView) { self.view = view }

    func handle(_ key: TopKey) -> Bool { view.handle(key) }

    func lines(_ width: Int, _ height: Int) -> [TopLine] {
        view.lines(width: width, height: height)
    }

    func texts(_ width: Int, _ height: Int) -> [String] { lines(width, height).map(\.text) }

    /// The id in the highlighted row.
    func chosen(height: Int = 10) -> String? {
        lines(120, height).first { $0.style == .bold && $0.text.hasPrefix("s") }
            .map { String($0.text.prefix { $0 != " " }) }
    }
}

@Suite struct TopTests {
    private static func row(
        _ id: String, _ state: String = "idle", bytes: Int = 900, turn: String = "null",
        model: String = "m"
    ) -> String {
        #"{"id":"\#(id)","shard":1,"state":"\#(state)","bytes":\#(bytes),"age_ms":185000,"#
            + #""idle_ms":4000,"client":"203.0.113.9","model":"\#(model)","turns":3,"#
            + #""last_turn":\#(turn)}"#
    }

    private static func list(_ rows: [String], hasMore: Bool = false) -> String {
        #"{"object":"list","shards":2,"shards_answered":2,"connections":12,"#
            + #""ledger_bytes":1500000,"resident_bytes":30000000,"states":{"idle":10200,"#
            + #""listening":1,"speaking":0,"replying":2,"connection":3},"data":["#
            + rows.joined(separator: ",") + #"],"has_more":\#(hasMore)}"#
    }

    private static let metrics = """
        # HELP parley_responses_total Responses that ended, by status.
        parley_responses_total{status="completed"} 40
        parley_responses_total{status="failed"} 2
        parley_shard_busy_ratio{shard="0"} 0.124
        parley_shard_busy_ratio{shard="1"} 0.03
        parley_event_loop_lag_seconds_bucket{le="0.0001"} 10
        parley_event_loop_lag_seconds_bucket{le="0.0002"} 990
        parley_event_loop_lag_seconds_bucket{le="0.0004"} 999
        parley_event_loop_lag_seconds_bucket{le="+Inf"} 1000
        rubbish
        """

    private func parse(_ text: String) throws -> TopList {
        try TopList(Array(text.utf8), parser: JSONParser())
    }

    private func makeView(rows: Int = 3, hasMore: Bool = false) throws -> Screen {
        var view = TopView(server: "http://h:1")
        let all = (0..<rows).map { Self.row("sess_\($0)", bytes: 10_000 - $0) }
        view.update(
            try parse(Self.list(all, hasMore: hasMore)), TopMetrics(parsing: Self.metrics),
            at: 100)
        return Screen(view)
    }

    // MARK: Answers

    @Test func anAnswerIsParsed() throws {
        let turn = #"{"transcript_ms":410,"first_token_ms":520,"first_audio_ms":null}"#
        let list = try parse(Self.list([Self.row("sess_a", "replying", turn: turn)], hasMore: true))
        #expect(list.shards == 2 && list.silentShards == 0 && list.hasMore)
        #expect(list.states["idle"] == 10_200)
        let row = try #require(list.rows.first)
        #expect(row.id == "sess_a" && row.state == "replying" && row.turns == 3)
        #expect(row.lastTurn == [.transcript: 410, .firstToken: 520])
        let detail = try TopDetail(
            Array(Self.row("sess_a").dropLast().utf8) + Array(#","parts":{"session":7}}"#.utf8),
            parser: JSONParser())
        #expect(detail.parts == [TopDetail.Part(name: "session", bytes: 7)])
    }

    @Test(arguments: ["", "[]", "{}", "not found", #"{"data":[{}],"ledger_bytes":1}"#])
    func otherAnswersAreAFailure(text: String) {
        #expect(throws: CommandFailure.self) { try parse(text) }
    }

    /// Clients choose the names of models, which must not control the operator's terminal.
    @Test func controlCharactersOfClientsDoNotReachTheTerminal() throws {
        let list = try parse(Self.list([Self.row("sess_a", model: #"\u001b]0;x\u0007\u009b1m"#)]))
        #expect(list.rows.first?.model == #"\u{1b}]0;x\u{7}\u{9b}1m"#)
    }

    @Test func numbersAreReadFromTheMetrics() {
        let metrics = TopMetrics(parsing: Self.metrics)
        #expect(metrics.busy == [0.124, 0.03])
        #expect(metrics.responses == 42)
        #expect(metrics.lagBound(since: nil) == 0.0002)
        #expect(metrics.lagBound(since: metrics) == nil)
        #expect(TopMetrics(parsing: "").lagBound(since: metrics) == nil)
    }

    /// The server may be any program: no number that it sends may end `top`.
    @Test(arguments: [
        "9223372036854775807", "-9223372036854775808", "1e300", "-1", "9007199254740992", "0.5",
    ]) func anyNumberOfAServerCanBeShown(number: String) throws {
        let text = Self.list([Self.row("sess_a")])
        let digits = text.replacing(#/:\d+/#) { _ in ":\(number)" }
        // A list whose bytes are out of range is refused.
        var list = try? parse(digits)
        #expect((list == nil) == (number != "9007199254740992"))
        list = try list ?? parse(text)
        for value in [number, "nan", "inf", "-inf", "1e308"] {
            let page = Self.metrics.replacing(#/ [0-9.]+$/#.anchorsMatchLineEndings()) { _ in
                " \(value)"
            }
            let bounds = Self.metrics.replacing(#/le="[^"]+"/#) { _ in "le=\"\(value)\"" }
            for metrics in [page, bounds].map(TopMetrics.init(parsing:)) {
                var view = TopView(server: "http://h:1")
                view.update(try #require(list), TopMetrics(parsing: Self.metrics), at: 1)
                view.update(try #require(list), metrics, at: 2)
                #expect(!view.lines(width: 200, height: 20).isEmpty && !view.plainText.isEmpty)
                var first = TopView(server: "http://h:1")
                first.update(try #require(list), metrics, at: 1)
                #expect(!first.plainText.isEmpty)
            }
        }
        #expect(TopText.grouped(.min) == "-9,223,372,036,854,775,808")
        #expect(TopText.tenths(.nan).isEmpty == false)
    }

    // MARK: The table

    @Test func aNarrowWindowKeepsTheColumnsOfHighestPriority() throws {
        let rows = try parse(Self.list([Self.row("sess_abcdefghij")])).rows
        let titles = { (width: Int?) in
            TopTable(rows, width: width).head.split(separator: " ").map(String.init)
        }
        #expect(titles(nil).count == 12)
        #expect(
            titles(80) == [
                "ID", "STATE", "BYTES", "AGE", "TURNS", "WORDS", "TOKEN", "AUDIO", "CLIENT",
            ])
        #expect(titles(40) == ["ID", "STATE", "BYTES", "AGE"])
        #expect(titles(1) == ["ID"])
        for width in 15...140 {
            let table = TopTable(rows, width: width)
            #expect(table.head.count <= width && table.lines.allSatisfy { $0.count <= width })
        }
    }

    @Test func aRowHasTheTextOfEachColumn() throws {
        let turn = #"{"transcript_ms":410,"first_token_ms":520,"first_audio_ms":null}"#
        let rows = try parse(Self.list([Self.row("sess_a", bytes: 12_345, turn: turn)])).rows
        let line = TopTable(rows, width: nil).lines[0]
        #expect(
            line.split(separator: " ") == [
                "sess_a", "idle", "12.3k", "3m05s", "4s", "3", "410", "520", "-", "1",
                "203.0.113.9", "m",
            ])
        let exact = TopTable(rows, width: nil, isExact: true).lines[0]
        #expect(exact.split(separator: " ")[2...4] == ["12345", "185", "4"])
    }

    @Test(arguments: [
        (0, "0"), (999, "999"), (1_000, "1.0k"), (1_549, "1.5k"), (2_000_000, "2.0M"),
        (7_200_000_000, "7.2G"),
    ])
    func bytesHaveUnits(count: Int, text: String) { #expect(TopText.bytes(count) == text) }

    @Test(arguments: [
        (999, "0s"), (59_999, "59s"), (60_000, "1m00s"), (3_600_000, "1h00m"),
        (90_000_000, "1d01h"),
    ])
    func timesHaveUnits(milliseconds: Int, text: String) {
        #expect(TopText.time(milliseconds, isExact: false) == text)
    }

    // MARK: The screen

    @Test func theHeaderSumsUpTheServer() throws {
        let screen = try makeView()
        let texts = screen.texts(200, 20)
        #expect(texts[1].contains("Sessions 10,203: 10,200 idle, 1 listening, 0 speaking, 2 repl"))
        #expect(texts[2].contains("Memory 1.5M of 30.0M resident (5%)"))
        #expect(texts[2].contains("busy 12% 3%") && texts[2].contains("Turns 42 so far"))
        #expect(texts[2].contains("Lag p99 <= 0.2 ms"))
        let later = Self.metrics.replacing(#""failed"} 2"#, with: #""failed"} 12"#)
        screen.view.update(try parse(Self.list([])), TopMetrics(parsing: later), at: 104)
        #expect(screen.lines(200, 20)[2].text.contains("Turns 2.5/s  Lag p99 -"))
    }

    @Test func theHeaderSaysWhatHoldsTheMemory() throws {
        let parts = """

            parley_memory_bytes{part="start"} 3800000
            parley_memory_bytes{part="ledgers"} 5100000
            parley_memory_bytes{part="tables"} 2096
            parley_memory_bytes{part="allocator"} -400000
            parley_memory_bytes{part="\u{1B}[2J"} 100000
            """
        let metrics = TopMetrics(parsing: Self.metrics + parts)
        let screen = try makeView()
        #expect(screen.view.headLineCount == 5)
        screen.view.update(try parse(Self.list([])), metrics, at: 101)
        let line = screen.texts(200, 20)[3]
        #expect(
            line.hasPrefix("Process 8.6M: 3.8M start, 5.1M ledgers, -400.0k allocator, 100.0k "))
        #expect(line.unicodeScalars.allSatisfy { $0.value >= 32 })
        #expect(screen.view.headLineCount == 6 && screen.texts(200, 20)[4].hasPrefix("By bytes"))
    }

    @Test func ratesNeedHalfASecond() throws {
        let screen = try makeView()
        let later = TopMetrics(parsing: Self.metrics.replacing("} 40", with: "} 41"))
        screen.view.update(try parse(Self.list([])), later, at: 100.1)
        #expect(screen.view.nodes[0].turnsPerSecond == nil)
        screen.view.update(try parse(Self.list([])), later, at: 100.5)
        #expect(screen.view.nodes[0].turnsPerSecond == 2)
    }

    @Test(arguments: [(1, 1), (10, 3), (80, 24), (200, 5), (17, 50)])
    func noLineIsOutsideTheWindow(width: Int, height: Int) throws {
        let screen = try makeView(rows: 50)
        for isDetail in [false, true] {
            if isDetail { _ = screen.handle(.enter) }
            let lines = screen.lines(width, height)
            #expect(lines.count <= height && lines.allSatisfy { $0.text.count <= width })
        }
    }

    @Test func theChosenRowStaysInSight() throws {
        let screen = try makeView(rows: 50)
        #expect(screen.chosen() == "sess_0")
        _ = screen.handle(.pageDown)
        #expect(screen.chosen() == "sess_5")
        _ = screen.handle(.end)
        #expect(screen.chosen() == "sess_49")
        #expect(screen.chosen(height: 7) == "sess_49")
        _ = screen.handle(.up)
        #expect(screen.chosen() == "sess_48")
        _ = screen.handle(.home)
        #expect(screen.chosen() == "sess_0")
        _ = screen.handle(.up)
        #expect(screen.chosen() == "sess_0")
    }

    @Test func theChosenSessionIsFollowedToItsNewPlace() throws {
        let screen = try makeView(rows: 9)
        _ = screen.lines(120, 40)
        for _ in 0..<4 { _ = screen.handle(.down) }
        let turned = (0..<9).reversed().map { Self.row("sess_\($0)") }
        screen.view.update(try parse(Self.list(turned)), TopMetrics(parsing: ""), at: 105)
        #expect(screen.chosen(height: 40) == "sess_4")
        screen.view.update(try parse(Self.list([])), TopMetrics(parsing: ""), at: 105)
        #expect(screen.chosen(height: 40) == nil)
    }

    @Test func moreRowsAreAskedForAsTheyAreScrolledTo() throws {
        let screen = try makeView(rows: 100, hasMore: true)
        _ = screen.lines(80, 45)
        #expect(screen.view.wantedRows == 100)
        #expect(screen.handle(.end))
        #expect(screen.view.wantedRows == 140)
    }

    @Test func keysChangeOrderAndFilter() throws {
        let screen = try makeView()
        let orders = (0..<3).map { _ in
            _ = screen.handle(.order)
            return screen.view.order
        }
        #expect(orders == ["age", "id", "bytes"])
        #expect(screen.handle(.filter) && screen.view.filter == "idle")
        for _ in 0..<5 { _ = screen.handle(.filter) }
        #expect(screen.view.filter == nil)
    }

    @Test func enterShowsTheParts() throws {
        let screen = try makeView()
        #expect(screen.handle(.down) == false)
        #expect(screen.handle(.enter))
        #expect(screen.view.detailID == "sess_1")
        screen.view.detail = try TopDetail(
            Array(Self.row("sess_1", bytes: 100).dropLast().utf8)
                + Array(#","parts":{"session":25,"send":75}}"#.utf8), parser: JSONParser())
        let texts = screen.texts(80, 24)
        #expect(texts.contains { $0.hasPrefix("send             75   75%  #####") })
        #expect(screen.handle(.back) && screen.view.detailID == nil)
    }

    @Test func aLostServerIsShownAsLostUntilItAnswers() throws {
        let screen = try makeView()
        screen.view.lose(0, because: "cannot connect")
        #expect(screen.lines(80, 24)[3].text == "cannot connect; trying again")
        screen.view.update(try parse(Self.list([])), TopMetrics(parsing: ""), at: 105)
        #expect(!screen.lines(80, 24)[3].text.contains("trying"))
    }

    // MARK: A cluster

    private func makeCluster() throws -> Screen {
        var view = TopView(servers: ["http://a:1", "http://bb:2"])
        let lists = [
            [Self.row("sess_a", bytes: 500), Self.row("sess_b", bytes: 100)],
            [Self.row("sess_c", bytes: 300), Self.row("sess_d", bytes: 500)],
        ]
        for (node, rows) in lists.enumerated() {
            let metrics = TopMetrics(parsing: Self.metrics)
            view.update(try parse(Self.list(rows)), metrics, of: node, at: 100)
        }
        return Screen(view)
    }

    @Test func theSessionsOfSeveralServersAreOneList() throws {
        let screen = try makeCluster()
        let texts = screen.texts(200, 20)
        #expect(texts[0] == "parley top - 2 nodes")
        #expect(texts[1].contains("Sessions 20,406: 20,400 idle"))
        #expect(texts[2].hasPrefix("1  http://a:1    10,203 sessions  Memory 1.5M of 30.0M"))
        #expect(texts[3].hasPrefix("2  http://bb:2   10,203 sessions  Memory"))
        let rows = screen.view.list?.rows ?? []
        #expect(rows.map(\.id) == ["sess_a", "sess_d", "sess_c", "sess_b"])
        #expect(rows.map(\.node) == [0, 1, 1, 0])
        #expect(texts[5].contains(" NODE ") && texts.count == screen.view.headLineCount + 4)
        #expect(screen.handle(.down) == false && screen.handle(.enter))
        #expect(screen.view.detailID == "sess_d" && screen.view.detailNode == 1)
    }

    @Test func aLostServerOfSeveralShowsNoSessionsUntilItAnswers() throws {
        let screen = try makeCluster()
        screen.view.lose(0, because: "cannot connect")
        let texts = screen.texts(200, 20)
        #expect(texts[0] == "parley top - 2 nodes, 1 without an answer")
        #expect(texts[1].contains("Sessions 10,203"))
        #expect(texts[2] == "1  http://a:1   cannot connect")
        #expect(screen.view.list?.rows.map(\.id) == ["sess_d", "sess_c"])
        screen.view.lose(1, because: "cannot connect")
        #expect(screen.view.list == nil && screen.texts(200, 20)[1] == "asking the servers")
        let list = try parse(Self.list([Self.row("sess_e")]))
        screen.view.update(list, TopMetrics(parsing: Self.metrics), of: 0, at: 105)
        #expect(screen.view.list?.rows.map(\.id) == ["sess_e"])
    }

    @Test(arguments: [(1, 1), (10, 3), (80, 24), (200, 5)])
    func noLineOfAClusterIsOutsideTheWindow(width: Int, height: Int) throws {
        let screen = try makeCluster()
        for isDetail in [false, true] {
            if isDetail { _ = screen.handle(.enter) }
            let lines = screen.lines(width, height)
            #expect(lines.count <= height && lines.allSatisfy { $0.text.count <= width })
        }
    }

    @Test(arguments: [
        ("q", [TopKey.quit]), ("\u{3}", [.quit]), ("sf/", [.order, .filter, .filter]),
        ("\u{1B}[A\u{1B}OB", [.up, .down]), ("\u{1B}[5~\u{1B}[6~", [.pageUp, .pageDown]),
        ("\u{1B}", [.back]), ("\r", [.enter]), ("\u{1B}[1;5A", [.up]), ("\u{1B}[200~x", []),
        ("\u{1B}[", []), ("\u{1B}[H\u{1B}[F\u{1B}[1~\u{1B}[4~", [.home, .end, .home, .end]),
    ])
    func keysAreParsedFromTheBytesOfATerminal(text: String, keys: [TopKey]) {
        #expect(TopKey.keys(in: Array(text.utf8)) == keys)
    }
}
