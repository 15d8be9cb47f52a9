// Results as Markdown for a document: tables, the command, the date, the machine. A result is shown
// completely, including everything that was lost, failed, or never begun. ScenarioResult computes
// the figures.

/// The tables of some results.
struct MarkdownReport {
    let results: [ScenarioResult]

    /// The whole report.
    var text: String {
        var parts = [Self.overview(results)]
        parts += results.map(Self.details)
        if let first = results.first {
            parts.append("Command: `\(first.command)`\n\(first.date), \(first.machine).")
        }
        return parts.joined(separator: "\n\n")
    }

    /// A line for each result.
    static func overview(_ results: [ScenarioResult]) -> String {
        var lines = [
            "| scenario | target | sessions | lost | main latency | p50 | p99 | p99.9 | max "
                + "| CPU of a core | memory, before → with → after | bytes per session "
                + "| ledger, of measured |",
            "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        ]
        for result in results {
            let cells = [
                result.scenario.name, result.target, grouped(result.scenario.sessions),
                grouped(result.counts.lost), result.mainLatency?.kind.title ?? "–",
                latency(result.mainLatency?.summary.p50), latency(result.mainLatency?.summary.p99),
                latency(result.mainLatency?.summary.p999), latency(result.mainLatency?.summary.max),
                share(result), memory(result), bytes(result.bytesPerSession),
                result.ledgerDifferencePercent.map(signedPercent) ?? "–",
            ]
            lines.append("| " + cells.joined(separator: " | ") + " |")
        }
        return lines.joined(separator: "\n")
    }

    /// All figures of one result.
    static func details(_ result: ScenarioResult) -> String {
        let scenario = result.scenario
        let title =
            "\(scenario.name) (\(scenario.kind.rawValue)), \(result.target): "
            + "\(grouped(scenario.sessions)) sessions, \(decimal(result.measuredSeconds)) s, "
            + "opened in \(decimal(result.openingSeconds)) s"
        var parts = ["**\(title)**"]
        if !result.latencies.isEmpty { parts.append(latencyTable(result)) }
        parts.append(serverTable(result))
        parts.append(countTable(result))
        return parts.joined(separator: "\n\n")
    }

    private static func latencyTable(_ result: ScenarioResult) -> String {
        var lines = [
            "| latency, ms | p50 | p90 | p95 | p99 | p99.9 | max | count |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for kind in LatencyKind.allCases {
            guard let summary = result.latencies[kind] else { continue }
            let values = [
                summary.p50, summary.p90, summary.p95, summary.p99, summary.p999, summary.max,
            ].map { latency($0) }
            lines.append(
                "| \(kind.title) | \(values.joined(separator: " | ")) "
                    + "| \(grouped(summary.count)) |")
        }
        return lines.joined(separator: "\n")
    }

    private static func serverTable(_ result: ScenarioResult) -> String {
        var lines = [
            "| the server | before | sessions open | end of the measured part | after |",
            "|---|---|---|---|---|",
        ]
        let samples = [result.before, result.opened, result.with, result.after]
        func row(_ title: String, _ cell: (ServerSample) -> String?) {
            let cells = samples.map { $0.flatMap(cell) ?? "–" }
            lines.append("| \(title) | " + cells.joined(separator: " | ") + " |")
        }
        row("sessions") { grouped($0.sessions) }
        row("anonymous memory, kB") { grouped($0.anonymousBytes / 1_000) }
        row("resident memory, kB") { grouped($0.residentBytes / 1_000) }
        row("ledger, kB") { $0.ledgerBytes.map { grouped(Int($0 / 1_000)) } }
        row("in use on the heap, kB") { $0.allocatedBytes.map { grouped(Int($0 / 1_000)) } }
        let parts = result.with?.parts ?? [:]
        for (part, _) in parts.sorted(by: { ($1.value, $0.key) < ($0.value, $1.key) }) {
            row("of the process: \(part), kB") { $0.parts?[part].map { grouped(Int($0 / 1_000)) } }
        }
        guard let before = result.before, before.anonymousBytes > 0 else {
            return lines.joined(separator: "\n")
        }
        row("growth per session, bytes") { sample in
            guard sample.sessions > 0 else { return nil }
            return grouped((sample.anonymousBytes - before.anonymousBytes) / sample.sessions)
        }
        row("ledger's growth per session, bytes") { sample in
            guard sample.sessions > 0, let now = sample.ledgerBytes, let was = before.ledgerBytes
            else { return nil }
            return grouped(Int(now - was) / sample.sessions)
        }
        row("ledger against the process's growth") { sample in
            let grown = Double(sample.anonymousBytes - before.anonymousBytes)
            guard sample.sessions > 0, grown > 0, let now = sample.ledgerBytes,
                let was = before.ledgerBytes
            else { return nil }
            return signedPercent(((now - was) / grown - 1) * 100)
        }
        row("in no part, of the growth") { sample in
            let grown = Double(sample.anonymousBytes - before.anonymousBytes)
            guard sample.sessions > 0, grown > 0, let now = sample.parts?["other"],
                let was = before.parts?["other"]
            else { return nil }
            return signedPercent((now - was) / grown * 100)
        }
        row("ledger against the growth of what is in use") { sample in
            guard sample.sessions > 0, let now = sample.ledgerBytes, let was = before.ledgerBytes,
                let used = sample.allocatedBytes, let base = before.allocatedBytes, used > base
            else { return nil }
            return signedPercent(((now - was) / (used - base) - 1) * 100)
        }
        return lines.joined(separator: "\n")
    }

    private static func countTable(_ result: ScenarioResult) -> String {
        let counts = result.counts
        var rows: [(String, String)] = [
            (
                "connections begun / ready / lost",
                "\(grouped(counts.begun)) / \(grouped(counts.opened)) / \(grouped(counts.lost))"
            ),
            (
                "messages sent / received",
                "\(grouped(counts.messagesSent)) / \(grouped(counts.messagesReceived))"
            ),
        ]
        if counts.turnsBegun + counts.turnsCompleted + counts.turnsFailed > 0 {
            rows.append(
                (
                    "turns begun / completed / cancelled / failed / due and never begun",
                    [
                        counts.turnsBegun, counts.turnsCompleted, counts.turnsCancelled,
                        counts.turnsFailed, counts.turnsNeverBegun,
                    ].map { grouped($0) }.joined(separator: " / ")
                ))
            rows.append(("text deltas", grouped(counts.deltas)))
        }
        if counts.audioPackets > 0 {
            rows.append(
                (
                    "transcripts / reply packets / of these late",
                    "\(grouped(counts.transcripts)) / \(grouped(counts.audioPackets)) / "
                        + grouped(counts.latePackets)
                ))
        }
        if counts.recovered + counts.restored + counts.begunAnew > 0 {
            rows.append(
                (
                    "came back: events recovered / conversation restored / session lost",
                    [counts.recovered, counts.restored, counts.begunAnew]
                        .map { grouped($0) }.joined(separator: " / ")
                ))
        }
        if counts.interruptions > 0 {
            rows.append(("interruptions", grouped(counts.interruptions)))
        }
        if result.scenario.kind == .slowReaders {
            rows.append(
                (
                    "slow readers / closed by the server",
                    "\(grouped(result.scenario.slow)) / \(grouped(counts.slowClosed))"
                ))
        }
        rows += costRows(result)
        for (reason, count) in result.errors.sorted(by: { $0.key < $1.key }) {
            rows.append(("error, \(grouped(count)) times", reason.replacing("|", with: "\\|")))
        }
        return "| | |\n|---|---|\n"
            + rows.map { "| \($0.0) | \($0.1) |" }.joined(separator: "\n")
    }

    /// The server's own delay, and processor time.
    private static func costRows(_ result: ScenarioResult) -> [(String, String)] {
        var rows: [(String, String)] = []
        if let delay = result.serverDeltaDelay {
            let values = [delay.p50, delay.p90, delay.p99, delay.p999].map { decimal($0, 2) }
            rows.append(
                (
                    "server's own delay of a delta, p50 / p90 / p99 / p99.9, ms",
                    values.joined(separator: " / ")
                ))
        }
        let cpu = result.serverCPUSeconds.map { decimal($0, 2) } ?? "–"
        rows.append(
            (
                "CPU of the server / of the generator, s",
                "\(cpu) / \(decimal(result.generatorCPUSeconds, 2))"
            ))
        if let spent = result.openingCPUSeconds, result.openSessions > 0 {
            let each = decimal(spent * 1e6 / Double(result.openSessions))
            rows.append(
                ("CPU of the server while they opened", "\(decimal(spent, 2)) s, \(each) µs each"))
        }
        return rows
    }

    // MARK: Cells

    /// Milliseconds, with two decimals below 100.
    static func latency(_ value: Double?) -> String {
        guard let value else { return "–" }
        return value < 100 ? decimal(value, 2) : grouped(Int(value.rounded()))
    }

    private static func share(_ result: ScenarioResult) -> String {
        guard let spent = result.serverCPUSeconds, result.measuredSeconds > 0 else { return "–" }
        return decimal(spent / result.measuredSeconds * 100) + "%"
    }

    private static func memory(_ result: ScenarioResult) -> String {
        let samples = [result.before, result.with, result.after]
        guard samples.contains(where: { $0 != nil }) else { return "–" }
        return samples.map { $0.map { decimal(Double($0.anonymousBytes) / 1e6) } ?? "–" }
            .joined(separator: " → ") + " MB"
    }

    private static func bytes(_ value: Double?) -> String {
        value.map { grouped(Int($0.rounded())) } ?? "–"
    }

    static func signedPercent(_ value: Double) -> String {
        (value >= 0 ? "+" : "") + decimal(value) + "%"
    }
}
