// The beta's dialect through a real shard: what chooses it, and a turn in it. SimulatedClient holds
// every event against the types of a client of that time.

import Codec
import Session
import Simulation
import Testing

@testable import Server

/// Answers with two words.
private struct BriefModel: LanguageModel {
    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        try await reply(.text("Hello"))
        try await reply(.text(" there."))
    }
}

@Suite struct BetaDialectTests {
    @Test(
        arguments: [
            (["realtime"], "realtime=v1", "modalities"), ([], "realtime=v1", "modalities"),
            (
                ["realtime", "openai-insecure-api-key.k", "openai-beta.realtime-v1"], nil,
                "modalities"
            ),
            (["realtime"], nil, "output_modalities"), ([], "assistants=v2", "output_modalities"),
        ] as [([String], String?, String)])
    func theHandshakeChoosesTheDialect(
        _ subprotocols: [String], _ header: String?, _ field: String
    ) throws {
        let server = try SimulatedServer()
        let client = server.openClient(subprotocols: subprotocols, beta: header)
        #expect(server.run())
        #expect(client.subprotocol == (subprotocols.isEmpty ? nil : "realtime"))
        let session = try JSONParser().parse(client.texts.first ?? "")["session"]
        #expect(session?["object"]?.string == "realtime.session")
        #expect(session?.members?.contains { $0.key == field } == true)
    }

    @Test func aTurnIsInTheBetasWords() throws {
        let server = try SimulatedServer(agents: AgentSet(model: BriefModel()))
        let client = server.openClient(beta: "realtime=v1")
        #expect(server.run())
        client.send(#"{"type":"session.update","session":{"modalities":["text"],"voice":"alloy"}}"#)
        client.send(
            #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
                + #""content":[{"type":"input_text","text":"Hello"}]}}"#)
        client.send(#"{"type":"response.create","response":{"modalities":["text"]}}"#)
        #expect(server.run(for: .seconds(1)))
        var types: [String] = []
        for type in client.eventTypes where types.last != type { types.append(type) }
        #expect(
            types == [
                "session.created", "session.updated", "conversation.item.created",
                "response.created", "response.output_item.added", "conversation.item.created",
                "response.content_part.added", "response.text.delta", "response.text.done",
                "response.content_part.done", "response.output_item.done", "response.done",
                "rate_limits.updated",
            ])
        // Numbers of events are without gaps: what is not sent takes none.
        let numbers = try client.texts.map { text in
            try #require(JSONParser().parse(text)["event_id"]?.string).split(separator: "_").last
        }
        #expect(numbers == (1...numbers.count).map { "\($0)" })
    }

    @Test func errorsNameTheBetasFields() throws {
        let server = try SimulatedServer()
        let client = server.openClient("/v1/realtime?intent=transcription", beta: "realtime=v1")
        #expect(server.run())
        client.send(
            #"{"type":"session.update","session":{"max_response_output_tokens":5}}"#)
        client.send(#"{"type":"transcription_session.update","session":{"include":[]}}"#)
        client.send(#"{"type":"transcription_session.update","session":{"turn_detection":1}}"#)
        #expect(server.run())
        #expect(
            client.eventTypes == [
                "transcription_session.created", "error", "transcription_session.updated", "error",
            ])
        let params = try client.texts.compactMap {
            try JSONParser().parse($0)["error"]?["param"]?.string
        }
        #expect(params == ["session.max_response_output_tokens", "session.turn_detection"])
    }

    @Test(arguments: [
        ("/v1/realtime/sessions", #"{"modalities":["text"],"voice":"alloy"}"#, "realtime.session"),
        ("/v1/realtime/transcription_sessions", "{}", "realtime.transcription_session"),
    ])
    func anEphemeralKeyComesInTheBetasForm(
        _ path: String, _ body: String, _ object: String
    ) throws {
        let server = try SimulatedServer()
        let peer = server.connect()
        peer.send(
            "POST \(path) HTTP/1.1\r\nHost: localhost\r\nOpenAI-Beta: assistants=v2\r\n"
                + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
                + body)
        #expect(server.run())
        let (responses, _) = try parseResponses(peer.receive(), answering: [.post])
        #expect(responses.map(\.status) == [200])
        let answer = try JSONParser().parse(String(decoding: responses[0].body, as: UTF8.self))
        #expect(answer["object"]?.string == object)
        let secret = answer["client_secret"]
        #expect(secret?["value"]?.string?.hasPrefix("ek_") == true)
        #expect((secret?["expires_at"]?.int ?? 0) > 0)
        // The key opens its session, in either dialect.
        for beta in ["realtime=v1", nil] {
            let client = server.openClient(
                "/v1/realtime", key: secret?["value"]?.string, beta: beta)
            #expect(server.run())
            let session = try JSONParser().parse(client.texts.first ?? "")["session"]
            #expect(session?["object"]?.string == object)
        }
    }

    /// The session checks what a body asks for; it names the fields of today's protocol.
    @Test func aRefusedRequestForAKeyNamesTheFieldOfItsBody() throws {
        let server = try SimulatedServer()
        let peer = server.connect()
        let body = #"{"turn_detection":{"type":"server_vad"}}"#
        peer.send(
            "POST /v1/realtime/sessions HTTP/1.1\r\nHost: localhost\r\n"
                + "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
                + body)
        #expect(server.run())
        let (responses, _) = try parseResponses(peer.receive(), answering: [.post])
        #expect(responses.map(\.status) == [400])
        let answer = try JSONParser().parse(String(decoding: responses[0].body, as: UTF8.self))
        #expect(answer["error"]?["param"]?.string == "turn_detection")
        #expect(answer["error"]?["code"]?.string == "turn_detection_unavailable")
    }
}
