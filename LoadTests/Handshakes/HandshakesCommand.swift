// `parley-load handshakes`: handshakes a second beside other servers, plain and over TLS. EchoBenchmark
// starts the servers and measures them in turns.

import ArgumentParser

/// Compares Parley's handshakes with those of other servers.
struct HandshakesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "handshakes",
        abstract: "Compare Parley's handshakes with other servers', plain and over TLS.",
        discussion: """
            32 connections at once connect, upgrade, close, and begin again. Plain ones go to \
            Parley, a bare WebSocket echo in C, and Bun. TLS is 1.3 with X25519 and one ECDSA \
            P-256 certificate, once with full handshakes and once with session tickets; the \
            peers are nginx and HAProxy, which answer 200 instead of an upgrade. Each handshake \
            is checked for whether it was resumed. All servers share one core, the generator \
            has another. `make bench-handshakes` installs what it needs and runs it; run it \
            from the repository's root.
            """)

    @Option(help: "Slices of each peer under each load.")
    var rounds = 9

    @Option(help: "Milliseconds of a slice.")
    var slice = 1_000

    @Flag(help: "Two rounds of 0.3 s: shows that it works; rough figures.")
    var quick = false

    @Option(help: "The first of the ports used.")
    var firstPort: UInt16 = 9180

    @Option(help: "Parley's binary.")
    var parley = ".build/release/parley"

    @Option(help: "Another binary of Parley, measured in the same rounds.")
    var before: String?

    @Option(help: "Where the C programs are.")
    var built = ".build/peers"

    @Option(help: "Where the programs from PyPI are.")
    var environment = ".venv-peers"

    @Option(help: "Seed of the order in which peers are measured.")
    var seed: UInt64 = 1

    func run() throws {
        try reportingFailures { () throws(LoadFailure) in
            var plan = EchoPlan()
            plan.connections = []
            plan.rounds = quick ? 2 : max(1, rounds)
            plan.length = quick ? 300 : max(10, slice)
            plan.firstPort = firstPort
            plan.seed = seed
            let plain = try measure(plainPeers, plan)
            plan.handshakes = [.fullTLS, .resumedTLS]
            plan.firstPort += 10
            let secure = try measure(try securePeers(), plan)
            print(HandshakeReport(measurements: plain + secure).tables)
        }
    }

    private func measure(
        _ peers: [EchoPeer], _ plan: EchoPlan
    ) throws(LoadFailure) -> [EchoMeasurement] {
        try EchoBenchmark(peers, plan: plan, executable: Machine.executable).run()
    }

    private var plainPeers: [EchoPeer] {
        let others = EchoPeer.all(parley: parley, built: built, environment: environment)
        return parleys(options: []) + others.filter { ["c", "bun"].contains($0.word) }
    }

    private func securePeers() throws(LoadFailure) -> [EchoPeer] {
        let options = try LocalParley.certificate()
        return parleys(options: options)
            + ["nginx", "HAProxy"].map { name in
                let word = name.lowercased()
                return EchoPeer(
                    name: name, word: word,
                    command: { port in
                        ["LoadTests/peers/tls_\(word).sh", "\(port)", LocalParley.certificates]
                    }, wire: .http)
            }
    }

    private func parleys(options: [String]) -> [EchoPeer] {
        var binaries = [("**Parley**", "parley", parley)]
        if let before { binaries.append(("Parley before", "before", before)) }
        return binaries.map { name, word, binary in
            EchoPeer(
                name: name, word: word,
                command: { EchoPeer.parley(binary, on: $0) + options },
                wire: .webSocket(path: "/debug/echo"))
        }
    }
}
