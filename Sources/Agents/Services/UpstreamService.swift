// One model or speech service: where it is, its key, how long it may take, and how its errors
// become ours. What is asked and what the answer means is ChatCompletions', AnthropicMessages',
// OpenAIResponses', OpenAITranscription's and OpenAISpeech's.
//
// The error of a service goes to the operator only: `AgentError.message` tells the client no word
// of it.

import Session

/// Where a service is and how it is asked.
public struct UpstreamService: Sendable {
    /// Bytes of an error's body that are read at most; its message is near the start.
    static let maxErrorBytes = 64 << 10

    private let base: String
    /// What every request carries beside its type: the key, and what the service asks for.
    private let headers: [(name: String, value: String)]
    private let timeout: Duration
    private let totalTimeout: Duration?
    let retries: RetryPolicy

    /// Creates a service.
    /// - Parameters:
    ///   - baseURL: up to and including the version, for example `http://127.0.0.1:8000/v1`.
    ///   - apiKey: sent as a bearer token when it is neither nil nor empty.
    ///   - timeout: limit of the silence before the answer and between its pieces. 10 s: speech
    ///     that has not begun by then is of no use to a conversation.
    ///   - totalTimeout: limit of the whole answer, or nil. 60 s: the longest turns that are
    ///     recognised, and clauses that are spoken, take a fraction of it.
    ///   - retries: when it is asked again.
    public init(
        baseURL: String, apiKey: String? = nil, timeout: Duration = .seconds(10),
        totalTimeout: Duration? = .seconds(60), retries: RetryPolicy = .never
    ) {
        base = Self.withoutSlashes(baseURL)
        let key = apiKey.flatMap { $0.isEmpty ? nil : "Bearer \($0)" }
        headers = key.map { [(name: "Authorization", value: $0)] } ?? []
        self.timeout = timeout
        self.totalTimeout = totalTimeout
        self.retries = retries
    }

    /// Creates a service that wants fields of its own instead of a bearer token.
    init(
        baseURL: String, headers: [(name: String, value: String)], timeout: Duration,
        totalTimeout: Duration?, retries: RetryPolicy
    ) {
        base = Self.withoutSlashes(baseURL)
        self.headers = headers
        self.timeout = timeout
        self.totalTimeout = totalTimeout
        self.retries = retries
    }

    private static func withoutSlashes(_ url: String) -> String {
        var base = url[...]
        while base.hasSuffix("/") { base.removeLast() }
        return String(base)
    }

    /// Posts a body and returns the answer once it is known to be a good one.
    /// - Throws: `AgentError.upstream` when the service cannot be reached or refuses.
    func post(
        _ body: [UInt8], _ contentType: String, to path: String, accepting: String,
        on host: any AgentHost, _ attempt: RequestAttempt
    ) async throws -> any UpstreamResponse {
        let types = [
            (name: "Content-Type", value: contentType), (name: "Accept", value: accepting),
        ]
        let response = try await host.send(
            UpstreamRequest(
                url: base + path, headers: types + headers, body: body, timeout: timeout,
                totalTimeout: totalTimeout))
        guard (200..<300).contains(response.status) else {
            attempt.handleRetryAfter(response.retryAfter)
            throw AgentError.upstream(
                status: response.status, message: await Self.errorMessage(of: response))
        }
        return response
    }

    /// What a service says of its refusal. That it breaks off within it changes nothing.
    private static func errorMessage(of response: any UpstreamResponse) async -> String {
        var body: [UInt8] = []
        while body.count < maxErrorBytes, let chunk = try? await response.nextChunk() {
            body += chunk
        }
        return ServiceErrorBody.message(in: body)
    }
}
