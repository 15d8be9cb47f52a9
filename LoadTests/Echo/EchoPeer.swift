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
