// Reports: tables, plots, the line of progress, and the figures in them.

import Foundation
import Testing

@testable import parley_load

@Suite struct ReportTests {
    private func result() -> ScenarioResult {
        var scenario = Scenario(.echo)
        (scenario.sessions, scenario.name) = (2_000, "e<1>")
        var result = ScenarioResult(scenario: scenario, target: "Parley", counts: LoadCounts())
        result.counts.begun = 2_000
        result.latencies[.echo] = LatencySummary(
            count: 9, mean: 1, p50: 0.5, p90: 1, p95: 1.5, p99: 2, p999: 3, max: 1_234.5)
        func sample(_ sessions: Int, _ bytes: Int, _ ledger: Double) -> ServerSample {
            ServerSample(
                sessions: sessions, anonymousBytes: bytes, residentBytes: bytes,
                ledgerBytes: ledger,
                cpuSeconds: 0)
        }
        result.before = sample(0, 4_000_000, 1_000)
        result.opened = sample(2_000, 6_000_000, 1_801_000)
        result.with = sample(2_000, 8_000_000, 3_801_000)
        result.after = sample(0, 4_100_000, 1_000)
        (result.measuredSeconds, result.serverCPUSeconds) = (10, 2)
        result.timeline = [
            TimelinePoint(seconds: 0, open: 0, rate: 0, residentBytes: 4_000_000),
            TimelinePoint(
                seconds: 5, open: 2_000, rate: 100, p50: 0.5, p99: 2, residentBytes: 8_000_000),
        ]
        (result.command, result.machine, result.date) = ("parley-load run echo", "a machine", "now")
        return result
    }

    @Test func memoryPerSessionIsTheServersGrowthPerSession() {
        #expect(result().bytesPerSession == 1_000)
        #expect(result().ledgerBytesPerSession == 900)
        #expect(result().busyBytesPerSession == 2_000)
        #expect(((result().ledgerDifferencePercent ?? 0) + 5).magnitude < 1e-9)
    }

    /// Of 100 deltas, 90 took 0 to 4 ms and 10 took 4 to 5 ms.
    @Test func theServersOwnDelayIsInterpolatedWithinItsBuckets() throws {
        func page(_ counts: [Int]) -> MetricsPage {
            let bounds = ["0.004", "0.005", "+Inf"]
            return MetricsPage(
                parsing: zip(bounds, counts).map { bound, count in
                    "parley_delta_delay_seconds_bucket{le=\"\(bound)\"} \(count)\n"
                }.joined())
        }
        let earlier = page([7, 7, 7])
        #expect(DelayEstimate(earlier, since: earlier) == nil)
        let delay = try #require(DelayEstimate(page([97, 107, 107]), since: earlier))
        #expect((delay.p90 - 4).magnitude < 1e-9 && (delay.p99 - 4.9).magnitude < 1e-9)
        var result = result()
        result.serverDeltaDelay = delay
        #expect(MarkdownReport.details(result).contains("ms | 2.22 / 4.00 / 4.90 / 4.99 |"))
    }

    /// Turns that are due while another one is late are counted as open.
    @Test func turnsThatNeverBeganCountAsOpen() {
        var result = result()
        (result.counts.turnsBegun, result.counts.turnsCompleted) = (10, 9)
        result.counts += result.counts
        result.counts.turnsNeverBegun = 3
        #expect(result.turnsOpen == 5)
        #expect(MarkdownReport.details(result).contains("| 20 / 18 / 0 / 0 / 3 |"))
    }

    @Test func lostSessionsAreShownAndFailACommand() {
        var result = result()
        #expect(throws: Never.self) { try result.checkNoSessionWasLost() }
        result.counts.lost = 500
        result.opened?.sessions = 1_500
        result.errors = ["refused": 500]
        #expect(throws: LoadFailure.self) { try result.checkNoSessionWasLost() }
        #expect(ScaleCommand.heading([result]).contains("| 1,500 | 500 | 6.0 | 1,333 |"))
    }

    /// The server's default limit would refuse half of the sessions.
    @Test func theHarnesssServerAllowsAllPlannedSessions() {
        var scenario = Scenario(.idle)
        scenario.sessions = 19_800
        let options = LocalParley.room(for: scenario, in: 1)
        #expect(options == ["--max-connections", "20100", "--max-sessions", "20000"])
        scenario.sessions = 100_000
        #expect(LocalParley.room(for: scenario, in: 6).last == "16867")
    }

