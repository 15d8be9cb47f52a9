// The Parley server and the scripted model that the harness starts for a scenario. Both end with
// this process.

import CLinux

/// Parley on one core, the model and the generator on another.
final class LocalParley {
    /// The number, the options and the cores of the processes.
    struct Setup {
        /// Parley's binary.
        var parley = ".build/release/parley"
        var shards = 1
        /// Server processes, each on a port of its own.
        var processes = 1
        /// Whether sessions use TLS, with a certificate made for the run.
        var isSecure = false
        /// Whether Parley's own models recognise and synthesise speech, instead of the scripted
        /// ones.
        var usesOwnSpeech = false
        /// The core of the server, and the core of the model and the generator; nil: not pinned.
        var serverCore: Int?
        var generatorCore: Int?
        /// Further options of `parley serve`.
        var options: [String] = []

        /// The default: on a machine with two or more cores, the server has one of them alone.
        static var standard: Setup {
            var setup = Setup()
            if Machine.processors > 1 { (setup.serverCore, setup.generatorCore) = (0, 1) }
            return setup
        }
    }

    /// The servers, for the run.
    let target: Target
    private let servers: [PinnedProcess]
    private let model: PinnedProcess?

    /// Starts the processes.
    /// - Throws: `LoadFailure` when one does not start.
    init(_ setup: Setup, for scenario: Scenario) throws(LoadFailure) {
        var options = setup.options
        let roles = scenario.roles
        if roles.chatting > 0 || roles.speaking > 0 {
            let port = try freePort()
            var command = [Machine.executable, "model", "--quiet", "--port", "\(port)"]
            // A spoken reply is a short sentence, so that it ends before the user speaks again.
            // Sessions that chat set the length of their replies in the request.
            command += roles.chatting == 0 ? ["--plain", "--tokens", "13"] : ["--tokens", "4"]
            let model = try PinnedProcess(command, core: setup.generatorCore)
            try model.awaitListening(on: port, name: "the scripted model")
            self.model = model
            let url = "http://127.0.0.1:\(port)/v1"
            options += ["--llm-url", url]
            if !setup.usesOwnSpeech { options += ["--stt-url", url, "--tts-url", url] }
        } else {
            model = nil
        }
        if setup.isSecure { options += try Self.certificate() }
        // The default, a minute, is longer than most runs.
        if scenario.kind == .slowReaders { options += ["--slow-reader-timeout-ms", "5000"] }
        // Options of --serve come later, so that they override these.
        options = Self.room(for: scenario, in: setup.processes) + options
        var servers: [PinnedProcess] = []
        var urls: [String] = []
        for _ in 0..<setup.processes {
            let port = try freePort()
            let server = try PinnedProcess(
                [
                    setup.parley, "serve", "--host", "127.0.0.1", "--port", "\(port)",
                    "--shards", "\(setup.shards)", "--debug-echo", "true",
                    "--log-level", "error",
                ] + options, core: setup.serverCore)
            try server.awaitListening(on: port, name: "Parley")
            servers.append(server)
            urls.append("\(setup.isSecure ? "wss" : "ws")://127.0.0.1:\(port)")
        }
        self.servers = servers
        target = Target(
            name: setup.processes == 1 ? "Parley" : "Parley, \(setup.processes) processes",
            urls: urls, processes: servers.map(\.identifier), hasMetrics: true)
    }

    /// Options that raise a server's limits to its share of the scenario's sessions: the default is
    /// 10,000 sessions. The margin is for sessions of the warm-up that are not closed yet, and for
    /// requests for /metrics.
    static func room(for scenario: Scenario, in processes: Int) -> [String] {
        let share = (scenario.sessions + processes - 1) / processes
        let room = max(10_000, share + 200)
        return ["--max-connections", "\(room + 100)", "--max-sessions", "\(room)"]
    }

    /// The folder of the run's certificate: cert.pem and key.pem.
    static let certificates = ".build/load"

    /// Makes a self-signed certificate (ECDSA, P-256) for the run, and returns the options for it.
    static func certificate() throws(LoadFailure) -> [String] {
        let folder = certificates
        let (key, certificate) = ("\(folder)/key.pem", "\(folder)/cert.pem")
        let openssl = try PinnedProcess(
            [
                "/bin/sh", "-c",
                """
                mkdir -p \(folder) && openssl req -x509 -newkey ec -pkeyopt \
                ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -keyout \(key) \
                -out \(certificate)
                """,
            ], core: nil)
        openssl.awaitEnd()
        guard readSmallFile(certificate) != nil else {
            throw LoadFailure("openssl made no certificate in \(folder)")
        }
        return ["--tls-cert", certificate, "--tls-key", key]
    }
}

/// A port that is free at the moment.
func freePort() throws(LoadFailure) -> UInt16 {
    let listener = try listenOnLoopback(0)
    defer { close(listener) }
    var name = sockaddr_in()
    var bytes = socklen_t(MemoryLayout<sockaddr_in>.size)
    let status = withUnsafeMutablePointer(to: &name) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(listener, $0, &bytes) }
    }
    guard status == 0 else { throw .system("getsockname") }
    return UInt16(bigEndian: name.sin_port)
}
