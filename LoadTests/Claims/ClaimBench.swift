// The bench of all claims: the scripted model, the servers that are started for one sample and
// ended after it, their ports, and the cores of all processes.
//
// The server under test has one core; the load and the model have the other, so that neither takes
// the other's time. All stacks are thus measured on one core, although Parley and SwiftNIO could
// use more.

import CLinux
import Foundation

/// A server under test. Its process ends when the object is freed.
final class ClaimServer {
    /// The program that runs.
    let stack: Stack
    let port: UInt16
    let process: PinnedProcess

    fileprivate init(stack: Stack, port: UInt16, process: PinnedProcess) {
        self.stack = stack
        self.port = port
        self.process = process
    }

    /// Its address and process, for scenarios.
    var target: Target {
        Target(
            name: stack.title, url: "ws://127.0.0.1:\(port)", processes: [process.identifier],
            hasMetrics: stack == .parley)
    }

    /// Its address, for connections outside scenarios.
    func connections(path: String) -> EchoTarget {
        EchoTarget(wire: .webSocket(path: path), port: port, process: process.identifier)
    }

    /// - Throws: `LoadFailure` when it has ended by itself. The bench adds how it ended.
    func checkIsRunning() throws(LoadFailure) {
        guard process.isRunning else { throw LoadFailure("the server has ended by itself") }
    }
}

/// The bench on which claims are measured.
final class ClaimBench {
    static let serverCore = 0
    static let loadCore = 1

    let paths: StackPaths
    /// This program.
    let executable: String
    private var nextPort: UInt16
    private var model: (process: PinnedProcess, url: String)?
    /// The processes of the sample that is being taken, and what was noticed in it.
    private var records: [ProcessRecord] = []
    private var notes: [String] = []

    /// Prepares a bench and starts nothing yet.
    init(paths: StackPaths, firstPort: UInt16, executable: String) {
        self.paths = paths
        self.executable = executable
        nextPort = firstPort
    }

    /// Takes a sample of a contender.
    /// - Returns: the sample, or why there is none: what was awaited, how the processes ended, and the
    ///   last lines that they wrote to their standard error; and the notes on it.
    func attempt(
        _ claim: Claim, _ contender: Contender
    ) -> (result: Result<Claim.Sample, LoadFailure>, notes: [String]) {
        (records, notes) = ([], [])
        defer { (records, notes) = ([], []) }
        do throws(LoadFailure) {
            return (.success(try claim.sample(self, contender)), notes)
        } catch {
            return (.failure(explained(error)), notes)
        }
    }

    /// Leaves the processes so far out of later explanations, once they are ended.
    func forgetProcesses() { records = [] }

    /// Keeps a remark on the sample for the report.
    func note(_ text: String) { notes.append(text) }

    /// A failure with what the processes of the sample said of it.
    func explained(_ failure: LoadFailure) -> LoadFailure {
        let accounts = records.compactMap(\.account) + [endOfModel].compactMap { $0 }
        return LoadFailure(([failure.reason] + accounts).joined(separator: "; "))
    }

    /// How the model ended, if it has.
    private var endOfModel: String? {
        guard let model, !model.process.isRunning else { return nil }
        return model.process.record?.account ?? "the scripted model has ended"
    }

    /// Starts a program for the sample; what it writes to its standard error is kept.
    /// - Parameter name: its name in reports.
    func start(
        _ command: [String], name: String, core: Int, isTalking: Bool = false
    ) throws(LoadFailure) -> PinnedProcess {
        let process = try PinnedProcess(
            command, core: core, isTalking: isTalking, recordedAs: name)
        if let record = process.record { records.append(record) }
        return process
    }

    /// The scripted model's base URL; it starts with the first use.
    func modelURL() throws(LoadFailure) -> String {
        if let model, model.process.isRunning { return model.url }
        let port = takePort()
        let process = try PinnedProcess(
            [executable, "model", "--quiet", "--port", "\(port)"], core: Self.loadCore,
            recordedAs: "the scripted model")
        try process.awaitListening(on: port, name: "the scripted model")
        let url = "http://127.0.0.1:\(port)/v1"
        model = (process, url)
        return url
    }

    /// Starts a server and waits until it listens.
    func start(_ stack: Stack) throws(LoadFailure) -> ClaimServer {
        let server = try launch(stack)
        try server.process.awaitListening(on: server.port, name: stack.title)
        return server
    }

    /// Starts a server and returns at once.
    func launch(_ stack: Stack) throws(LoadFailure) -> ClaimServer {
        let port = takePort()
        let command = stack.command(port: port, model: try modelURL(), paths: paths)
        let process = try start(command, name: stack.plainTitle, core: Self.serverCore)
        return ClaimServer(stack: stack, port: port, process: process)
    }

    /// Runs a program on the load's core to its end.
    /// - Parameter seconds: its time for each line.
    /// - Returns: the lines that it printed.
    func output(
        of command: [String], name: String, within seconds: Double = 60
    ) throws(LoadFailure) -> [String] {
        let process = try start(command, name: name, core: Self.loadCore, isTalking: true)
        var lines: [String] = []
        while let line = process.readLine(within: seconds) {
            lines.append(String(decoding: line, as: UTF8.self))
        }
        return lines
    }

    /// Returns an unused port. No port is reused, because the kernel keeps closed connections for a
    /// while.
    private func takePort() -> UInt16 {
        defer { nextPort += 1 }
        return nextPort
    }
}
