// The result of `parley-load handshakes` as Markdown: a table for each kind of handshake. Ratios are to
// Parley's slice of the same round, so that the drift of the machine's speed does not affect them.

/// The tables of a comparison of handshakes.
struct HandshakeReport {
    /// Parley's is the first of each kind.
    let measurements: [EchoMeasurement]

    /// The tables.
    var tables: String {
        let kinds: [SliceOrder.Kind] = [.handshake, .fullTLS, .resumedTLS]
        return kinds.compactMap(table).joined(separator: "\n\n")
    }

    private func table(_ kind: SliceOrder.Kind) -> String? {
        let rows = measurements.filter { $0.load.kind == kind }
        guard let parley = rows.first else { return nil }
        var lines = [
            "\(kind.title), \(parley.load.connections) at once", "",
            "| | per second, median (min … max) | Parley's, of this peer's, median (min … max) "
                + "| server's CPU, µs each | p50 / p99, ms | generator busy |",
            "|---|---|---|---|---|---|",
        ]
        for row in rows {
            let rates = Spread(row.rounds.map(\.rate))
            let ratios = Spread(zip(parley.rounds, row.rounds).map { $0.rate / $1.rate })
            let share = Spread(row.rounds.map(\.generatorShare)).median * 100
            let cells = [
                row.peer, spread(rates) { grouped(Int($0.rounded())) },
                spread(ratios) { decimal($0, 2) },
                spread(Spread(row.rounds.map(\.serverMicroseconds))) { decimal($0, 1) },
                decimal(Spread(row.rounds.compactMap(\.p50)).median, 2) + " / "
                    + decimal(Spread(row.rounds.compactMap(\.p99)).median, 2),
                "\(Int(share.rounded()))%",
            ]
            lines.append("| " + cells.joined(separator: " | ") + " |")
        }
        return lines.joined(separator: "\n")
    }

    private func spread(_ spread: Spread, _ text: (Double) -> String) -> String {
        "\(text(spread.median)) (\(text(spread.least)) … \(text(spread.greatest)))"
    }
}
