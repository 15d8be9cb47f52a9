// One model or speech service: its address, its key, its time limits, and the conversion of its
// errors to `AgentError`. The content of requests and answers is in the types that use it: ModelAPI,
// OpenAITranscription and OpenAISpeech.
//
// The text of a service's error goes to the operator only: `AgentError.message` repeats none of it
// to the client.

import Session

/// The address, headers, time limits and retries of requests to one service.
public struct UpstreamService: Sendable {
    /// A header field of requests.
    typealias Header = (name: String, value: String)

    /// Most bytes that are read of an error's body; its message is near the start.
    static let maxErrorBytes = 64 << 10

    /// The operator's name for it in the log and the metrics; empty: failures are not reported.
    let name: String
    private let base: String
    /// The whole URL of requests without a path, in which a slash at the end counts.
    private let address: String
    /// Header fields of every request besides its content type: the key, and what the service
    /// requires.
    let headers: [Header]
    private let timeout: Duration
    private let totalTimeout: Duration?
    let retries: RetryPolicy

    /// Creates a service.
    /// - Parameters:
    ///   - name: the operator's name for it, `stt` or `tts`; empty: failures are not reported.
    ///   - baseURL: up to and including the version, for example `http://127.0.0.1:8000/v1`.
    ///   - apiKey: sent as a bearer token when it is neither nil nor empty.
    ///   - timeout: longest wait for the answer, and for each further piece of it. 10 s: speech
    ///     that begins later is of no use to a conversation.
    ///   - totalTimeout: limit of the whole answer, or nil. 60 s: recognising the longest turn, or
    ///     speaking the longest clause, takes a fraction of it.
    ///   - retries: when a failed request is retried.
    public init(
        name: String = "", baseURL: String, apiKey: String? = nil,
        timeout: Duration = .seconds(10), totalTimeout: Duration? = .seconds(60),
        retries: RetryPolicy = .never
    ) {
        self.init(
            name: name, baseURL: baseURL, headers: Self.bearer(apiKey), timeout: timeout,
            totalTimeout: totalTimeout, retries: retries)
    }

    /// The field that sends a key as a bearer token; none where the key is nil or empty.
    static func bearer(_ key: String?) -> [Header] {
        guard let key, !key.isEmpty else { return [] }
        return [(name: "Authorization", value: "Bearer \(key)")]
    }

    /// Creates a service that requires header fields of its own instead of a bearer token.
    init(
        name: String = "", baseURL: String, headers: [Header], timeout: Duration,
        totalTimeout: Duration?, retries: RetryPolicy
    ) {
        self.name = name
        var base = baseURL[...]
        while base.hasSuffix("/") { base.removeLast() }
        self.base = String(base)
        address = baseURL
        self.headers = headers
        self.timeout = timeout
        self.totalTimeout = totalTimeout
        self.retries = retries
    }

    /// Posts a body and returns the answer once its status is known to be 2xx.
    /// - Parameter fields: header fields of this request alone.
    /// - Throws: `AgentError.upstream` when the service cannot be reached or refuses.
    ///
    /// Not inlined: its variables would stay in memory until the end of the answer.
    @inline(never)
    func post(
        _ body: [UInt8], _ contentType: String, to path: String, accepting: String,
        fields: [Header] = [], on host: any AgentHost, _ attempt: RequestAttempt
    ) async throws -> any UpstreamResponse {
        let request = PostedRequest(
            request(body, contentType, to: path, accepting: accepting, fields))
        let response = try await host.send(request.value)
        if (200..<300).contains(response.status) { return response }
        return try await Self.followed(response, of: request, from: name, on: host, attempt)
    }

    /// The answer to a request that was not answered with 2xx at once: that of the place to which it
    /// was redirected, or its refusal.
    @inline(never)
    private static func followed(
        _ first: any UpstreamResponse, of request: PostedRequest, from name: String,
        on host: any AgentHost, _ attempt: RequestAttempt
    ) async throws -> any UpstreamResponse {
        let response = try await host.followed(first, of: request.value, to: name)
        if (200..<300).contains(response.status) { return response }
        attempt.handleRetryAfter(response.retryAfter)
        throw refusal(by: response, await errorBody(of: response), to: request.value.url, attempt)
    }

    /// Reports that a request has failed for good.
    /// - Parameter evidence: the evidence of the answer. The default is the evidence that the
    ///   attempt has recorded.
    @inline(never)
    func report(
        _ error: any Error, of path: String, _ attempt: RequestAttempt,
        evidence: ServiceEvidence? = nil, on host: any AgentHost
    ) {
        guard !name.isEmpty, !Task.isCancelled else { return }
        let known = evidence ?? attempt.evidence ?? ServiceEvidence(url: url(of: path))
        guard let fault = ServiceFault(error, of: name, known) else { return }
        host.report(withoutKey(fault))
    }

    /// A fault without the service's key in its words: many services repeat a key that they refuse.
    func withoutKey(_ fault: ServiceFault) -> ServiceFault {
        var fault = fault
        for header in headers where header.name == "Authorization" || header.name == "x-api-key" {
            let key = header.value.split(separator: " ").last ?? ""
            // A shorter one may be a word of the answer.
            guard key.utf8.count >= 8 else { continue }
            fault.reason = fault.reason.replacing(key, with: "***")
            fault.beginning = fault.beginning.replacing(key, with: "***")
        }
        return fault
    }

    /// Where requests with a path go.
    func url(of path: String) -> String { path.isEmpty ? address : base + path }

    @inline(never)
    private func request(
        _ body: [UInt8], _ contentType: String, to path: String, accepting: String,
        _ fields: [Header]
    ) -> UpstreamRequest {
        let types = [
            (name: "Content-Type", value: contentType), (name: "Accept", value: accepting),
        ]
        return UpstreamRequest(
            url: url(of: path), headers: types + headers + fields,
            body: body, timeout: timeout, totalTimeout: totalTimeout)
    }

    @inline(never)
    private static func refusal(
        by response: any UpstreamResponse, _ body: [UInt8], to address: String,
        _ attempt: RequestAttempt
    ) -> AgentError {
        attempt.handleRefusal(
            ServiceEvidence(
                url: address, status: response.status, contentType: response.contentType,
                beginning: Array(body.prefix(ServiceEvidence.maxBeginningBytes)),
                target: response.location.flatMap { ServiceAddress.target(of: $0, from: address) }),
            parameters: [400, 422].contains(response.status)
                ? ServiceErrorBody.parameters(namedIn: body) : "")
        if response.status == 400, ServiceErrorBody.saysForgotten(body) {
            attempt.handleForgotten()
        }
        return .upstream(status: response.status, message: ServiceErrorBody.message(in: body))
    }

    /// The body of an error response. If it breaks off, the part that arrived is used.
    private static func errorBody(of response: any UpstreamResponse) async -> [UInt8] {
        var body: [UInt8] = []
        while body.count < maxErrorBytes, let chunk = try? await response.nextChunk() {
            body += chunk
        }
        return body
    }
}

/// A request that may be made again. An object, because a function that waits for the answer would
/// else keep a copy of all of it.
private final class PostedRequest: Sendable {
    let value: UpstreamRequest

    init(_ value: UpstreamRequest) { self.value = value }
}
