// `parley-load echo`: the command line of the echo benchmark.

import ArgumentParser
import CLinux
import Foundation

/// Compares Parley's echo with a raw TCP echo and other WebSocket servers.
struct EchoCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "echo",
        abstract: "Compare Parley's echo with a raw TCP echo and other WebSocket servers.",
        discussion: """
            Starts all servers, pins them to one core and the generator to another, and measures \
            each for a second in several rounds. `make bench-echo` builds and installs what \
            it needs and runs it; run it from the repository's root.
            """)

    @Option(help: "Peers that take part, besides the raw echo.", transform: words)
    var peers = ["parley", "c", "bun", "picows", "node", "fastapi"]

    @Option(help: "Bytes of a message.", transform: numbers)
    var bytes = [20, 160, 1024]

    @Option(help: "Connections.", transform: numbers)
    var connections = [100, 5_000]

    @Option(help: "Messages that a connection sends at once.")
    var depth = 1

    @Option(help: "Slices of each peer under each load.")
    var rounds = 5

    @Option(help: "Milliseconds of a slice.")
    var slice = 1_000

    @Flag(help: "Two rounds of 0.3 s, 100 connections: shows that it works; rough figures.")
    var quick = false

    @Flag(inversion: .prefixedNo, help: "Measure handshakes as well.")
    var handshakes = true

    @Option(help: "The first of the ports used, one per peer.")
    var firstPort: UInt16 = 9160

    @Option(help: "Parley's binary.")
    var parley = ".build/release/parley"

    @Option(help: "Where the C programs are.")
    var built = ".build/peers"

    @Option(help: "Where the programs from PyPI are.")
    var environment = ".venv-peers"

    @Option(help: "Also write every slice to this file, as JSON.")
    var json: String?

    @Option(help: "Seed of the order in which peers are measured.")
    var seed: UInt64 = 1

    func validate() throws {
        guard bytes.allSatisfy({ (8...65_535).contains($0) }), depth >= 1, rounds >= 1,
            slice >= 10, connections.allSatisfy({ (1...19_000).contains($0) })
        else {
            throw ValidationError(
                "--bytes are 8…65535, --connections 1…19000, --slice at least 10")
        }
    }

    func run() throws {
        var plan = EchoPlan()
        plan.bytes = bytes
        plan.connections = quick ? [100] : connections
        plan.depth = depth
        plan.rounds = quick ? 2 : rounds
        plan.length = quick ? 300 : slice
        plan.handshakes = handshakes ? [.handshake] : []
        plan.firstPort = firstPort
        plan.seed = seed
        let all = EchoPeer.all(parley: parley, built: built, environment: environment)
        let chosen = all.filter { $0.word == "raw" || peers.contains($0.word) }
        do throws(LoadFailure) {
            let benchmark = try EchoBenchmark(
                chosen, plan: plan, executable: CommandLine.arguments[0])
            let measurements = try benchmark.run()
            print(EchoReport(measurements: measurements).tables)
            if let json { try write(measurements, to: json) }
        } catch {
            printError("parley-load: \(error.reason)\n")
            throw ExitCode(1)
        }
    }

    private func write(
        _ measurements: [EchoMeasurement], to path: String
    ) throws(LoadFailure) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        do {
            try encoder.encode(measurements).write(to: URL(fileURLWithPath: path))
        } catch {
            throw LoadFailure("cannot write \(path): \(error.localizedDescription)")
        }
    }
}

private func words(_ text: String) -> [String] {
    text.split(separator: ",").map(String.init)
}

private func numbers(_ text: String) throws -> [Int] {
    try words(text).map {
        guard let number = Int($0) else { throw ValidationError("\"\($0)\" is not a number") }
        return number
    }
}
