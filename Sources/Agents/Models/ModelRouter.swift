// Several language models behind one port. The model name that the client gave selects the
// provider. Where that provider fails before its first word, or has too many requests, its fallback
// takes over.
//
// Invariant: all deltas of a response come from one provider.

import Session

/// A pattern for model names: a whole name, or the beginning of one followed by `*`.
public struct ModelNamePattern: Equatable, Sendable, LosslessStringConvertible {
    /// The pattern as it was written.
    public let description: String
    private let text: Substring
    private let isPrefix: Bool

    /// Reads a pattern; nil when it is empty, or has a `*` before its end.
    public init?(_ description: String) {
        self.description = description
        isPrefix = description.hasSuffix("*")
        text = isPrefix ? description.dropLast() : description[...]
        guard !description.isEmpty, !text.contains("*") else { return nil }
    }

    /// Whether a model's name fits the pattern.
    public func matches(_ name: String) -> Bool {
        isPrefix ? name.hasPrefix(text) : name[...] == text
    }
}

/// A service, or an embedded model, that answers requests for some model names. An object, because a
/// request in progress would otherwise keep several copies.
public final class ModelProvider: Sendable {
    /// The name in metrics, logs, and the `fallback` of other providers.
    public let name: String
    /// The model names that select it; empty where it is only a fallback or the default.
    public let patterns: [ModelNamePattern]
    /// Sends requests to it.
    public let model: any LanguageModel
    /// The name of the provider that takes over when this one fails, or nil.
    public let fallback: String?
    let health: ProviderHealth
    let queue: RequestQueue

    /// Creates a provider.
    public init(
        name: String, patterns: [ModelNamePattern] = [], model: any LanguageModel,
        fallback: String? = nil, health: ProviderHealth = ProviderHealth(),
        queue: RequestQueue = RequestQueue()
    ) {
        self.name = name
        self.patterns = patterns
        self.model = model
        self.fallback = fallback
        self.health = health
        self.queue = queue
    }
}

/// Sends each request to the provider that its model name selects.
public struct ModelRouter: LanguageModel {
    /// Reports that a provider has failed and its fallback takes over.
    public typealias Report =
        @Sendable (
            _ failed: String, _ next: String, _ error: any Error
        ) -> Void

    private let all: [ModelProvider]
    /// The default provider, for names that fit no pattern. Without one, such names are refused.
    private let standard: ModelProvider?
    private let report: Report

    /// Creates a router.
    /// - Parameters:
    ///   - providers: in order of precedence; their names are unique.
    ///   - standard: the name of the provider for all other models, which are refused where it is
    ///     nil.
    ///   - report: called when a fallback takes over.
    public init(
        providers: [ModelProvider], standard: String? = nil,
        report: @escaping Report = { _, _, _ in }
    ) {
        all = providers
        self.standard = providers.first { $0.name == standard }
        self.report = report
    }

    /// Checks the services of all providers, one after the other.
    public func checkServices(on host: any AgentHost) async {
        for provider in all { await provider.model.checkServices(on: host) }
    }

    /// The abilities of the provider that a model name selects.
    public func abilities(of model: String) -> ModelAbilities {
        provider(of: model)?.model.abilities(of: model) ?? ModelAbilities()
    }

    /// The outcomes of the requests to each provider, and those that it has now.
    public var providers: [ModelProviderCounts] {
        all.map { provider in
            var counts = provider.health.counts(of: provider.name)
            (counts.inFlight, counts.waiting, counts.refused) = provider.queue.counts
            if let own = provider.model.providers.first {
                (counts.repeats, counts.lost) = (own.repeats, own.lost)
            }
            return counts
        }
    }