    /// The summary does not mix work in an event loop with work in a pool, and has a row for each
    /// published claim.
    @Test func theSummaryNamesHowEachStackWasMeasured() {
        let measure = Measure(word: "p99", title: "p99", unit: "ms")
        let published = ["first", "second"].map {
            PublishedClaim(
                text: $0, source: .tables,
                conditions: [
                    .figure(
                        Contender(stack: .node, variant: "in its loop"), measure: "p99",
                        in: ClaimBounds(least: 150))
                ])
        }
        var outcome = ClaimOutcome(
            name: "hot", title: "Hot", published: published, remarks: "", command: "c")
        outcome.cells = [("in its loop", 300.0), ("in a thread", 5)].map {
            ClaimOutcome.Cell(
                contender: Contender(stack: .node, variant: $0.0), measure: measure,
                values: [$0.1, $0.1, $0.1])
        }
        outcome.cells.append(
            ClaimOutcome.Cell(
                contender: Contender(stack: .parley, variant: "on its worker pool"),
                measure: measure, values: [10, 11, 12]))
        let report = ClaimsReport(machine: "", date: "", command: "", outcomes: [outcome])
        #expect(
            report.markdown.contains(
                "| [Hot](#hot): p99 | first | 300.0 ms (in its loop); 5.0 ms (in a thread) | – "
                    + "| 11.0 ms (on its worker pool) | behind: 2.20 × Node 24, ws, in a thread "
                    + "| reproduced |\n|  | second |  |  |  |  | reproduced |"))
    }

    @Test func theOverviewHasOneLineForEachResult() {
        let lines = MarkdownReport.overview([result(), result()]).split(separator: "\n")
        #expect(lines.count == 4)
        #expect(
            lines[2]
                == "| e<1> | Parley | 2,000 | 0 | message and echo | 0.50 | 2.00 | 3.00 | 1,235 "
                + "| 20.0% | 4.0 → 8.0 → 4.1 MB | 1,000 | -5.0% |")
        let cells = lines.map { $0.split(separator: "|").count }
        #expect(Set(cells).count == 1)
    }

    @Test func aReportNamesItsCommandDateAndMachine() {
        let text = MarkdownReport(results: [result()]).text
        #expect(text.contains("Command: `parley-load run echo`\nnow, a machine."))
        #expect(text.contains("| ledger against the process's growth | – | -10.0% | -5.0% | – |"))
    }

    @Test func aResultIsReadBackFromItsFile() throws {
        let data = try JSONEncoder().encode(result())
        let read = try JSONDecoder().decode(ScenarioResult.self, from: data)
        #expect(read.latencies == result().latencies)
        #expect(read.scenario == result().scenario)
        #expect(read.timeline == result().timeline)
    }

    @Test func theLineOfProgressShowsSessionsAndErrors() {
        let point = TimelinePoint(
            seconds: 12.34, open: 12_345, rate: 678.9, p50: 0.21, p99: 3.456,
            residentBytes: 25_000_000)
        #expect(
            LiveProgress.line(title: "chat, Parley", phase: "measuring", point, errors: 3)
                == "chat, Parley: measuring 12.3 s · 12,345 open · 678/s · 3 errors "
                + "· p50 0.21 p99 3.46 ms · server 25.0 MB")
    }

    @Test func axesHaveRoundNumbers() {
        let axis = Axis(covering: [3, 97], fromZero: true)
        #expect(axis.range == 0...100)
        #expect(axis.ticks == [0, 20, 40, 60, 80, 100])
        let small = Axis(covering: [0.0012, 0.0034], fromZero: true)
        #expect(small.ticks.map(small.label) == ["0.000", "0.001", "0.002", "0.003", "0.004"])
        #expect(Axis(covering: [], fromZero: true).ticks.count > 1)
        #expect(Axis(covering: [5, 5], fromZero: false).ticks.count > 1)
    }

    @Test func plotsAreWellFormedAndLabelled() throws {
        let plots =
            ResultPlots.all(of: result()).map(\.plot)
            + Array(ResultPlots.overSessions([result()]).values)
        #expect(plots.count == 6)
        for plot in plots {
            #expect(isBalanced(plot), "\(plot.prefix(300))")
            // A number that is not finite would be written so.
            #expect(["nan", "inf", "Optional"].allSatisfy { !plot.contains($0) })
        }
        #expect(plots[0].contains("e&lt;1&gt;"))
        #expect(plots[0].contains(">open sessions</text>"))
        #expect(plots[0].contains(">time, s</text>"))
    }

    /// Whether every element that is opened is also closed.
    private func isBalanced(_ text: String) -> Bool {
        var open: [Substring] = []
        for piece in text.split(separator: "<") {
            let tag = piece.prefix { $0 != ">" }
            if tag.hasPrefix("/") {
                guard open.popLast() == tag.dropFirst() else { return false }
            } else if !tag.hasSuffix("/") {
                open.append(tag.prefix { $0 != " " })
            }
        }
        return open.isEmpty
    }

    @Test func theFitThroughPointsOnALineIsThatLine() throws {
        let fit = try #require(LinearFit([(x: 1, y: 5), (x: 2, y: 7), (x: 5, y: 13)]))
        #expect((fit.slope - 2).magnitude < 1e-9)
        #expect((fit.intercept - 3).magnitude < 1e-9)
        #expect(fit.greatestDeviation < 1e-9)
        let bent = try #require(LinearFit([(x: 1, y: 1), (x: 2, y: 1), (x: 3, y: 10)]))
        #expect(bent.greatestDeviation > 0.1)
        #expect(LinearFit([(x: 1, y: 1)]) == nil)
    }
}
