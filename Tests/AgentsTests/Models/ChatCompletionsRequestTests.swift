// Requests to a chat completions service: the headers, and the body to the byte.

import Agents
import Codec
import Foundation
import Session
import Testing

@Suite struct ChatCompletionsRequestTests {
    private static let done = Array(
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n".utf8)

    private func sent(
        _ request: ModelRequest, by service: ModelService = ModelService(baseURL: "http://m/v1")
    ) async throws -> UpstreamRequest {
        let model = ModelServiceKind.chat.model(at: service)
        let host = ScriptedAgentHost(answers: [.init(chunks: [Self.done])])
        try await model.respond(to: request, on: host) { _ in }
        return try #require(host.requests.first)
    }

    /// The `messages` array as it is sent.
    private func messages(_ messages: [ModelMessage], instructions: String = "") async throws
        -> String
    {
        let request = ModelRequest(model: "m", instructions: instructions, messages: messages)
        let body = String(decoding: try await sent(request).body, as: UTF8.self)
        return try #require(JSONParser().parse(body)["messages"]).raw.text
    }

    @Test func postsToTheServiceWithItsKey() async throws {
        var service = ModelService(baseURL: "https://m.test/v1//", apiKey: "k")
        service.model = "fixed"
        service.timeout = .seconds(7)
        let request = try await sent(ModelRequest(model: "asked", messages: []), by: service)
        #expect(request.url == "https://m.test/v1/chat/completions")
        #expect(request.method == "POST")
        #expect(request.timeout == .seconds(7))
        #expect(
            request.headers.map { "\($0.name): \($0.value)" } == [
                "Content-Type: application/json", "Accept: text/event-stream",
                "Authorization: Bearer k",
            ])
        #expect(
            String(decoding: request.body, as: UTF8.self)
                == #"{"model":"fixed","stream":true,"stream_options":{"include_usage":true},"#
                + #""messages":[]}"#)
    }

    @Test(arguments: [nil, ""])
    func sendsNoAuthorizationWithoutAKey(key: String?) async throws {
        let service = ModelService(baseURL: "http://m/v1", apiKey: key)
        let request = try await sent(ModelRequest(model: "asked", messages: []), by: service)
        #expect(!request.headers.contains { $0.name == "Authorization" })
        let body = try JSONParser().parse(String(decoding: request.body, as: UTF8.self))
        #expect(body["model"]?.string == "asked")
    }

