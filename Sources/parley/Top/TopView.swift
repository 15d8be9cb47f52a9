// The screen of `parley top` as a value: the newest answers and keys go in, lines of text come out.
// Terminal and server are TopCommand's.
//
// Invariant: there are at most as many lines as the window has rows, none is wider than the window,
// and the chosen row is always visible.

import Session

/// A line and its style.
struct TopLine: Equatable {
    enum Style { case plain, bold, reversed }

    var text: String
    var style = Style.plain
}

/// The meaning of a key.
enum TopKey: Equatable {
    case quit, order, filter, up, down, pageUp, pageDown, home, end, enter, back

    /// The keys in the bytes of one read of a terminal. An escape alone is a key; with a bracket it
    /// begins the sequence of another.
    static func keys(in bytes: [UInt8]) -> [TopKey] {
        var keys: [TopKey] = []
        var rest = bytes[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "q"), UInt8(ascii: "Q"), 3, 4: keys.append(.quit)
            case UInt8(ascii: "s"): keys.append(.order)
            case UInt8(ascii: "f"), UInt8(ascii: "/"): keys.append(.filter)
            case UInt8(ascii: "k"): keys.append(.up)
            case UInt8(ascii: "j"): keys.append(.down)
            case UInt8(ascii: " "): keys.append(.pageDown)
            case UInt8(ascii: "\r"), UInt8(ascii: "\n"): keys.append(.enter)
            case 8, 127: keys.append(.back)
            case 27: keys += sequence(&rest).map { [$0] } ?? []
            default: break
            }
        }
        return keys
    }

    /// The key of an escape sequence (ECMA-48 §5.4: parameters, then a final byte); nil where it is
    /// none that is used here.
    private static func sequence(_ rest: inout ArraySlice<UInt8>) -> TopKey? {
        guard rest.first == UInt8(ascii: "[") || rest.first == UInt8(ascii: "O") else {
            return .back
        }
        rest.removeFirst()
        var parameters = ""
        while let byte = rest.popFirst() {
            guard (0x40...0x7E).contains(byte) else {
                parameters.unicodeScalars.append(Unicode.Scalar(byte))
                continue
            }
            switch (byte, parameters) {
            case (UInt8(ascii: "A"), _): return .up
            case (UInt8(ascii: "B"), _): return .down
            case (UInt8(ascii: "H"), _), (UInt8(ascii: "~"), "1"): return .home
            case (UInt8(ascii: "F"), _), (UInt8(ascii: "~"), "4"): return .end
            case (UInt8(ascii: "~"), "5"): return .pageUp
            case (UInt8(ascii: "~"), "6"): return .pageDown
            default: return nil
            }
        }
        return nil
    }
}

/// The state of the screen.
struct TopView {
    /// Lines above the rows: three of the server, one of the view, the titles.
    static let headLines = 5
    /// The orders that `s` goes through, and the states that `f` does; nil: all.
    static let orders = ["bytes", "age", "id"]
    static let filters: [String?] = [
        nil, "idle", "listening", "speaking", "replying", "connection",
    ]
    /// The most rows that a server gives.
    static let maxRows = 1_000
    /// The shortest time over which rates are computed, in seconds. 0.5.
    private static let shortestRate = 0.5

    let server: String
    var order = "bytes"
    var filter: String?
    /// Why the server is lost; nil while it answers.
    var trouble: String?
    private(set) var list: TopList?
    private(set) var metrics: TopMetrics?
    private(set) var turnsPerSecond: Double?
    private(set) var lagBound: Double?
    /// The time of the newest metrics.
    private var ratedAt = 0.0
    /// The session whose parts are shown; nil: the list is shown.
    private(set) var detailID: String?
    var detail: TopDetail?
    private var chosen = 0
    private var first = 0
    private var visibleRows = 1

    init(server: String) { self.server = server }

    /// The number of rows to ask for: the visible ones and a page more.
    var wantedRows: Int { min(Self.maxRows, max(100, first + 2 * visibleRows)) }

    // MARK: Input

    /// New answers have come.
    /// - Parameter seconds: now, on any clock.
    mutating func update(_ list: TopList, _ metrics: TopMetrics, at seconds: Double) {
        if let before = self.metrics {
            rate(metrics, before, at: seconds)
        } else {
            lagBound = metrics.lagBound(since: nil)
            (self.metrics, ratedAt) = (metrics, seconds)
        }
        // The chosen session stays chosen when its place in the list changes.
        let id = chosenID
        self.list = list
        if chosen > 0, let id, let place = list.rows.firstIndex(where: { $0.id == id }) {
            chosen = place
        }
        trouble = nil
        keepInSight()
    }

    /// A key makes the server be asked at once; what came in the moment since says little.
    private mutating func rate(_ metrics: TopMetrics, _ before: TopMetrics, at seconds: Double) {
        guard seconds >= ratedAt + Self.shortestRate else { return }
        turnsPerSecond = max(0, metrics.responses - before.responses) / (seconds - ratedAt)
        lagBound = metrics.lagBound(since: before)
        (self.metrics, ratedAt) = (metrics, seconds)
    }

    /// A key was pressed.
    /// - Returns: whether something is to be asked of the server.
    mutating func handle(_ key: TopKey) -> Bool {
        if detailID != nil {
            guard key == .enter || key == .back else { return false }
            (detailID, detail) = (nil, nil)
            return true
        }
        switch key {
        case .order: order = Self.next(after: order, in: Self.orders)
        case .filter: filter = Self.next(after: filter, in: Self.filters)
        case .enter:
            detailID = chosenID
            return detailID != nil
        case .up: return move(by: -1)
        case .down: return move(by: 1)
        case .pageUp: return move(by: -visibleRows)
        case .pageDown: return move(by: visibleRows)
        case .home: return move(by: -Self.maxRows)
        case .end: return move(by: Self.maxRows)
        case .back, .quit: return false
        }
        (chosen, first) = (0, 0)
        return true
    }

