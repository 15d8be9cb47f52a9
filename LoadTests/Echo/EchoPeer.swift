// The servers of the echo benchmark, and their processes. The programs are in LoadTests/peers,
// written as in each library's documentation; scripts/setup-peers.sh installs what they need.

import CLinux
import Foundation

/// A server of the benchmark: its command and its protocol.
struct EchoPeer {
    /// Its name in the table.
    let name: String
    /// Its name on the command line.
    let word: String
    /// The command that starts it on a port.
    let command: (UInt16) -> [String]
    let wire: EchoWire

    /// The command that starts a binary of Parley with one shard and its echo.
    static func parley(_ binary: String, on port: UInt16) -> [String] {
        [
            binary, "serve", "--host", "127.0.0.1", "--port", "\(port)", "--shards", "1",
            "--debug-echo", "true", "--log-level", "warning",
        ]
    }

    /// All peers. The raw echo is the first, because the other rates are also given as ratios to
    /// its rate.
    /// - Parameters:
    ///   - parley: Parley's binary.
    ///   - built: the folder of the compiled C programs.
    ///   - environment: the Python environment with the packages from PyPI.
    static func all(parley: String, built: String, environment: String) -> [EchoPeer] {
        let peers = "LoadTests/peers"
        let root = EchoWire.webSocket(path: "/")
        return [
            EchoPeer(
                name: "raw TCP echo (C, epoll)", word: "raw",
                command: { ["\(built)/tcp_echo", "\($0)"] }, wire: .raw),
            EchoPeer(
                name: "**Parley**", word: "parley",
                command: { EchoPeer.parley(parley, on: $0) }, wire: .webSocket(path: "/debug/echo")),
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

/// A child process that is pinned to a core. It is terminated when the object is freed.
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
    ///   - core: the core that it is pinned to; nil: none.
    ///   - isTalking: whether its input and output are pipes; otherwise both are /dev/null.
    init(_ command: [String], core: Int?, isTalking: Bool = false) throws(LoadFailure) {
        process.executableURL = URL(fileURLWithPath: "/usr/bin/taskset")
        // The child is terminated even when this process is killed.
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
                // Another process may listen on the port; then this one is about to end.
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
