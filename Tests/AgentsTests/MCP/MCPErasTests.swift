// Servers of both eras over HTTP: which form a server gets, how long that is remembered, and what
// happens when a server changes. The rules answer as the packages mcp 2.3.0 and 1.30.0 do.
//
// Source: MCP 2026-07-28, "Discovery", "Transports"; MCP 2025-06-18, "Lifecycle".

import Codec
import Session
import Testing

@testable import Agents

struct MCPErasTests {
    private let memory = MCPServerMemory()

    private func client(token: String = "t") -> MCPClient {
        MCPStreamableHTTP(
            url: "http://tools.example/mcp",
            headers: [.init(name: "Authorization", value: "Bearer \(token)")], isConfined: false,
            memory: memory
        ).client(MCPTimeouts())
    }

    private func failure(_ body: () async throws -> Void) async -> (any Error)? {
        do {
            try await body()
            return nil
        } catch {
            return error
        }
    }

    private static func call(_ text: String) -> ScriptedMCPServer.Rule {
        {
            ScriptedMCPServer.result(
                #"{"resultType":"complete","content":[{"type":"text","text":"\#(text)"}]}"#, to: $0)
        }
    }

    // MARK: The stateless form

    @Test func everyRequestOfTheStatelessFormStandsAlone() async throws {
        let server = ScriptedMCPServer(ScriptedMCPServer.stateless(call: Self.call("3")))
        let client = client()
        #expect(try await client.listTools(on: server).map(\.name) == ["add"])
        #expect(try await client.call("add", arguments: #"{"a":1}"#, id: "i", on: server) == "3")
        await client.cancelCall(id: "i", on: server)
        await client.close(on: server)
        // No handshake, no notification of a cancellation, no end of a session.
        #expect(server.methods == ["server/discover", "tools/list", "tools/call"])
        let envelope =
            #""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#
            + #""io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}},"#
            + #""io.modelcontextprotocol/clientInfo":{"name":"parley","version":"1"}}"#
        #expect(
            server.requests[2].body
                == #"{"jsonrpc":"2.0","id":"i","method":"tools/call","params":"#
                + #"{"name":"add","arguments":{"a":1},\#(envelope)}}"#)
        for request in server.requests {
            #expect(request.field("MCP-Protocol-Version") == "2026-07-28")
            #expect(request.field("Mcp-Method") == request.method)
            #expect(request.field("Mcp-Session-Id") == nil)
            #expect(request.field("Authorization") == "Bearer t")
            #expect(request.parameters.contains(envelope))
        }
        #expect(server.requests.map { $0.field("Mcp-Name") } == [nil, nil, "add"])
    }

    @Test func aServerIsAskedForItsFormOncePerProcess() async throws {
        let server = ScriptedMCPServer(ScriptedMCPServer.stateless())
        for _ in 0..<3 { _ = try await client().listTools(on: server) }
        #expect(server.methods.count { $0 == "server/discover" } == 1)
        // With another token it may be another server.
        _ = try await client(token: "other").listTools(on: server)
        #expect(server.methods.count { $0 == "server/discover" } == 2)
    }

    // MARK: The handshake

    @Test(arguments: [
        ScriptedMCPServer.error(-32_600, "Missing session ID", id: "server-error"),
        ScriptedMCPServer.error(-32_601, status: 200, id: "discover"),
        ScriptedMCPServer.json("{}", status: 404), ScriptedMCPServer.Answer(status: 405),
        ScriptedMCPServer.Answer(status: 500), ScriptedMCPServer.Answer(status: 422),
        ScriptedMCPServer.Answer(chunks: [Array("<html>".utf8)], contentType: "text/html"),
        ScriptedMCPServer.json("not JSON", status: 400), ScriptedMCPServer.Answer(status: 202),
        ScriptedMCPServer.json(#"{"jsonrpc":"2.0","id":"discover","result":{}}"#),
        ScriptedMCPServer.json(
            #"{"jsonrpc":"2.0","id":"discover","result":{"supportedVersions":["2025-06-18"]}}"#),
        ScriptedMCPServer.json(
            #"{"jsonrpc":"2.0","id":"discover","result":{"supportedVersions":{"a":[1]}}}"#),
        ScriptedMCPServer.error(
            -32_022, data: #"{"supported":["2025-11-25","2031-01-01"]}"#, id: "discover"),
        ScriptedMCPServer.error(-32_022, data: #"{"supported":7}"#, id: "discover"),
        ScriptedMCPServer.error(-32_022, data: #"["2026-07-28"]"#, id: "discover"),
    ])
    func aServerThatDoesNotKnowTheStatelessFormGetsTheHandshake(
        _ answer: ScriptedMCPServer.Answer
    ) async throws {
        let earlier = ScriptedMCPServer.session()
        let server = ScriptedMCPServer { request in
            request.method == "server/discover" ? answer : earlier(request)
        }
        let client = client()
        #expect(try await client.listTools(on: server).map(\.name) == ["add"])
        #expect(try await client.call("add", arguments: "{}", id: "i", on: server) == "old")
        await client.close(on: server)
        #expect(
            server.methods == [
                "server/discover", "initialize", "notifications/initialized", "tools/list",
                "tools/call", "DELETE",
            ])
        let call = server.requests[4]
        #expect(call.field("MCP-Protocol-Version") == "2025-06-18")
        #expect(call.field("Mcp-Session-Id") == "s1")
        #expect(call.field("Mcp-Method") == nil && call.field("Mcp-Name") == nil)
        #expect(!call.body.contains("_meta"))
    }

    @Test(arguments: [401, 403, 429, 503])
    func aStatusThatSaysNothingAboutTheFormIsNoReasonForAHandshake(_ status: Int) async throws {
        let server = ScriptedMCPServer { _ in ScriptedMCPServer.Answer(status: status) }
        let client = client()
        let error = await failure { _ = try await client.listTools(on: server) }
        #expect(
            error as? MCPCallError
                == .http(code: status, message: "The MCP server answered with status \(status)."))
        #expect(server.methods == ["server/discover"])
        // Nothing was learned.
        server.become(ScriptedMCPServer.stateless())
        #expect(try await client.listTools(on: server).count == 1)
    }

    @Test func aServerOfUnknownVersionsIsNamedAsSuch() async {
        let server = ScriptedMCPServer { request in
            ScriptedMCPServer.error(
                -32_022, data: #"{"supported":["2031-01-01","2032-02-02"]}"#, id: request.id ?? "")
        }
        let error = await failure { _ = try await client().listTools(on: server) }
        guard case .protocol(-32_022, let message)? = error as? MCPCallError else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(message.hasSuffix(": 2031-01-01, 2032-02-02"))
        #expect(server.methods == ["server/discover"])
    }

    @Test func aHandshakeIsRememberedForTenMinutes() async throws {
        let server = ScriptedMCPServer(ScriptedMCPServer.session())
        _ = try await client().listTools(on: server)
        server.pass(.seconds(599))
        _ = try await client().listTools(on: server)
        #expect(server.methods.count { $0 == "server/discover" } == 1)
        #expect(server.methods.count { $0 == "initialize" } == 2)
        server.pass(.seconds(600))
        server.become(ScriptedMCPServer.stateless())
        _ = try await client().listTools(on: server)
        #expect(server.methods.suffix(2) == ["server/discover", "tools/list"])
    }

    // MARK: Servers that change

    @Test func aServerThatWasReplacedByAnEarlierOneStillWorks() async throws {
        let server = ScriptedMCPServer(ScriptedMCPServer.stateless())
        let client = client()
        _ = try await client.listTools(on: server)
        server.become(ScriptedMCPServer.session())
        #expect(try await client.call("add", arguments: "{}", id: "i", on: server) == "old")
        #expect(
            server.methods.dropFirst(2) == [
                "tools/call", "server/discover", "initialize", "notifications/initialized",
                "tools/call",
            ])
        // A new session knows it.
        _ = try await self.client().listTools(on: server)
        #expect(server.methods.count { $0 == "server/discover" } == 2)
    }

    @Test func aServerThatWasReplacedByALaterOneStillWorks() async throws {
        let server = ScriptedMCPServer(ScriptedMCPServer.session())
        let client = client()
        _ = try await client.listTools(on: server)
        server.become(ScriptedMCPServer.stateless(call: Self.call("new")))
        #expect(try await client.call("add", arguments: "{}", id: "i", on: server) == "new")
        #expect(server.methods.suffix(3) == ["tools/call", "server/discover", "tools/call"])
        // A session that begins with the remembered handshake finds out too.
        let other = ScriptedMCPServer(ScriptedMCPServer.session())
        memory.record(
            url: "http://tools.example/mcp",
            headers: [.init(name: "Authorization", value: "Bearer t")], isConfined: false
        ).remember(.handshake, at: await other.now())
        other.become(ScriptedMCPServer.stateless(call: Self.call("new")))
        let late = self.client()
        #expect(try await late.call("add", arguments: "{}", id: "i", on: other) == "new")
        #expect(other.methods == ["initialize", "server/discover", "tools/call"])
    }

    @Test func aSessionThatLearnsOfALaterVersionChangesItsForm() async throws {
        let server = ScriptedMCPServer(ScriptedMCPServer.session())
        let client = client()
        _ = try await client.listTools(on: server)
        let later = ScriptedMCPServer.stateless(call: Self.call("new"))
        server.become { request in
            request.field("MCP-Protocol-Version") == "2026-07-28"
                ? later(request)
                : ScriptedMCPServer.error(
                    -32_022, data: #"{"supported":["2026-07-28"]}"#, id: request.id ?? "")
        }
        #expect(try await client.call("add", arguments: "{}", id: "i", on: server) == "new")
        await client.close(on: server)
        #expect(server.methods.suffix(2) == ["server/discover", "tools/call"])
    }

    @Test func aForgottenSessionIsReplaced() async throws {
        let server = ScriptedMCPServer(ScriptedMCPServer.session("first"))
        let client = client()
        _ = try await client.listTools(on: server)
        server.become(ScriptedMCPServer.session("second"))
        #expect(try await client.call("add", arguments: "{}", id: "i", on: server) == "old")
        #expect(server.requests.last?.field("Mcp-Session-Id") == "second")
    }

    @Test func anErrorOfASessionIsNoReasonToCallAgain() async throws {
        let server = ScriptedMCPServer(
            ScriptedMCPServer.session { request in
                ScriptedMCPServer.error(-32_602, "why", id: request.id ?? "")
            })
        let client = client()
        _ = try await client.listTools(on: server)
        let error = await failure {
            _ = try await client.call("add", arguments: "{}", id: "i", on: server)
        }
        #expect(error as? MCPCallError == .protocol(code: -32_602, message: "why"))
        #expect(server.methods.suffix(2) == ["tools/call", "server/discover"])
        #expect(server.methods.count { $0 == "initialize" } == 1)
    }

    // MARK: Errors

    @Test(arguments: [
        (400, -32_602), (404, -32_601), (400, -32_020), (400, -32_021), (200, -32_603),
        (200, -32_602), (200, 0),
    ])
    func anErrorOfAStatelessServerIsNoReasonToCallAgain(_ status: Int, _ code: Int) async throws {
        let server = ScriptedMCPServer(
            ScriptedMCPServer.stateless { request in
                ScriptedMCPServer.error(code, "why", status: status, id: request.id ?? "")
            })
        let client = client()
        _ = try await client.listTools(on: server)
        let error = await failure {
            _ = try await client.call("add", arguments: "{}", id: "i", on: server)
        }
        #expect(error as? MCPCallError == .protocol(code: code, message: "why"))
        // Only a description that does not fit is fetched again.
        let calls = code == JSONRPCFailure.Code.headerMismatch ? 2 : 1
        #expect(server.methods.count { $0 == "tools/call" } == calls)
        #expect(!server.methods.contains("initialize"))
    }

    @Test func errorsWithoutAReasonKeepTheirStatus() async throws {
        for (status, type) in [(500, "application/json"), (400, "text/plain"), (413, "")] {
            let server = ScriptedMCPServer(
                ScriptedMCPServer.stateless { _ in
                    ScriptedMCPServer.Answer(
                        status: status, chunks: [[0x7B, 0xFF]], contentType: type)
                })
            let error = await failure {
                _ = try await client().call("add", arguments: "{}", id: "i", on: server)
            }
            guard case .http(status, _)? = error as? MCPCallError else {
                Issue.record("\(String(describing: error))")
                continue
            }
        }
    }

    @Test func aHugeBodyOfAnErrorIsNotRead() async throws {
        let piece = [UInt8](repeating: 0x20, count: 60_000)
        let server = ScriptedMCPServer(
            ScriptedMCPServer.stateless { _ in
                ScriptedMCPServer.Answer(
                    status: 500, chunks: [piece, piece], failure: .overloaded,
                    contentType: "application/json")
            })
        let error = await failure {
            _ = try await client().call("add", arguments: "{}", id: "i", on: server)
        }
        guard case .http(500, _)? = error as? MCPCallError else {
            Issue.record("\(String(describing: error))")
            return
        }
    }

    @Test func aStatelessServerHasNoRequestsForUs() async throws {
        let server = ScriptedMCPServer(
            ScriptedMCPServer.stateless { request in
                ScriptedMCPServer.Answer(
                    chunks: [
                        Array(
                            #"data: {"jsonrpc":"2.0","id":1,"method":"roots/list"}"#.utf8),
                        Array("\n\n: ping\n\ndata: ".utf8),
                        Array(
                            #"{"jsonrpc":"2.0","id":"i","result":{"content":[]}}"#.utf8),
                        Array("\n\n".utf8),
                    ], contentType: "text/event-stream")
            })
        #expect(try await client().call("add", arguments: "{}", id: "i", on: server).isEmpty)
        #expect(server.methods == ["server/discover", "tools/call"])
    }

    @Test(arguments: [
        #"{"resultType":"task"}"#, #"{"resultType":7}"#, #"{"resultType":["complete"]}"#,
        #"{"resultType":"input_required"}"#,
        #"{"resultType":"input_required","inputRequests":[]}"#,
        #"{"resultType":"input_required","inputRequests":{"a":5}}"#,
        #"{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create"}}}"#,
    ])
    func resultsThatCannotBeUnderstoodFail(_ result: String) async {
        let server = ScriptedMCPServer(
            ScriptedMCPServer.stateless { ScriptedMCPServer.result(result, to: $0) })
        let error = await failure {
            _ = try await client().call("add", arguments: "{}", id: "i", on: server)
        }
        #expect(error is AgentError || error is MCPCallError)
        #expect(server.methods.count { $0 == "tools/call" } == 1)
    }

    @Test func deepAndHugeAnswersFail() async {
        let deep = String(repeating: "[", count: 5_000) + String(repeating: "]", count: 5_000)
        let wide = #"{"supportedVersions":[\#(String(repeating: "1,", count: 70_000))1]}"#
        for result in [#"{"supportedVersions":\#(deep)}"#, wide] {
            let server = ScriptedMCPServer { ScriptedMCPServer.result(result, to: $0) }
            let error = await failure { _ = try await client().listTools(on: server) }
            #expect(error is AgentError)
        }
    }

    // MARK: Lists that may be kept

    private func list(_ hint: String) -> String {
        #""ttlMs":\#(hint),"tools":[{"name":"add","inputSchema":{"type":"object"}}]"#
    }

    @Test func aListIsKeptForAsLongAsItsServerAllows() async throws {
        let server = ScriptedMCPServer(ScriptedMCPServer.stateless(tools: list("60000")))
        for _ in 0..<3 { #expect(try await client().listTools(on: server).count == 1) }
        #expect(server.methods == ["server/discover", "tools/list"])
        // Only with the same credentials.
        _ = try await client(token: "other").listTools(on: server)
        #expect(server.methods.count { $0 == "tools/list" } == 2)
        server.pass(.seconds(59))
        _ = try await client().listTools(on: server)
        #expect(server.methods.count { $0 == "tools/list" } == 2)
        server.pass(.seconds(1))
        _ = try await client().listTools(on: server)
        #expect(server.methods.count { $0 == "tools/list" } == 3)
    }

    @Test(arguments: ["0", "-5", #""60000""#, "null", "{}", "1e300", "0.5"])
    func aListWithoutAUsableTimeIsNotKept(_ hint: String) async throws {
        let server = ScriptedMCPServer(ScriptedMCPServer.stateless(tools: list(hint)))
        for _ in 0..<2 { _ = try await client().listTools(on: server) }
        #expect(server.methods.count { $0 == "tools/list" } == 2)
    }

    @Test func noListIsKeptLongerThanAnHour() async throws {
        let server = ScriptedMCPServer(
            ScriptedMCPServer.stateless(tools: list("9223372036854775807")))
        _ = try await client().listTools(on: server)
        server.pass(.seconds(3_599))
        _ = try await client().listTools(on: server)
        #expect(server.methods.count { $0 == "tools/list" } == 1)
        server.pass(.seconds(1))
        _ = try await client().listTools(on: server)
        #expect(server.methods.count { $0 == "tools/list" } == 2)
    }

    @Test func theShortestTimeOfItsPagesCounts() async throws {
        let server = ScriptedMCPServer { request in
            if request.method == "tools/list" {
                let isSecond = request.parameters.contains(#""cursor":"2""#)
                return ScriptedMCPServer.result(
                    #"{"resultType":"complete","tools":[{"name":"\#(isSecond ? "b" : "a")","#
                        + #""inputSchema":{}}],"ttlMs":\#(isSecond ? 1_000 : 9_000)"#
                        + (isSecond ? "}" : #","nextCursor":"2"}"#), to: request)
            }
            return ScriptedMCPServer.stateless()(request)
        }
        #expect(try await client().listTools(on: server).map(\.name) == ["a", "b"])
        server.pass(.seconds(1))
        _ = try await client().listTools(on: server)
        #expect(server.methods.count { $0 == "tools/list" } == 4)
    }

    @Test func theTimeOfAnEarlierServersListIsNoHint() async throws {
        let server = ScriptedMCPServer(ScriptedMCPServer.session(tools: list("60000")))
        for _ in 0..<2 { _ = try await client().listTools(on: server) }
        #expect(server.methods.count { $0 == "tools/list" } == 2)
    }

    @Test func theMemoryForgetsTheServerThatWasUsedLeastRecently() {
        let now = Instant(nanoseconds: 0)
        let records = (0...256).map {
            memory.record(url: "http://\($0)/", headers: [], isConfined: false)
        }
        for record in records.dropLast() { record.remember(.handshake, at: now) }
        #expect(records[0].era(at: now) == .handshake)
        records[256].remember(.stateless(version: "2026-07-28"), at: now)
        #expect(records[1].era(at: now) == nil)
        #expect(records[0].era(at: now) == .handshake)
        #expect(records[256].era(at: now) == .stateless(version: "2026-07-28"))
        let confined = memory.record(url: "http://256/", headers: [], isConfined: true)
        #expect(confined.era(at: now) == nil)
    }
}
