// The benchmark's result as Markdown: a table for each load, and one for the handshakes. Ratios are
// to the raw echo's slice of the same round, so that the drift of the machine's speed does not
// affect them.

/// The tables of a run of EchoBenchmark.
struct EchoReport {
    let measurements: [EchoMeasurement]

    /// The tables.
    var tables: String {
        var loads: [EchoMeasurement.Load] = []
        for measurement in measurements where !loads.contains(measurement.load) {
            loads.append(measurement.load)
        }
        return loads.map(table).joined(separator: "\n\n")
    }

    private func table(_ load: EchoMeasurement.Load) -> String {
        let title =
            load.kind == .handshake
            ? "Handshakes (connect, upgrade, Close, end), \(load.connections) at once"
            : "\(load.bytes) B, \(load.connections) connections"
                + (load.depth > 1 ? ", \(load.depth) messages at once" : "")
        let noun = load.kind == .handshake ? "handshakes" : "messages"
        var lines = [
            title, "",
            "| | \(noun)/s, median (min … max) | of the raw echo's, median (min … max) "
                + "| server's CPU, µs each | generator busy |",
            "|---|---|---|---|---|",
        ]
        let rows = measurements.filter { $0.load == load }
        let reference = rows.first?.rounds ?? []
        for row in rows {
            let rates = Spread(row.rounds.map(\.rate))
            let ratios = Spread(zip(row.rounds, reference).map { $0.rate / $1.rate })
            let cost = Spread(row.rounds.map(\.serverMicroseconds))
            let share = Spread(row.rounds.map(\.generatorShare))
            lines.append(
                "| \(row.peer) | \(thousands(rates.median)) "
                    + "(\(thousands(rates.least)) … \(thousands(rates.greatest))) "
                    + "| \(decimal(ratios.median, 2)) "
                    + "(\(decimal(ratios.least, 2)) … \(decimal(ratios.greatest, 2))) "
                    + "| \(decimal(cost.median, 2)) | \(Int((share.median * 100).rounded()))% |")
        }
        return lines.joined(separator: "\n")
    }

    private func thousands(_ value: Double) -> String {
        let digits = String(Int(value.rounded()))
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index).isMultiple(of: 3) { text.append(",") }
            text.append(digit)
        }
        return text
    }
}

/// The median, the least and the greatest of some values.
struct Spread {
    let least: Double, median: Double, greatest: Double

    /// - Precondition: there are values.
    init(_ values: [Double]) {
        let sorted = values.sorted()
        let middle = sorted.count / 2
        least = sorted[0]
        greatest = sorted[sorted.count - 1]
        median =
            sorted.count.isMultiple(of: 2)
            ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[middle]
    }
}

/// A number with the given digits behind the point.
func decimal(_ value: Double, _ places: Int) -> String {
    var scale = 1.0
    for _ in 0..<places { scale *= 10 }
    let units = Int((value.magnitude * scale).rounded())
    let fraction = String(units % Int(scale))
    let zeros = String(repeating: "0", count: places - fraction.count)
    return (value < 0 ? "-" : "") + "\(units / Int(scale)).\(zeros)\(fraction)"
}
