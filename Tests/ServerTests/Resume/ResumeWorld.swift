// A shard whose model counts aloud, and a client that loses its connection and comes back to it.

import Codec
import Session
import Simulation
import TestMaterial
import Testing

@testable import Server

/// A server with sessions that can be resumed, and shorthand for what tests do with them.
final class ResumeWorld {
    static let key = "sk-app-0123456789abcdef"
    static let otherKey = "sk-other-0123456789abcdef"
    /// Time between two words of the model.
    static let wordTime = Duration.milliseconds(100)

    let server: SimulatedServer

    init(
        seed: UInt64 = 1, store: SimulatedStore? = nil, records: (any RecordKeeper)? = nil,
        recordings: (any RecordingKeeper)? = nil,
        _ change: (inout ServerConfiguration) -> Void = { _ in }
    ) throws {
        var configuration = ServerConfiguration()
        change(&configuration)
        var rules = APIKeys()
        let keys = "\(Self.key)\n\(Self.otherKey)\n"
        try rules.add(
            ConfiguredFile(option: "api-keys-file", path: "keys", bytes: Array(keys.utf8)))
        let model = ClosureModel { request, host, reply in
            if case .functionOutput(_, let output)? = request.messages.last {
                return try await reply(.text("It says \(output)"))
            }
            guard case .user(let text)? = request.messages.last, let count = Int(text) else {
                try await reply(.functionCallStarted(callID: "call_secret", name: "secret"))
                return try await reply(.functionCallArguments("{}"))
            }
            for number in 1...count {
                try await host.sleep(for: ResumeWorld.wordTime)
                try await reply(.text("\(number) "))
            }
        }
        server = try SimulatedServer(
            configuration: configuration,
            agents: AgentSet(model: model, synthesizer: SlowVoice()), seed: seed,
            credentials: CredentialRules(keys: rules), store: store
        ) {
            $0.records = records
            $0.recordings = recordings
        }
    }

    /// A client with a session of text.
    func open(
        _ query: String = "&resume=true", key: String? = ResumeWorld.key, modality: String = "text"
    ) -> SimulatedClient {
        let client = server.openClient("/v1/realtime?model=test\(query)", key: key)
        #expect(server.run())
        client.send(
            #"{"type":"session.update","session":{"type":"realtime","#
                + #""output_modalities":["\#(modality)"]}}"#)
        #expect(server.run())
        return client
    }

    /// The client asks the model to count.
    func count(to number: Int, _ client: SimulatedClient) { ask("\(number)", client) }

    /// The client asks the model: to count, or else to call the function `secret`.
    func ask(_ text: String, _ client: SimulatedClient) {
        client.send(
            #"{"type":"conversation.item.create","item":{"type":"message","role":"user","#
                + #""content":[{"type":"input_text","text":"\#(text)"}]}}"#)
        client.send(#"{"type":"response.create"}"#)
        #expect(server.run())
    }

    /// The client's connection is lost.
    func cut(_ client: SimulatedClient) {
        client.peer.reset()
        client.isReading = false
        #expect(server.run())
    }

    /// The client comes back with all that it knows.
    /// - Parameter position: the last event that it has; nil: it has nothing any more.
    func comeBack(
        from client: SimulatedClient, at position: UInt64?, epoch: Int? = nil,
        key: String? = ResumeWorld.key
    ) throws -> SimulatedClient {
        let resume = try #require(client.resumes.last)
        let handle = try #require(resume["handle"]?.string)
        let known = try #require(resume["epoch"]).raw.text
        var query = "/v1/realtime?resume=\(handle)"
        if let position { query += "&epoch=\(epoch.map(String.init) ?? known)&offset=\(position)" }
        let again = server.openClient(query, key: key)
        #expect(server.run())
        return again
    }

    /// The status of `/readyz`.
    func readiness() throws -> Int? {
        let prober = server.connect()
        prober.send("GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        #expect(server.run())
        return try parseResponses(prober.receive(), answering: [.get]).0.first?.status
    }

    /// Sessions that are open.
    var sessionCount: Int { server.metrics.total(of: .sessionsOpen) }
    /// Sessions whose client is away.
    var detachedCount: Int { server.metrics.total(of: .sessionsDetached) }
}

/// Says each clause in a second.
private struct SlowVoice: SpeechSynthesizer {
    func speak(
        _ request: SpeechRequest, on host: any AgentHost,
        emit: @Sendable (SpeechChunk) async throws -> Void
    ) async throws {
        try await emit(
            SpeechChunk(samples: Array(repeating: 1_000, count: 16_000), rate: .hz16000))
    }
}

extension SimulatedClient {
    /// The events as values.
    var parsed: [JSONValue] { texts.compactMap { try? JSONParser().parse($0) } }

    /// The members `resume` of its events, in order.
    var resumes: [JSONValue] { parsed.compactMap { $0["resume"] } }

    /// The offsets of its events, in order.
    var offsets: [UInt64] { parsed.compactMap { $0["offset"].flatMap { UInt64($0.raw.text) } } }

    /// The text that its deltas make.
    var words: String {
        parsed.filter { $0["type"]?.string == "response.output_text.delta" }
            .compactMap { $0["delta"]?.string }.joined()
    }
}
