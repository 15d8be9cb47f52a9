// `parley-load claims`: the command line of the claims table, the list of all claims, and the files
// that a run writes (Markdown, JSON, a chart for each claim). ClaimsRun measures them.

import ArgumentParser
import CLinux
import Foundation

/// Measures published claims about other stacks, on them and on Parley.
struct ClaimsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "claims",
        abstract: "Measure published claims about Node, FastAPI and others, beside Parley.",
        discussion: """
            Starts each stack's agent server (LoadTests/peers) and Parley's beside a scripted \
            model, one at a time, and prints tables and verdicts in Markdown; --output also writes \
            them with the figures as JSON and a bar chart per claim. `make claims` installs and \
            builds what it takes and runs it from the repository's root: \
            \(minutesOfRun(.full)) minutes with nothing else running, ARGS=--quick \
            \(minutesOfRun(.quick)). Only a whole run writes the document (LoadTests/CLAIMS.md): one \
            without --quick, --only, --stacks and --rounds. The server under test is pinned to core \
            0, the load to core 1. A row that fails says why, and the run goes on.

            Names: \(Claim.names.joined(separator: ", "))

            EXAMPLES
              parley-load claims --only echo,json
              parley-load claims --only streaming --stacks parley,node
              parley-load claims --output claims
            """)

    @Option(help: "Claims to measure; all without it.", transform: ClaimsCommand.words)
    var only: [String] = []

    @Option(help: "Stacks that take part; all without it.", transform: ClaimsCommand.words)
    var stacks: [String] = []

    @Flag(help: "Small loads and one round: shows that it works; the figures are rough.")
    var quick = false

    @Option(help: "Rounds of each claim, instead of its own number.")
    var rounds: Int?

    @Option(help: "Concurrent streams of server-sent events, instead of the claim's own number.")
    var streams: Int?

    @Option(help: "A folder for claims.md, claims.json and the charts.")
    var output: String?

    @Option(help: "The document that a whole run writes.")
    var document: String?

    @Option(help: "Parley's binary.")
    var parley = StackPaths().parley

    @Option(help: "Where the programs from PyPI are.")
    var environment = StackPaths().environment

    @Option(help: "The SwiftNIO agent's binary.")
    var nio = StackPaths().nio

    @Option(help: "The first of the ports used; every server has one of its own.")
    var firstPort: UInt16 = 9400

    @Option(help: "Seed of the order in which stacks are measured.")
    var seed: UInt64 = 1

    func validate() throws {
        for name in only where !Claim.names.contains(name) {
            throw ValidationError("no claim is called \"\(name)\"")
        }
        for word in stacks where Stack(rawValue: word) == nil {
            throw ValidationError("no stack is called \"\(word)\"")
        }
        guard (rounds ?? 1) >= 1, (streams ?? 1) >= 1, firstPort <= 60_000 else {
            throw ValidationError(
                "--rounds and --streams are at least 1, --first-port at most 60000")
        }
    }

    func run() throws {
        try reportingFailures { () throws(LoadFailure) in
            raiseDescriptorLimit()
            var paths = StackPaths()
            (paths.parley, paths.environment, paths.nio) = (parley, environment, nio)
            let inputs = try checkedInputs(paths)
            let bench = ClaimBench(
                paths: paths, firstPort: firstPort,
                executable: CommandLine.arguments[0])
            try bench.keepToLoadCore()
            let flags = quick ? " --quick" : ""
            var run = ClaimsRun(
                claims: chosen, bench: bench, generator: SplitMix64(state: seed),
                command: { "parley-load claims --only \($0.name)\(flags)" })
            var report = ClaimsReport(
                machine: Machine.description, date: Machine.date, command: command,
                build: ClaimBuild(bench, document: document ?? "LoadTests/CLAIMS.md"),
                warnings: inputs.warnings)
            try run.run { (outcomes) throws(LoadFailure) in
                report.outcomes = outcomes
                if let output { try write(report, to: output) }
            }
            print(report.markdown)
            if let document, isWhole { try put(report.markdown, in: document) }
        }
    }

    /// Checks the inputs, and shows what is unusual.
    /// - Throws: `LoadFailure` that names everything that is missing.
    private func checkedInputs(_ paths: StackPaths) throws(LoadFailure) -> ClaimInputs {
        let inputs = ClaimInputs(of: chosen, paths: paths)
        for warning in inputs.warnings { printError("note: \(warning)\n") }
        guard inputs.missing.isEmpty else {
            throw LoadFailure("missing: " + inputs.missing.joined(separator: "; "))
        }
        return inputs
    }

    /// Whether all rows of all claims are measured in full.
    private var isWhole: Bool {
        !quick && only.isEmpty && stacks.isEmpty && rounds == nil && streams == nil
    }

    /// The command that repeats this run.
    private var command: String {
        var words: [String] = quick ? ["--quick"] : []
        if !only.isEmpty { words += ["--only", only.joined(separator: ",")] }
        if !stacks.isEmpty { words += ["--stacks", stacks.joined(separator: ",")] }
        if let rounds { words += ["--rounds", "\(rounds)"] }
        if let streams { words += ["--streams", "\(streams)"] }
        if words.isEmpty { return "make claims" }
        let text = words.joined(separator: " ")
        return "make claims ARGS=" + (words.count > 1 ? "\"\(text)\"" : text)
    }

    private static func minutesOfRun(_ size: ClaimSize) -> Int {
        Int((Claim.all(size).reduce(0) { $0 + $1.plannedSeconds } / 60).rounded(.up))
    }

    private var chosen: [Claim] {
        var size = quick ? ClaimSize.quick : .full
        if let streams { size.streams = streams }
        return Claim.all(size).filter { only.isEmpty || only.contains($0.name) }.map {
            $0.limited(to: stacks.compactMap(Stack.init), rounds: rounds)
        }
    }

    private func write(_ report: ClaimsReport, to folder: String) throws(LoadFailure) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        let url = URL(fileURLWithPath: folder)
        do {
            try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
            try encoder.encode(report).write(to: url.appendingPathComponent("claims.json"))
            try Data(report.markdown.utf8).write(to: url.appendingPathComponent("claims.md"))
            for outcome in report.outcomes {
                guard let svg = ClaimBars(outcome: outcome).svg else { continue }
                try Data(svg.utf8).write(
                    to: url.appendingPathComponent("\(outcome.name).svg"))
            }
        } catch {
            throw LoadFailure("cannot write to \(folder): \(error.localizedDescription)")
        }
    }

    private func put(_ text: String, in path: String) throws(LoadFailure) {
        do { try text.write(toFile: path, atomically: true, encoding: .utf8) } catch {
            throw LoadFailure("cannot write \(path): \(error.localizedDescription)")
        }
    }

    private static func words(_ text: String) -> [String] {
        text.split(separator: ",").map(String.init)
    }
}

extension Claim {
    /// All claims, in the table's order.
    static func all(_ size: ClaimSize) -> [Claim] {
        [
            concurrent(size), streams(size), echo(size), streaming(size), carried(size),
            inFlight(size), storm(size), share(size), hot(size), hello(size), json(size),
            idleWorker(size), coldStart(size),
        ]
    }

    /// Their names on the command line.
    static var names: [String] { all(.full).map(\.name) }

    /// The same claim with another number of rounds, and with the rows of some stacks only.
    /// - Parameter stacks: empty: all.
    func limited(to stacks: [Stack], rounds: Int?) -> Claim {
        var claim = self
        claim.contenders.removeAll { !stacks.isEmpty && !stacks.contains($0.stack) }
        claim.rounds = rounds ?? self.rounds
        return claim
    }
}
