// One request to a model service, from its body to the last piece of the answer. It has the
// attempts, the time limit until the first word, and the memory that only the request knows.
// ModelAPI writes the body, StreamedAnswer reads the answer's bytes.
//
// It is an object, to save memory. A suspended function keeps its variables in blocks of 1 kB and
// more, one for each function that waits; as variables, the state here took 2.7 kB of every response
// in progress. So `run` has few variables, and it alone waits for the pieces of the answer.
//
// Invariant: confined to the task of `run`. Each charge to the host has been taken back when `run`
// ends.

import Codec
import Session

/// Bytes of a request beside its body. Tests/clients/test_ledger.py compares them with the heap of the
/// release build.
enum ModelExchangeBytes {
    /// The functions that wait for the next piece of the answer, and the objects here.
    static let answering = 3_300
    /// Beside that until the first word: a group of two tasks, and the functions that post.
    static let waiting = 5_000
}

/// One request, and the part of its answer that has come.
final class ModelExchange<API: ModelAPI>: @unchecked Sendable {
    /// Time for the rest after a complete answer: the count of tokens, and the end of the transfer,
    /// after which its connection serves the next request. It is 1 s: both come at once or never.
    private static var endingTime: Duration { .seconds(1) }

    private let api: API
    private let request: ModelRequest
    private let host: any AgentHost
    private var body: [UInt8] = []
    private var attempt = RequestAttempt()
    private var reading: AnswerReading<API.Answer>
    /// The media type of the answer; nil where it is the expected one.
    private var contentType: String?
    /// When the request began; the limit until the first word counts from here.
    private var start = Instant(nanoseconds: 0)
    private var retries = 0
    /// Whether the body depends on nothing that the service remembers.
    private var isWhole = false
    /// The form of the body, what of it was changed after refusals, and the first of these.
    private var form: RequestForm
    private var changed: RequestForm = []
    private var refusal: (any Error)?
    /// Whether the answer is complete, so that its transfer ends soon.
    private var isEnding = false
    /// Bytes that the host is charged: the body, and an incomplete answer.
    private var charged = 0

    /// Makes an exchange. Not inlined: the arguments' copies would stay in the caller's memory until
    /// the end of the answer.
    @inline(never)
    static func made(
        by api: API, _ request: ModelRequest, on host: any AgentHost
    ) -> ModelExchange { ModelExchange(api, request, host) }

    private init(_ api: API, _ request: ModelRequest, _ host: any AgentHost) {
        self.api = api
        self.request = request
        self.host = host
        form = api.endpoint.form.current
        reading = AnswerReading(API.Answer(to: request, from: api.service))
    }

    /// Posts the request and passes on the answer while it arrives.
    func run(_ reply: @Sendable (ModelDelta) async throws -> Void) async throws {
        body = try await encoded()
        start = await host.now()
        api.upstream.retries.handleRequest()
        defer { host.charge(-charged) }
        while true {
            charge()
            do {
                let response = try await open()
                var isOver = false
                while !isOver {
                    let chunk =
                        attempt.hasDelivered
                        ? try await response.nextChunk()
                        : try await withinLimit { try await response.nextChunk() }
                    isOver = try take(chunk, of: response)
                    // An iterator would be another copy in memory while it waits.
                    var position = 0
                    while position < reading.deltas.count {
                        attempt.handleDelivery()
                        try await reply(reading.deltas[position])
                        position += 1
                    }
                }
                return
            } catch {
                try await prepareAttempt(after: explained(error))
            }
        }
    }

    // MARK: Failures

    /// The evidence of an answer that began and could not be read. Nil means that none began, or
    /// that the attempt has evidence of its own.
    private var evidence: ServiceEvidence? {
        guard attempt.evidence == nil, attempt.hasAnswered else { return nil }
        var evidence = ServiceEvidence(url: api.upstream.url(of: API.path))
        evidence.status = 200
        evidence.contentType = contentType
        evidence.beginning = reading.beginning
        return evidence
    }

    /// Says what an answer is that does not have the API's form.
    @inline(never)
    private func explained(_ error: any Error) -> any Error {
        guard case AgentError.malformedReply(_, let detail) = error,
            let kind = evidence?.foreignKind
        else { return error }
        return AgentError.malformedReply(
            message: "The model server's answer is \(kind.rawValue), not one of its API.",
            detail: detail)
    }

    /// Reports a failure that is final.
    @inline(never)
    private func report(_ error: any Error) {
        api.upstream.report(error, of: API.path, attempt, evidence: evidence, on: host)
    }

