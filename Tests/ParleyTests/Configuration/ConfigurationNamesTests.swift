// Unknown variables are named in a warning, and unreadable configuration files are refused.

import Foundation
import Testing

@testable import parley

@Suite struct ConfigurationNamesTests {
    private func load(
        _ arguments: [String] = [], environment: [String: String] = [:]
    ) throws(CommandFailure) -> ServeInvocation {
        try ServeConfigurationLoader().load(arguments: arguments, environment: environment)
    }

    @Test(arguments: [
        (["PARLEY_SERVICE_HOST"], "PARLEY_SERVICE_HOST"),
        (["PARLEY_MAX_SESION"], "PARLEY_MAX_SESION (did you mean PARLEY_MAX_SESSIONS?)"),
        (["PARLEY_API_KYE"], "PARLEY_API_KYE (did you mean PARLEY_API_KEY?)"),
        (["PARLEY_CONFGI"], "PARLEY_CONFGI (did you mean PARLEY_CONFIG?)"),
        (["PARLEY_", "PARLEY_ZZZZZZ"], "PARLEY_, PARLEY_ZZZZZZ"),
        (["PARLEY_\u{1B}[2J"], "PARLEY_\\u{1b}[2J"),
        (["PARLEY_ports"], "PARLEY_ports"),
    ])
    func unknownVariablesAreNamedInOneWarning(names: [String], named: String) throws {
        var environment = ["HOME": "/", "XPARLEY_PORT": "1"]
        for name in names { environment[name] = "1" }
        let warning = "no option has the environment variables " + named
        #expect(try load(environment: environment).warnings == [warning])
        #expect(throws: CommandFailure.usage("--strict: " + warning)) {
            try load(["--strict"], environment: environment)
        }
    }

    /// A developer has variables of the build and of the tests.
    @Test func knownVariablesOfOtherProgramsAreNotWarnedAbout() throws {
        var environment = ["PARLEY_PORT": "7", "PARLEY_LLM_KEY": "k", "PARLEY_MY_KEY": "k"]
        for name in EnvironmentNames.ofOtherPrograms { environment[name] = "1" }
        let providers = "name=a url=http://a.test/v1 key-env=PARLEY_MY_KEY"
        let arguments = ["--strict", "--providers", providers]
        #expect(try load(arguments, environment: environment).warnings == [])
    }

    /// A variable's name may be as long as the environment.
    @Test func manyAndLongNamesAreCutShort() throws {
        var environment = ["PARLEY_" + String(repeating: "A", count: 100_000): "1"]
        for index in 0..<1_000 { environment["PARLEY_X\(index)"] = "1" }
        let warning = try #require(try load(environment: environment).warnings.first)
        #expect(warning.utf8.count < 1_000 && warning.hasSuffix(" and 981 more"))
    }

    /// Former names are read everywhere, with a warning. Of two variables today's name wins.
    @Test func formerNamesAreReadWithAWarning() throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "\(UUID()).yaml")
        defer { try? FileManager.default.removeItem(at: path) }
        try Data("max-jobs-per-turn: 7\n".utf8).write(to: path)
        let loaded = try load(
            ["--max-accepts-per-turn", "5", "--config", path.path],
            environment: [
                "PARLEY_MAX_MESSAGES_PER_TURN": "6", "PARLEY_MAX_WRITE_BYTES_PER_TURN": "2048",
                "PARLEY_MAX_WRITE_BYTES_PER_TICK": "4096",
            ])
        #expect(
            loaded.warnings == [
                "--max-accepts-per-turn is now --max-accepts-per-tick",
                "\(path.path):1: max-jobs-per-turn is now max-jobs-per-tick",
                "PARLEY_MAX_MESSAGES_PER_TURN is now PARLEY_MAX_MESSAGES_PER_TICK",
                "PARLEY_MAX_WRITE_BYTES_PER_TURN is now PARLEY_MAX_WRITE_BYTES_PER_TICK",
            ])
        #expect(FormerNames.variables.count == 6, "each stands for an option")
        let loop = loaded.settings.server.loop
        #expect(loop.maxAcceptsPerTick == 5 && loop.maxMessagesPerTick == 6)
        #expect(loop.maxJobsPerTick == 7 && loop.maxWriteBytesPerTick == 4_096)
    }

    @Test func strictRefusesWhatIsIgnored() {
        #expect(throws: CommandFailure.self) {
            try load(["--strict"], environment: ["PARLEY_PORT": "tcp://10.0.0.1:80"])
        }
    }

    @Test(arguments: [
        ("/dev/zero", "\"/dev/zero\" is larger than 1048576 bytes"),
        ("/", "cannot read \"/\": Is a directory"),
        ("/no/such", "cannot read \"/no/such\": No such file or directory"),
    ])
    func whatIsNoFileIsRefusedAtOnce(path: String, problem: String) {
        #expect(throws: CommandFailure.usage("--config: " + problem)) {
            try load(["--config", path])
        }
    }

    @Test func anEmptyDeviceIsAnEmptyFile() throws {
        #expect(try load(["--config", "/dev/null"]).origins.isEmpty)
    }

    @Test func aFileMayHaveAMebibyte() throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "\(UUID()).yaml")
        defer { try? FileManager.default.removeItem(at: path) }
        for (extra, isRead) in [(0, true), (1, false)] {
            let comment = "#" + String(repeating: "x", count: (1 << 20) - 2 + extra) + "\n"
            try Data(comment.utf8).write(to: path)
            let loaded = try? load(["--config", path.path])
            #expect((loaded != nil) == isRead)
        }
    }
}
