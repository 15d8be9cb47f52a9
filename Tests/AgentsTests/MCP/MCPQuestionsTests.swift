// Tools that ask the user: the question reaches the model as the call's failure, and the answers of
// the next call reach the server. The results are those of the package mcp 2.3.0.
//
// Source: MCP 2026-07-28, "Input required", "Elicitation".

import Codec
import Session
import Testing

@testable import Agents

struct MCPQuestionsTests {
    private func client() -> MCPClient {
        MCPStreamableHTTP(
            url: "http://tools.example/mcp", headers: [], isConfined: false,
            memory: MCPServerMemory()
        ).client(MCPTimeouts())
    }

    private static func question(_ text: String, _ schema: String) -> String {
        #"{"method":"elicitation/create","params":{"mode":"form","message":"\#(text)","#
            + #""requestedSchema":{"type":"object",\#(schema)}}}"#
    }

    private static let size = question(
        "Which size of tea?",
        #""properties":{"size":{"type":"string","enum":["small","large"],"title":"Size","#
            + #""description":"of the cup"},"sugar":{"type":"boolean"}},"required":["size"]"#)

    private static func asking(_ requests: String, state: String = "s-1") -> String {
        #"{"resultType":"input_required","inputRequests":{\#(requests)},"requestState":"\#(state)"}"#
    }

    /// A server whose tool asks until a request has answers.
    private static func server(_ asking: String) -> ScriptedMCPServer {
        ScriptedMCPServer(
            ScriptedMCPServer.stateless { request in
                guard request.parameters.contains(#""inputResponses""#) else {
                    return ScriptedMCPServer.result(asking, to: request)
                }
                return ScriptedMCPServer.result(
                    #"{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#,
                    to: request)
            })
    }

    private func refusal(_ server: ScriptedMCPServer, _ arguments: String) async -> String? {
        do {
            _ = try await client().call("order", arguments: arguments, id: "i", on: server)
            return nil
        } catch MCPCallError.execution(let message) {
            return message
        } catch {
            return "\(error)"
        }
    }

    private func calls(_ server: ScriptedMCPServer) -> [MCPServerRequest] {
        server.requests.filter { $0.method == "tools/call" }
    }

    @Test func theModelReadsTheQuestionAndItsFields() async {
        let server = Self.server(Self.asking(#""k":\#(Self.size)"#))
        let expected = """
            Nothing was done yet, because the tool has a question for the user:
            Which size of tea?
            Ask the user. Then call the tool again with the same arguments and with \
            "user_answers", an object that has:
            size: string, required; one of "small", "large"; of the cup
            sugar: boolean, optional
            If the user does not want to answer, "user_answers" is "declined".
            """
        #expect(await refusal(server, #"{"drink":"tea"}"#) == expected)
        #expect(calls(server).count == 1)
    }

    @Test func theAnswersGoToTheServerWithItsState() async throws {
        let server = Self.server(Self.asking(#""k":\#(Self.size)"#))
        let arguments =
            #"{"drink":"tea","user_answers":{"size":"large","sugar":true,"more":1,"x":{}}}"#
        let text = try await client().call("order", arguments: arguments, id: "i", on: server)
        #expect(text == "done")
        let sent = calls(server)
        #expect(sent.map(\.id) == ["i", "i.1"])
        for request in sent {
            #expect(request.parameters.contains(#""arguments":{"drink":"tea"}"#))
        }
        #expect(
            sent[1].parameters.contains(
                #""requestState":"s-1","inputResponses":{"k":{"action":"accept","#
                    + #""content":{"size":"large","sugar":true}}}"#))
    }

    @Test func aUserMayDecline() async throws {
        let server = Self.server(Self.asking(#""k":\#(Self.size)"#))
        _ = try await client().call(
            "order", arguments: #"{"user_answers":"declined"}"#, id: "i", on: server)
        #expect(
            calls(server)[1].parameters.contains(#""inputResponses":{"k":{"action":"decline"}}"#))
    }

    @Test(arguments: [
        #"{}"#, #"{"sugar":true}"#, #"{"size":null}"#, #"{"size":{"a":1}}"#, #"{"size":[1]}"#, "5",
        "[]", "null", #""yes""#,
    ])
    func answersThatAreNotCompleteAreAskedForAgain(_ answers: String) async {
        let server = Self.server(Self.asking(#""k":\#(Self.size)"#))
        let message = await refusal(server, #"{"user_answers":\#(answers)}"#)
        #expect(message?.contains("Which size of tea?") == true)
        #expect(calls(server).count == 1)
    }

    @Test func aConfirmationHasNoFields() async throws {
        let server = Self.server(
            Self.asking(#""k":\#(Self.question("Really?", #""properties":{}"#))"#))
        #expect(await refusal(server, "{}")?.contains("an empty object means yes") == true)
        let arguments = #"{"user_answers":{}}"#
        #expect(
            try await client().call("order", arguments: arguments, id: "i", on: server) == "done")
    }

    @Test func fieldsOfTwoFormsWithOneNameAreKeptApart() async throws {
        let form = #""properties":{"ok":{"type":"boolean"}},"required":["ok"]"#
        let server = Self.server(
            Self.asking(
                #""a":\#(Self.question("Pay?", form)),"b":\#(Self.question("Send?", form))"#))
        let message = await refusal(server, #"{"user_answers":{"ok":true}}"#)
        #expect(message?.contains("Pay?\nSend?") == true)
        #expect(message?.contains("ok: boolean, required\nok_2: boolean, required") == true)
        let arguments = #"{"user_answers":{"ok":true,"ok_2":false}}"#
        _ = try await client().call("order", arguments: arguments, id: "i", on: server)
        #expect(
            calls(server).last?.parameters.contains(
                #"{"a":{"action":"accept","content":{"ok":true}},"#
                    + #""b":{"action":"accept","content":{"ok":false}}}"#) == true)
    }

    @Test func aSecondQuestionIsAnsweredFromTheSameArgument() async throws {
        let second = Self.question(
            "How many?", #""properties":{"count":{"type":"integer"}},"required":["count"]"#)
        let server = ScriptedMCPServer(
            ScriptedMCPServer.stateless { request in
                if request.parameters.contains(#""requestState":"two""#) {
                    return ScriptedMCPServer.result(#"{"content":[]}"#, to: request)
                }
                let isFirst = !request.parameters.contains("requestState")
                return ScriptedMCPServer.result(
                    Self.asking(
                        #""k":\#(isFirst ? Self.size : second)"#, state: isFirst ? "one" : "two"),
                    to: request)
            })
        let message = await refusal(server, #"{"user_answers":{"size":"large"}}"#)
        #expect(message?.contains("How many?") == true)
        #expect(message?.contains("that has (beside the answers so far):\ncount: ") == true)
        let arguments = #"{"user_answers":{"size":"large","count":2}}"#
        _ = try await client().call("order", arguments: arguments, id: "j", on: server)
        #expect(calls(server).suffix(3).map(\.id) == ["j", "j.1", "j.2"])
    }

    @Test func aQuestionThatComesAgainGoesToTheUser() async {
        let server = ScriptedMCPServer(
            ScriptedMCPServer.stateless {
                ScriptedMCPServer.result(Self.asking(#""k":\#(Self.size)"#), to: $0)
            })
        let message = await refusal(server, #"{"user_answers":{"size":"huge"}}"#)
        #expect(message?.contains("Which size of tea?") == true)
        #expect(calls(server).count == 2)
    }

    @Test(arguments: [
        (#"{"method":"sampling/createMessage","params":{}}"#, "sampling/createMessage"),
        (#"{"method":"roots/list"}"#, "roots/list"),
        (
            #"{"method":"elicitation/create","params":{"mode":"url","message":"m","url":"http://x"}}"#,
            "web page"
        ),
    ])
    func inputOfAnotherKindFailsTheCall(_ request: String, _ word: String) async {
        let server = Self.server(Self.asking(#""k":\#(request)"#))
        let message = await refusal(server, #"{"user_answers":{"size":"large"}}"#)
        #expect(message?.contains(word) == true && message?.contains("http://x") == false)
        #expect(calls(server).count == 1)
    }

    @Test func aServerThatOnlyWantsTimeIsAskedAgainWithItsState() async throws {
        let server = ScriptedMCPServer(
            ScriptedMCPServer.stateless { request in
                request.id == "i.4"
                    ? ScriptedMCPServer.result(#"{"content":[]}"#, to: request)
                    : ScriptedMCPServer.result(
                        #"{"resultType":"input_required","requestState":"wait"}"#, to: request)
            })
        _ = try await client().call("order", arguments: "{}", id: "i", on: server)
        let pauses: [Duration] = [50, 100, 200, 250].map { .milliseconds($0) }
        #expect(server.sleeps == pauses)
        #expect(calls(server)[1].parameters.contains(#""requestState":"wait""#))
        #expect(!calls(server)[1].parameters.contains("inputResponses"))
    }

    @Test func aServerThatAsksForEverIsLeft() async {
        let server = ScriptedMCPServer(
            ScriptedMCPServer.stateless {
                ScriptedMCPServer.result(
                    #"{"resultType":"input_required","requestState":"wait"}"#, to: $0)
            })
        #expect(await refusal(server, "{}")?.contains("again and again") == true)
        #expect(calls(server).count == 11)
    }

    @Test func aCallWithItsQuestionsHasOneTimeLimit() async {
        let server = ScriptedMCPServer { _ in .init() }
        server.become(
            ScriptedMCPServer.stateless { [weak server] request in
                server?.pass(.seconds(61))
                return ScriptedMCPServer.result(
                    #"{"resultType":"input_required","requestState":"wait"}"#, to: request)
            })
        #expect(await refusal(server, "{}")?.contains("too long") == true)
        #expect(calls(server).count == 1)
    }

    @Test func aToolMayHaveAnArgumentOfThatName() async throws {
        let server = ScriptedMCPServer(
            ScriptedMCPServer.stateless(
                tools: #""tools":[{"name":"quiz","inputSchema":{"properties":{"#
                    + #""user_answers":{"type":"string"}}}}]"#))
        let client = client()
        _ = try await client.listTools(on: server)
        _ = try await client.call(
            "quiz", arguments: #"{"user_answers":"b"}"#, id: "i", on: server)
        #expect(calls(server)[0].parameters.contains(#""arguments":{"user_answers":"b"}"#))
    }

    @Test func largeFormsAndStatesAreRefused() async {
        let fields = (0..<33).map { #""f\#($0)":{"type":"string"}"# }.joined(separator: ",")
        let many = Self.question("Much?", #""properties":{\#(fields)}"#)
        let nine = (0..<9).map { #""q\#($0)":\#(Self.size)"# }.joined(separator: ",")
        let state = String(repeating: "s", count: (64 << 10) + 1)
        for asking in [
            Self.asking(#""k":\#(many)"#), Self.asking(nine),
            Self.asking(#""k":\#(Self.size)"#, state: state),
        ] {
            let server = Self.server(asking)
            #expect(await refusal(server, "{}")?.contains("malformedReply") == true)
        }
        let long = String(repeating: "é", count: 5_000)
        let wordy = Self.server(
            Self.asking(#""k":\#(Self.question(long, #""properties":{}"#))"#))
        #expect((await refusal(wordy, "{}")?.count ?? .max) < 2_000)
    }
}
