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

    /// Measures all claims, and reports its progress on standard error.
    /// - Parameter keep: called with all outcomes so far after each claim, because a run is long.
    mutating func run(
        _ keep: ([ClaimOutcome]) throws(LoadFailure) -> Void
    ) throws(LoadFailure) {
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
        outcome.cells = claim.contenders.flatMap { contender in
            claim.measures.map { ClaimOutcome.Cell(contender: contender, measure: $0) }
        }
        for round in 1...claim.rounds {
            for contender in claim.contenders.shuffled(using: &generator) {
                let plain = contender.title.replacing("**", with: "")
                printError("\(claim.name), round \(round) of \(claim.rounds): \(plain)\n")
                do throws(LoadFailure) {
                    outcome.add(try claim.sample(bench, contender), of: contender)
                } catch {
                    printError("  failed: \(error.reason)\n")
                    outcome.failures[contender.title, default: []].append(error.reason)
                }
            }
        }
        return outcome
    }
}

extension ClaimOutcome {
    fileprivate mutating func add(_ sample: Claim.Sample, of contender: Contender) {
        for index in cells.indices where cells[index].contender == contender {
            if let value = sample[cells[index].measure.word] { cells[index].values.append(value) }
        }
    }
}
