// The result of a run as a Markdown table. Which figure decides is said in RESULTS.md.

/// What a run of IdleAndSpeaking found.
struct LoadReport {
    let idle: Int
    let speaking: Int
    let seconds: Int
    let counts: LoadCounts
    /// /metrics before anything, with the idle sessions, before the first word, and at the end.
    let atStart: MetricsPage
    let withIdle: MetricsPage
    let beforeSpeech: MetricsPage
    let atEnd: MetricsPage

    /// The table, newline-terminated rows without the last newline.
    var table: String {
        let title = "\(idle) idle and \(speaking) speaking sessions, \(seconds) s"
        var rows = [("", title), ("---", "---")]
        rows += memoryRows + delayRows + countRows
        rows += counts.failures.map { ("failure, \($0.count) times", $0.reason) }
        return rows.map { "| \($0) | \($1) |" }.joined(separator: "\n")
    }

    private static let resident = "process_resident_memory_bytes"
    private static let lag = "parley_event_loop_lag_seconds"

    private var memoryRows: [(String, String)] {
        func mebibytes(_ page: MetricsPage) -> String {
            decimal(page.sum(of: Self.resident) / 1_048_576) + " MiB"
        }
        let grown = withIdle.sum(of: Self.resident) - atStart.sum(of: Self.resident)
        let perIdle = idle > 0 ? decimal(grown / Double(idle) / 1_000) + " kB" : "–"
        return [
            ("resident before", mebibytes(atStart)),
            ("resident with the idle sessions", mebibytes(withIdle)),
            ("resident growth per idle session", perIdle),
            ("resident at the end of the speech", mebibytes(atEnd)),
        ]
    }

    private var delayRows: [(String, String)] {
        func lag(_ share: Double) -> String {
            let bound = atEnd.quantile(share, of: Self.lag, since: beforeSpeech)
            return bound.map { "≤ " + decimal($0 * 1_000) + " ms" } ?? "–"
        }
        func quantiles(_ samples: Samples) -> String {
            [0.5, 0.99, 1].map { milliseconds(samples.quantile($0)) }.joined(separator: " / ")
        }
        return [
            ("event-loop lag p50 / p99 / max", "\(lag(0.5)) / \(lag(0.99)) / \(lag(1))"),
            ("end of speech → transcript p50 / p99 / max", quantiles(counts.transcriptDelays)),
            ("end of speech → first audio p50 / p99 / max", quantiles(counts.firstAudioDelays)),
            ("reply audio after its time p50 / p99 / max", quantiles(counts.audioLateness)),
            ("generator's own lateness p50 / p99 / max", quantiles(counts.sendLateness)),
        ]
    }

    private var countRows: [(String, String)] {
        let turns = atEnd.sum(of: "parley_turns_total") - beforeSpeech.sum(of: "parley_turns_total")
        return [
            ("turns (server) / transcripts received", "\(Int(turns)) / \(counts.transcripts)"),
            (
                "responses completed / cancelled by speech / failed",
                "\(counts.responsesCompleted) / \(counts.responsesCancelled) / "
                    + "\(counts.responsesFailed)"
            ),
            (
                "reply packets received / late",
                "\(counts.audioPackets) / \(counts.latePackets)"
            ),
            ("error events", "\(counts.errorEvents)"),
        ]
    }
}
