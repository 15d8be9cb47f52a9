// `turn-table --pauses`: the turns that are cut off at a mean wait, in the manner of eot-bench. A score's
// threshold, delay and timeout are tried in all combinations. Of those whose mean wait at true ends stays
// within a budget, the one with the fewest cut-offs counts. Weights are fitted without the source that they
// judge; the combination is chosen on all of them. Intervals: sources are drawn again and again, and the
// combination is chosen anew each time.

import Agents
import Codec
import Foundation
import Session

/// Prints the tables.
struct PauseTable {
    /// Mean waits at true ends, in milliseconds.
    private static let budgets = [300, 400, 600]
    private static let fusions = [
        TurnScoring(), TurnScoring(hasProsody: true), TurnScoring(hasModel: true),
        TurnScoring(hasWords: true), TurnScoring(hasWords: true, hasProsody: true),
        TurnScoring(hasWords: true, hasProsody: true, hasModel: true),
    ]

    let finder: TurnEvents

    func print() async throws {
        let english = try await TurnMaterial.english(finder)
        let cuts = Set(HumanRecording.all.map(\.source))
        sweep("The 39 cuts", english.filter { cuts.contains($0.source) })
        sweep("Pauses that people made, English", english.filter { !cuts.contains($0.source) })
        sweep("Both", english)
        for scoring in Self.fusions.suffix(2) {
            let weights = scoring.fit(english).map { String(format: "%.2f", $0) }
            Swift.print("\(scoring.name), fitted to all: \(weights.joined(separator: " "))\n")
        }
        var others: [TurnEvent] = []
        for language in TurnMaterial.otherLanguages {
            others += try await TurnMaterial.other(language, finder)
        }
        sweep("Spanish, French, Italian and Russian, without words", others)
        bySource(english + others)
        byPatience(english.filter { $0.source == "dictated en" })
        if CommandLine.arguments.contains("--events") { (english + others).forEach(Self.print) }
    }

    /// What each score reaches where its rule is free.
    private func sweep(_ title: String, _ events: [TurnEvent]) {
        let pauses = events.count { !$0.isEnd }
        let sources = Set(events.map(\.source)).count
        Swift.print(
            "\(title): \(pauses) pauses, \(events.count - pauses) ends, \(sources) sources.\n")
        Swift.print("| judged by | 300 ms | 400 ms | 600 ms |\n|---|---|---|---|")
        let hasWords = events.contains { $0.wordsKnown != nil }
        let sweeps = Self.fusions.filter { hasWords || !$0.hasWords }.map {
            (name: $0.name, sweep: Sweep(events, $0))
        }
        for (name, sweep) in sweeps {
            let cells = Self.budgets.map { sweep.cell(within: $0) }
            Swift.print("| \(name) | \(cells.joined(separator: " | ")) |")
        }
        let (last, before) = (sweeps[sweeps.count - 1], sweeps[sweeps.count - 2])
        let cells = Self.budgets.map { last.sweep.difference(to: before.sweep, within: $0) }
        Swift.print("| the last less the one before | \(cells.joined(separator: " | ")) |\n")
    }

    /// What sessions do.
    private func bySource(_ events: [TurnEvent]) {
        let eagernesses: [TurnDetectionParameters.Eagerness] = [.high, .medium, .low]
        let columns = eagernesses.flatMap { ["\($0)", "with Smart Turn"] }
        Swift.print("As sessions are: cut off, and the mean wait.\n")
        Swift.print("| source | pauses | ends | \(columns.joined(separator: " | ")) |")
        Swift.print("|" + String(repeating: "---|", count: columns.count + 3))
        let english = events.filter { $0.wordsKnown != nil }
        let groups =
            [("all in English", english), ("all others", events.filter { $0.wordsKnown == nil })]
            + Set(events.map(\.source)).sorted().map { source in
                (source, events.filter { $0.source == source })
            }
        for (name, events) in groups {
            let cells = eagernesses.flatMap { eagerness in
                [false, true].map { usesModel in
                    Outcome(events) { event in
                        TurnEvent.wait(event.stages(usesModel: usesModel) { $0 }) {
                            TurnEndEstimator(eagerness: eagerness).wait(after: $0)
                        }
                    }.text
                }
            }
            let ends = events.count(where: \.isEnd)
            Swift.print(
                "| \(name) | \(events.count - ends) | \(ends) | "
                    + cells.joined(separator: " | ") + " |")
        }
        Swift.print("")
    }

