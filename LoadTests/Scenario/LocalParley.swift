// A Parley server of the harness's own, and the scripted model behind it, as a scenario needs them.
// Both end with this process.

import CLinux

/// Parley on a core of its own, the model beside the generator.
final class LocalParley {
    /// What is started, and where.
    struct Setup {
        /// Parley's binary.
        var parley = ".build/release/parley"
        var shards = 1
        /// Server processes, each on a port of its own.
        var processes = 1
        /// Whether sessions are on TLS, with a certificate made for the run.
        var isSecure = false
        /// Whether speech is recognised and made by Parley's own models, instead of the script's.
        var usesOwnSpeech = false
        /// The server's core, and that of the model and the generator; nil: wherever there is room.
        var serverCore: Int?
        var generatorCore: Int?
        /// Further options of `parley serve`.
        var options: [String] = []

        /// As this machine has room: with two cores or more, the server has one to itself.
        static var standard: Setup {
            var setup = Setup()
            if Machine.processors > 1 { (setup.serverCore, setup.generatorCore) = (0, 1) }
            return setup
        }
    }

    /// What is put under load.
    let target: Target
    private let servers: [PinnedProcess]
    private let model: PinnedProcess?

    /// Starts them.
    /// - Throws: `LoadFailure` when one does not come up.
    init(_ setup: Setup, for scenario: Scenario) throws(LoadFailure) {
        var options = setup.options
        let roles = scenario.roles
        if roles.chatting > 0 || roles.speaking > 0 {
            let port = try freePort()
            var command = [Machine.executable, "model", "--quiet", "--port", "\(port)"]
            // Spoken replies are a sentence, of words or of moments, that ends before the user's
            // next one begins. Those that chat say how long theirs are.
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
        // A minute, the default, is longer than most runs.
        if scenario.kind == .slowReaders { options += ["--slow-reader-timeout-ms", "5000"] }
        // What --serve says comes later, and counts.
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

    /// Limits of a server that has its share of a plan: the default of 10,000 sessions would
    /// turn away what the plan is about. Those of the warm-up may not have gone yet, and questions
    /// for /metrics are connections too.
    static func room(for scenario: Scenario, in processes: Int) -> [String] {
        let share = (scenario.sessions + processes - 1) / processes
        let room = max(10_000, share + 200)
        return ["--max-connections", "\(room + 100)", "--max-sessions", "\(room)"]
    }

    /// Options for a certificate that the run makes for itself.
    private static func certificate() throws(LoadFailure) -> [String] {
        let folder = ".build/load"
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

/// A port on which nobody listens at the moment.
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
