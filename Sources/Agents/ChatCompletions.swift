// A language model behind any server that speaks OpenAI's chat completions, streaming: one POST per
// turn. The request's body is ChatCompletionsRequest, the meaning of the answer's pieces is
// ChatCompletionsReply; connections, TLS and reuse are the host's.
//
// Source: OpenAI API reference, "Create chat completion" and "Streaming"; what llama.cpp, vLLM,
// Ollama and others do differently is noted where it is handled.

import Codec
import Session

/// Answers turns through `POST {baseURL}/chat/completions`.
public struct ChatCompletions: LanguageModel {
    /// Bytes of one answer, its framing included, that are read at most: 16 MiB, far above any
    /// model's longest reply at about 200 bytes of framing per token.
    static let maxReplyBytes = 16 << 20
    private let service: UpstreamService
    private let model: String?
    /// Whether the model understands speech, so that turns are sent as they were said.
    public let hearsAudio: Bool
    /// Whether the model sees the images that users send.
    public let seesImages: Bool

    /// Creates a client for one service.
    /// - Parameters:
    ///   - baseURL: up to and including the version, for example `http://127.0.0.1:8000/v1`.
    ///   - apiKey: sent as a bearer token when it is neither nil nor empty.
    ///   - model: the model's name at the service; nil passes on the name that the client of the
    ///     session gave.
    ///   - hearsAudio: whether turns are sent as `input_audio` instead of their transcripts.
    ///   - seesImages: whether it is given the images that users send.
    ///   - timeout: limit of the silence before the answer and between its pieces. 60 s: a model
    ///     on a CPU reads a long conversation for tens of seconds before its first word.
    ///   - retries: when it is asked again, before anything was answered. Never by default.
    public init(
        baseURL: String, apiKey: String? = nil, model: String? = nil, hearsAudio: Bool = false,
        seesImages: Bool = false,
        timeout: Duration = .seconds(60), retries: RetryPolicy = .never
    ) {
        service = UpstreamService(
            baseURL: baseURL, apiKey: apiKey, timeout: timeout, totalTimeout: nil,
            retries: retries)
        self.model = model
        self.hearsAudio = hearsAudio
        self.seesImages = seesImages
    }

    /// Asks the service and passes on what it answers as it comes.
    /// - Throws: `AgentError.upstream` when the service cannot be reached, refuses, or breaks off;
    ///   `AgentError.malformedReply` when its answer cannot be understood or is not complete.
    public func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let written = ChatCompletionsRequest(request, model: model ?? request.model)
        let body =
            written.hasAudio ? try await host.compute { written.encoded() } : written.encoded()
        try await service.retries.perform(on: host) { attempt in
            let response = try await service.post(
                body, "application/json", to: "/chat/completions", accepting: "text/event-stream",
                on: host, attempt)
            try await Self.pass(response) { delta in
                attempt.handleDelivery()
                try await reply(delta)
            }
        }
    }

    /// Passes on what an answer says, as it comes.
    private static func pass(
        _ response: any UpstreamResponse, reply: (ModelDelta) async throws -> Void
    ) async throws {
        var answer = ChatCompletionsReply()
        var events = ServerSentEventsParser()
        // Servers that do not stream answer with one JSON object, which no event stream begins
        // with.
        var plain: [UInt8] = []
        var isPlain: Bool?
        var received = 0
        while let chunk = try await response.nextChunk() {
            received += chunk.count
            guard received <= maxReplyBytes else {
                throw AgentError.malformedReply(message: "The model server's answer is too large.")
            }
            if isPlain == nil {
                isPlain = chunk.first { !$0.isJSONSpace }.map { $0 == UInt8(ascii: "{") }
            }
            if isPlain == true {
                plain += chunk
                continue
            }
            for delta in try deltas(in: chunk, events: &events, answer: &answer) {
                try await reply(delta)
            }
        }
        if isPlain == true {
            for delta in try answer.handle(completion: plain) { try await reply(delta) }
        }
        for delta in try answer.finish() { try await reply(delta) }
    }

    private static func deltas(
        in chunk: [UInt8], events: inout ServerSentEventsParser, answer: inout ChatCompletionsReply
    ) throws -> [ModelDelta] {
        var deltas: [ModelDelta] = []
        do {
            try chunk.withUnsafeBytes { bytes in
                try events.append(bytes) { deltas += try answer.handle(event: $0.data) }
            }
        } catch let error as ServerSentEventsError {
            throw AgentError.malformedReply(
                message: "The model server's event stream cannot be read.", detail: "\(error)")
        }
        return deltas
    }
}

extension UInt8 {
    /// White space of RFC 8259 §2.
    fileprivate var isJSONSpace: Bool { self == 32 || self == 9 || self == 10 || self == 13 }
}
