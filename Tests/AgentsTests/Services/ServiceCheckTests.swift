// What is reported of a service when the server starts.

import Session
import Testing

@testable import Agents

@Suite struct ServiceCheckTests {
    private func check(
        _ answer: ScriptedAgentHost.Answer?, kind: ModelServiceKind = .chat, model: String? = nil
    ) async -> (faults: [ServiceFault], requests: [UpstreamRequest]) {
        var service = ModelService(baseURL: "http://h:1/v1", apiKey: "secret-key")
        service.name = "llm"
        service.model = model
        let host = ScriptedAgentHost(answers: [answer].compactMap(\.self))
        await kind.model(at: service).checkServices(on: host)
        return (host.faults, host.requests)
    }

    private static func answer(
        _ status: Int, _ body: String, type: String = "application/json"
    ) -> ScriptedAgentHost.Answer {
        .init(status: status, chunks: [Array(body.utf8)], contentType: type)
    }

    @Test func aServiceThatAnswersIsNotReported() async {
        let list = #"{"object":"list","data":[{"id":"small"},{"id":"llama3:latest"}]}"#
        for model in [nil, "small", "llama3", "llama3:latest"] {
            let (faults, requests) = await check(Self.answer(200, list), model: model)
            #expect(faults.isEmpty)
            #expect(requests.map(\.url) == ["http://h:1/v1/models"])
            #expect(requests.map(\.method) == ["GET"] && requests.allSatisfy { $0.body.isEmpty })
            #expect(requests[0].headers.contains { $0.value == "Bearer secret-key" })
        }
    }

    /// A service need not have a list.
    @Test(arguments: [404, 405, 429, 501])
    func aMissingListSaysNothing(status: Int) async {
        #expect(await check(Self.answer(status, "no such page")).faults.isEmpty)
    }

    @Test func anUnreachableServiceIsReported() async throws {
        let fault = try #require(await check(nil).faults.first)
        #expect(fault.service == "llm" && fault.url == "http://h:1/v1/models" && fault.status == 0)
        #expect(fault.advice == "check that the service runs, and llm-url")
        #expect(!fault.isTolerated)
    }

    @Test(arguments: [401, 403])
    func aRefusedKeyIsReported(status: Int) async throws {
        let body = #"{"error":{"message":"Incorrect API key provided."}}"#
        let fault = try #require(await check(Self.answer(status, body)).faults.first)
        #expect(fault.status == status && fault.advice == "check its key")
        #expect(fault.reason.contains("Incorrect API key provided."))
        #expect(fault.beginning.hasPrefix(#"{"error""#))
    }

    @Test func aWebPageIsReported() async throws {
        let answer = Self.answer(200, "<!doctype html><title>Sign in</title>", type: "text/html")
        let fault = try #require(await check(answer).faults.first)
        #expect(fault.reason == "the answer is a web page")
        #expect(fault.contentType == "text/html" && fault.beginning.hasPrefix("<!doctype"))
    }

    @Test func aModelThatIsNotListedIsAFaultToLookAt() async throws {
        let names = (1...7).map { #"{"id":"m\#($0)"}"# }.joined(separator: ",")
        let answer = Self.answer(200, #"{"data":[\#(names)]}"#)
        let fault = try #require(await check(answer, model: "gpt-5").faults.first)
        #expect(fault.isTolerated)
        #expect(
            fault.reason == "its list of models has no gpt-5; it has m1, m2, m3, m4, m5 and others")
    }

    /// A list that is not one, or too long to be read, says nothing of the model.
    @Test(arguments: ["{}", "[]", #"{"data":[]}"#, #"{"data":[{"id":"#])
    func anotherListSaysNothing(body: String) async {
        #expect(await check(Self.answer(200, body), model: "gpt-5").faults.isEmpty)
    }

    @Test func theKeyOfEachAPIIsSentAsItWantsIt() async {
        let (_, requests) = await check(Self.answer(200, "{}"), kind: .anthropic)
        #expect(requests[0].headers.contains { $0.name == "x-api-key" && $0.value == "secret-key" })
    }

    /// An agent behind AG-UI has one address.
    @Test func anAgentIsAskedAtItsOwnAddress() async {
        let (faults, requests) = await check(Self.answer(405, ""), kind: .agUI)
        #expect(faults.isEmpty && requests.map(\.url) == ["http://h:1/v1"])
    }

    @Test func theSummaryIsASentence() {
        var fault = ServiceFault(service: "llm", url: "http://h/v1", reason: "status 401: no")
        fault.beginning = "{}"
        fault.advice = "check its key"
        #expect(
            fault.summary
                == "The service llm (http://h/v1): status 401: no; its answer begins {}; check its key."
        )
    }
}
