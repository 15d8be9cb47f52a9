// The client of MCP servers over streamable HTTP, against scripted answers of a server that needs
// the handshake: lists, calls, the forms of answers, and the failures of servers. MCPErasTests has
// the stateless form.
//
// Source: MCP 2025-06-18.

import Codec
import Session
import Testing

@testable import Agents

struct MCPClientTests {
    private typealias Answer = ScriptedAgentHost.Answer

    private func json(
        _ text: String, status: Int = 200, session: String? = nil
    ) -> ScriptedAgentHost.Answer {
        Answer(
            status: status, chunks: [Array(text.utf8)], contentType: "application/json",
            header: session.map { (name: "Mcp-Session-Id", value: $0) })
    }

    private func stream(_ pieces: String...) -> ScriptedAgentHost.Answer {
        Answer(chunks: pieces.map { Array($0.utf8) }, contentType: "text/event-stream; charset=x")
    }

    private func handshake(_ session: String? = "s1") -> [ScriptedAgentHost.Answer] {
        [
            Answer(status: 400),
            json(
                #"{"jsonrpc":"2.0","id":"initialize","result":{"protocolVersion":"2025-06-18","#
                    + #""capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#,
                session: session), Answer(status: 202),
        ]
    }

    private func result(_ result: String, id: String = "item_1") -> String {
        #"{"jsonrpc":"2.0","id":"\#(id)","result":\#(result)}"#
    }

    private var client: MCPClient {
        MCPStreamableHTTP(
            url: "http://tools.example/mcp",
            headers: [.init(name: "Authorization", value: "Bearer t")], isConfined: true,
            memory: MCPServerMemory()
        ).client(MCPTimeouts())
    }