    @Test(arguments: [
        (ToolChoice.auto, #""auto""#), (.none, #""none""#), (.required, #""required""#),
        (.function(name: "f"), #"{"type":"function","function":{"name":"f"}}"#),
    ])
    func writesToolsAndTheirSchemasUnchanged(choice: ToolChoice, written: String) async throws {
        // The odd white space and key order show that the schema is not rewritten.
        let schema = RawJSON(#"{ "type":"object",  "properties":{"b":{},"a":{}} }"#)
        let request = ModelRequest(
            model: "m", messages: [.user("Hi")],
            tools: [
                FunctionTool(name: "f", description: "does \"f\"", parameters: schema),
                FunctionTool(name: "g"),
            ], toolChoice: choice, maxOutputTokens: 64)
        #expect(
            String(decoding: try await sent(request).body, as: UTF8.self)
                == #"{"model":"m","stream":true,"stream_options":{"include_usage":true},"#
                + #""max_tokens":64,"tools":[{"type":"function","function":{"name":"f","#
                + #""description":"does \"f\"","parameters":\#(schema.text)}},"#
                + #"{"type":"function","function":{"name":"g"}}],"tool_choice":\#(written),"#
                + #""messages":[{"role":"user","content":"Hi"}]}"#)
    }

    @Test func writesTheConversation() async throws {
        let written = try await messages(
            [.system("s\n"), .user("ü"), .assistant("a"), .user("b")], instructions: "be brief")
        #expect(
            written
                == #"[{"role":"system","content":"be brief"},{"role":"system","content":"s\n"},"#
                + #"{"role":"user","content":"ü"},{"role":"assistant","content":"a"},"#
                + #"{"role":"user","content":"b"}]"#)
    }

    @Test func writesAudioForAModelThatHears() async throws {
        let audio = HeardAudio(samples: (0..<800).map { Int16($0 % 50 * 40 - 1_000) })
        let written = try await messages([
            .user("typed"), .userAudio(audio), .assistant("a"), .userAudio(HeardAudio()),
        ])
        let parsed = try JSONParser().parse(written)
        let list = try #require(parsed.elements).map(\.raw.text)
        try #require(list.count == 4)
        let prefix = #"{"role":"user","content":[{"type":"input_audio","input_audio":{"data":""#
        let suffix = #"","format":"wav"}}]}"#
        for (message, expected) in [(list[1], try audio.samples()), (list[3], [])] {
            #expect(message.hasPrefix(prefix) && message.hasSuffix(suffix))
            let data = message.dropFirst(prefix.count).dropLast(suffix.count)
            let file = try WAVFile(parsing: Array(try #require(Data(base64Encoded: String(data)))))
            #expect(file.rate == .hz16000 && file.samples == expected)
        }
    }

    @Test func writesAMessageOfSeveralPartsInTheirOrder() async throws {
        let written = try await messages([
            .userParts([
                .text("What is this?"), .image(url: "https://a.test/b.png", detail: .low),
                .image(url: "data:image/png;base64,AQID", detail: .auto), .text("And this?"),
            ])
        ])
        #expect(
            written == #"[{"role":"user","content":[{"type":"text","text":"What is this?"},"#
                + #"{"type":"image_url","image_url":{"url":"https://a.test/b.png","#
                + #""detail":"low"}},{"type":"image_url","image_url":{"#
                + #""url":"data:image/png;base64,AQID","detail":"auto"}},"#
                + #"{"type":"text","text":"And this?"}]}]"#)
    }

    @Test(arguments: [true, false])
    func writesWhetherCallsMayBeParallel(isAllowed: Bool) async throws {
        var request = ModelRequest(model: "m", messages: [], parallelToolCalls: isAllowed)
        func field() async throws -> Bool? {
            let body = String(decoding: try await sent(request).body, as: UTF8.self)
            return try JSONParser().parse(body)["parallel_tool_calls"]?.bool
        }
        // Services refuse the field without tools.
        #expect(try await field() == nil)
        request.tools = [FunctionTool(name: "f")]
        #expect(try await field() == isAllowed)
    }

    @Test func writesParallelCallsInOneMessage() async throws {
        let written = try await messages([
            .assistant("Let me see."),
            .functionCall(callID: "1", name: "f", arguments: "{}"),
            .functionCall(callID: "2", name: "g", arguments: ""),
            .functionOutput(callID: "2", output: "two"),
            .user("And?"),
            .functionOutput(callID: "1", output: "one"),
        ])
        #expect(
            written == #"[{"role":"assistant","content":"Let me see.","tool_calls":["#
                + #"{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},"#
                + #"{"id":"2","type":"function","function":{"name":"g","arguments":"{}"}}]},"#
                + #"{"role":"tool","tool_call_id":"1","content":"one"},"#
                + #"{"role":"tool","tool_call_id":"2","content":"two"},"#
                + #"{"role":"user","content":"And?"}]"#)
    }

    @Test func writesCallsAfterAnOutputInAMessageOfTheirOwn() async throws {
        let written = try await messages([
            .functionCall(callID: "1", name: "f", arguments: "{}"),
            .functionOutput(callID: "1", output: "one"),
            .functionCall(callID: "2", name: "f", arguments: "{}"),
            .functionOutput(callID: "2", output: "two"),
        ])
        let call = #""type":"function","function":{"name":"f","arguments":"{}"}}]}"#
        #expect(
            written == #"[{"role":"assistant","content":null,"tool_calls":[{"id":"1",\#(call),"#
                + #"{"role":"tool","tool_call_id":"1","content":"one"},"#
                + #"{"role":"assistant","content":null,"tool_calls":[{"id":"2",\#(call),"#
                + #"{"role":"tool","tool_call_id":"2","content":"two"}]"#)
    }

    /// A model that is not shown its call makes it again.
    @Test func saysThatACallWithoutAnOutputIsInProgress() async throws {
        let written = try await messages([
            .functionCall(callID: "1", name: "f", arguments: "{}"),
            .functionCall(callID: "2", name: "g", arguments: "{}"),
            .functionOutput(callID: "2", output: "two"), .user("Is it done?"),
            .functionOutput(callID: "9", output: "stray"),
        ])
        #expect(
            written == #"[{"role":"assistant","content":null,"tool_calls":["#
                + #"{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},"#
                + #"{"id":"2","type":"function","function":{"name":"g","arguments":"{}"}}]},"#
                + #"{"role":"tool","tool_call_id":"1","content":"In progress: this call has not "#
                + #"returned yet. Its result will follow; do not repeat the call."},"#
                + #"{"role":"tool","tool_call_id":"2","content":"two"},"#
                + #"{"role":"user","content":"Is it done?"}]"#)
    }
}
