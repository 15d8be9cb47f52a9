// `parley-load run`: the command line of a scenario.

import ArgumentParser

/// Runs one scenario.
struct RunCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Run a scenario against a Parley of its own, or against any server.",
        discussion: """
            SCENARIO is one of
              idle          sessions that are open and silent
              storm         sessions that connect at a high rate
              echo          binary messages on a fixed schedule, sent back by /debug/echo
              chat          turns as text against a scripted model
              voice         Opus packets of 20 ms in real time, spoken replies
              mixed         some speak, some chat, the rest is idle
              barge-in      every reply is interrupted by speech
              slow-readers  some never read what they are sent (counted as lost after 5 s)
              churn         sessions stay for seconds, come and go
              reconnect     all are cut off at once and come back; with --resume to their sessions
            or a file (`parley-load fields` lists its fields), or the name of one in \
            LoadTests/scenarios.

            It is an open loop: actions are due by the clock, whatever the server does, and \
            every latency counts from the time at which the action was due. Latencies are from \
            histograms with three digits; memory is Anonymous of smaps_rollup, after 64 \
            sessions have come and gone, so that shared memory is not counted; the server's \
            own ledger stands beside it where its /metrics has one.

            Without --target, the harness starts .build/release/parley on a core of its own, and \
            the scripted model beside itself. With --target, any server will do that speaks the \
            Realtime protocol's text events at /v1/realtime; it finds its model itself \
            (`parley-load model`). With --pid its memory and processor time are measured too.

            The table goes to standard output; with --output also results.json, results.md and \
            plots (SVG).

            EXAMPLES
              parley-load run idle --sessions 10000
              parley-load run chat --sessions 10000 --set chatting=1000 --set tokens=500 \
            --set 'turn-every=11 s' --seconds 60 --output .build/load/chat
              parley-load run mixed --set 'replies=false' --seconds 120
              parley-load run idle --tls --sessions 10000
              parley-load run reconnect --resume --sessions 5000
              parley-load run chat --target ws://127.0.0.1:9000 --pid 4711 --name 'Node 24, ws'
              parley-load run my-evening.yaml
            """)

    @Argument(help: "What the sessions do.")
    var scenario: String

    @Option(help: "Sessions in all (as --set sessions=N).")
    var sessions: Int?

    @Option(help: "Seconds of the measured part (as --set 'duration=N s').")
    var seconds: Double?

    @Flag(help: "Ask for sessions that can be resumed (as --set resume=true).")
    var resume = false

    @Option(
        name: .customLong("set"), parsing: .singleValue,
        help: ArgumentHelp(
            "Set a field; `parley-load fields` lists them.", valueName: "field=value"))
    var settings: [String] = []

    @OptionGroup var load: LoadOptions

    func run() throws {
        try reportingFailures { () throws(LoadFailure) in
            var plan = try ScenarioFile.scenario(scenario)
            if let sessions { try ScenarioFile.apply("sessions=\(sessions)", to: &plan) }
            if let seconds { try ScenarioFile.apply("duration=\(seconds) s", to: &plan) }
            if resume { try ScenarioFile.apply("resume=true", to: &plan) }
            for setting in settings { try ScenarioFile.apply(setting, to: &plan) }
            try ScenarioFile.check(plan)
            let result = try load.run(plan)
            try load.report([result])
        }
    }
}

/// The options of all commands that run scenarios.
struct LoadOptions: ParsableArguments {
    @Option(help: "A server's address, as ws://host:port; without it, Parley is started.")
    var target: String?

    @Option(parsing: .singleValue, help: "A process of that server; may be given several times.")
    var pid: [Int32] = []

    @Option(help: "That server's name in reports.")
    var name = "server"

    @Flag(help: "That server is a Parley, whose /metrics can be read.")
    var metrics = false

    @Option(help: "Parley's binary, where it is started.")
    var parley = ".build/release/parley"

