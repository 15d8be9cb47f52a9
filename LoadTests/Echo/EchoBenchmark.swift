// The course of the benchmark. All servers run from the beginning to the end. In each round every
// server is measured for a slice of about a second, in a new order, because the machine's speed
// drifts by more than the peers differ. All servers are pinned to one core, all generators to
// another; only one of each is busy at a time.

import CLinux
import Foundation

/// The results of one peer under one load.
struct EchoMeasurement: Codable {
    /// The load.
    struct Load: Codable, Hashable {
        var kind: SliceOrder.Kind
        var connections: Int
        var bytes: Int
        var depth: Int
    }

    var peer: String
    var load: Load
    /// A result per round, in the order of the rounds.
    var rounds: [SliceResult] = []
}

/// The loads and the number of rounds.
struct EchoPlan {
    var bytes = [20, 160, 1024]
    var connections = [100, 5_000]
    var depth = 1
    var rounds = 5
    /// Milliseconds of a slice that are measured, and of the warm-up before them.
    var length = 1_000
    var warmUp = 250
    /// The kinds of handshakes that are measured.
    var handshakes: [SliceOrder.Kind] = [.handshake]
    var firstPort: UInt16 = 9160
    var serverCore = 0
    var generatorCore = 1
    var seed: UInt64 = 1
}

/// A run of the benchmark.
final class EchoBenchmark {
    private struct Server {
        let peer: EchoPeer
        let port: UInt16
        let process: PinnedProcess
    }

    private let plan: EchoPlan
    private let executable: String
    private var servers: [Server] = []
    private var generator: SplitMix64

    /// Starts the servers.
    /// - Parameter executable: this program, which is also started as the generators.
    init(_ peers: [EchoPeer], plan: EchoPlan, executable: String) throws(LoadFailure) {
        self.plan = plan
        self.executable = executable
        generator = SplitMix64(state: plan.seed)
        for (index, peer) in peers.enumerated() {
            let port = plan.firstPort + UInt16(index)
            let process = try PinnedProcess(peer.command(port), core: plan.serverCore)
            servers.append(Server(peer: peer, port: port, process: process))
        }
        for server in servers {
            try server.process.awaitListening(on: server.port, name: server.peer.name)
        }
    }

    /// Measures everything.
    func run() throws(LoadFailure) -> [EchoMeasurement] {
        var all: [EchoMeasurement] = []
        for connections in plan.connections {
            let generators = try open(connections: connections)
            for bytes in plan.bytes {
                all += try measure(
                    .init(kind: .echo, connections: connections, bytes: bytes, depth: plan.depth),
                    generators)
            }
        }
        guard !plan.handshakes.isEmpty else { return all }
        let generators = try open(connections: 0)
        for kind in plan.handshakes {
            let load = EchoMeasurement.Load(
                kind: kind, connections: HandshakeLoop.width, bytes: 0, depth: 1)
            all += try measure(load, generators)
        }
        return all
    }

    /// Starts a generator for each server, and waits until its connections are open.
    private func open(connections: Int) throws(LoadFailure) -> [PinnedProcess] {
        var generators: [PinnedProcess] = []
        for server in servers {
            printError("\(connections) connections to \(server.peer.word)\n")
            var command = [
                executable, "echo-generator", "--port", "\(server.port)",
                "--process", "\(server.process.identifier)", "--connections", "\(connections)",
            ]
            switch server.peer.wire {
            case .raw: break
            case .webSocket(let path): command += ["--path", path]
            case .http: command += ["--http"]
            }
            let process = try PinnedProcess(
                command, core: plan.generatorCore, isTalking: true)
            guard case .ready = try answer(of: process, for: server.peer) else {
                throw LoadFailure("the generator of \(server.peer.word) is out of step")
            }
            generators.append(process)
        }
        return generators
    }

    private func measure(
        _ load: EchoMeasurement.Load, _ generators: [PinnedProcess]
    ) throws(LoadFailure) -> [EchoMeasurement] {
        let what = load.kind == .echo ? "\(load.bytes) B" : "handshakes, \(load.kind.title)"
        printError("\(what), \(load.connections) connections, \(plan.rounds) rounds\n")
        var results = servers.map { EchoMeasurement(peer: $0.peer.name, load: load) }
        let order = SliceOrder(
            kind: load.kind, bytes: load.bytes, depth: load.depth, warmUp: plan.warmUp,
            length: plan.length)
        guard var line = try? JSONEncoder().encode(order) else {
            throw LoadFailure("the order cannot be written")
        }
        line.append(UInt8(ascii: "\n"))
        for _ in 0..<plan.rounds {
            for index in servers.indices.shuffled(using: &generator) {
                generators[index].input?.write(line)
                let said = try answer(of: generators[index], for: servers[index].peer)
                guard case .done(let result) = said, result.count > 0 else {
                    throw LoadFailure("\(servers[index].peer.word) did nothing")
                }
                results[index].rounds.append(result)
            }
        }
        return results
    }

    private func answer(
        of process: PinnedProcess, for peer: EchoPeer
    ) throws(LoadFailure) -> GeneratorLine {
        guard let data = process.readLine(),
            let line = try? JSONDecoder().decode(GeneratorLine.self, from: data)
        else { throw LoadFailure("the generator of \(peer.word) has ended") }
        if case .failed(let reason) = line { throw LoadFailure("\(peer.word): \(reason)") }
        return line
    }
}
