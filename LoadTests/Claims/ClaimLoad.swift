// Runs a scenario against a server under test, with the generator on the load's core.

import CLinux

extension ClaimBench {
    /// Runs a scenario once.
    /// - Parameter mayFallBehind: whether turns may be open at the end, because the claim reports
    ///   them. Otherwise they are a failure.
    /// - Throws: `LoadFailure` when it cannot be carried out, or a session or turn has failed.
    func run(
        _ scenario: Scenario, against server: ClaimServer, mayFallBehind: Bool = false
    ) throws(LoadFailure) -> ScenarioResult {
        var scenario = scenario
        // No claim is about it.
        scenario.measuresAfter = false
        let run = ScenarioRun(
            scenario: scenario, target: server.target, core: Self.loadCore, isQuiet: true)
        let result = try run.run()
        let counts = result.counts
        guard counts.lost == 0, counts.opened == scenario.sessions else {
            throw LoadFailure(
                "\(counts.opened) of \(scenario.sessions) sessions opened, \(counts.lost) lost"
                    + reasons(result))
        }
        guard counts.turnsFailed == 0, result.errors.isEmpty else {
            throw LoadFailure("\(counts.turnsFailed) turns failed\(reasons(result))")
        }
        guard mayFallBehind || result.turnsOpen == 0 else {
            throw LoadFailure(
                "\(counts.turnsBegun) turns begun, \(counts.turnsCompleted) completed, "
                    + "\(counts.turnsNeverBegun) due and never begun")
        }
        return result
    }

    private func reasons(_ result: ScenarioResult) -> String {
        let most = result.errors.max { ($0.value, $0.key) < ($1.value, $1.key) }
        return most.map { ": \($0.key) (\($0.value) times)" } ?? ""
    }

    /// Pins this process, and those that it starts, to the load's core.
    func keepToLoadCore() throws(LoadFailure) {
        let words = ["-acp", "\(Self.loadCore)", "\(getpid())"]
        let process = try PinnedProcess(
            ["/usr/bin/taskset"] + words, core: nil, isTalking: true)
        while process.readLine() != nil {}
    }
}
