// Hostile input to the text front ends: bodies that are wrong in every way, slow, or cut off at any
// byte. The answer is a status with the field's name, and no memory stays taken.

import Codec
import Session
import Simulation
import Testing

@testable import Server

@Suite struct TextBadInputTests {
    private static let chat = #""messages":[{"role":"user","content":"hi"}]"#
    private static let ui =
        #""messages":[{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}]"#

    private func answer(_ path: String, _ body: String) throws -> HTTPResponse {
        let world = try TextWorld(ClosureModel(words: ["ok"]))
        let peer = world.send(TextWorld.post(path, body))
        let (answers, _) = try parseResponses(peer.receive(), answering: [.post])
        #expect(world.openRequests == 0)
        return try #require(answers.first)
    }

    @Test(arguments: [
        ("", "null"), ("{", "null"), ("[]", "null"), ("null", "null"), ("{}", #""model""#),
        (#"{"model":""}"#, #""model""#), (#"{"model":5,\#(chat)}"#, #""model""#),
        (#"{"model":"m"}"#, #""messages""#), (#"{"model":"m","messages":[]}"#, #""messages""#),
        (#"{"model":"m","messages":{}}"#, #""messages""#),
        (#"{"model":"m","messages":[5]}"#, #""messages[0]""#),
        (#"{"model":"m","messages":[{}]}"#, #""messages[0].role""#),
        (#"{"model":"m","messages":[{"role":"x"}]}"#, #""messages[0].role""#),
        (#"{"model":"m","messages":[{"role":"user"}]}"#, #""messages[0].content""#),
        (
            #"{"model":"m","messages":[{"role":"user","content":[{"type":"x"}]}]}"#,
            #""messages[0].content[0].type""#
        ),
        (
            #"{"model":"m","messages":[{"role":"user","content":[{"type":"file"}]}]}"#,
            #""messages[0].content[0].type""#
        ),
        (
            #"{"model":"m","messages":[{"role":"tool","content":"x"}]}"#,
            #""messages[0].tool_call_id""#
        ),
        (
            #"{"model":"m","messages":[{"role":"user","content":"x"},"#
                + #"{"role":"tool","tool_call_id":"c","content":"x"}]}"#,
            #""messages[1].tool_call_id""#
        ),
        (
            #"{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c"}]}]}"#,
            #""messages[0].tool_calls[0].function""#
        ),
        (#"{"model":"m","n":2,\#(chat)}"#, #""n""#),
        (#"{"model":"m","n":1e99,\#(chat)}"#, #""n""#),
        (#"{"model":"m","max_tokens":0,\#(chat)}"#, #""max_tokens""#),
        (#"{"model":"m","max_tokens":9223372036854775808,\#(chat)}"#, #""max_tokens""#),
        (#"{"model":"m","stream":"yes",\#(chat)}"#, #""stream""#),
        (#"{"model":"m","stream_options":{},\#(chat)}"#, #""stream_options""#),
        (#"{"model":"m","tools":[{"type":"custom"}],\#(chat)}"#, #""tools[0].type""#),
        (#"{"model":"m","tools":[{"type":"function"}],\#(chat)}"#, #""tools[0].function""#),
        (#"{"model":"m","tool_choice":"maybe",\#(chat)}"#, #""tool_choice""#),
        (
            #"{"model":"m","response_format":{"type":"json_object"},\#(chat)}"#,
            #""response_format""#
        ),
        (#"{"model":"m","stop":["a","b","c","d","e"],\#(chat)}"#, #""stop""#),
        (#"{"model":"m","stop":[5],\#(chat)}"#, #""stop[0]""#),
        (#"{"model":"m","stop":{},\#(chat)}"#, #""stop""#),
        (#"{"model":"m","seed":1,\#(chat)}"#, #""seed""#),
        (#"{"model":"m","top_logprobs":2,\#(chat)}"#, #""top_logprobs""#),
        (#"{"model":"m","logprobs":true,\#(chat)}"#, #""logprobs""#),
        (#"{"model":"m","functions":[],\#(chat)}"#, #""functions""#),
        (#"{"model":"m","modalities":["text","audio"],\#(chat)}"#, #""modalities""#),
    ])
    func aWrongCompletionRequestNamesTheField(body: String, param: String) throws {
        let response = try answer("/v1/chat/completions", body)
        #expect(response.status == 400)
        #expect(text(response).contains(#""param":\#(param)}"#), "\(text(response))")
        #expect(text(response).contains(#""type":"invalid_request_error""#))
    }

    /// Clients such as LangChain know these words, and ask again without the parameter.
    @Test(arguments: [
        ("n", "2"), ("seed", "1"), ("logprobs", "true"), ("functions", "[]"),
        ("response_format", #"{"type":"json_object"}"#),
    ])
    func whatIsNotSupportedIsSaidInTheWordsOfOpenAI(name: String, value: String) throws {
        let response = try answer(
            "/v1/chat/completions", #"{"model":"m","\#(name)":\#(value),\#(Self.chat)}"#)
        #expect(response.status == 400)
        #expect(text(response).contains(#""message":"Unsupported parameter: '\#(name)'"#))
        #expect(text(response).contains(#""code":"unsupported_parameter""#))
    }

    @Test(arguments: [
        ("{}", #""id""#), (#"{"id":"c"}"#, #""messages""#),
        (#"{"id":"c","messages":[]}"#, #""messages""#),
        (#"{"id":"c","messages":[{"role":"user"}]}"#, #""messages[0].parts""#),
        (#"{"id":"c","messages":[{"role":"x","parts":[]}]}"#, #""messages[0].role""#),
        (#"{"id":"c","messages":[{"role":"user","parts":[]}]}"#, #""messages""#),
        (
            #"{"id":"c","messages":[{"role":"user","parts":[{"type":"text"}]}]}"#,
            #""messages[0].parts[0].text""#
        ),
        (
            #"{"id":"c","messages":[{"role":"user","parts":[{"type":"file","mediaType":"a/b"}]}]}"#,
            #""messages[0].parts[0].mediaType""#
        ),
        (
            #"{"id":"c","messages":[{"role":"assistant","parts":[{"type":"tool-f"}]}]}"#,
            #""messages[0].parts[0].state""#
        ),
        (#"{"id":"c","trigger":"x",\#(ui)}"#, #""trigger""#),
        (#"{"id":"c","tools":[],\#(ui)}"#, #""tools""#),
        (#"{"id":"c","tools":{"f":5},\#(ui)}"#, #""tools.f""#),
        (#"{"id":"c","tools":{"":{}},\#(ui)}"#, #""tools""#),
    ])
    func aWrongChatNamesTheField(body: String, param: String) throws {
        let response = try answer("/api/chat", body)
        #expect(response.status == 400)
        #expect(text(response).contains(#""param":\#(param)}"#), "\(text(response))")
    }

    @Test(arguments: [
        #"{"model":"m","seed":null,"temperature":0.1,"top_p":1,"user":"u","other":{"a":[]},\#(chat)}"#,
        #"{"model":"m","n":1,"stop":null,"response_format":{"type":"text"},\#(chat)}"#,
        #"{"model":"m","parallel_tool_calls":false,"tools":[],\#(chat)}"#,
        #"{"model":"m","tools":null,"max_completion_tokens":5,\#(chat)}"#,
    ])
    func otherFieldsOfClientsAreIgnored(body: String) throws {
        #expect(try answer("/v1/chat/completions", body).status == 200)
    }

    @Test(arguments: ["/v1/chat/completions", "/api/chat"])
    func nestedAndHugeBodiesAreRefused(path: String) throws {
        let deep = String(repeating: "[", count: 100_000)
        #expect(try answer(path, #"{"id":"c","model":"m","messages":"# + deep).status == 400)
        let many = String(repeating: "{},", count: 100_000)
        #expect(try answer(path, #"{"id":"c","model":"m","messages":[\#(many){}]}"#).status == 400)
        let world = try TextWorld(ClosureModel(words: ["ok"])) {
            $0.connection.http.maxBodyBytes = 1_024
        }
        let peer = world.send(TextWorld.post(path, String(repeating: "x", count: 2_000)))
        let (answers, _) = try parseResponses(peer.receive(), answering: [.post])
        #expect(answers.map(\.status) == [413])
    }

    @Test(arguments: ["/v1/chat/completions", "/api/chat"])
    func aClientMayLeaveAtEveryByte(path: String) throws {
        let body =
            path == "/api/chat" ? #"{"id":"c",\#(Self.ui)}"# : #"{"model":"m",\#(Self.chat)}"#
        let request = Array(TextWorld.post(path, body).utf8)
        let world = try TextWorld(ClosureModel(words: ["ok"]))
        for count in 0...request.count {
            let peer = world.server.connect()
            peer.send(Array(request[..<count]))
            #expect(world.server.run())
            if count % 2 == 0 { peer.reset() } else { peer.finishWriting() }
            #expect(world.server.run())
        }
        world.expectNothingLeft()
    }

    @Test func aClientMayLeaveAtEveryByteOfTheAnswer() throws {
        let words = (0..<10).map { "word\($0) " }
        let request = TextWorld.post(
            "/v1/chat/completions", #"{"model":"m","stream":true,\#(Self.chat)}"#)
        let world = try TextWorld(ClosureModel(words: words))
        for window in stride(from: 0, to: 3_000, by: 37) {
            let peer = world.send(request, window: window)
            peer.reset()
            #expect(world.server.run())
        }
        world.expectNothingLeft()
    }

    @Test func aBodyThatTricklesTimesOut() throws {
        let world = try TextWorld(ClosureModel(words: ["ok"]))
        let peer = world.server.connect()
        peer.send("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n")
        for _ in 0..<30 {
            peer.send([32])
            #expect(world.server.run(for: .seconds(1)))
        }
        let (answers, _) = try parseResponses(peer.receive(), answering: [.post])
        #expect(answers.map(\.status) == [408])
        world.expectNothingLeft()
    }
}
