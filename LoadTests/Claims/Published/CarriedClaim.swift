// The claim about the turns that a core carries: the load at which deltas begin to be late. Unlike
// the p99 under a light load it does not depend on the noise of the machine, which is of the same
// size there for all stacks.

import CLinux

extension Claim {
    /// The delay of a delta, p99 in ms, at which a core no longer carries its turns.
    static let lateness = 20.0

    /// Turns at 50 deltas a second that one core carries.
    static func carried(_ size: ClaimSize) -> Claim {
        let parley = Contender(stack: .parley)
        // The step that each stack held in the round before, from which the next round begins.
        let known = KnownSteps()
        return Claim(
            name: "carried", title: "Turns that a core carries",
            published: [
                PublishedClaim(
                    text: "Parley carries more turns on a core than every other stack",
                    source: .aim, conditions: [.leads(parley, measure: "turns")]),
                PublishedClaim(
                    text: "p99 140 ms (Node) and 180 ms (FastAPI): Node is the quicker one",
                    source: .tables,
                    conditions: [
                        .ratio(
                            Contender(stack: .node), to: Contender(stack: .fastapi),
                            measure: "turns", in: ClaimBounds(least: 1))
                    ]),
            ],
            measures: [
                Measure(
                    word: "turns", title: "turns at 50 deltas/s with p99 ≤ 20 ms", unit: "",
                    places: 0, isGain: true),
                Measure(word: "p99", title: "p99 at that number", unit: "ms", places: 1),
                Measure(word: "busy", title: "server's CPU of its core", unit: "%", places: 0),
                Measure(word: "load", title: "generator's CPU of its core", unit: "%", places: 0),
            ],
            contenders: size.chatAgents.map { Contender(stack: $0) }, rounds: size.rounds,
            seconds: (size.stepResolution > 1 ? 3.5 : 5.2) * (size.stepSeconds + 3.5),
            remarks: """
                Steps of 9% (the eighth root of 2) between \(StepSearch.load(of: 0)) and \
                \(grouped(StepSearch.load(of: StepSearch.highest))) turns, all in flight for \
                \(decimal(size.stepSeconds)) s: strides from \
                \(StepSearch.load(of: KnownSteps.start)) turns until one holds and another does not, \
                then halves between them; later rounds begin at the step of the round before. A \
                step holds when every turn ends well and the p99 of a delta's delay is at most \
                \(Int(lateness)) ms. After a step that does not, the server is a fresh one. \
                The generator and the model share the other core.
                """
        ) { (bench, contender) throws(LoadFailure) in
            try CarriedSearch(bench: bench, stack: contender.stack, size: size, known: known).run()
        }
    }
}

/// The steps that the stacks held in earlier rounds.
private final class KnownSteps {
    /// The step from which an unknown stack is tried: 200 turns.
    static let start = 24
    var held: [Stack: Int] = [:]
}

/// One search on one stack.
private struct CarriedSearch {
    let bench: ClaimBench
    let stack: Stack
    let size: ClaimSize
    let known: KnownSteps

    func run() throws(LoadFailure) -> Claim.Sample {
        var search =
            known.held[stack].map { StepSearch(from: $0, stride: 1) }
            ?? StepSearch(
                from: KnownSteps.start, stride: 4, resolution: size.stepResolution)
        var server: ClaimServer?
        var best: Claim.Sample = [:]
        var reason = "no step was tried"
        while let step = search.next {
            do throws(LoadFailure) {
                let isFresh = server == nil
                if isFresh { server = try bench.start(stack) }
                guard let server else { break }
                best = try sample(StepSearch.load(of: step), on: server, isFresh: isFresh)
                search.take(holds: true)
            } catch {
                reason = bench.explained(error).reason
                // The next step gets a new server: unfinished work would burden it.
                server = nil
                bench.forgetProcesses()
                search.take(holds: false)
            }
        }
        guard search.held >= 0 else {
            throw LoadFailure("not even \(StepSearch.load(of: 0)) turns: \(reason)")
        }
        if search.held < StepSearch.highest {
            bench.note("not more: \(reason)")
        }
        known.held[stack] = search.held
        return best
    }

    /// Runs a step.
    /// - Throws: `LoadFailure` when the server does not hold it.
    private func sample(
        _ turns: Int, on server: ClaimServer, isFresh: Bool
    ) throws(LoadFailure) -> Claim.Sample {
        var scenario = Claim.turnsInFlight(turns, of: turns, rate: 50, seconds: size.stepSeconds)
        scenario.warmUp = isFresh
        scenario.settleSeconds = 0.2
        scenario.turnPatience = 2
        let result = try bench.run(scenario, against: server)
        try server.checkIsRunning()
        guard let delta = result.latencies[.delta] else { throw LoadFailure("no delta came") }
        guard delta.p99 <= Claim.lateness else {
            throw LoadFailure("\(turns) turns, p99 \(decimal(delta.p99)) ms")
        }
        var sample = ["turns": Double(turns), "p99": delta.p99]
        sample["load"] = result.generatorCPUSeconds / result.measuredSeconds * 100
        if let seconds = result.serverCPUSeconds {
            sample["busy"] = seconds / result.measuredSeconds * 100
        }
        return sample
    }
}
