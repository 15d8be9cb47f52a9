// An MCP server in place of a shard's services: it answers each request by a rule, as a server of
// one era does, and its clock moves only by hand and by `sleep`.

import Codec
import Session
import Synchronization

@testable import Agents

/// A request as the server has got it.
struct MCPServerRequest: Sendable {
    let upstream: UpstreamRequest
    let body: String
    let method: String
    let id: String?
    /// `params` as JSON.
    let parameters: String

    init(_ upstream: UpstreamRequest) {
        self.upstream = upstream
        body = String(decoding: upstream.body, as: UTF8.self)
        let root = try? JSONParser().parse(upstream.body)
        method = root?["method"]?.string ?? upstream.method
        id = root?["id"]?.string
        parameters = root?["params"]?.raw.text ?? ""
    }

    func field(_ name: String) -> String? {
        upstream.headers.first { $0.name == name }?.value
    }
}

/// Answers requests by a rule, which a test may replace.
final class ScriptedMCPServer: HostWithoutServices {
    typealias Answer = ScriptedAgentHost.Answer
    typealias Rule = @Sendable (MCPServerRequest) -> Answer

    private struct State {
        var rule: Rule
        var requests: [MCPServerRequest] = []
        var time = Instant(nanoseconds: 0)
        var sleeps: [Duration] = []
    }

    private let state: Mutex<State>

    init(_ rule: @escaping Rule) { state = Mutex(State(rule: rule)) }

    var requests: [MCPServerRequest] { state.withLock { $0.requests } }
    var sleeps: [Duration] { state.withLock { $0.sleeps } }
    /// The methods of all requests, in order.
    var methods: [String] { requests.map(\.method) }

    func become(_ rule: @escaping Rule) { state.withLock { $0.rule = rule } }

    func pass(_ duration: Duration) { state.withLock { $0.time = $0.time + duration } }

    func now() async -> Instant { state.withLock { $0.time } }

    func sleep(for duration: Duration) async throws {
        try Task.checkCancellation()
        state.withLock { state in
            state.sleeps.append(duration)
            state.time = state.time + duration
        }
    }

    func send(_ request: UpstreamRequest) async throws -> any UpstreamResponse {
        let received = MCPServerRequest(request)
        let rule = state.withLock { state in
            state.requests.append(received)
            return state.rule
        }
        return try await ScriptedAgentHost(answers: [rule(received)]).send(request)
    }

    // MARK: Answers

    static func json(_ text: String, status: Int = 200) -> Answer {
        Answer(status: status, chunks: [Array(text.utf8)], contentType: "application/json")
    }

    static func result(_ result: String, to request: MCPServerRequest) -> Answer {
        json(#"{"jsonrpc":"2.0","id":"\#(request.id ?? "")","result":\#(result)}"#)
    }

    static func error(
        _ code: Int, _ message: String = "no", data: String = "null", status: Int = 400,
        id: String
    ) -> Answer {
        json(
            #"{"jsonrpc":"2.0","id":"\#(id)","error":{"code":\#(code),"message":"\#(message)","#
                + #""data":\#(data)}}"#,
            status: status)
    }

    // MARK: Servers

    /// A server of the stateless revision, as the package mcp 2.3.0 answers.
    /// - Parameters:
    ///   - tools: the result of `tools/list`, without its type.
    ///   - call: answers `tools/call`.
    static func stateless(
        tools: String = #""tools":[{"name":"add","inputSchema":{"type":"object"}}]"#,
        call: @escaping Rule = { result(#"{"resultType":"complete","content":[]}"#, to: $0) }
    ) -> Rule {
        { request in
            let id = request.id ?? "none"
            guard request.field("MCP-Protocol-Version") == "2026-07-28",
                request.field("Mcp-Method") == request.method
            else { return error(-32_602, "no envelope", id: id) }
            switch request.method {
            case "server/discover":
                return result(
                    #"{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0}"#,
                    to: request)
            case "tools/list": return result(#"{"resultType":"complete",\#(tools)}"#, to: request)
            case "tools/call": return call(request)
            default: return error(-32_601, status: 404, id: id)
            }
        }
    }

    /// A server with a handshake and sessions, as the package mcp 1.30.0 answers.
    static func session(
        _ session: String = "s1",
        tools: String = #""tools":[{"name":"add","inputSchema":{"type":"object"}}]"#,
        call: @escaping Rule = { result(#"{"content":[{"type":"text","text":"old"}]}"#, to: $0) }
    ) -> Rule {
        { request in
            if request.method == "initialize" {
                var answer = result(
                    #"{"protocolVersion":"2025-06-18","capabilities":{}}"#, to: request)
                answer.header = (name: "Mcp-Session-Id", value: session)
                return answer
            }
            guard let known = request.field("Mcp-Session-Id") else {
                return error(-32_600, "Bad Request: Missing session ID", id: "server-error")
            }
            guard known == session else {
                return error(-32_600, "Session not found", status: 404, id: "server-error")
            }
            switch request.method {
            case "tools/list": return result("{\(tools)}", to: request)
            case "tools/call": return call(request)
            default: return Answer(status: 202)
            }
        }
    }
}
