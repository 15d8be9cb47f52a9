// The course of a load run: open the sessions, let them work, end them, and measure the server
// before and after each step. Worker processes have the sessions; this class keeps the schedule and
// adds up the results.

import CLinux
import Foundation

/// One run of a scenario against a target.
final class ScenarioRun {
    /// Default number of sessions of one worker.
    private static let sessionsPerWorker = 5_000
    /// The recording that speaking sessions send, from Debian's pocketsphinx-testdata.
    static let standardRecording =
        "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0880.wav"

    private let scenario: Scenario
    private let target: Target
    private let probe: ServerProbe
    private let workerCount: Int
    private let core: Int?
    private let progress: LiveProgress
    private let recording: String
    /// Called twice a second while it runs.
    var onStep: (() -> Void)?

    private var latest: [WorkerProgress?] = []
    private var results: [WorkerResult?] = []
    private var phases: [Int] = []
    private var begin: Int64 = 0
    private var openingSeconds = 0.0
    private var timeline: [TimelinePoint] = []
    private var nextStep: Int64 = 0
    private var lastReceived = 0
    private var interval = LatencyHistogram()

    /// Plans a run.
    /// - Parameters:
    ///   - workers: generator processes; nil: one for every 5,000 sessions.
    ///   - core: the core that the workers share; nil: not pinned.
    ///   - isQuiet: whether no progress is shown.
    init(
        scenario: Scenario, target: Target, workers: Int? = nil, core: Int? = nil,
        isQuiet: Bool = false, recording: String = ScenarioRun.standardRecording
    ) {
        self.scenario = scenario
        self.target = target
        self.core = core
        self.recording = recording
        probe = ServerProbe(target)
        workerCount =
            workers
            ?? max(
                1,
                (scenario.sessions + Self.sessionsPerWorker - 1)
                    / Self.sessionsPerWorker)
        progress = LiveProgress(
            title: "\(scenario.name), \(target.name)", isQuiet: isQuiet)
    }

    /// Runs the scenario once.
    /// - Throws: `LoadFailure` when it cannot be carried out. The server's errors under load are in
    ///   the result.
    func run() throws(LoadFailure) -> ScenarioResult {
        var result = ScenarioResult(scenario: scenario, target: target.name, counts: LoadCounts())
        (result.date, result.machine) = (Machine.date, Machine.description)
        result.command = CommandLine.arguments.map(Machine.shellWord).joined(separator: " ")
        if scenario.warmUp { try warmUp() }
        result.before = try probe.sample(sessions: 0)
        begin = monotonicNanoseconds() + 500_000_000
        nextStep = begin
        let workers = try start(scenario, workers: workerCount)
        let spentBefore = probe.cpuSeconds
        try open(workers)
        result.openingSeconds = openingSeconds
        result.openingCPUSeconds = probe.isPossible ? probe.cpuSeconds - spentBefore : nil
        try pump(workers, seconds: scenario.settleSeconds)
        result.opened = try probe.sample(sessions: openSessions)
        try measure(workers, &result)
        try workers.call(.end)
        try pump(workers, until: monotonicNanoseconds() + 30_000_000_000) { self.hasAll(4) }
        if scenario.measuresAfter {
            try pump(workers, seconds: scenario.settleSeconds + 1)
            result.after = try probe.sample(sessions: 0)
        }
        progress.finish()
        result.timeline = timeline
        return result
    }

    private func start(
        _ scenario: Scenario, workers: Int
    ) throws(LoadFailure) -> WorkerGroup {
        latest = .init(repeating: nil, count: workers)
        results = .init(repeating: nil, count: workers)
        phases = .init(repeating: 0, count: workers)
        return try WorkerGroup(
            WorkerOrder(
                scenario: scenario, urls: target.urls, worker: 0, workers: workers,
                start: max(begin, monotonicNanoseconds()), recording: recording),
            executable: Machine.executable, core: core)
    }

    /// Opens and closes some sessions of the same kind before memory is measured, so that shared
    /// memory and the cost of a first session are not counted.
    private func warmUp() throws(LoadFailure) {
        let workers = try start(scenario.warmingUp, workers: 1)
        // The warm-up is not part of the timeline.
        nextStep = .max
        defer { interval.reset() }
        let patience = monotonicNanoseconds() + 60_000_000_000
        try pump(workers, until: patience) { self.hasAll(1) }
        let now = monotonicNanoseconds()
        let length = Int64(scenario.warmingUp.seconds * 1e9)
        try workers.call(.measure(begin: now, end: now + length))
        try pump(workers, until: patience) { self.hasAll(3) }
        try workers.call(.end)
        try pump(workers, until: patience) { self.hasAll(4) }
        try pump(workers, seconds: 0.5)
        guard hasAll(4) else { throw LoadFailure("the server does not answer the first sessions") }
    }

