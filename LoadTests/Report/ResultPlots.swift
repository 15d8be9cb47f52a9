// The plots of one result, and of several results of growing size.

/// Plots by file names.
enum ResultPlots {
    /// The plots of one run: sessions, messages, latency and memory over time.
    static func all(of result: ScenarioResult) -> [(name: String, plot: String)] {
        let name = fileName(result)
        let title = "\(result.scenario.name), \(result.target)"
        let points = result.timeline
        func series(_ name: String, _ value: (TimelinePoint) -> Double?) -> SVGPlot.Series {
            SVGPlot.Series(
                name: name,
                points: points.compactMap { point in
                    value(point).map { (point.seconds, $0) }
                })
        }
        var plots = [
            (
                "\(name)-sessions.svg",
                SVGPlot(
                    title: "Sessions over time: \(title)", xLabel: "time, s",
                    yLabel: "open sessions", series: [series("open") { Double($0.open) }]
                ).text
            )
        ]
        if points.contains(where: { $0.p50 != nil }), let kind = result.mainLatency?.kind {
            plots.append(
                (
                    "\(name)-latency.svg",
                    SVGPlot(
                        title: "Latency over time: \(title)", xLabel: "time, s",
                        yLabel: "\(kind.title), ms",
                        series: [series("p50") { $0.p50 }, series("p99") { $0.p99 }]
                    ).text
                ))
        }
        if points.contains(where: { $0.residentBytes != nil }) {
            plots.append(
                (
                    "\(name)-memory.svg",
                    SVGPlot(
                        title: "The server's memory over time: \(title)", xLabel: "time, s",
                        yLabel: "resident memory, MB",
                        series: [series("resident") { $0.residentBytes.map { Double($0) / 1e6 } }]
                    ).text
                ))
        }
        return plots
    }

    /// The plots of several runs with different numbers of sessions.
    static func overSessions(_ results: [ScenarioResult]) -> [String: String] {
        func series(
            _ name: String, _ value: (ScenarioResult) -> Double?
        ) -> SVGPlot.Series {
            SVGPlot.Series(
                name: name,
                points: results.compactMap { result in
                    value(result).map { (Double(result.scenario.sessions), $0) }
                }, isMarked: true)
        }
        let memory = [
            series("anonymous memory") { $0.opened.map { Double($0.anonymousBytes) / 1e6 } },
            series("ledger") { $0.opened?.ledgerBytes.map { $0 / 1e6 } },
        ].filter { !$0.points.isEmpty }
        let kind = results.first?.mainLatency?.kind.title ?? "latency"
        return [
            "memory-over-sessions.svg": SVGPlot(
                title: "Memory over sessions", xLabel: "open sessions", yLabel: "memory, MB",
                series: memory
            ).text,
            "latency-over-sessions.svg": SVGPlot(
                title: "Latency over sessions", xLabel: "open sessions", yLabel: "\(kind), ms",
                series: [
                    series("p50") { $0.mainLatency?.summary.p50 },
                    series("p99") { $0.mainLatency?.summary.p99 },
                ]
            ).text,
            "cpu-over-sessions.svg": SVGPlot(
                title: "Processor time over sessions", xLabel: "open sessions",
                yLabel: "the server's share of a core, %",
                series: [
                    series("server") { result in
                        result.serverCPUSeconds.map { $0 / result.measuredSeconds * 100 }
                    }
                ]
            ).text,
        ]
    }

    private static func fileName(_ result: ScenarioResult) -> String {
        let words = "\(result.scenario.name)-\(result.scenario.sessions)-\(result.target)"
        return words.lowercased().split { !$0.isLetter && !$0.isNumber }.joined(separator: "-")
    }
}