    /// Reads a piece of the answer. Nil is its end.
    /// - Returns: whether the answer is over. That is its own terminal event, or the end of the
    ///   transfer: some servers leave the connection open after it.
    private func take(_ chunk: [UInt8]?, of response: any UpstreamResponse) throws -> Bool {
        if let chunk {
            attempt.handleAnswer()
            try reading.take(chunk)
            if reading.isComplete, !isEnding {
                isEnding = true
                response.expectEnd(within: Self.endingTime)
            }
        } else {
            try reading.finish()
        }
        // There is no retry from here on, so free the body: it may be the whole conversation.
        if !reading.deltas.isEmpty { body = [] }
        charge(reading.bufferedBytes)
        return chunk == nil || reading.isOver
    }

    /// Charges the host for the request as it is.
    /// - Parameter bytes: the bytes that are held beside it.
    private func charge(_ bytes: Int = 0) {
        let own = ModelExchangeBytes.answering + body.heapBytes
        host.charge(own + bytes, insteadOf: &charged)
    }

    // MARK: Asking

    @inline(never)
    private func open() async throws -> any UpstreamResponse {
        let response = try await withinLimit { [self] in
            try await api.upstream.post(
                body, "application/json", to: API.path, accepting: "text/event-stream",
                fields: fields, on: host, attempt)
        }
        if response.contentType?.hasPrefix("text/event-stream") != true {
            contentType = response.contentType
        }
        if !changed.isEmpty { noteForm() }
        return response
    }

    /// The header fields of the request.
    private var fields: [UpstreamService.Header] {
        @inline(never) get {
            // A request in another form is another request, with a key of its own.
            let variant = (isWhole ? "-whole" : "") + (changed.isEmpty ? "" : "-\(form.rawValue)")
            return TurnFields.fields(of: request, for: api.service, variant: variant)
        }
    }

    /// The service has answered a request in another form than before: remembers the form.
    @inline(never)
    private func noteForm() {
        guard api.endpoint.form.current != form else { return }
        api.endpoint.form.handleAnswered(form)
        guard let refusal = refusal as? AgentError, !api.upstream.name.isEmpty else { return }
        host.report(.otherForm(of: api.upstream.name, api.upstream.url(of: API.path), refusal))
    }

    /// Prepares another attempt, and waits until it is due.
    /// - Throws: the error, where no other attempt may follow. It is reported.
    @inline(never)
    private func prepareAttempt(after error: any Error) async throws {
        do {
            try await prepare(after: error)
        } catch {
            report(error)
            throw error
        }
        attempt = RequestAttempt()
        contentType = nil
        reading = AnswerReading(API.Answer(to: request, from: api.service))
    }

    private func prepare(after error: any Error) async throws {
        guard let error = error as? AgentError else { throw error }
        if !isWhole, attempt.hasForgotten(by: error), let whole = try await encodedWhole() {
            isWhole = true
            body = whole
        } else if let other = api.endpoint.form.alternative(
            to: form, words: attempt.refusedParameters,
            tried: request.maxOutputTokens == nil ? changed.union(.completionTokens) : changed)
        {
            changed.formUnion(form.symmetricDifference(other))
            form = other
            refusal = refusal ?? error
            body = try await encoded()
        } else if let refusal, !attempt.refusedParameters.isEmpty {
            // Where the other form is refused too, the first refusal says why.
            throw refusal
        } else {
            guard
                let delay = api.upstream.retries.delay(
                    after: error, of: attempt, retries: &retries)
            else { throw error.asLimit(retryAfter: attempt.retryAfter) }
            try await host.sleep(for: delay)
        }
    }

    /// The model's name at the service.
    private var model: String { api.service.model ?? request.model }

    /// Whether the body has audio or images. Audio must be decoded and images are megabytes: a
    /// worker thread does that, so that no other session waits.
    private var isLong: Bool { request.messages.neededAbilities != ModelAbilities() }

    @inline(never)
    private func encoded() async throws -> [UInt8] {
        let form = form
        if isWhole, let whole = try await encodedWhole() { return whole }
        guard isLong else { return api.encoded(request, model: model, form: form) }
        return try await host.compute { [self] in
            api.encoded(request, model: model, form: form)
        }
    }

    /// The body of the whole conversation.
    @inline(never)
    private func encodedWhole() async throws -> [UInt8]? {
        let form = form
        guard isLong else { return api.encodedWhole(request, model: model, form: form) }
        return try await host.compute { [self] in
            api.encodedWhole(request, model: model, form: form)
        }
    }

    // MARK: The first word

    /// Waits for a step of the answer within the rest of the limit. Not inlined: the group's state
    /// would become part of the caller's, and stay in memory until the end of the answer.
    @inline(never)
    private func withinLimit<Value: Sendable>(
        _ step: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        guard let limit = api.service.firstTokenTimeout else { return try await step() }
        let left = limit - (await host.now() - start)
        host.charge(ModelExchangeBytes.waiting)
        defer { host.charge(-ModelExchangeBytes.waiting) }
        return try await withThrowingTaskGroup(of: Value.self) { [self] group in
            group.addTask { try await step() }
            group.addTask { [self] in
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
