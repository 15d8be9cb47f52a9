// A language model behind OpenAI's Responses API, streaming: one POST per response, nothing stored
// at the service. OpenAIResponsesRequest writes the request's body, OpenAIResponsesReply reads the
// answer.
//
// Source: OpenAI API reference, "Create a model response" and "Streaming events".

import Session

/// Generates responses through `POST {baseURL}/responses`.
public struct OpenAIResponses: LanguageModel {
    private let stream: AnswerStream<OpenAIResponsesReply>
    private let model: String?
    /// Whether the model accepts images.
    public let seesImages: Bool

    /// Creates a client for one service.
    /// - Parameters:
    ///   - baseURL: up to and including the version, for example `https://api.openai.com/v1`.
    ///   - apiKey: sent as a bearer token when it is neither nil nor empty.
    ///   - model: the model's name at the service; nil passes on the name that the client gave.
    ///   - seesImages: whether users' images are sent to it.
    ///   - timeout: longest wait for the answer, and for each further piece of it. 60 s.
    ///   - limits: of the time until the first word, and of the whole answer. None by default.
    ///   - retries: when a failed request is retried. Never by default.
    public init(
        baseURL: String, apiKey: String? = nil, model: String? = nil, seesImages: Bool = false,
        timeout: Duration = .seconds(60), limits: AnswerTimeLimits = AnswerTimeLimits(),
        retries: RetryPolicy = .never
    ) {
        stream = AnswerStream(
            service: UpstreamService(
                baseURL: baseURL, apiKey: apiKey, timeout: timeout, totalTimeout: limits.total,
                retries: retries),
            path: "/responses", firstTokenTimeout: limits.firstToken)
        self.model = model
        self.seesImages = seesImages
    }

    /// Sends the request and passes on the answer while it arrives.
    /// - Throws: `AgentError.upstream` when the service cannot be reached, refuses, or breaks off;
    ///   `AgentError.malformedReply` when its answer cannot be understood or is not complete.
    public func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let written = OpenAIResponsesRequest(request, model: model ?? request.model)
        try await stream.pass(request, { written.encoded() }, on: host, reply)
    }
}
