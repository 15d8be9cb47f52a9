// Transcription services against scripted answers: the request, and the reading of answers.

import Agents
import Codec
import Session
import Testing

@Suite struct OpenAITranscriptionTests {
    private let utterance = Utterance(
        samples: (0..<1_600).map { Int16($0) }, language: "en", prompt: "Parley\r\n--x")

    private func recognizer(streams: Bool = false, retries: Int = 0) -> OpenAITranscription {
        OpenAITranscription(
            service: UpstreamService(
                baseURL: "http://speech.test/v1/", apiKey: "secret",
                retries: RetryPolicy(maxRetries: retries)),
            model: "whisper-1", streams: streams)
    }

    private func heard(
        _ body: String, status: Int = 200, pieceBytes: Int = 1
    ) async throws -> (text: String, parts: [String]) {
        let bytes = Array(body.utf8)
        let chunks = stride(from: 0, to: bytes.count, by: pieceBytes).map {
            Array(bytes[$0..<min($0 + pieceBytes, bytes.count)])
        }
        let host = ScriptedAgentHost(answers: [.init(status: status, chunks: chunks)])
        let parts = Collected<String>()
        let text = try await recognizer().transcribe(utterance, on: host) { parts.append($0) }
        return (text.text, parts.all)
    }

    @Test func sendsTheUtteranceAsAForm() async throws {
        let host = ScriptedAgentHost(answers: [.init(chunks: [Array(#"{"text":"Hi"}"#.utf8)])])
        #expect(try await recognizer(streams: true).transcribe(utterance, on: host).text == "Hi")
        let request = try #require(host.requests.first)
        #expect(request.url == "http://speech.test/v1/audio/transcriptions")
        #expect(request.method == "POST")
        let headers = Dictionary(uniqueKeysWithValues: request.headers.map { ($0.name, $0.value) })
        #expect(headers["Authorization"] == "Bearer secret")
        let type = try #require(headers["Content-Type"])
        let prefix = "multipart/form-data; boundary="
        try #require(type.hasPrefix(prefix))
        let form = try parts(of: request.body, boundary: String(type.dropFirst(prefix.count)))
        #expect(form["model"] == Array("whisper-1".utf8))
        #expect(form["response_format"] == Array("json".utf8))
        #expect(form["language"] == Array("en".utf8))
        #expect(form["prompt"] == Array("Parley\r\n--x".utf8))
        #expect(form["stream"] == Array("true".utf8))
        let file = try WAVFile(parsing: try #require(form["file"]))
        #expect(file.rate == .hz16000)
        #expect(try file.samples == utterance.samples())
    }

    /// The parts of a form, each as its name and content.
    private func parts(of body: [UInt8], boundary: String) throws -> [String: [UInt8]] {
        var parts: [String: [UInt8]] = [:]
        var rest = body[...]
        let mark = Array("--\(boundary)".utf8)
        while let start = rest.firstRange(of: mark) {
            rest = rest[start.upperBound...]
            guard let end = rest.firstRange(of: Array("\r\n".utf8) + mark) else { break }
            let part = rest[..<end.lowerBound].dropFirst(2)
            let head = try #require(part.firstRange(of: Array("\r\n\r\n".utf8)))
            let fields = String(decoding: part[..<head.lowerBound], as: UTF8.self)
            let name = try #require(fields.split(separator: "name=\"").dropFirst().first)
            parts[String(name.prefix { $0 != "\"" })] = Array(part[head.upperBound...])
        }
        #expect(rest.elementsEqual("--\r\n".utf8))
        return parts
    }

    @Test(arguments: [
        (#"{"text":" Hello there. "}"#, "Hello there."), (#"{"text":""}"#, ""),
        (#"{"text":"a","usage":{"type":"duration","seconds":1}}"#, "a"),
        ("\n {\"task\":\"transcribe\",\"text\":\"a\\nb\",\"segments\":[]}", "a b"),
    ])
    func readsAnObject(body: String, text: String) async throws {
        for size in [1, 5, 1_000] {
            let answer = try await heard(body, pieceBytes: size)
            #expect(answer.text == text && answer.parts.isEmpty)
        }
    }

    @Test func readsAStream() async throws {
        let body =
            "event: transcript.text.delta\n"
            + "data: {\"type\":\"transcript.text.delta\",\"delta\":\" Go\"}\n\n"
            + "data: {\"type\":\"transcript.text.delta\",\"delta\":\" forward\"}\n\n"
            + "data: {\"type\":\"transcript.text.done\",\"text\":\" Go forward.\"}\n\n"
            + "data: [DONE]\n\n"
        for size in [1, 7, 1_000] {
            let answer = try await heard(body, pieceBytes: size)
            #expect(answer.text == "Go forward." && answer.parts == ["Go", " forward"])
        }
    }

    @Test(arguments: [
        "", "{", #"{"txt":"a"}"#, #"{"text":5}"#, "Hello", "data: nonsense\n\n",
        "data: {\"type\":\"transcript.text.delta\",\"delta\":\"a\"}\n\n",
    ])
    func refusesInvalidAnswers(body: String) async {
        do {
            _ = try await heard(body)
            Issue.record("the answer was accepted")
        } catch AgentError.malformedReply {
        } catch {
            Issue.record("\(error)")
        }
    }

    @Test func onlyTheFirstWholeTextOfAStreamCounts() async throws {
        let done = "data: {\"type\":\"transcript.text.done\",\"text\":\"Go.\"}\n\n"
        let segment = "data: {\"type\":\"transcript.text.segment\",\"text\":\"Stop.\"}\n\n"
        let late = "data: {\"type\":\"transcript.text.done\",\"text\":\"Late.\"}\n\n"
        #expect(try await heard(segment + done + late).text == "Go.")
        #expect(try await heard("data: {\"text\":\"Whole.\"}\n\n").text == "Whole.")
    }

    @Test(arguments: [
        (
            "data: {\"object\":\"transcription.chunk\",\"choices\":[{\"delta\":{\"content\":\" Go\"}}]}\n\n"
                + "data: {\"choices\":[{\"delta\":{\"content\":\" on.\"},\"finish_reason\":\"stop\"}]}\n\n"
                + "data: [DONE]\n\n", "Go on."
        ),
        ("data: {\"text\":\"First.\"}\n\ndata: {\"text\":\"Second.\"}\n\n", "First. Second."),
        (
            "data: {\"text\":\" First.\"}\n\ndata: {\"text\":\" Second.\"}\n\ndata: [DONE]\n\n",
            "First. Second."
        ),
    ])
    func readsTheStreamsOfOtherServers(body: String, text: String) async throws {
        for size in [1, 7, 1_000] {
            let answer = try await heard(body, pieceBytes: size)
            #expect(answer.text == text && answer.parts.joined() == text)
        }
    }

    @Test(arguments: [
        "error: {\"code\":500,\"message\":\"no GPU\"}\n\n", "event: error\ndata: no GPU\n\n",
        "data: {\"object\":\"error\",\"message\":\"no GPU\"}\n\ndata: [DONE]\n\n",
        "data: [DONE]\n\n",
    ])
    func anErrorInAnyFormAndALoneMarkOfTheEndAreNoTranscript(body: String) async {
        await #expect(throws: AgentError.self) { try await heard(body) }
    }

    @Test func anErrorWithinAStreamIsReported() async {
        let error = "data: {\"type\":\"error\",\"error\":{\"message\":\"no GPU\"}}\n\n"
        await #expect(
            throws: AgentError.brokenOff(
                status: 0, message: "The transcription service broke off: no GPU")
        ) { try await heard(error) }
    }

    @Test func theServicesMessageGoesToTheOperatorOnly() async throws {
        let body = #"{"error":{"message":"Incorrect API key provided: sk-123 at http://x"}}"#
        do {
            _ = try await heard(body, status: 401)
            Issue.record("the answer was accepted")
        } catch let error as AgentError {
            #expect(error.code == "upstream_error")
            #expect(error.detail.contains("sk-123"))
            #expect(error.message.contains("401"))
            #expect(!error.message.contains("sk-") && !error.message.contains("http"))
        }
    }

    @Test func retriesAFailedRequest() async throws {
        let host = ScriptedAgentHost(answers: [
            .init(status: 503), .init(failure: .upstream(status: 0, message: "reset")),
            .init(chunks: [Array(#"{"text":"Hi"}"#.utf8)]),
        ])
        #expect(try await recognizer(retries: 2).transcribe(utterance, on: host).text == "Hi")
        #expect(host.requests.count == 3)
    }

    @Test func waitsForTheServicesRetryAfter() async throws {
        let host = ScriptedAgentHost(answers: [
            .init(status: 429, retryAfter: .milliseconds(1_700)),
            .init(chunks: [Array(#"{"text":"Hi"}"#.utf8)]),
        ])
        #expect(try await recognizer(retries: 2).transcribe(utterance, on: host).text == "Hi")
        #expect(host.sleeps == [.milliseconds(1_700)])
        let late = ScriptedAgentHost(answers: [
            .init(status: 503, retryAfter: .seconds(3)), .init(),
        ])
        await #expect(throws: AgentError.self) {
            try await recognizer(retries: 2).transcribe(utterance, on: late)
        }
        #expect(late.requests.count == 1 && late.sleeps.isEmpty)
    }

    @Test func sendsItsTimeLimits() async throws {
        let host = ScriptedAgentHost(answers: [.init(chunks: [Array(#"{"text":"Hi"}"#.utf8)])])
        let service = UpstreamService(
            baseURL: "http://speech.test", timeout: .seconds(3), totalTimeout: .seconds(7))
        let recognizer = OpenAITranscription(service: service, model: "m")
        _ = try await recognizer.transcribe(utterance, on: host)
        #expect(host.requests.map(\.timeout) == [.seconds(3)])
        #expect(host.requests.map(\.totalTimeout) == [.seconds(7)])
    }

    @Test func doesNotRetryAfterAPartialText() async throws {
        let delta = "data: {\"type\":\"transcript.text.delta\",\"delta\":\"a\"}\n\n"
        let failure = AgentError.upstream(status: 0, message: "reset")
        let host = ScriptedAgentHost(answers: [
            .init(chunks: [Array(delta.utf8)], failure: failure), .init(),
        ])
        await #expect(throws: failure) {
            try await recognizer(retries: 2).transcribe(utterance, on: host)
        }
    }
}
