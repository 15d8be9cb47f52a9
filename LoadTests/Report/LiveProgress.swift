// The progress of a run, on standard error: one line that is rewritten on a terminal, or a line
// every few seconds elsewhere. Standard output has only the tables.

import CLinux

/// The line of a run in progress.
final class LiveProgress {
    /// Seconds between two lines without a terminal.
    private static let plainInterval = 5.0

    private let title: String
    private let isQuiet: Bool
    private let isTerminal = isatty(2) == 1
    private var lastPlain = -LiveProgress.plainInterval
    /// The current phase of the run.
    var phase = "" {
        didSet { lastPlain = -Self.plainInterval }
    }

    init(title: String, isQuiet: Bool) {
        self.title = title
        self.isQuiet = isQuiet
    }

    /// Shows the latest figures.
    func show(_ point: TimelinePoint, errors: Int) {
        guard !isQuiet else { return }
        let line = Self.line(title: title, phase: phase, point, errors: errors)
        if isTerminal {
            printError("\r\u{1B}[K\(line)")
        } else if point.seconds - lastPlain >= Self.plainInterval {
            lastPlain = point.seconds
            printError(line + "\n")
        }
    }

    /// Ends the line.
    func finish() { if isTerminal, !isQuiet { printError("\r\u{1B}[K") } }

    /// The line's text.
    static func line(
        title: String, phase: String, _ point: TimelinePoint, errors: Int
    ) -> String {
        var parts = [
            "\(title): \(phase) \(decimal(point.seconds)) s", "\(grouped(point.open)) open",
            "\(grouped(Int(point.rate)))/s", "\(grouped(errors)) errors",
        ]
        if let p50 = point.p50, let p99 = point.p99 {
            parts.append("p50 \(decimal(p50, 2)) p99 \(decimal(p99, 2)) ms")
        }
        if let bytes = point.residentBytes {
            parts.append("server \(decimal(Double(bytes) / 1e6)) MB")
        }
        return parts.joined(separator: " · ")
    }
}

/// A whole number with commas between its thousands.
func grouped(_ number: Int) -> String {
    let digits = String(number.magnitude)
    var text = number < 0 ? "-" : ""
    for (index, digit) in digits.enumerated() {
        if index > 0, (digits.count - index).isMultiple(of: 3) { text.append(",") }
        text.append(digit)
    }
    return text
}
