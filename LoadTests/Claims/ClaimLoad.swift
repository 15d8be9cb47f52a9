// The claims' use of the load harness: a scenario against a server under test, everything but that
// server on the load's core.

import CLinux

extension ClaimBench {
    /// Runs a scenario once.
    /// - Parameter mayFallBehind: whether turns may be open at the end, which the claim then
    ///   reports; otherwise they are a failure.
    /// - Throws: `LoadFailure` when it cannot be carried out, or anything in it went wrong.
    func run(
        _ scenario: Scenario, against server: ClaimServer, mayFallBehind: Bool = false
    ) throws(LoadFailure) -> ScenarioResult {
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

    /// Puts this process and those that it starts on the load's core.
    func keepToLoadCore() throws(LoadFailure) {
        let words = ["-acp", "\(Self.loadCore)", "\(getpid())"]
        let process = try PinnedProcess(
            ["/usr/bin/taskset"] + words, core: nil, isTalking: true)
        while process.readLine() != nil {}
    }
}
