// `parley-load all`: every scenario at a reduced size, each against a server of its own, in one
// table. It shows that everything works, and gives rough figures; `run`, `scale` and `far` give the
// figures to quote.

import ArgumentParser

/// Runs every scenario.
struct AllCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "all",
        abstract: "Run every scenario at a reduced size; one table.",
        discussion: """
            Each scenario starts a new Parley, so that none inherits the memory of the one \
            before. Takes about four minutes. `make load` builds and runs it.

            EXAMPLES
              parley-load all --output .build/load/all
              parley-load all --scale 5 --only idle,storm,chat
            """)

    @Option(help: "Sessions, as a multiple of the reduced size, 0.1…20.")
    var scale = 1.0

    @Option(
        help: "Only these scenarios, with commas between.",
        transform: {
            $0.split(separator: ",").map(String.init)
        })
    var only: [String]?

    @OptionGroup var load: LoadOptions

    func validate() throws {
        guard (0.1...20).contains(scale) else { throw ValidationError("--scale is 0.1…20") }
    }

    func run() throws {
        try reportingFailures { () throws(LoadFailure) in
            var results: [ScenarioResult] = []
            for kind in Scenario.Kind.allCases where only?.contains(kind.rawValue) ?? true {
                results.append(try load.run(Self.reduced(kind, scale: scale)))
            }
            guard !results.isEmpty else { throw LoadFailure("--only names no scenario") }
            try load.report(results)
        }
    }

    /// A scenario that takes about ten seconds and does not fill a machine with two cores.
    static func reduced(_ kind: Scenario.Kind, scale: Double) -> Scenario {
        var scenario = Scenario(kind)
        func times(_ count: Int) -> Int { max(1, Int((Double(count) * scale).rounded())) }
        scenario.seconds = 8
        switch kind {
        case .idle: (scenario.sessions, scenario.seconds) = (times(2_000), 3)
        case .storm: (scenario.sessions, scenario.seconds) = (times(3_000), 1)
        case .echo, .churn, .reconnect: scenario.sessions = times(1_000)
        case .chat: (scenario.sessions, scenario.chatting) = (times(1_000), times(100))
        case .voice: (scenario.sessions, scenario.seconds) = (times(50), 15)
        case .mixed:
            scenario.sessions = times(500)
            (scenario.speaking, scenario.chatting, scenario.seconds) = (times(50), times(50), 15)
        case .bargeIn: (scenario.sessions, scenario.seconds) = (times(10), 20)
        case .slowReaders:
            (scenario.sessions, scenario.slow) = (times(300), times(20))
            scenario.seconds = 15
        }
        return scenario
    }
}