    private func call(
        _ answers: [ScriptedAgentHost.Answer]
    ) async throws -> (text: String, host: ScriptedAgentHost) {
        let host = ScriptedAgentHost(answers: handshake() + answers)
        let text = try await client.call("add", arguments: #"{"a":1}"#, id: "item_1", on: host)
        return (text, host)
    }

    private func failure(_ answers: ScriptedAgentHost.Answer...) async -> (any Error)? {
        do {
            _ = try await call(answers)
            return nil
        } catch {
            return error
        }
    }

    private func field(_ request: UpstreamRequest, _ name: String) -> String? {
        request.headers.first { $0.name == name }?.value
    }

    @Test func shakesHandsOnceAndSendsTheSessionIDAfterwards() async throws {
        let text = #"{"content":[{"type":"text","text":"3"},{"type":"text","text":"!"}]}"#
        let (answer, host) = try await call([json(result(text))])
        #expect(answer == "3\n!")
        #expect(host.requests.count == 4)
        let requests = host.requests.dropFirst()
        let bodies = requests.map { String(decoding: $0.body, as: UTF8.self) }
        #expect(bodies[0].contains(#""method":"initialize""#))
        #expect(bodies[1] == #"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
        #expect(
            bodies[2] == #"{"jsonrpc":"2.0","id":"item_1","method":"tools/call","params":"#
                + #"{"name":"add","arguments":{"a":1}}}"#)
        #expect(field(host.requests[1], "Mcp-Session-Id") == nil)
        for request in host.requests {
            #expect(field(request, "Accept") == "application/json, text/event-stream")
            #expect(field(request, "Authorization") == "Bearer t")
            #expect(request.reachesOnlyPublicAddresses)
        }
        for request in requests.dropFirst() {
            #expect(field(request, "Mcp-Session-Id") == "s1")
            #expect(field(request, "MCP-Protocol-Version") == "2025-06-18")
        }
    }

    @Test func listsAllPagesAndKeepsSchemasUnchanged() async throws {
        let first =
            #"{"tools":[{"name":"add","description":"Adds.","inputSchema":{"type":"#
            + #""object"},"annotations":{"readOnlyHint":true}},{"name":"bare"}],"nextCursor":"c"}"#
        let second =
            #"{"tools":[{"name":"sub","inputSchema":{}},{"name":"odd","inputSchema":null},"#
            + #"{"inputSchema":{}}]}"#
        let host = ScriptedAgentHost(
            answers: handshake() + [
                json(result(first, id: "list-1")), json(result(second, id: "list-2")),
            ])
        let tools = try await client.listTools(on: host)
        #expect(tools.map(\.name) == ["add", "bare", "sub", "odd"])
        // One without a schema takes no arguments.
        for tool in [tools[0], tools[1], tools[3]] {
            #expect(tool.inputSchema == RawJSON(#"{"type":"object"}"#))
        }
        #expect(tools[0].isReadOnly && tools[2].inputSchema == RawJSON("{}"))
        #expect(
            String(decoding: host.requests[4].body, as: UTF8.self).contains(#"{"cursor":"c"}"#))
    }

    @Test func anEventStreamMayHoldOtherMessagesAndBeSplitAnywhere() async throws {
        let answer = stream(
            "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n",
            "\n: still here\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n\nda",
            "ta: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"roots/list\"}\n\n",
            "data: " + result(#"{"content":[]}"#, id: "other") + "\n\n",
            "data: " + result(#"{"content":[{"type":"text","text":"yes"}]}"#) + "\n\n")
        let (text, host) = try await call([answer, Answer(status: 202), Answer(status: 202)])
        #expect(text == "yes")
        let replies = host.requests.suffix(2).map { String(decoding: $0.body, as: UTF8.self) }
        #expect(replies[0] == #"{"jsonrpc":"2.0","id":7,"result":{}}"#)
        #expect(replies[1].contains(#""id":"q","error":{"code":-32601"#))
    }

    @Test(arguments: [
        (#"{"content":[],"structuredContent":{"sum":3}}"#, #"{"sum":3}"#),
        (
            #"{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}"#,
            "[image image/png]"
        ),
        (#"{"content":[{"type":"resource","resource":{"uri":"a:b","text":"in"}}]}"#, "in"),
        (#"{"content":[{"type":"resource_link","uri":"a:b"}]}"#, "[resource a:b]"),
        (#"{}"#, ""),
    ])
    func turnsContentIntoText(_ content: String, _ text: String) async throws {
        #expect(try await call([json(result(content))]).text == text)
    }

    @Test func aForgottenSessionIsReplacedOnce() async throws {
        let answers =
            [Answer(status: 404)] + handshake("s2")
            + [json(result(#"{"content":[{"type":"text","text":"again"}]}"#))]
        let (text, host) = try await call(answers)
        #expect(text == "again")
        #expect(field(host.requests.last!, "Mcp-Session-Id") == "s2")
        // A server that forgets the new session too is not tried again.
        let endless = [Answer(status: 404)] + handshake("s2") + [Answer(status: 404)]
        do {
            _ = try await call(endless)
            Issue.record("it did not fail")
        } catch let error as MCPCallError {
            #expect(error == .http(code: 404, message: "The MCP server answered with status 404."))
        }
    }

    @Test func errorsKeepTheirKind() async {
        let refused = json(
            #"{"jsonrpc":"2.0","id":"item_1","error":{"code":-32602,"message":"no a"}}"#)
        #expect(
            await failure(refused) as? MCPCallError == .protocol(code: -32_602, message: "no a"))
        let failed = json(
            result(#"{"isError":true,"content":[{"type":"text","text":"no luck"}]}"#))
        #expect(await failure(failed) as? MCPCallError == .execution(message: "no luck"))
        #expect(
            await failure(Answer(status: 503)) as? MCPCallError
                == .http(code: 503, message: "The MCP server answered with status 503."))
    }

    @Test func invalidAnswersAreMalformedReplies() async {
        let broken: [ScriptedAgentHost.Answer] = [
            json("{"), json("5"), json(#"{"id":"item_1","result":{}}"#),
            json(result("{}", id: "other")), json(#"{"jsonrpc":"2.0","id":"item_1"}"#),
            json(#"{"jsonrpc":"2.0","id":1,"result":{}}"#), json("[]"), json(""),
            stream("data: nonsense\n\n"), stream("data: " + result("{}")),
        ]
        for answer in broken {
            guard case .malformedReply? = await failure(answer) as? AgentError else {
                Issue.record("accepted: \(answer)")
                continue
            }
        }
    }

    @Test func anAnswerThatBreaksOffOrNeverEndsFails() async {
        let cut = Answer(
            chunks: [Array("data: {".utf8)], failure: .upstream(status: 0, message: "cut"),
            contentType: "text/event-stream")
        #expect(await failure(cut) as? AgentError == .upstream(status: 0, message: "cut"))
        let huge = Answer(
            chunks: [[UInt8]](repeating: [UInt8](repeating: 0x20, count: 64 << 10), count: 17),
            contentType: "application/json")
        guard case .protocol(-32_000, _)? = await failure(huge) as? MCPCallError else {
            Issue.record("a huge answer was read")
            return
        }
    }

    @Test func anUnknownVersionIsRefused() async {
        let host = ScriptedAgentHost(answers: [
            Answer(status: 400),
            json(
                #"{"jsonrpc":"2.0","id":"initialize","result":{"protocolVersion":"1999-01-01"}}"#),
        ])
        await #expect(throws: AgentError.self) { try await client.listTools(on: host) }
    }

    @Test func cancelsACallByItsIDAndEndsTheSession() async throws {
        let client = client
        let host = ScriptedAgentHost(
            answers: handshake() + [
                json(result(#"{"content":[]}"#)), Answer(status: 202), Answer(),
            ])
        _ = try await client.call("add", arguments: "{}", id: "item_1", on: host)
        await client.cancelCall(id: "item_1", on: host)
        await client.close(on: host)
        await client.close(on: host)
        let requests = host.requests.suffix(2)
        #expect(
            String(decoding: requests.first!.body, as: UTF8.self)
                == #"{"jsonrpc":"2.0","method":"notifications/cancelled","params":"#
                + #"{"requestId":"item_1"}}"#)
        #expect(requests.last?.method == "DELETE" && host.requests.count == 6)
    }

    @Test func readsAConfigurationFile() throws {
        let file = #"""
            {"mcpServers":{"files":{"command":"python3","args":["s.py"],"env":{"A":"b"}},
            "docs":{"type":"http","url":"https://d.example/mcp","headers":{"X":"y"}}}}
            """#
        #expect(
            try MCPServerConfiguration.all(in: Array(file.utf8)) == [
                .init(
                    label: "files",
                    transport: .program(command: ["python3", "s.py"], environment: ["A=b"])),
                .init(
                    label: "docs",
                    transport: .http(
                        url: "https://d.example/mcp", headers: [.init(name: "X", value: "y")])),
            ])
        let unlabelled = #"{"mcpServers":{"1":{"command":"x"}}}"#
        for bad in ["", "{}", #"{"mcpServers":{"a":{}}}"#, unlabelled] {
            #expect(throws: MCPConfigurationError.self) {
                try MCPServerConfiguration.all(in: Array(bad.utf8))
            }
        }
    }
}
