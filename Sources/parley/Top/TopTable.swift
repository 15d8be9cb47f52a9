// The table of `parley top`: the columns that fit a window, and the text of a row. TopView makes the
// lines around the table.

import Session

/// One column.
struct TopColumn: Sendable {
    let title: String
    /// The least width in characters: columns must not change their place each second.
    let minWidth: Int
    /// The greatest width in characters; longer text is cut.
    let maxWidth: Int
    let isNumber: Bool
    /// The columns of the highest priority stay where a window has no room for all.
    let priority: Int
    /// The text for a session.
    /// - Parameter isExact: for programs: plain numbers without units.
    let text: @Sendable (_ row: TopRow, _ isExact: Bool) -> String

    /// Whether the column tells servers apart, and is left out where there is one.
    var isOfNodes: Bool { title == "NODE" }

    private init(
        _ title: String, _ width: ClosedRange<Int>, isNumber: Bool = true, priority: Int,
        _ text: @escaping @Sendable (TopRow, Bool) -> String
    ) {
        self.title = title
        minWidth = max(width.lowerBound, title.count)
        maxWidth = max(width.upperBound, title.count)
        self.isNumber = isNumber
        self.priority = priority
        self.text = text
    }

    /// All columns, from left to right.
    static let all = [
        TopColumn("ID", 15...24, isNumber: false, priority: 12) { row, _ in row.id },
        TopColumn("STATE", 9...10, isNumber: false, priority: 11) { row, _ in row.state },
        TopColumn("BYTES", 6...12, priority: 10) { $1 ? "\($0.bytes)" : TopText.bytes($0.bytes) },
        TopColumn("AGE", 6...12, priority: 9) { row, isExact in
            TopText.time(row.ageMilliseconds, isExact: isExact)
        },
        TopColumn("IDLE", 6...12, priority: 3) { row, isExact in
            TopText.time(row.idleMilliseconds, isExact: isExact)
        },
        TopColumn("TURNS", 5...9, priority: 8) { row, _ in "\(row.turns)" },
        TopColumn("WORDS", 5...5, priority: 5) { row, _ in hop(.transcript, of: row) },
        TopColumn("TOKEN", 5...5, priority: 7) { row, _ in hop(.firstToken, of: row) },
        TopColumn("AUDIO", 5...5, priority: 6) { row, _ in hop(.firstAudio, of: row) },
        TopColumn("NODE", 4...4, priority: 10) { row, _ in row.node.map { "\($0 + 1)" } ?? "-" },
        TopColumn("SHARD", 5...5, priority: 1) { row, _ in "\(row.shard)" },
        TopColumn("CLIENT", 15...39, isNumber: false, priority: 4) { row, _ in row.client },
        TopColumn("MODEL", 5...24, isNumber: false, priority: 2) { row, _ in row.model },
    ]

    private static func hop(_ hop: TurnHop, of row: TopRow) -> String {
        row.lastTurn[hop].map { "\($0)" } ?? "-"
    }
}

/// Rows as lines of text.
struct TopTable {
    /// The line of titles.
    let head: String
    /// A line per row.
    let lines: [String]

    /// Makes the lines of rows.
    /// - Parameters:
    ///   - width: characters of the window; the least important columns go first where they do not
    ///     fit. Nil shows all columns.
    ///   - isExact: whether numbers are plain, without units, for programs.
    ///   - isCluster: whether the rows are of several servers.
    init(_ rows: [TopRow], width: Int?, isExact: Bool = false, isCluster: Bool = false) {
        let shown = TopColumn.all.filter { isCluster || !$0.isOfNodes }
        var columns: [(column: TopColumn, cells: [String], width: Int)] = shown.map { column in
            let cells = rows.map { column.text($0, isExact) }
            let longest = cells.map(\.count).max() ?? 0
            return (column, cells, min(max(longest, column.minWidth), column.maxWidth))
        }
        while let width, columns.count > 1,
            columns.reduce(columns.count - 1, { $0 + $1.width }) > width
        {
            let least = columns.map(\.column.priority).min()
            columns.removeAll { $0.column.priority == least }
        }
        func line(_ cell: (Int) -> String) -> String {
            let padded = columns.indices.map { index in
                TopText.pad(
                    cell(index), to: columns[index].width, isRight: columns[index].column.isNumber)
            }
            return String(padded.joined(separator: " ").trimmingTrailingBlanks)
        }
        head = line { columns[$0].column.title }
        lines = rows.indices.map { row in line { columns[$0].cells[row] } }
    }
}

/// Numbers as people read them.
enum TopText {
    /// `999`, `12.3k`, `4.5M`: bytes in powers of 1,000.
    static func bytes(_ count: Int) -> String {
        if count < 0 { return "-" + bytes(-count) }
        var value = Double(count)
        for unit in ["", "k", "M", "G"] {
            if value < 1_000 || unit == "G" {
                return unit.isEmpty ? "\(count)" : tenths(value) + unit
            }
            value /= 1_000
        }
        return "\(count)"
    }

    /// `7s`, `3m05s`, `2h13m`, `5d04h`; for programs seconds alone.
    static func time(_ milliseconds: Int, isExact: Bool) -> String {
        let seconds = milliseconds / 1_000
        if isExact { return "\(seconds)" }
        if seconds < 60 { return "\(seconds)s" }
        if seconds < 3_600 { return "\(seconds / 60)m\(twoDigits(seconds % 60))s" }
        if seconds < 86_400 { return "\(seconds / 3_600)h\(twoDigits(seconds / 60 % 60))m" }
        return "\(seconds / 86_400)d\(twoDigits(seconds / 3_600 % 24))h"
    }

    /// `12.3`
    static func tenths(_ value: Double) -> String {
        let scaled = value > 0 ? Int((min(value, 1e15) * 10).rounded()) : 0
        return "\(scaled / 10).\(scaled % 10)"
    }

    /// `12,345`
    static func grouped(_ number: Int) -> String {
        var digits = Array("\(number.magnitude)")
        for position in stride(from: digits.count - 3, to: 0, by: -3) {
            digits.insert(",", at: position)
        }
        return (number < 0 ? "-" : "") + String(digits)
    }

    /// Text cut or filled up to a width.
    static func pad(_ text: String, to width: Int, isRight: Bool = false) -> String {
        let cut = text.prefix(width)
        let blanks = String(repeating: " ", count: width - cut.count)
        return isRight ? blanks + cut : cut + blanks
    }

    private static func twoDigits(_ number: Int) -> String {
        number < 10 ? "0\(number)" : "\(number)"
    }
}

extension String {
    /// Without blanks at its end.
    fileprivate var trimmingTrailingBlanks: Substring {
        var text = self[...]
        while text.last == " " { text.removeLast() }
        return text
    }
}
