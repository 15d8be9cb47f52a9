// The API of a model service: how its requests are written, and which reader its answers have. Time
// limits, retries and the memory that is charged during a request are the same for every API, and
// are here too. ModelService lists the APIs, StreamedAnswer reads the answers' bytes.

import Codec
import Session

/// A client of one service, written for its API. A conforming type writes the requests; its `Answer`
/// reads the answers.
protocol ModelAPI: LanguageModel {
    /// Reads the answers.
    associatedtype Answer: StreamedAnswer

    /// The name of the API for operators: "OpenAI's Responses".
    static var title: String { get }
    /// Appended to the service's base URL.
    static var path: String { get }
    /// Whether requests can hold the user's audio. The default is false.
    static var takesAudio: Bool { get }
    /// Header fields with the key, and those that the service requires. The default is a bearer
    /// token.
    static func headers(key: String?) -> [UpstreamService.Header]

    /// The service and the settings for its use.
    var service: ModelService { get }
    /// The connection to the service.
    var upstream: UpstreamService { get }
    /// Creates a client.
    init(service: ModelService, upstream: UpstreamService)

    /// The body of a request to a model of the service.
    func encoded(_ request: ModelRequest, model: String) -> [UInt8]

    /// The body of a request that does not depend on what the service remembers, for a service that
    /// has forgotten it; nil, the default, where the request depends on nothing.
    func encodedWhole(_ request: ModelRequest, model: String) -> [UInt8]?
}

extension ModelAPI {
    static var takesAudio: Bool { false }
    static func headers(key: String?) -> [UpstreamService.Header] { UpstreamService.bearer(key) }

    /// Creates a client of a service.
    init(_ service: ModelService) {
        self.init(
            service: service,
            upstream: UpstreamService(
                baseURL: service.baseURL, headers: Self.headers(key: service.apiKey),
                timeout: service.timeout, totalTimeout: service.totalTimeout,
                retries: service.retries))
    }

    var hearsAudio: Bool { service.hearsAudio && Self.takesAudio }
    var seesImages: Bool { service.seesImages }

    func encodedWhole(_ request: ModelRequest, model: String) -> [UInt8]? { nil }

    /// Posts the request and passes on the answer while it arrives.
    ///
    /// It is one function from the request to the last delta, to save memory. A further function in
    /// between would stay suspended until the next delta and cost about 1 kB for every response in
    /// progress.
    /// - Throws: `AgentError.upstream` when the service cannot be reached, refuses, or breaks off;
    ///   `AgentError.malformedReply` when its answer cannot be understood or is not complete.
    func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let model = service.model ?? request.model
        // Audio must be decoded and images are megabytes: a worker thread does that, so that no
        // other session waits.
        let isLong = request.messages.neededAbilities != ModelAbilities()
        var body =
            isLong
            ? try await host.compute { encoded(request, model: model) }
            : encoded(request, model: model)
        let firstTokenLimit = FirstTokenLimit(
            limit: service.firstTokenTimeout, start: await host.now(), host: host)
        upstream.retries.handleRequest()
        var retries = 0
        var isWhole = false
        // Memory that only this function knows: the request's body, and an incomplete answer.
        var charged = 0
        defer { host.charge(-charged) }
        while true {
            host.charge(body.heapBytes, insteadOf: &charged)
            let attempt = RequestAttempt()
            let fields = TurnFields.fields(of: request, for: service, isWhole: isWhole)
            do {
                let response = try await firstTokenLimit.wait(attempt) { [body] in
                    try await upstream.post(
                        body, "application/json", to: Self.path, accepting: "text/event-stream",
                        fields: fields, on: host, attempt)
                }
                var reading = AnswerReading(Answer(to: request, from: service))
                var isOver = false
                while !isOver {
                    let chunk =
                        attempt.hasDelivered
                        ? try await response.nextChunk()
                        : try await firstTokenLimit.wait(attempt) { try await response.nextChunk() }
                    isOver = chunk == nil
                    if chunk != nil { attempt.handleAnswer() }
                    if let chunk { try reading.take(chunk) } else { try reading.finish() }
                    // There is no retry from here on, so free the body: it may be the whole
                    // conversation.
                    if !reading.deltas.isEmpty { body = [] }
                    host.charge(body.heapBytes + reading.bufferedBytes, insteadOf: &charged)
                    for delta in reading.deltas {
                        attempt.handleDelivery()
                        try await reply(delta)
                    }
                }
                return
            } catch let error as AgentError {
                if !isWhole, attempt.hasForgotten(by: error),
                    let whole = try await whole(request, model, on: isLong ? host : nil)
                {
                    isWhole = true
                    body = whole
                    continue
                }
                guard
                    let delay = upstream.retries.delay(after: error, of: attempt, retries: &retries)
                else { throw error.asLimit(retryAfter: attempt.retryAfter) }
                try await host.sleep(for: delay)
            }
        }
    }

    /// The body of the whole conversation.
    /// - Parameter host: has the worker threads where it takes long; nil: it does not.
    @inline(never)
    private func whole(
        _ request: ModelRequest, _ model: String, on host: (any AgentHost)?
    ) async throws -> [UInt8]? {
        guard let host else { return encodedWhole(request, model: model) }
        return try await host.compute { encodedWhole(request, model: model) }
    }
}

/// The time limit until the first word of an answer.
private struct FirstTokenLimit: Sendable {
    let limit: Duration?
    let start: Instant
    let host: any AgentHost

    /// Waits for a step of the answer within the rest of the limit. Not inlined: the group's state
    /// would become part of the caller's, and stay in memory until the end of the answer.
    @inline(never)
    func wait<Value: Sendable>(
        _ attempt: RequestAttempt, for step: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        guard let limit else { return try await step() }
        let left = limit - (await host.now() - start)
        return try await withThrowingTaskGroup(of: Value.self) { [host] group in
            group.addTask { try await step() }
            group.addTask {
                try await host.sleep(for: max(.zero, left))
                attempt.handleTooLate()
                throw AgentError.upstream(
                    status: 0,
                    message: "The model server said nothing within \(limit.wholeMilliseconds) ms.")
            }
            defer { group.cancelAll() }
            guard let first = try await group.next() else { throw CancellationError() }
            return first
        }
    }
}
