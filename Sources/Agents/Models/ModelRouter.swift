// Several language models behind one port: which provider answers is decided by the model's name
// that the client gave, and another takes over where that one fails before it has said anything.
// How a provider is asked is its model's business.
//
// Invariant: a response is answered by one provider; once something was passed on, no other is
// asked.

import Session

/// Which names of models a provider answers to: the name itself, or what it begins with before `*`.
public struct ModelNamePattern: Equatable, Sendable, LosslessStringConvertible {
    /// As it was written.
    public let description: String
    private let text: Substring
    private let isPrefix: Bool

    /// Reads a pattern; nil where it is empty, or has a `*` before its end.
    public init?(_ description: String) {
        self.description = description
        isPrefix = description.hasSuffix("*")
        text = isPrefix ? description.dropLast() : description[...]
        guard !description.isEmpty, !text.contains("*") else { return nil }
    }

    /// Whether a model's name is meant.
    public func matches(_ name: String) -> Bool {
        isPrefix ? name.hasPrefix(text) : name[...] == text
    }
}

/// One way to a model.
public struct ModelProvider: Sendable {
    /// For metrics and logs, and for others to name as their fallback.
    public let name: String
    /// The models that it answers to; none where it is only a fallback or the default.
    public let patterns: [ModelNamePattern]
    /// Asks it.
    public let model: any LanguageModel
    /// Who takes over where it fails, or nil.
    public let fallback: String?
    let health: ProviderHealth

    /// Creates a provider.
    public init(
        name: String, patterns: [ModelNamePattern] = [], model: any LanguageModel,
        fallback: String? = nil, health: ProviderHealth = ProviderHealth()
    ) {
        self.name = name
        self.patterns = patterns
        self.model = model
        self.fallback = fallback
        self.health = health
    }
}

/// Answers each request through the provider of its model.
public struct ModelRouter: LanguageModel {
    /// A provider is given up for another.
    public typealias Report =
        @Sendable (
            _ failed: String, _ next: String, _ error: any Error
        ) -> Void

    private let all: [ModelProvider]
    /// Answers to the names that no pattern has, or nil: they are refused.
    private let standard: ModelProvider?
    private let report: Report

    /// Creates a router.
    /// - Parameters:
    ///   - providers: the first whose pattern matches answers; names are unique.
    ///   - standard: the name of the provider for all other models, or nil: they are refused.
    ///   - report: told where a provider is given up for another, for the operator.
    public init(
        providers: [ModelProvider], standard: String? = nil,
        report: @escaping Report = { _, _, _ in }
    ) {
        all = providers
        self.standard = providers.first { $0.name == standard }
        self.report = report
    }

    /// What the provider of a model understands.
    public func abilities(of model: String) -> ModelAbilities {
        provider(of: model)?.model.abilities(of: model) ?? ModelAbilities()
    }

    /// What became of the turns of each provider.
    public var providers: [ModelProviderCounts] {
        all.map { $0.health.counts(of: $0.name) }
    }

    /// Asks the provider of the request's model, and those that it falls back to, in turn, while
    /// they fail before their first word for a reason that another may not have.
    /// - Throws: what the last of them threw; `AgentError.unavailable` where no provider has the
    ///   model.
    public func respond(
        to request: ModelRequest, on host: any AgentHost,
        reply: @Sendable (ModelDelta) async throws -> Void
    ) async throws {
        let candidates = try candidates(for: request)
        for (position, provider) in candidates.enumerated() {
            let next = position + 1 < candidates.count ? candidates[position + 1] : nil
            // A provider without a fallback is asked however it fares.
            var turn = ProviderTurn.ordinary
            if let next {
                guard let permitted = await provider.health.permit(at: host.now()) else {
                    next.health.handleFallback()
                    continue
                }
                turn = permitted
            }
            let attempt = RequestAttempt()
            do {
                try await provider.model.respond(to: request, on: host) { delta in
                    attempt.handleDelivery()
                    try await reply(delta)
                }
                provider.health.handleAnswered()
                return
            } catch {
                if Task.isCancelled || error is CancellationError {
                    provider.health.handleCancelled(
                        turn, hasAnswered: attempt.hasDelivered, at: await host.now())
                    throw error
                }
                let blame = FailureBlame(error)
                provider.health.handleFailed(
                    turn, isItsFault: blame == .provider, at: await host.now())
                guard let next, blame != .request, !attempt.hasDelivered else { throw error }
                report(provider.name, next.name, error)
                next.health.handleFallback()
            }
        }
    }

    private func provider(of model: String) -> ModelProvider? {
        all.first { $0.patterns.contains { $0.matches(model) } } ?? standard
    }

    /// The provider of a request, and those that it falls back to. Of these, one that would not
    /// understand the request is passed over.
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

/// What a failed turn speaks against.
private enum FailureBlame {
    /// The provider: another may do better, and further failures pause it.
    case provider
    /// What the client asked this provider for, such as a model that it does not have (404):
    /// another provider may have it. It never pauses a provider, or the requests of one client
    /// would send the turns of all others to the fallback.
    case requestToProvider
    /// The request, or this server: no provider could answer.
    case request

    init(_ error: any Error) {
        guard let error = error as? AgentError else {
            self = .provider
            return
        }
        self =
            switch error {
            case .upstream(let status, _): Self(status: status)
            case .malformedReply: .provider
            case .overloaded, .unavailable, .unknownModel: .request
            }
    }

    /// By the meaning of the status (RFC 9110 §15.5, RFC 6585): a client error is the request's,
    /// but for those that follow from the operator's key or the provider's load.
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