    /// Groups of dictated digits, with pauses of a length between them.
    private func byPatience(_ events: [TurnEvent]) {
        let pauses = [500, 1_000, 1_500, 2_000]
        Swift.print("Dictated digits: cut off by the pause between groups, and the mean wait.\n")
        Swift.print(
            "| eagerness, patience | " + pauses.map { "\($0) ms" }.joined(separator: " | ")
                + " | wait |\n|" + String(repeating: "---|", count: pauses.count + 2))
        for eagerness in [TurnDetectionParameters.Eagerness.high, .medium, .low] {
            for patience in Patience.allCases {
                let waits = events.map { event in
                    let wait = TurnEvent.wait(event.stages(usesModel: false) { $0 }) {
                        TurnEndEstimator(eagerness: eagerness).wait(after: $0, patience: patience)
                    }
                    return (isEnd: event.isEnd, wait: wait)
                }
                let groups = waits.filter { !$0.isEnd }
                let cells = pauses.map { pause in
                    "\(groups.count { $0.wait < pause }) of \(groups.count)"
                }
                let ends = waits.filter(\.isEnd)
                let mean = ends.reduce(0) { $0 + $1.wait } / max(1, ends.count)
                Swift.print(
                    "| \(eagerness), \(patience) | \(cells.joined(separator: " | ")) | \(mean) ms |"
                )
            }
        }
        Swift.print("")
    }

    private static func print(_ event: TurnEvent) {
        let odds = event.judgements.map { String(format: "%.1f", $0.odds) }.joined(separator: " ")
        Swift.print(
            "event", event.source, event.isEnd ? "end" : "pause \(event.pause ?? -1)",
            event.evidence.ending.map { "\($0)" } ?? "-",
            event.evidence.finality.map { String(format: "%.1f", $0) } ?? "-", "[\(odds)]",
            event.wordsKnown ?? -1, event.words.suffix(60), separator: "\t")
    }
}

extension TurnEvent {
    /// What is known from which silence on, in milliseconds.
    func stages<Known>(
        usesModel: Bool, _ judge: (TurnEndEstimator.Evidence) -> Known
    ) -> [(silence: Int, known: Known)] {
        ([0] + moments(usesModel: usesModel)).map {
            ($0, judge(evidence(after: $0, usesModel: usesModel)))
        }
    }

    /// The silence that ends a turn, in milliseconds.
    static func wait<Known>(
        _ stages: [(silence: Int, known: Known)], _ wait: (Known) -> Int
    ) -> Int {
        for (index, stage) in stages.enumerated() {
            let needed = max(stage.silence, wait(stage.known))
            let isLast = index == stages.count - 1
            if isLast || needed < stages[index + 1].silence { return needed }
        }
        return 0
    }
}

/// Waits and cut-offs of a set of events.
private struct Outcome {
    private(set) var waits: Float = 0
    private(set) var ends: Float = 0
    private(set) var cutOffs: Float = 0
    private(set) var pauses: Float = 0

    init() {}

    init(_ events: [TurnEvent], wait: (TurnEvent) -> Int) {
        for event in events { add(event, wait: wait(event)) }
    }

    mutating func add(_ event: TurnEvent, wait: Int) {
        if event.isEnd {
            waits += Float(wait)
            ends += 1
        } else {
            cutOffs += event.cutOff(after: wait)
            pauses += 1
        }
    }

    mutating func add(_ other: Outcome) {
        waits += other.waits
        ends += other.ends
        cutOffs += other.cutOffs
        pauses += other.pauses
    }

