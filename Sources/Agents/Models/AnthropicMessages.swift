// A language model behind Anthropic's Messages API, streaming: one POST per response.
// AnthropicMessagesRequest writes the request's body, AnthropicMessagesReply reads the answer.
//
// Source: Anthropic API reference, "Create a Message", "Streaming Messages", "Prompt caching",
// "Errors".

import Session

/// Generates responses through `POST {baseURL}/messages`.
public struct AnthropicMessages: LanguageModel {
    /// The version of the API that requests are written for (`anthropic-version`).
    static let version = "2023-06-01"
    /// Most tokens of one answer where neither the client nor the operator sets a limit, which the
    /// API requires. 4,096: the protocol's own largest limit, many minutes of speech.
    public static let defaultMaxTokens = 4_096

    private let stream: AnswerStream<AnthropicMessagesReply>
    private let model: String?
    private let maxTokens: Int
    /// Whether the model accepts images.
    public let seesImages: Bool

    /// Creates a client for one service.
    /// - Parameters:
    ///   - baseURL: up to and including the version, for example `https://api.anthropic.com/v1`.
    ///   - apiKey: sent as `x-api-key` when it is neither nil nor empty.
    ///   - model: the model's name at the service; nil passes on the name that the client gave.
    ///   - maxTokens: limit of an answer's tokens where the session sets none.
    ///   - seesImages: whether users' images are sent to it.
    ///   - timeout: longest wait for the answer, and for each further piece of it. 60 s.
    ///   - limits: of the time until the first word, and of the whole answer. None by default.
    ///   - retries: when a failed request is retried. Never by default.
    public init(
        baseURL: String, apiKey: String? = nil, model: String? = nil,
        maxTokens: Int = AnthropicMessages.defaultMaxTokens, seesImages: Bool = false,
        timeout: Duration = .seconds(60), limits: AnswerTimeLimits = AnswerTimeLimits(),
        retries: RetryPolicy = .never
    ) {
        var headers = [(name: "anthropic-version", value: Self.version)]
        if let apiKey, !apiKey.isEmpty { headers.append((name: "x-api-key", value: apiKey)) }
        stream = AnswerStream(
            service: UpstreamService(
                baseURL: baseURL, headers: headers, timeout: timeout, totalTimeout: limits.total,
                retries: retries),
            path: "/messages", firstTokenTimeout: limits.firstToken)
        self.model = model
        self.maxTokens = maxTokens
        self.seesImages = seesImages
    }

    /// Sends the request and passes on the answer while it arrives.
    /// - Throws: `AgentError.upstream` when the service cannot be reached, refuses, or breaks off;
    ///   `AgentError.malformedReply` when its answer cannot be understood or is not complete.
    public func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let written = AnthropicMessagesRequest(
            request, model: model ?? request.model,
            maxTokens: request.maxOutputTokens ?? maxTokens)
        try await stream.pass(request, { written.encoded() }, on: host, reply)
    }
}
