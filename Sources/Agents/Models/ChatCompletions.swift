// A language model behind any server that speaks OpenAI's chat completions, streaming: one POST per
// response. ChatCompletionsRequest writes the request's body, ChatCompletionsReply reads the
// answer; the host makes and reuses connections.
//
// Source: OpenAI API reference, "Create chat completion" and "Streaming"; differences of llama.cpp,
// vLLM, Ollama and others are noted where they are handled.

import Codec
import Session

/// Generates responses through `POST {baseURL}/chat/completions`.
public struct ChatCompletions: LanguageModel {
    private let stream: AnswerStream<ChatCompletionsReply>
    private let model: String?
    /// Whether the model accepts audio, so that the user's speech is sent instead of its
    /// transcript.
    public let hearsAudio: Bool
    /// Whether the model accepts images.
    public let seesImages: Bool

    /// Creates a client for one service.
    /// - Parameters:
    ///   - baseURL: up to and including the version, for example `http://127.0.0.1:8000/v1`.
    ///   - apiKey: sent as a bearer token when it is neither nil nor empty.
    ///   - model: the model's name at the service; nil passes on the name that the client of the
    ///     session gave.
    ///   - hearsAudio: whether the user's turns are sent as `input_audio` instead of transcripts.
    ///   - seesImages: whether users' images are sent to it.
    ///   - timeout: longest wait for the answer, and for each further piece of it. 60 s: a model on
    ///     a CPU reads a long conversation for tens of seconds before its first word.
    ///   - limits: of the time until the first word, and of the whole answer. None by default.
    ///   - retries: when a failed request is retried. Never by default.
    public init(
        baseURL: String, apiKey: String? = nil, model: String? = nil, hearsAudio: Bool = false,
        seesImages: Bool = false, timeout: Duration = .seconds(60),
        limits: AnswerTimeLimits = AnswerTimeLimits(), retries: RetryPolicy = .never
    ) {
        stream = AnswerStream(
            service: UpstreamService(
                baseURL: baseURL, apiKey: apiKey, timeout: timeout, totalTimeout: limits.total,
                retries: retries),
            path: "/chat/completions", firstTokenTimeout: limits.firstToken)
        self.model = model
        self.hearsAudio = hearsAudio
        self.seesImages = seesImages
    }

    /// Sends the request and passes on the answer while it arrives.
    /// - Throws: `AgentError.upstream` when the service cannot be reached, refuses, or breaks off;
    ///   `AgentError.malformedReply` when its answer cannot be understood or is not complete.
    public func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let written = ChatCompletionsRequest(request, model: model ?? request.model)
        try await stream.pass(request, { written.encoded() }, on: host, reply)
    }
}