    @Option(help: "Parley's shards, 1…64, where it is started.")
    var shards = 1

    @Flag(help: "Sessions on TLS, where Parley is started.")
    var tls = false

    @Flag(help: "Speech by Parley's own models instead of the script's, where it is started.")
    var ownSpeech = false

    @Option(
        parsing: .singleValue,
        help: "An option of `parley serve`, as --serve=--compression=false, where it is started.")
    var serve: [String] = []

    @Flag(inversion: .prefixedNo, help: "Give the server a core of its own.")
    var pinned = true

    @Option(help: "Generator processes; without it, one for every 5,000 sessions.")
    var workers: Int?

    @Option(help: "What speaking sessions say: a WAV file.")
    var recording = ScenarioRun.standardRecording

    @Option(help: "Write results.json, results.md and plots into this folder.")
    var output: String?

    @Flag(help: "Show nothing while it runs.")
    var quiet = false

    func validate() throws {
        guard (1...64).contains(shards), (1...200).contains(workers ?? 1) else {
            throw ValidationError("--shards is 1…64, --workers 1…200")
        }
    }

    /// The set-up of a local server by these options.
    var setup: LocalParley.Setup {
        var setup = pinned ? LocalParley.Setup.standard : LocalParley.Setup()
        setup.parley = parley
        setup.shards = shards
        setup.isSecure = tls
        setup.usesOwnSpeech = ownSpeech
        setup.options = serve
        return setup
    }

    /// Runs a scenario with these options.
    /// - Parameters:
    ///   - processes: number of Parley processes, where it is started.
    ///   - onStep: called twice a second while it runs.
    func run(
        _ scenario: Scenario, processes: Int = 1, onStep: (() -> Void)? = nil
    ) throws(LoadFailure) -> ScenarioResult {
        raiseDescriptorLimit()
        var setup = setup
        setup.processes = processes
        if let target {
            let target = Target(name: name, url: target, processes: pid, hasMetrics: metrics)
            return try run(scenario, target, core: nil, onStep)
        }
        let local = try LocalParley(setup, for: scenario)
        return try withExtendedLifetime(local) { () throws(LoadFailure) in
            try run(scenario, local.target, core: setup.generatorCore, onStep)
        }
    }

    private func run(
        _ scenario: Scenario, _ target: Target, core: Int?, _ onStep: (() -> Void)?
    ) throws(LoadFailure) -> ScenarioResult {
        let run = ScenarioRun(
            scenario: scenario, target: target, workers: workers, core: core, isQuiet: quiet,
            recording: recording)
        run.onStep = onStep
        return try run.run()
    }

    /// Prints the tables, and writes them into the folder of `--output`.
    func report(_ results: [ScenarioResult]) throws(LoadFailure) {
        let report = MarkdownReport(results: results)
        print(report.text)
        if let output { try ReportFolder(output).write(results) }
    }
}

/// Lists the fields of scenario files.
struct FieldsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fields",
        abstract: "List the fields of scenarios: meaning, unit, range, defaults.",
        discussion: """
            A scenario file is YAML or JSON: `scenario: KIND` and any of these fields. \
            Durations are written as 500 ms, 30 s, 2 min; rates as 50 /s; sizes as 160 B, 16 KiB.

            EXAMPLE, evening.yaml
              # 1,000 sessions; every tenth sends a message twice a minute.
              scenario: chat
              name: evening
              sessions: 1000
              chatting: 100
              turn-every: 30 s
              tokens: 200
              duration: 2 min
            """)

    func run() throws {
        print("| field | values | idle | chat | voice | meaning |\n|---|---|---|---|---|---|")
        let kinds = [Scenario.Kind.idle, .chat, .voice].map { Scenario($0) }
        for field in ScenarioField.all {
            let defaults = kinds.map { field.written(in: $0) }.joined(separator: " | ")
            print("| \(field.name) | \(field.domain) | \(defaults) | \(field.meaning) |")
        }
    }
}
