// The servers of the echo benchmark, and their processes. Their programs are in LoadTests/peers,
// written as their documentation has them; scripts/setup-peers.sh makes what they need.

import CLinux
import Foundation

/// A server of the benchmark: how to start it, and what it speaks.
struct EchoPeer {
    /// Its name in the table.
    let name: String
    /// Its word on the command line.
    let word: String
    /// A function of the port it shall listen on.
    let command: (UInt16) -> [String]
    let wire: EchoWire

    /// All of them, the raw echo first: the others' rates are also given as ratios to its.
    /// - Parameters:
    ///   - parley: Parley's binary.
    ///   - built: where set-up has compiled the C programs.
    ///   - environment: the virtual environment with what comes from PyPI.
    static func all(parley: String, built: String, environment: String) -> [EchoPeer] {
        let peers = "LoadTests/peers"
        let root = EchoWire.webSocket(path: "/")
        return [
            EchoPeer(
                name: "raw TCP echo (C, epoll)", word: "raw",
                command: { ["\(built)/tcp_echo", "\($0)"] }, wire: .raw),
            EchoPeer(
                name: "**Parley**", word: "parley",
                command: {
                    [
                        parley, "serve", "--host", "127.0.0.1", "--port", "\($0)",
                        "--shards", "1", "--debug-echo", "true", "--log-level", "warning",
                    ]
                }, wire: .webSocket(path: "/debug/echo")),
            EchoPeer(
                name: "bare WebSocket echo (C, epoll)", word: "c",
                command: { ["\(built)/websocket_echo", "\($0)"] }, wire: root),
            EchoPeer(
                name: "Bun", word: "bun",
                command: { ["\(environment)/bin/bun", "\(peers)/bun_echo.js", "\($0)"] },
                wire: root),
            EchoPeer(
                name: "picows, uvloop", word: "picows",
                command: { ["\(environment)/bin/python", "\(peers)/picows_echo.py", "\($0)"] },
                wire: root),
            EchoPeer(
                name: "Node 24, ws", word: "node",
                command: { ["\(environment)/bin/node", "\(peers)/node_ws_echo.cjs", "\($0)"] },
                wire: root),
            EchoPeer(
                name: "FastAPI, uvicorn", word: "fastapi",
                command: { ["\(environment)/bin/python", "\(peers)/fastapi_echo.py", "\($0)"] },
                wire: root),
        ]
    }
}

/// A child process on a core of its own. Ends with its owner.
final class PinnedProcess {
    private let process = Process()
    /// Its standard output, if asked for.
    let output: FileHandle?
    /// Its standard input, if its output was asked for.
    let input: FileHandle?

    var identifier: Int32 { process.processIdentifier }
    var isRunning: Bool { process.isRunning }

    /// Starts a program.
    /// - Parameters:
    ///   - core: where it runs; nil: wherever there is room.
    ///   - isTalking: whether it is talked with; otherwise its output goes nowhere.
    init(_ command: [String], core: Int?, isTalking: Bool = false) throws(LoadFailure) {
        process.executableURL = URL(fileURLWithPath: "/usr/bin/taskset")
        // It ends with this process even when this one is killed.
        process.arguments =
            [
                "-c", core.map { "\($0)" } ?? "0-1023", "/usr/bin/setpriv", "--pdeathsig", "TERM",
            ] + command
        if isTalking {
            let (incoming, outgoing) = (Pipe(), Pipe())
            process.standardOutput = incoming
            process.standardInput = outgoing
            output = incoming.fileHandleForReading
            input = outgoing.fileHandleForWriting
        } else {
            process.standardOutput = FileHandle.nullDevice
            process.standardInput = FileHandle.nullDevice
            (output, input) = (nil, nil)
        }
        do { try process.run() } catch {
            throw LoadFailure("cannot start \(command[0]): \(error.localizedDescription)")
        }
    }

    deinit {
        if process.isRunning {
            process.terminate()
            process.waitUntilExit()
        }
    }

    /// Waits until it has ended by itself.
    func awaitEnd() { process.waitUntilExit() }

    /// Waits until it accepts connections.
    func awaitListening(on port: UInt16, name: String) throws(LoadFailure) {
        let target = EchoTarget(wire: .raw, port: port, process: identifier)
        let deadline = monotonicNanoseconds() + 30_000_000_000
        while monotonicNanoseconds() < deadline {
            guard isRunning else { break }
            if let descriptor = try? target.connect() {
                close(descriptor)
                // Another may have had the port, and this one no chance.
                poll(nil, 0, 50)
                if isRunning { return }
            }
            poll(nil, 0, 50)
        }
        throw LoadFailure("\(name) does not listen on \(port): is it taken, or a part missing?")
    }

    /// Reads a line of its output; nil at the end.
    func readLine() -> Data? {
        guard let output else { return nil }
        var line = Data()
        while let byte = try? output.read(upToCount: 1), let first = byte.first {
            if first == UInt8(ascii: "\n") { return line }
            line.append(first)
        }
        return nil
    }
}
