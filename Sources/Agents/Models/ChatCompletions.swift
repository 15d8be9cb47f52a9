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
    private let stream: AnswerStream<ChatCompletionsReply>
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
    ///   - limits: of the time until its first word, and of the whole answer. None by default.
    ///   - retries: when it is asked again, before anything was answered. Never by default.
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

    /// Asks the service and passes on what it answers as it comes.
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

/// How long an answer of a model may take.
public struct AnswerTimeLimits: Equatable, Sendable {
    /// Until its first word or function call, all retries included; nil: no limit but silence's.
    public var firstToken: Duration?
    /// Until its end, for each request, the time not counted in which the session takes nothing;
    /// nil: no limit.
    public var total: Duration?

    /// Creates limits; none by default.
    public init(firstToken: Duration? = nil, total: Duration? = nil) {
        self.firstToken = firstToken
        self.total = total
    }
}
