// The screen of `parley top` as a value: the newest answers of one or several servers and keys go in,
// lines of text come out. Terminal and servers are TopCommand's; TopNode is one server's answers.
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

    /// The key of an escape sequence (ECMA-48 §5.4: parameters, then a final byte); nil where that
    /// key has no use here.
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
    /// The orders that `s` goes through, and the states that `f` does. The nil state is all
    /// sessions.
    static let orders = ["bytes", "age", "id"]
    static let filters: [String?] = [
        nil, "idle", "listening", "speaking", "replying", "connection",
    ]
    /// The most rows that a server gives.
    static let maxRows = 1_000
    /// The servers, in the order in which they were named.
    var nodes: [TopNode]
    var order = "bytes"
    var filter: String?
    /// The answers of all servers together; nil before the first.
    private(set) var list: TopList?
    /// The session whose parts are shown. Where nil, the list is shown.
    private(set) var detailID: String?
    /// The server of that session.
    private(set) var detailNode = 0
    var detail: TopDetail?
    private var chosen = 0
    private var first = 0
    private var visibleRows = 1

    init(servers: [String]) { nodes = servers.map(TopNode.init) }

    init(server: String) { self.init(servers: [server]) }

    /// Lines above the rows: two of all servers, one of each, one of the view, the titles. A server
    /// alone has a line for its memory, too.
    var headLineCount: Int {
        4 + nodes.count + (!isCluster && nodes[0].memory != nil ? 1 : 0)
    }
    private var isCluster: Bool { nodes.count > 1 }

    /// The number of rows to ask for: the visible ones and a page more.
    var wantedRows: Int { min(Self.maxRows, max(100, first + 2 * visibleRows)) }

    // MARK: Input

    /// New answers have come.
    /// - Parameters:
    ///   - node: the server that answered, by its place.
    ///   - seconds: now, on any clock.
    mutating func update(
        _ list: TopList, _ metrics: TopMetrics, of node: Int = 0, at seconds: Double
    ) {
        nodes[node].update(list, metrics, at: seconds)
        merge()
    }

    /// Handles the loss of a server.
    mutating func lose(_ node: Int, because trouble: String) {
        nodes[node].trouble = trouble
        // One server's last list stays on the screen; among others it would be counted.
        if isCluster { merge() }
    }

    /// Makes one list of the servers' lists.
    private mutating func merge() {
        // The chosen session stays chosen when its place in the list changes.
        let id = chosenID
        list = isCluster ? merged : nodes[0].list
        if chosen > 0, let id, let place = list?.rows.firstIndex(where: { $0.id == id }) {
            chosen = place
        }
        keepInSight()
    }

    private var merged: TopList? {
        var all: TopList?
        for (index, node) in nodes.enumerated() where node.trouble == nil {
            guard var list = node.list else { continue }
            for row in list.rows.indices { list.rows[row].node = index }
            all = all?.adding(list) ?? list
        }
        guard var all else { return nil }
        switch order {
        case "bytes": all.rows.sort { ($1.bytes, $0.id) < ($0.bytes, $1.id) }
        case "age": all.rows.sort { ($1.ageMilliseconds, $0.id) < ($0.ageMilliseconds, $1.id) }
        default: all.rows.sort { $0.id < $1.id }
        }
        return all
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
            if let rows = list?.rows, chosen < rows.count { detailNode = rows[chosen].node ?? 0 }
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
        visibleRows = max(1, height - headLineCount)
        keepInSight()
        var lines = headLines
        if detailID != nil {
            lines += detailLines
        } else {
            lines.append(viewLine)
            let rows = Array((list?.rows ?? []).dropFirst(first).prefix(visibleRows))
            let table = TopTable(rows, width: width, isCluster: isCluster)
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

    /// Sessions of all states.
    static func sessions(in states: [String: Int]) -> Int {
        filters.reduce(0) { $0 + ($1 == "connection" ? 0 : $1.flatMap { states[$0] } ?? 0) }
    }

    /// The server, or how many there are; the sessions by state; and a line for each server.
    private var headLines: [TopLine] {
        let missing = nodes.filter { $0.trouble != nil }.count
        let absent = missing > 0 ? ", \(missing) without an answer" : ""
        let subject = isCluster ? "\(nodes.count) nodes\(absent)" : nodes[0].server
        guard let list else {
            let text = isCluster ? "asking the servers" : nodes[0].trouble ?? "asking the server"
            return [TopLine(text: "parley top - \(subject)"), TopLine(text: text, style: .bold)]
                + (isCluster ? nodeLines : [])
        }
        let states = Self.filters.compactMap(\.self).filter { $0 != "connection" }
        let counts = states.map { "\(TopText.grouped(list.states[$0] ?? 0)) \($0)" }
        let bare = TopText.grouped(list.states["connection"] ?? 0)
        return [
            TopLine(text: "parley top - \(subject)", style: .bold),
            TopLine(
                text: "Sessions \(TopText.grouped(Self.sessions(in: list.states))): "
                    + counts.joined(separator: ", ") + "; \(bare) connections without one"),
        ] + nodeLines
    }

    private var nodeLines: [TopLine] {
        guard isCluster else {
            return [nodes[0].load, nodes[0].memory].compactMap(\.self).map { TopLine(text: $0) }
        }
        let width = nodes.map(\.server.count).max() ?? 0
        return nodes.enumerated().map { index, node in
            TopLine(
                text: node.line(number: index + 1, width: width),
                style: node.trouble == nil ? .plain : .bold)
        }
    }

    /// The order, the filter and the range of rows, or why the server is lost.
    private var viewLine: TopLine {
        if !isCluster, let trouble = nodes[0].trouble {
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
        let help = TopLine(
            text: nodes[detailNode].trouble.map { "\($0); trying again" } ?? "[enter] back [q]uit")
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
        let rows = list?.rows ?? []
        let table = TopTable(rows, width: nil, isExact: true, isCluster: isCluster)
        let lines = headLines.dropFirst().map(\.text) + [table.head] + table.lines
        return lines.joined(separator: "\n") + "\n"
    }
}