    private func open(_ workers: WorkerGroup) throws(LoadFailure) {
        progress.phase = "opening"
        let planned = Int64(Double(scenario.sessions) / scenario.connectRate * 1e9)
        try pump(workers, until: begin + planned + 60_000_000_000) { self.hasAll(1) }
        guard hasAll(1) else {
            throw LoadFailure("\(openSessions) of \(scenario.sessions) sessions opened in time")
        }
        openingSeconds = Double(monotonicNanoseconds() - begin) / 1e9
    }

    private func measure(
        _ workers: WorkerGroup, _ result: inout ScenarioResult
    ) throws(LoadFailure) {
        progress.phase = "measuring"
        let start = monotonicNanoseconds() + 100_000_000
        let end = start + Int64(scenario.seconds * 1e9)
        try workers.call(.measure(begin: start, end: end))
        // Processor time is measured over the same time as the deltas' delays.
        try pump(workers, until: start + Int64(scenario.rampSeconds * 1e9)) { false }
        let spentBefore = generatorSeconds(workers)
        let serverBefore = probe.cpuSeconds
        let pageBefore = try probe.metrics()
        let began = monotonicNanoseconds()
        try pump(workers, until: end) { false }
        result.measuredSeconds = Double(monotonicNanoseconds() - began) / 1e9
        result.serverCPUSeconds = probe.isPossible ? probe.cpuSeconds - serverBefore : nil
        result.generatorCPUSeconds = generatorSeconds(workers) - spentBefore
        result.with = try probe.sample(sessions: openSessions)
        if let pageBefore, let page = try probe.metrics() {
            result.serverDeltaDelay = DelayEstimate(page, since: pageBefore)
        }
        progress.phase = "ending"
        try pump(workers, until: end + 30_000_000_000) { self.hasAll(3) }
        guard hasAll(3) else { throw LoadFailure("a worker does not come to an end") }
        var latencies = LatencyRecorder()
        for case let part? in results {
            result.counts += part.counts
            for (reason, count) in part.errors { result.errors[reason, default: 0] += count }
            latencies.add(part.latencies)
        }
        result.latencies = latencies.summaries
    }

    private func generatorSeconds(_ workers: WorkerGroup) -> Double {
        workers.identifiers.reduce(0) { $0 + Double(processorNanoseconds(of: $1)) / 1e9 }
    }

    // MARK: Reports

    private var openSessions: Int { latest.reduce(0) { $0 + ($1?.open ?? 0) } }

    private func hasAll(_ phase: Int) -> Bool { phases.allSatisfy { $0 >= phase } }

    private func pump(_ workers: WorkerGroup, seconds: Double) throws(LoadFailure) {
        try pump(workers, until: monotonicNanoseconds() + Int64(seconds * 1e9)) { false }
    }

    private func pump(
        _ workers: WorkerGroup, until deadline: Int64, or isDone: () -> Bool
    ) throws(LoadFailure) {
        while !isDone() {
            let now = monotonicNanoseconds()
            guard now < deadline else { return }
            if now >= nextStep { takeStep(at: now) }
            try workers.gather(until: min(deadline, nextStep)) { handle($0, $1) }
        }
    }

    private func handle(_ worker: Int, _ report: WorkerReport) {
        switch report {
        case .progress(let progress):
            latest[worker] = progress
            interval.add(progress.interval)
        case .opened: phases[worker] = max(phases[worker], 1)
        case .measured(let result):
            phases[worker] = 3
            results[worker] = result
        case .ended: phases[worker] = 4
        case .failed: break
        }
    }

    /// Adds a point to the timeline, and shows the line of progress.
    private func takeStep(at now: Int64) {
        nextStep += 500_000_000
        if nextStep < now { nextStep = now + 500_000_000 }
        let seconds = Double(now - begin) / 1e9
        guard seconds >= 0 else { return }
        let received = latest.reduce(0) {
            $0 + ($1?.counts.messagesReceived ?? 0) + ($1?.counts.opened ?? 0)
        }
        let past = timeline.last.map { seconds - $0.seconds } ?? 0.5
        let point = TimelinePoint(
            seconds: seconds, open: openSessions,
            rate: Double(received - lastReceived) / max(past, 0.001),
            p50: interval.milliseconds(atPercentile: 50),
            p99: interval.milliseconds(atPercentile: 99), residentBytes: probe.residentBytes)
        lastReceived = received
        interval.reset()
        timeline.append(point)
        onStep?()
        progress.show(point, errors: latest.reduce(0) { $0 + ($1?.errors ?? 0) })
    }
}
