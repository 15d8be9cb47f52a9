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

    /// - Throws: `LoadFailure` when it has ended by itself.
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

    /// Prepares a bench and starts nothing yet.
    init(paths: StackPaths, firstPort: UInt16, executable: String) {
        self.paths = paths
        self.executable = executable
        nextPort = firstPort
    }

    /// The scripted model's base URL; it starts with the first use.
    func modelURL() throws(LoadFailure) -> String {
        if let model, model.process.isRunning { return model.url }
        let port = takePort()
        let process = try PinnedProcess(
            [executable, "model", "--port", "\(port)"], core: Self.loadCore)
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
        let process = try PinnedProcess(command, core: Self.serverCore)
        return ClaimServer(stack: stack, port: port, process: process)
    }

    /// Runs a program on the load's core to its end.
    /// - Returns: the lines that it printed.
    func output(of command: [String]) throws(LoadFailure) -> [String] {
        let process = try PinnedProcess(command, core: Self.loadCore, isTalking: true)
        var lines: [String] = []
        while let line = process.readLine() { lines.append(String(decoding: line, as: UTF8.self)) }
        return lines
    }

    /// Returns an unused port. No port is reused, because the kernel keeps closed connections for a
    /// while.
    private func takePort() -> UInt16 {
        defer { nextPort += 1 }
        return nextPort
    }
}
