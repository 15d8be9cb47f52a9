// The claims as Markdown: a summary with a row for each claim, then a table for each claim with
// every figure of every contender. Failures are listed in place of figures.

/// The outcomes of all claims, the machine and the date.
struct ClaimsReport: Codable {
    let machine: String
    let date: String
    let command: String
    var outcomes: [ClaimOutcome] = []

    /// The whole report.
    var markdown: String {
        let opening = """
            # Published claims, measured

            \(machine). \(date). `\(command)`

            The server under test has one core, the load and the scripted model the other; each \
            stack is one process, started anew for every sample. Figures are medians (least … \
            greatest) of the rounds; each round measures the stacks in a new order. In the summary, a \
            stack that was measured in several ways has a figure for each, and the ratio is to \
            the last.
            """
        return ([opening, summary] + outcomes.map(table)).joined(separator: "\n\n") + "\n"
    }

    /// The published figures beside those measured here.
    private var summary: String {
        let head = """
            | claim | published | Node 24, measured | FastAPI, measured | Parley \
            | Parley's figure ÷ Node's, ÷ FastAPI's | command |
            |---|---|---|---|---|---|---|
            """
        return ([head] + outcomes.map(summaryRow)).joined(separator: "\n")
    }

    private func summaryRow(_ outcome: ClaimOutcome) -> String {
        guard let measure = outcome.measures.first else { return "| \(outcome.title) |" }
        func main(_ stack: Stack) -> Spread? {
            rows(of: stack, in: outcome).last.flatMap { outcome.spread($0, measure) }
        }
        func text(_ stack: Stack) -> String {
            let rows = rows(of: stack, in: outcome)
            let figures = rows.map { row in
                (outcome.spread(row, measure).map { figure($0.median, measure) } ?? "failed")
                    + (row.variant.map { " (\($0))" } ?? "")
            }
            return figures.isEmpty ? "–" : figures.joined(separator: "; ")
        }
        func ratio(_ stack: Stack) -> String {
            guard let parley = main(.parley), let other = main(stack), other.median > 0 else {
                return "–"
            }
            return decimal(parley.median / other.median, 2)
        }
        return "| \(outcome.title): \(measure.title) | \(outcome.published) | \(text(.node)) "
            + "| \(text(.fastapi)) | \(text(.parley)) | \(ratio(.node)), \(ratio(.fastapi)) "
            + "| `\(outcome.command)` |"
    }

    /// The rows of a stack that the summary shows. Where rows differ in the size of the load, it is
    /// the largest load for which all stacks in the summary have figures. Where they differ in the
    /// way of working, it is all rows. The last of them is compared with Parley: it works in a
    /// thread, as Parley does.
    private func rows(of stack: Stack, in outcome: ClaimOutcome) -> [Contender] {
        guard let measure = outcome.measures.first else { return [] }
        let rows = outcome.contenders.filter { $0.stack == stack }
        let named: Set<Stack> = [.parley, .node, .fastapi]
        let common = rows.last { row in
            outcome.contenders.filter { named.contains($0.stack) && $0.size == row.size }
                .allSatisfy { outcome.spread($0, measure) != nil }
        }
        guard rows.contains(where: { $0.size > 0 }) else { return rows }
        return (common ?? rows.first).map { [$0] } ?? []
    }

    private func table(_ outcome: ClaimOutcome) -> String {
        let measures = outcome.measures
        var lines = [
            "## \(outcome.title)", "",
            "Published: \(outcome.published). `\(outcome.command)`", "", outcome.remarks, "",
            "| | " + measures.map(columnTitle).joined(separator: " | ") + " |",
            "|---|" + String(repeating: "---|", count: measures.count),
        ]
        for contender in outcome.contenders {
            let cells = measures.map { cell(outcome, contender, $0) }
            lines.append("| \(contender.title) | " + cells.joined(separator: " | ") + " |")
        }
        for contender in outcome.contenders {
            guard let reasons = outcome.failures[contender.title] else { continue }
            let unique = Set(reasons).sorted().joined(separator: "; ")
            lines.append("")
            lines.append("\(contender.title) failed \(reasons.count) times: \(unique).")
        }
        return lines.joined(separator: "\n")
    }

    private func columnTitle(_ measure: Measure) -> String {
        measure.unit.isEmpty ? measure.title : "\(measure.title), \(measure.unit)"
    }

    private func cell(
        _ outcome: ClaimOutcome, _ contender: Contender, _ measure: Measure
    ) -> String {
        guard let spread = outcome.spread(contender, measure) else {
            return outcome.failures[contender.title] == nil ? "–" : "failed"
        }
        let median = thousands(spread.median, measure.places)
        guard spread.least < spread.greatest else { return median }
        let least = thousands(spread.least, measure.places)
        return "\(median) (\(least) … \(thousands(spread.greatest, measure.places)))"
    }

    private func figure(_ value: Double, _ measure: Measure) -> String {
        let number = thousands(value, measure.places)
        return measure.unit.isEmpty || measure.unit.hasPrefix("/")
            ? number + measure.unit : "\(number) \(measure.unit)"
    }
}

/// A number with commas between its thousands.
func thousands(_ value: Double, _ places: Int) -> String {
    let magnitude = value.magnitude
    let text = places == 0 ? "\(Int(magnitude.rounded()))" : decimal(magnitude, places)
    let whole = text.prefix { $0 != "." }
    var grouped = places == 0 ? "" : String(text.dropFirst(whole.count))
    for (index, digit) in whole.reversed().enumerated() {
        if index > 0, index.isMultiple(of: 3) { grouped = "," + grouped }
        grouped = String(digit) + grouped
    }
    return value < 0 ? "-" + grouped : grouped
}
