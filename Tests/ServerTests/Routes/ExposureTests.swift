// A server that is reachable from other machines needs credentials or an explicit option. On real
// sockets, because the address counts that they are bound to.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct ExposureTests {
    /// Starts and ends a server.
    private func start(
        log: LogRecord = LogRecord(), _ change: (inout ServerConfiguration) -> Void
    ) throws {
        let server = try startServer(log: log, change)
        server.stop()
        server.waitUntilStopped()
    }

    @Test(arguments: ["0.0.0.0", "::"])
    func aPublicAddressNeedsCredentialsOrAnOption(host: String) throws {
        #expect(throws: ServerError.exposed(host: host)) { try start { $0.listener.host = host } }
        try start {
            $0.listener.host = host
            $0.credentials.insecure = true
        }
        try start {
            $0.listener.host = host
            $0.credentials.apiKey = "sk-key-0123456789abcdef"
        }
        try start {
            $0.listener.host = host
            $0.credentials.jwtSecret = TestToken.secret
        }
    }

    @Test(arguments: ["127.0.0.1", "::1", "localhost"])
    func aLoopbackAddressNeedsNothing(host: String) throws {
        try start { $0.listener.host = host }
    }

    @Test func aSecretThatCanBeGuessedIsForThisMachineAlone() throws {
        let changes: [(inout ServerConfiguration) -> Void] = [
            { $0.credentials.apiKey = "null" },
            { $0.credentials.apiKey = "a-key-of-enough-length,~" },
            {
                $0.credentials.apiKey = "a-key-of-enough-length"
                $0.telephone.secret = "secret"
            },
        ]
        for change in changes {
            let error = #expect(throws: ServerError.self) {
                try start {
                    $0.listener.host = "0.0.0.0"
                    change(&$0)
                }
            }
            #expect(error?.description.contains("fewer than 16 characters") == true)
            let log = LogRecord()
            try start(log: log, change)
            try start {
                $0.listener.host = "0.0.0.0"
                $0.credentials.insecure = true
                change(&$0)
            }
            #expect(log.lines.contains { $0.contains("fewer than 16 characters") })
        }
    }

    @Test func credentialsWithoutTLSCauseAWarning() throws {
        let log = LogRecord()
        try start(log: log) {
            $0.listener.host = "0.0.0.0"
            $0.credentials.apiKey = "sk-key-0123456789abcdef"
        }
        #expect(log.lines.contains { $0.hasPrefix("warning credentials and speech cross") })
        #expect(!log.lines.contains { $0.contains("sk-key") })
    }

    @Test func theRefusalIsOneLineThatSaysWhatToDo() {
        let line = ServerError.exposed(host: "0.0.0.0").description
        #expect(!line.contains("\n"))
        for word in ["0.0.0.0", "PARLEY_API_KEY", "--api-keys-file", "--insecure"] {
            #expect(line.contains(word))
        }
    }

    @Test func aFileThatCannotBeUsedStopsTheStart() {
        let error = #expect(throws: ServerError.self) {
            try start { $0.credentials.apiKeysFile = "no/such/file" }
        }
        #expect(
            error?.description
                == "api-keys-file: cannot read no/such/file: No such file or directory")
    }
}
