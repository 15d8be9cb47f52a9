// A real redis-server for one test: on a free port, without files, and gone with the test.

import CLinux
import Testing

/// A redis-server that the test has started.
final class RedisServerProcess {
    /// Whether this machine has one. `make test` installs it.
    static let isInstalled = access("/usr/bin/redis-server", X_OK) == 0

    private(set) var port = 0
    /// The certificate that a server with TLS has signed for itself.
    private(set) var certificate: String?
    private var folder: String?
    private var arguments: [String]
    private var isSecure = false
    private var process: pid_t = 0
    private var log: Int32 = -1

    /// Starts a server, and returns once it accepts connections.
    /// - Parameter arguments: further options.
    init(_ arguments: [String] = []) throws {
        self.arguments = arguments
        try startAnywhere()
    }

    /// Starts a server that speaks TLS alone.
    init(isSecure: Bool) throws {
        self.isSecure = isSecure
        arguments = ["--tls-auth-clients", "no"]
        var template = Array("/tmp/redis-XXXXXX".utf8CString)
        let folder = String(cString: try #require(mkdtemp(&template)))
        self.folder = folder
        try Self.run([
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", "2", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost", "-keyout", "\(folder)/key.pem",
            "-out", "\(folder)/cert.pem",
        ])
        certificate = "\(folder)/cert.pem"
        arguments += ["--tls-cert-file", "\(folder)/cert.pem"]
        arguments += ["--tls-key-file", "\(folder)/key.pem"]
        arguments += ["--tls-ca-cert-file", "\(folder)/cert.pem"]
        try startAnywhere()
    }

    deinit {
        kill()
        guard let folder else { return }
        for name in ["key.pem", "cert.pem"] { unlink("\(folder)/\(name)") }
        rmdir(folder)
    }

    var url: String { "redis://127.0.0.1:\(port)" }

    private static func run(_ words: [String]) throws {
        var pointers: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        var process: pid_t = 0
        var status: Int32 = 0
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        posix_spawn_file_actions_addclosefrom_np(&actions, 3)
        defer { posix_spawn_file_actions_destroy(&actions) }
        try #require(
            posix_spawnp(&process, words[0], &actions, nil, &pointers, parley_environment()) == 0)
        while waitpid(process, &status, 0) < 0, parley_errno() == EINTR {}
        try #require(status == 0, "\(words[0]) has failed")
    }

    /// Starts it on a free port. Another program may take the port meanwhile: then on another one.
    private func startAnywhere() throws {
        for _ in 1..<5 {
            port = try Self.freePort()
            do { return try start() } catch is HasEnded { kill() }
        }
        port = try Self.freePort()
        try start()
    }

    /// It has ended before it was ready.
    private struct HasEnded: Error { let log: String }

    /// Starts it, again and empty, on the same port.
    func start() throws {
        var ends: [Int32] = [0, 0]
        // Of another server that starts meanwhile this pipe must not be a part: its end would show
        // only with that server's.
        try #require(pipe2(&ends, O_CLOEXEC) == 0)
        // It must not outlive the test's process.
        var words = ["setpriv", "--pdeathsig", "KILL", "redis-server"]
        words += ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        words += isSecure ? ["--port", "0", "--tls-port", "\(port)"] : ["--port", "\(port)"]
        words += arguments
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        // A pipe of another test would end only with this server.
        posix_spawn_file_actions_addclosefrom_np(&actions, 3)
        defer { posix_spawn_file_actions_destroy(&actions) }
        var pointers: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        let status = posix_spawnp(
            &process, "setpriv", &actions, nil, &pointers, parley_environment())
        close(ends[1])
        log = ends[0]
        try #require(status == 0, "redis-server cannot be started")
        try waitUntilReady()
    }

    private func waitUntilReady() throws {
        var text = ""
        var buffer = [UInt8](repeating: 0, count: 4_096)
        while !text.contains("Ready to accept connections") {
            var wanted = pollfd(fd: log, events: Int16(POLLIN), revents: 0)
            try #require(poll(&wanted, 1, HangGuard.milliseconds) == 1, "redis-server is silent")
            let count = read(log, &buffer, buffer.count)
            guard count > 0 else { throw HasEnded(log: text) }
            text += String(decoding: buffer[..<count], as: UTF8.self)
        }
    }

    /// Stops its process, which keeps its connections.
    func suspend() { CLinux.kill(process, SIGSTOP) }

    /// Lets it go on.
    func resume() { CLinux.kill(process, SIGCONT) }

    /// Ends it; its data are gone.
    func kill() {
        guard process > 0 else { return }
        CLinux.kill(process, SIGKILL)
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0, parley_errno() == EINTR {}
        process = 0
        close(log)
    }

    private static func freePort() throws -> Int {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(listener) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && getsockname(listener, $0, &length) == 0
            }
        }
        try #require(isBound)
        return Int(UInt16(bigEndian: address.sin_port))
    }
}
