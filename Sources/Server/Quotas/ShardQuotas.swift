// Quotas on a shard: a session that has any is asked before an input or a request to a model, and
// its use is counted. SessionQuotas knows the rest.
//
// A refusal answers a connection with 429. It drops an event or audio, with an `error` event. It
// fails a response. The session lives on in every case.

import Codec
import Session

extension Shard {
    /// The quotas of a session, if it has any.
    func quotas(of caller: Caller, at client: NetworkAddress) -> SessionQuotas? {
        let settings = configuration.quotas
        var accounts: [QuotaAccount] = []
        if let principal = caller.principal {
            let quotas = caller.allowance.quotas.completed(by: settings.perKey)
            accounts.append(QuotaAccount(subject: .principal(principal), quotas: quotas))
        }
        if !settings.perAddress.isEmpty, !fixtures.admission.isUnlimited(client) {
            accounts.append(
                QuotaAccount(
                    subject: .address(client.subscriber), quotas: settings.perAddress))
        }
        return SessionQuotas(
            own: settings.perSession, accounts: accounts, in: services.quotas)
    }

    /// Counts a refusal, and returns its answer over HTTP.
    func refuse(_ refusal: QuotaRefusal, of client: NetworkAddress) -> HTTPResponse {
        note(refusal)
        noteRefusal(.quota, of: client)
        return RouteFailure(
            status: 429, code: "rate_limit_exceeded", message: refusal.message,
            headers: [("Retry-After", "\(refusal.retryAfterSeconds)")]
        ).response
    }

    private func note(_ refusal: QuotaRefusal) { metrics.add(refusal.unit.refusals) }

    // MARK: Input

    /// Whether an event of the client may be handled. The client gets an error where it may not.
    func admits(_ event: ClientEvent, eventID: String?, to live: LiveSession) -> Bool {
        guard live.grant?.quotas != nil else { return true }
        // An append without audio would be free.
        if case .inputAudioBufferAppend = event, workspace.parser.audio.count > 0 {
            return admitsAudio(to: live)
        }
        do {
            try take(event, eventID: eventID, of: live)
            return true
        } catch {
            step(live) { $0.handle(error, at: now) }
            return false
        }
    }

    /// Counts an event for a session, of its client or of a sideband.
    /// - Throws: the error for its sender, where a quota is used up.
    func take(
        _ event: ClientEvent, eventID: String?, of live: LiveSession
    ) throws(ClientEventError) {
        guard let quotas = live.grant?.quotas else { return }
        do {
            try quotas.takeEvent(at: now)
            if event.bringsAudio { try quotas.prepareAudio(at: now) }
        } catch {
            note(error)
            throw .quotaUsedUp(error, eventID: eventID)
        }
    }

    /// Whether an input that a carrier brings from its caller may be handled. It counts as an
    /// event. The carrier's protocol has no message for a refusal, so that only the metrics show
    /// it.
    func admitsEvent(of live: LiveSession) -> Bool {
        guard let quotas = live.grant?.quotas else { return true }
        do {
            try quotas.takeEvent(at: now)
            return true
        } catch {
            note(error)
            return false
        }
    }

    /// Whether audio of the client may be heard. The client gets an error at times where it may not.
    func admitsAudio(to live: LiveSession) -> Bool {
        guard let quotas = live.grant?.quotas else { return true }
        do {
            try quotas.prepareAudio(at: now)
            return true
        } catch {
            note(error)
            if quotas.isAudioErrorDue(at: now) {
                let error = ClientEventError.quotaUsedUp(error)
                step(live) { $0.handle(error, at: now) }
            }
            return false
        }
    }

    /// Counts the audio that a session hears in an input.
    @inline(__always)
    func countingAudio(of live: LiveSession, _ input: () -> Void) {
        let (quotas, recorder) = (live.grant?.quotas, live.session.recorder)
        guard quotas != nil || recorder != nil else { return input() }
        let before = sessionContext.samplesIn
        input()
        let samples = sessionContext.samplesIn - before
        quotas?.noteAudio(samples: samples, at: now)
        recorder?.noteAudio(samples: samples)
    }

    // MARK: Models

    /// Performs a command of a session, unless it is a request to a model for which a quota is used
    /// up: then its response fails.
    func perform(_ command: AgentCommand, of live: LiveSession) {
        var command = command
        if case .respond(let responseID, var request) = command,
            let call = front(of: live)?.0.call
        {
            request.turn?.call = call
            command = .respond(responseID: responseID, request)
        }
        if case .respond(let responseID, let request) = command, let quotas = live.grant?.quotas {
            do {
                try quotas.takeTurn(for: responseID, request, at: now)
            } catch {
                note(error)
                return agents.link.refuse(
                    responseID, .quotaUsedUp(error), for: live.token, work: &live.work)
            }
        }
        agents.link.perform(
            command, for: live.token, subject: live.grant?.subject, work: &live.work)
    }

    /// The balances of a session's quotas of turns and tokens, for `rate_limits.updated`.
    func rateLimits(of live: LiveSession) -> [RateLimit] {
        guard let quotas = live.grant?.quotas else { return [] }
        let names: [(QuotaUnit, RateLimit.Name)] = [(.turns, .requests), (.tokens, .tokens)]
        return names.compactMap { unit, name in
            quotas.balance(of: unit, at: now).map {
                RateLimit(
                    name: name, limit: $0.quota.amount, remaining: $0.remaining,
                    resetMilliseconds: $0.reset.wholeMilliseconds)
            }
        }
    }
}

extension ClientEventError {
    fileprivate static func quotaUsedUp(
        _ refusal: QuotaRefusal, eventID: String? = nil
    ) -> ClientEventError {
        ClientEventError(code: "rate_limit_exceeded", message: refusal.message, eventID: eventID)
    }
}

extension ClientEvent {
    /// Whether it creates an item with audio.
    fileprivate var bringsAudio: Bool {
        guard case .conversationItemCreate(let item, _) = self,
            case .message(_, let content) = item.kind
        else { return false }
        return content.contains { if case .inputAudio = $0 { true } else { false } }
    }
}

extension LiveSession {
    /// Charges the quotas of a session that ends with the words of its replies in flight.
    func chargeUnfinishedReplies(at now: Instant) {
        guard let quotas = grant?.quotas else { return }
        quotas.noteUnfinished(tokens: session.unfinishedReplyTokens, at: now)
    }
}

extension AgentError {
    fileprivate static func quotaUsedUp(_ refusal: QuotaRefusal) -> AgentError {
        .quotaUsedUp(
            message: refusal.message, retryAfter: .seconds(refusal.retryAfterSeconds))
    }
}

extension QuotaUnit {
    /// The metric of its refusals.
    fileprivate var refusals: ShardMetric {
        switch self {
        case .connections: .quotaRefusedConnections
        case .events: .quotaRefusedEvents
        case .audioSeconds: .quotaRefusedAudio
        case .turns: .quotaRefusedTurns
        case .tokens: .quotaRefusedTokens
        }
    }
}
