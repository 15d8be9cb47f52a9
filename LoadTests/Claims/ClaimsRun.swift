// The course of a run: one claim after the other, and in each round all contenders in a new order.
// The order changes because the machine's speed drifts by more than some contenders differ. A
// sample that cannot be taken is recorded as a failure, and the run goes on.

import CLinux

/// Measures claims.
struct ClaimsRun {
    let claims: [Claim]
    let bench: ClaimBench
    /// The command in the table that repeats a claim.
    let command: (Claim) -> String
    var generator: SplitMix64
    private let begin = monotonicNanoseconds()
    /// The planned time of the samples that are still to be taken, in seconds.
    private var left = 0.0

    init(
        claims: [Claim], bench: ClaimBench, generator: SplitMix64,
        command: @escaping (Claim) -> String
    ) {
        self.claims = claims
        self.bench = bench
        self.generator = generator
        self.command = command
    }

    /// Measures all claims, and reports its progress on standard error.
    /// - Parameter keep: called with all outcomes so far after each claim, because a run is long.
    mutating func run(
        _ keep: ([ClaimOutcome]) throws(LoadFailure) -> Void
    ) throws(LoadFailure) {
        left = claims.reduce(0) { $0 + $1.plannedSeconds }
        var outcomes: [ClaimOutcome] = []
        for claim in claims {
            outcomes.append(measure(claim))
            try keep(outcomes)
        }
    }

    private mutating func measure(_ claim: Claim) -> ClaimOutcome {
        var outcome = ClaimOutcome(
            name: claim.name, title: claim.title, published: claim.published,
            remarks: claim.remarks, command: command(claim))
        outcome.plannedSeconds = claim.plannedSeconds
        outcome.cells = claim.contenders.flatMap { contender in
            claim.measures.map { ClaimOutcome.Cell(contender: contender, measure: $0) }
        }
        let start = monotonicNanoseconds()
        for round in 1...claim.rounds {
            for contender in claim.contenders.shuffled(using: &generator) {
                printError(
                    "\(clock) \(claim.name), round \(round) of \(claim.rounds): "
                        + "\(contender.plainTitle)\n")
                let (result, notes) = bench.attempt(claim, contender)
                switch result {
                case .success(let sample): outcome.add(sample, of: contender)
                case .failure(let failure):
                    printError("  failed: \(failure.reason)\n")
                    outcome.failures[contender.title, default: []].append(failure.reason)
                }
                if !notes.isEmpty { outcome.notes[contender.title, default: []] += notes }
                outcome.samples += 1
                left -= claim.seconds
            }
        }
        outcome.neededSeconds = Double(monotonicNanoseconds() - start) / 1e9
        return outcome
    }

    /// The time so far, of the time expected: that so far and the plan of what is left.
    private var clock: String {
        let seconds = Double(monotonicNanoseconds() - begin) / 1e9
        return "[\(minutes(seconds)) of about \(minutes(seconds + left))]"
    }
}

extension ClaimOutcome {
    fileprivate mutating func add(_ sample: Claim.Sample, of contender: Contender) {
        for index in cells.indices where cells[index].contender == contender {
            if let value = sample[cells[index].measure.word] { cells[index].values.append(value) }
        }
    }
}

/// Seconds as minutes and seconds, `31:07`.
func minutes(_ seconds: Double) -> String {
    let whole = Int(seconds.rounded())
    return "\(whole / 60):" + (whole % 60 < 10 ? "0" : "") + "\(whole % 60)"
}