    /// Sends the request to the provider of its model. When that fails before its first word, for a
    /// reason that may not affect another provider, or has too many requests, its fallbacks follow
    /// one after the other.
    /// - Throws: the error of the last provider; `AgentError.unknownModel` where no provider has
    ///   the model.
    public func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let candidates = try candidates(for: request)
        var position = 0
        while position < candidates.count {
            let provider = candidates[position]
            position += 1
            let next = position < candidates.count ? candidates[position] : nil
            guard let permit = try await admit(request, to: provider, next, on: host) else {
                next?.health.handleFallback()
                continue
            }
            let attempt = RequestAttempt()
            let start = await host.now()
            do {
                try await provider.model.respond(to: request, on: host) { delta in
                    attempt.handleDelivery()
                    try await reply(delta)
                }
                provider.queue.leave(since: start, at: await host.now())
                provider.health.handleAnswered()
                return
            } catch {
                let now = await host.now()
                provider.queue.leave(since: start, at: now)
                try handle(error, of: attempt, by: provider, permit, next, at: now)
            }
        }
    }

    /// A provider has failed.
    /// - Throws: its error, where no fallback may take over.
    private func handle(
        _ error: any Error, of attempt: RequestAttempt, by provider: ModelProvider,
        _ permit: ProviderPermit, _ next: ModelProvider?, at now: Instant
    ) throws {
        if Task.isCancelled || error is CancellationError {
            provider.health.handleCancelled(permit, hasAnswered: attempt.hasDelivered, at: now)
            throw error
        }
        if case .rateLimited(let delay, _)? = error as? AgentError {
            provider.queue.handleLimited(until: now + delay)
        }
        let blame = FailureBlame(error)
        provider.health.handleFailed(permit, isItsFault: blame == .provider, at: now)
        guard let next, blame != .request, !attempt.hasDelivered else { throw error }
        report(provider.name, next.name, error)
        next.health.handleFallback()
    }

    /// Waits for a place at a provider. A request that gets no place says nothing about the
    /// provider's health.
    /// - Parameter fallback: takes over where the provider is paused or has too many requests; a
    ///   provider without one is used even while it is paused.
    /// - Returns: nil where the fallback takes over.
    /// - Throws: `AgentError.rateLimited` where there is no fallback; `CancellationError`.
    ///
    /// Not inlined: its variables would stay in memory until the end of the answer.
    @inline(never)
    private func admit(
        _ request: ModelRequest, to provider: ModelProvider, _ fallback: ModelProvider?,
        on host: any AgentHost
    ) async throws -> ProviderPermit? {
        let caller = request.turn?.subject ?? request.turn?.sessionID ?? ""
        guard fallback != nil else {
            _ = try await provider.queue.enter(as: caller, on: host)
            return .ordinary
        }
        guard let permit = await provider.health.permit(at: host.now()) else { return nil }
        do {
            let hasWaited = try await provider.queue.enter(as: caller, on: host)
            guard hasWaited, permit == .ordinary else { return permit }
        } catch {
            provider.health.handleWithdrawn(permit, at: await host.now())
            if error is AgentError { return nil }
            throw error
        }
        // The provider may have been paused meanwhile.
        let now = await host.now()
        if let renewed = provider.health.permit(at: now) { return renewed }
        provider.queue.leave(since: nil, at: now)
        return nil
    }

    private func provider(of model: String) -> ModelProvider? {
        all.first { $0.patterns.contains { $0.matches(model) } } ?? standard
    }

    /// The provider of a request, then its fallbacks. A fallback without the abilities that the
    /// request needs is skipped.
    private func candidates(for request: ModelRequest) throws(AgentError) -> [ModelProvider] {
        guard let first = provider(of: request.model) else {
            throw .unknownModel(message: "This server has no model '\(request.model)'.")
        }
        let needed = request.messages.neededAbilities
        var candidates = [first]
        var seen: Set<String> = [first.name]
        var fallback = first.fallback
        while let name = fallback, seen.insert(name).inserted,
            let provider = all.first(where: { $0.name == name })
        {
            let abilities = provider.model.abilities(of: request.model)
            if abilities.seesImages || !needed.seesImages,
                abilities.hearsAudio || !needed.hearsAudio
            {
                candidates.append(provider)
            }
            fallback = provider.fallback
        }
        return candidates
    }
}

/// The cause of a failed request.
private enum FailureBlame {
    /// The provider. Another may succeed, and further failures pause this one.
    case provider
    /// Something in the request that this provider does not offer, such as a model (404); another
    /// provider may offer it. It never pauses a provider: otherwise one client's requests would
    /// send those of all other clients to the fallback.
    case requestToProvider
    /// The request itself, or this server: no provider could answer.
    case request

    init(_ error: any Error) {
        guard let error = error as? AgentError else {
            self = .provider
            return
        }
        self =
            switch error {
            case .upstream(let status, _): Self(status: status)
            // An error within an answer has no status of HTTP, and its code is the service's own.
            // Another provider may have more room or other rules.
            case .brokenOff(let status, _):
                Self(status: status) == .request ? .requestToProvider : Self(status: status)
            case .malformedReply, .rateLimited, .agentLost: .provider
            case .overloaded, .unavailable, .unknownModel, .quotaUsedUp, .explained: .request
            }
    }

    /// Decides by the meaning of the status (RFC 9110 §15.5, RFC 6585). A client error is the
    /// request's fault, except for those that the operator's key or the provider's load causes.
    private init(status: Int) {
        self =
            switch status {
            case 400, 413, 422: .request
            case 401, 402, 403, 407, 408, 425, 429: .provider
            case 404..<500: .requestToProvider
            default: .provider
            }
    }
}
