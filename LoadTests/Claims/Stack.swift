// The stacks that the claims compare. Each is a server of agent sessions that implements the same
// part of the Realtime protocol and calls the same scripted model. The programs are in
// LoadTests/peers; scripts/setup-peers.sh installs what they need.

/// The paths of the programs, relative to the repository's root.
struct StackPaths {
    /// Parley's release binary.
    var parley = ".build/release/parley"
    /// The Python environment with the packages from PyPI.
    var environment = ".venv-peers"
    /// The binary that SwiftPM builds from LoadTests/peers/nio.
    var nio = ".build-nio/release/nio-agent"
    /// The C programs that scripts/setup-peers.sh compiles.
    var built = ".build/peers"
    /// The peers' sources.
    var peers = "LoadTests/peers"
}

/// A server of agent sessions, or of their HTTP part alone.
enum Stack: String, CaseIterable, Codable, Sendable {
    case parley, node
    case nodeHTTP = "node-http"
    case fastapi, bun, picows, nio

    /// Those with sessions over WebSocket.
    static let agents = allCases.filter { $0 != .nodeHTTP }
    /// Those that answer over HTTP.
    static let webServers = allCases.filter { $0.helloPath != nil }

    /// Its name in tables.
    var title: String {
        switch self {
        case .parley: "**Parley**"
        case .node: "Node 24, ws"
        case .nodeHTTP: "Node 24, node:http"
        case .fastapi: "FastAPI, uvicorn"
        case .bun: "Bun"
        case .picows: "picows, uvloop"
        case .nio: "SwiftNIO"
        }
    }

    /// Its name without emphasis.
    var plainTitle: String { title.replacing("**", with: "") }

    /// The path that echoes WebSocket messages.
    var echoPath: String { self == .parley ? "/debug/echo" : "/echo" }

    /// The path of its smallest answer over HTTP; nil where the stack has none.
    var helloPath: String? {
        switch self {
        case .parley: "/healthz"
        case .node, .nodeHTTP, .fastapi, .bun: "/"
        case .picows, .nio: nil
        }
    }

    /// The program and its arguments.
    /// - Parameters:
    ///   - port: the port to listen on.
    ///   - model: the scripted model's base URL, which ends in `/v1`.
    func command(port: UInt16, model: String, paths: StackPaths) -> [String] {
        let (python, peers) = ("\(paths.environment)/bin/python", paths.peers)
        let arguments = ["\(port)", "\(model)/chat/completions"]
        return switch self {
        case .parley:
            // One shard, because the other stacks run one thread. The limits allow as many
            // connections as the process has descriptors.
            [
                paths.parley, "serve", "--host", "127.0.0.1", "--port", "\(port)", "--shards", "1",
                "--llm-url", model, "--debug-echo", "true", "--log-level", "warning",
                "--max-connections", "19900", "--max-sessions", "19900",
                "--max-text-turns", "10000",
            ]
        case .node: ["\(paths.environment)/bin/node", "\(peers)/node_ws_agent.cjs"] + arguments
        case .nodeHTTP:
            ["\(paths.environment)/bin/node", "\(peers)/node_http_agent.cjs"] + arguments
        case .fastapi: ["env", "AIOHTTP=1", python, "\(peers)/fastapi_agent.py"] + arguments
        case .bun:
            [
                // Bun has no setting for the queue of its listening socket.
                "env", "LD_PRELOAD=\(paths.built)/long_backlog.so",
                "BUN_CONFIG_MAX_HTTP_REQUESTS=20000", "\(paths.environment)/bin/bun",
                "\(peers)/bun_agent.js",
            ] + arguments
        case .picows: [python, "\(peers)/picows_agent.py"] + arguments
        case .nio: [paths.nio] + arguments
        }
    }
}
