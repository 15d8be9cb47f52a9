// A bar chart of a claim's first figure: an SVG file without scripts that follows the viewer's
// light or dark colours.

/// Horizontal bars, one per contender that has a figure.
struct ClaimBars {
    let outcome: ClaimOutcome
    private let rowHeight = 26
    private let labelWidth = 300
    private let barWidth = 420

    /// The chart; nil when no contender has a figure.
    var svg: String? {
        guard let measure = outcome.measures.first else { return nil }
        let rows = outcome.contenders.compactMap { contender in
            outcome.spread(contender, measure).map { (contender, $0.median) }
        }
        guard let most = rows.map(\.1).max(), most > 0 else { return nil }
        let width = labelWidth + barWidth + 110
        let height = rowHeight * rows.count + 48
        var lines = [
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 \(width) \(height)\" "
                + "font-family=\"sans-serif\" font-size=\"13\">",
            "<style>text{fill:#222}.bar{fill:#9aa7b5}.parley{fill:#d9622b}"
                + "@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>",
            "<text x=\"8\" y=\"22\" font-size=\"15\">\(escape(title(measure)))</text>",
        ]
        for (index, (contender, value)) in rows.enumerated() {
            let top = 38 + index * rowHeight
            let length = max(1, Int(value / most * Double(barWidth)))
            let kind = contender.stack == .parley ? "bar parley" : "bar"
            let name = contender.plainTitle
            lines.append(
                "<text x=\"\(labelWidth - 8)\" y=\"\(top + 14)\" text-anchor=\"end\">"
                    + "\(escape(name))</text>"
                    + "<rect class=\"\(kind)\" x=\"\(labelWidth)\" y=\"\(top)\" "
                    + "width=\"\(length)\" height=\"\(rowHeight - 7)\"/>"
                    + "<text x=\"\(labelWidth + length + 6)\" y=\"\(top + 14)\">"
                    + "\(thousands(value, measure.places))</text>")
        }
        return (lines + ["</svg>"]).joined(separator: "\n") + "\n"
    }

    private func title(_ measure: Measure) -> String {
        let unit = measure.unit.isEmpty ? "" : ", \(measure.unit)"
        return "\(outcome.title): \(measure.title)\(unit) "
            + (measure.isGain ? "(more is better)" : "(less is better)")
    }

    private func escape(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;")
    }
}
