// `parley-load scale`: memory, processor time and latency as functions of the number of sessions in
// one server process.

import ArgumentParser

/// The same load at growing sizes.
struct ScaleCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "scale",
        abstract: "Measure memory, CPU and latency over the number of sessions, up to 19,800.",
        discussion: """
            One server process per size. All sessions are open; one in two hundred takes a turn \
            of 100 deltas every 4 s, so that processor time grows with the sessions and latency \
            can be measured. Memory per session is that of the idle sessions, before the first \
            turn. A straight line is fitted to the sizes: its slope is the cost of a session, \
            and the greatest distance from it shows whether the cost grows faster. Where a session is \
            lost, the table says so and the command fails.

            Takes about two and a half minutes. 19,800 sessions fit into the 20,000 descriptors of a \
            process. With --tls the sessions are on TLS, which takes longer to open.

            EXAMPLES
              parley-load scale --output .build/load/scale
              parley-load scale --tls --counts 1000,5000,10000
            """)

    @Option(
        help: "Sessions, with commas between, 200…19800 each.",
        transform: { text in
            try text.split(separator: ",").map {
                guard let number = Int($0), (200...19_800).contains(number) else {
                    throw ValidationError("--counts are 200…19800, not \"\($0)\"")
                }
                return number
            }
        })
    var counts = [1_000, 2_000, 5_000, 10_000, 19_800]

    @Option(help: "Seconds of the measured part of each size, 1…3600.")
    var seconds = 15.0

    @OptionGroup var load: LoadOptions

    func validate() throws {
        guard (1...3_600).contains(seconds) else { throw ValidationError("--seconds is 1…3600") }
    }

    func run() throws {
        try reportingFailures { () throws(LoadFailure) in
            var results: [ScenarioResult] = []
            for count in counts { results.append(try load.run(plan(count))) }
            let heading = Self.heading(results)
            print(heading + "\n")
            print(MarkdownReport(results: results).text)
            if let output = load.output {
                try ReportFolder(output).write(
                    results, heading: heading, plots: ResultPlots.overSessions(results))
            }
            for result in results { try result.checkNoSessionWasLost() }
        }
    }

    private func plan(_ count: Int) -> Scenario {
        var scenario = Scenario(.chat)
        scenario.name = "\(grouped(count)) sessions"
        scenario.sessions = count
        scenario.chatting = max(1, count / 200)
        scenario.connectRate = load.tls ? 800 : 2_000
        scenario.seconds = seconds
        scenario.settleSeconds = 2
        (scenario.tokens, scenario.tokenRate, scenario.turnEvery) = (100, 50, 4)
        return scenario
    }

    /// The table of sizes, and the straight lines fitted to them.
    static func heading(_ results: [ScenarioResult]) -> String {
        var lines = [
            "| sessions | lost | anonymous memory, MB | bytes per session | by the ledger "
                + "| CPU of a core | µs of CPU per session and second "
                + "| delta p50 | p99 | p99.9, ms |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        for result in results {
            let share = result.serverCPUSeconds.map { $0 / result.measuredSeconds }
            let delta = result.latencies[.delta]
            func whole(_ value: Double?) -> String {
                value.map { grouped(Int($0.rounded())) } ?? "–"
            }
            let memory = result.opened.map { decimal(Double($0.anonymousBytes) / 1e6) } ?? "–"
            let percent = share.map { decimal($0 * 100) + "%" } ?? "–"
            let sessions = Double(max(1, result.openSessions))
            let each = share.map { decimal($0 * 1e6 / sessions, 2) } ?? "–"
            var cells = [grouped(result.openSessions), grouped(result.counts.lost), memory]
            cells += [whole(result.bytesPerSession)]
            cells += [whole(result.ledgerBytesPerSession), percent, each]
            cells += [delta?.p50, delta?.p99, delta?.p999].map { MarkdownReport.latency($0) }
            lines.append("| " + cells.joined(separator: " | ") + " |")
        }
        return lines.joined(separator: "\n") + "\n\n" + fits(results)
    }

    private static func fits(_ results: [ScenarioResult]) -> String {
        let memory = results.compactMap { result in
            result.opened.map { (x: Double($0.sessions), y: Double($0.anonymousBytes)) }
        }
        let cpu = results.compactMap { result in
            result.serverCPUSeconds.map {
                (x: Double(result.openSessions), y: $0 / result.measuredSeconds)
            }
        }
        var sentences: [String] = []
        if let fit = LinearFit(memory) {
            sentences.append(
                "Memory: \(grouped(Int(fit.slope.rounded()))) bytes for each further session; no "
                    + "size is further than \(decimal(fit.greatestDeviation * 100))% from the line."
            )
        }
        if let fit = LinearFit(cpu) {
            sentences.append(
                "Processor: \(decimal(fit.slope * 1e6, 2)) µs per session and second; no size is "
                    + "further than \(decimal(fit.greatestDeviation * 100))% from the line.")
        }
        return sentences.joined(separator: " ")
    }
}