    private var chosenID: String? {
        guard let rows = list?.rows, chosen < rows.count else { return nil }
        return rows[chosen].id
    }

    private mutating func move(by rows: Int) -> Bool {
        chosen += rows
        let wanted = wantedRows
        keepInSight()
        return wantedRows > wanted && list?.hasMore == true
    }

    private mutating func keepInSight() {
        chosen = max(0, min(chosen, (list?.rows.count ?? 0) - 1))
        if chosen < first { first = chosen }
        if chosen >= first + visibleRows { first = chosen - visibleRows + 1 }
    }

    private static func next<Choice: Equatable>(after choice: Choice, in all: [Choice]) -> Choice {
        let place = all.firstIndex(of: choice) ?? 0
        return all[(place + 1) % all.count]
    }

    // MARK: Output

    /// The screen's lines for a window.
    mutating func lines(width: Int, height: Int) -> [TopLine] {
        visibleRows = max(1, height - Self.headLines)
        keepInSight()
        var lines = headLines
        if detailID != nil {
            lines += detailLines
        } else {
            lines.append(viewLine)
            let rows = Array((list?.rows ?? []).dropFirst(first).prefix(visibleRows))
            let table = TopTable(rows, width: width)
            lines.append(TopLine(text: TopText.pad(table.head, to: width), style: .reversed))
            for (index, text) in table.lines.enumerated() {
                let isChosen = first + index == chosen
                lines.append(TopLine(text: text, style: isChosen ? .bold : .plain))
                if isChosen { lines[lines.count - 1].text = TopText.pad(text, to: width) }
            }
        }
        return lines.prefix(height).map {
            TopLine(text: String($0.text.prefix(width)), style: $0.style)
        }
    }

    /// Three lines: sessions, memory and shards, times.
    private var headLines: [TopLine] {
        guard let list, let metrics else {
            let text = trouble ?? "asking the server"
            return [TopLine(text: "parley top - \(server)"), TopLine(text: text, style: .bold)]
        }
        let states = Self.filters.compactMap(\.self).filter { $0 != "connection" }
        let sessions = states.reduce(0) { $0 + (list.states[$1] ?? 0) }
        let counts = states.map { "\(TopText.grouped(list.states[$0] ?? 0)) \($0)" }
        let bare = TopText.grouped(list.states["connection"] ?? 0)
        let share =
            list.residentBytes > 0
            ? " (\(100 * list.ledgerBytes / list.residentBytes)%)" : ""
        let busy = metrics.busy.map { "\(Int(($0 * 100).rounded()))%" }.joined(separator: " ")
        let silent = list.silentShards > 0 ? ", \(list.silentShards) without an answer" : ""
        let turns =
            turnsPerSecond.map { "\(TopText.tenths($0))/s" }
            ?? "\(TopText.grouped(Int(metrics.responses))) so far"
        let lag = lagBound.map { $0.isFinite ? "<= \(TopText.tenths($0 * 1_000)) ms" : "over 26 s" }
        return [
            TopLine(text: "parley top - \(server)", style: .bold),
            TopLine(
                text: "Sessions \(TopText.grouped(sessions)): "
                    + counts.joined(separator: ", ") + "; \(bare) connections without one"),
            TopLine(
                text: "Memory \(TopText.bytes(list.ledgerBytes)) of "
                    + "\(TopText.bytes(list.residentBytes)) resident\(share)  "
                    + "Shards \(list.shards)\(silent), busy \(busy)  Turns \(turns)  "
                    + "Lag p99 \(lag ?? "-")"),
        ]
    }

    /// The order, the filter and the range of rows, or why the server is lost.
    private var viewLine: TopLine {
        if let trouble {
            return TopLine(text: "\(trouble); trying again", style: .bold)
        }
        guard let list else { return TopLine(text: "") }
        let last = min(first + visibleRows, list.rows.count)
        let range = list.rows.isEmpty ? "none" : "\(first + 1)-\(last)"
        return TopLine(
            text: "By \(order), \(filter ?? "all states"), \(range)"
                + "\(list.hasMore ? " of more" : "")  "
                + "[q]uit [s]ort [f]ilter [arrows] [enter] parts")
    }

    private var detailLines: [TopLine] {
        let help = TopLine(text: trouble.map { "\($0); trying again" } ?? "[enter] back [q]uit")
        guard let detail else { return [help, TopLine(text: detailID ?? "", style: .reversed)] }
        let row = detail.row
        let table = TopTable([row], width: nil)
        var lines = [help, TopLine(text: table.head, style: .reversed)]
        lines += table.lines.map { TopLine(text: $0) } + [TopLine(text: "")]
        let widest = detail.parts.map(\.name.count).max() ?? 0
        for part in detail.parts.sorted(by: { $0.bytes > $1.bytes }) {
            let share = row.bytes > 0 ? 100 * part.bytes / row.bytes : 0
            lines.append(
                TopLine(
                    text: TopText.pad(part.name, to: widest) + "  "
                        + TopText.pad("\(part.bytes)", to: 10, isRight: true)
                        + TopText.pad("\(share)%", to: 6, isRight: true) + "  "
                        + String(repeating: "#", count: max(0, min(50, share / 2)))))
        }
        return lines
    }

    /// The header and the whole table as plain text, for pipes.
    var plainText: String {
        let table = TopTable(list?.rows ?? [], width: nil, isExact: true)
        let lines = headLines.dropFirst().map(\.text) + [table.head] + table.lines
        return lines.joined(separator: "\n") + "\n"
    }
}