    /// The mean wait at ends, in milliseconds.
    var wait: Float { waits / max(1, ends) }
    /// The share of the pauses that are cut off.
    var share: Float { cutOffs / max(1, pauses) }
    var text: String { String(format: "%.0f%% at %.0f ms", 100 * share, wait) }
}

/// Every combination of threshold, delay and timeout, tried on the events.
private struct Sweep {
    /// For each combination, the outcome of each source.
    private let outcomes: [[Outcome]]

    init(_ events: [TurnEvent], _ scoring: TurnScoring) {
        let sources = Set(events.map(\.source)).sorted()
        var scored: [(event: TurnEvent, source: Int, stages: [(silence: Int, known: Float)])] = []
        for (index, source) in sources.enumerated() {
            let weights = scoring.fit(events.filter { $0.source != source })
            scored += events.filter { $0.source == source }.map { event in
                let stages = event.stages(usesModel: scoring.hasModel) {
                    scoring.score($0, weights)
                }
                return (event, index, stages)
            }
        }
        let scores = scored.map { $0.stages[$0.stages.count - 1].known }.sorted()
        let thresholds =
            scoring == TurnScoring()
            ? [0] : (0...Self.steps).map { scores[$0 * (scores.count - 1) / Self.steps] }
        var outcomes: [[Outcome]] = []
        for threshold in thresholds {
            for delay in Self.delays {
                for timeout in Self.timeouts where timeout >= delay {
                    let rule = TurnEndEstimator.Rule(
                        threshold: threshold, delay: delay, timeout: timeout)
                    var each = [Outcome](repeating: Outcome(), count: sources.count)
                    for (event, source, stages) in scored {
                        each[source].add(
                            event, wait: TurnEvent.wait(stages) { rule.wait(score: $0) })
                    }
                    outcomes.append(each)
                }
            }
        }
        self.outcomes = outcomes
    }

    private static let steps = 24
    private static let delays = Array(stride(from: 200, through: 1_000, by: 50))
    private static let timeouts = [500, 600, 700, 800, 1_000, 1_200, 1_500, 2_000, 3_000, 4_000]
    private static let draws = 400

    /// The fewest cut-offs within a mean wait, and between which shares 90% of the draws lie.
    func cell(within budget: Int) -> String {
        guard let share = best(within: budget, Array(0..<outcomes[0].count)) else { return "–" }
        return Self.percents(share, drawn(within: budget).compactMap(\.self))
    }

    /// By how much it cuts off fewer than another score, on the same draws.
    func difference(to other: Sweep, within budget: Int) -> String {
        let sources = Array(0..<outcomes[0].count)
        guard let own = best(within: budget, sources),
            let others = other.best(within: budget, sources)
        else { return "–" }
        let differences = zip(drawn(within: budget), other.drawn(within: budget)).compactMap {
            own, other in own.flatMap { own in other.map { own - $0 } }
        }
        return Self.percents(own - others, differences)
    }

    private static func percents(_ value: Float, _ drawn: [Float]) -> String {
        let drawn = drawn.sorted()
        return String(
            format: "%.0f%% (%.0f…%.0f)", 100 * value, 100 * drawn[drawn.count / 20],
            100 * drawn[drawn.count * 19 / 20])
    }

    private func drawn(within budget: Int) -> [Float?] {
        let count = outcomes[0].count
        var random = SeededNoise()
        return (0..<Self.draws).map { _ in
            let sources = (0..<count).map { _ in
                min(count - 1, Int((random.next() + 1) / 2 * Float(count)))
            }
            return best(within: budget, sources)
        }
    }

    private func best(within budget: Int, _ sources: [Int]) -> Float? {
        var best: Float?
        for each in outcomes {
            var sum = Outcome()
            for source in sources { sum.add(each[source]) }
            guard sum.ends > 0, sum.pauses > 0, sum.wait <= Float(budget) else { continue }
            best = min(best ?? 1, sum.share)
        }
        return best
    }
}
