// Credentials on a shard's connections: the caller of a request, the limits of its sessions, client
// secrets, and sessions whose time is over. Authenticator knows the credentials, RequestGate
// decides whether a caller may use a route, ShardSecrets asks for secrets of other nodes.

import Codec
import Session

extension Shard {
    /// Finds the sender of a request. A failed attempt is counted.
    /// - Parameters:
    ///   - source: where it comes from, with the fields of trusted proxies.
    ///   - answer: the store's answer about its client secret. The attempt was counted when the
    ///     store was asked.
    func sender(
        of request: HTTPRequest, from source: RequestSource, on route: Route,
        after answer: SecretAnswer?
    ) throws(RefusalReason) -> RequestSender {
        let address = source.client
        let isLimited = answer == nil && !fixtures.admission.isUnlimited(address)
        let isExhausted =
            isLimited && services.authenticator.failures.isExhausted(address, at: now)
        // This comes before the credential is checked: a client that guesses must not notice a
        // success.
        let isGuarded =
            services.authenticator.isOn || route.carrier.map(clients.telephoneAccess.guards) == true
        if isExhausted, isGuarded { throw .failedAttempts }
        do throws(RefusalReason) {
            if let pass = request.header(NodePass.field) {
                let caller = services.nodes.caller(
                    passedBy: pass, in: request, at: services.wallSeconds())
                guard let caller else { throw RefusalReason.unknownCredential }
                return .known(caller)
            }
            if let carrier = route.carrier,
                let caller = try clients.telephoneAccess.caller(
                    of: request, from: carrier,
                    pathSecret: route.hasSecretPath ? route.parameter(of: request.path) : nil,
                    source: source, needsCredential: services.authenticator.isOn)
            {
                return .known(caller)
            }
            let credential =
                route.carrier == nil
                ? RequestCredential(request.fields) : RequestCredential(ofCarrier: request.fields)
            if answer == nil, !isExhausted, let digest = secretToAskFor(credential) {
                return .unknownSecret(digest)
            }
            return .known(
                try services.authenticator.caller(
                    of: credential, found: answer?.entry, at: now,
                    wallSeconds: services.wallSeconds()))
        } catch {
            if isLimited, error.isFailedAttempt {
                services.authenticator.failures.spend(address, at: now)
            }
            throw error
        }
    }

    /// The tag that the work of a caller's sessions counts for: its credential's, or its address's.
    func tag(
        of caller: Caller, sending request: HTTPRequest, on connection: Connection
    ) -> CallerTag {
        CallerTag(
            principal: caller.principal, address: source(of: request, on: connection).client)
    }

    /// Counts a refusal, and returns its answer.
    /// - Parameter retryAfterSeconds: the seconds until another attempt. The default is
    ///   `retry-after-seconds`.
    func credentialRefusal(
        _ reason: RefusalReason, retryAfterSeconds: Int? = nil, agent: String? = nil,
        on connection: Connection
    ) -> HTTPResponse {
        noteRefusal(reason, of: connection.http?.client ?? .unspecified, agent: agent)
        let seconds = retryAfterSeconds ?? configuration.admission.retryAfterSeconds
        return reason.failure(retryAfterSeconds: seconds).response
    }

    /// The first parameters of a caller's session, and its place among the caller's sessions.
    /// - Parameters:
    ///   - asked: the parameters of the request; those of a client secret come before them.
    ///   - client: the caller's address.
    ///   - isMoved: whether the session comes from another server.
    /// - Throws: the credential's limit that is reached.
    func admit(
        _ caller: Caller, at client: NetworkAddress, to asked: SessionParameters,
        isMoved: Bool = false
    ) throws(RefusalReason) -> (SessionParameters, SessionGrant?) {
        var parameters = caller.session ?? asked
        if parameters.kind == .realtime, parameters.model.isEmpty {
            parameters.model = asked.model.isEmpty ? configuration.defaultModel : asked.model
        }
        let model: String
        switch parameters.kind {
        case .realtime: model = parameters.model
        case .transcription: model = parameters.transcription?.model ?? ""
        }
        guard caller.allowance.allows(model: model) else { throw .model }
        let grant = try caller.grant(
            from: services.authenticator.places, quotas(of: caller, at: client),
            configuration.credentials,
            isMoved: isMoved, at: now)
        return (parameters, grant)
    }

    // MARK: Client secrets

    /// Makes a secret with a session bound to it.
    func issueClientSecret(
        _ request: HTTPRequest, in form: ClientSecretForm, to caller: Caller,
        on connection: Connection
    ) -> HTTPResponse {
        let wanted: ClientSecretRequest
        let parameters: SessionParameters
        let profile: AgentProfile?
        do throws(ClientEventError) {
            (wanted, parameters, profile) = try session(
                askedForBy: request.body, in: form, of: caller)
        } catch {
            return HTTPResponse(badRequest: form.wording(of: error))
        }
        guard wanted.model.map(caller.allowance.allows(model:)) ?? true else {
            return credentialRefusal(.model, on: connection)
        }
        let owner = SecretOwner(caller, at: source(of: request, on: connection).client)
        let expiresAt = services.wallSeconds() + wanted.seconds
        do {
            let secret = try services.authenticator.secrets.issue(
                services.makeRandomBytes(ClientSecrets.randomBytes),
                entry(
                    for: caller, wanted, parameters, agent: profile?.name, owner: owner,
                    bodyBytes: request.body.count, seconds: wanted.seconds), at: now)
            metrics.add(.clientSecretsIssued)
            share(
                SecretRecord(form: form, owner: owner, end: expiresAt, body: request.body),
                of: secret, seconds: wanted.seconds)
            return answer(secret, in: form, expiresAt: expiresAt, with: parameters)
        } catch {
            return credentialRefusal(
                .clientSecrets, retryAfterSeconds: error.retryAfterSeconds, on: connection)
        }
    }

    /// The session that a request for a secret describes, and its agent. The settings of the request
    /// override the agent's: the caller is an application, not its user.
    func session(
        askedForBy body: [UInt8], in form: ClientSecretForm, of caller: Caller
    ) throws(ClientEventError) -> (ClientSecretRequest, SessionParameters, AgentProfile?) {
        let wanted = try ClientSecretRequest(
            body: body, in: form, refusesUnknownFields: configuration.refusesUnknownFields)
        var asked = SessionParameters(model: wanted.model ?? "")
        var profile: AgentProfile?
        if wanted.session.kind != .transcription {
            do throws(RefusalReason) {
                profile = try self.profile(named: wanted.agent, for: caller)
                asked = try parameters(asked, of: profile)
            } catch {
                throw .agentUnusable(param: "agent")
            }
        }
        asked.model = wanted.model ?? asked.model
        let parameters = try sessionContext.parameters(asked, changedBy: wanted.session)
        return (wanted, parameters, profile)
    }

    /// The entry of a secret that a caller asks for, or has asked for at another node.
    func entry(
        for caller: Caller, _ wanted: ClientSecretRequest, _ parameters: SessionParameters,
        agent: String?, owner: SecretOwner, bodyBytes: Int, seconds: Int
    ) -> ClientSecrets.Entry {
        let holder = Caller(
            access: .session, principal: caller.principal, subject: caller.subject,
            allowance: caller.allowance, session: parameters, agent: agent,
            hasRecordingConsent: wanted.hasRecordingConsent)
        return ClientSecrets.Entry(
            key: caller.principal, caller: holder, end: now + .seconds(seconds), owner: owner,
            bodyBytes: bodyBytes)
    }

    private func answer(
        _ secret: String, in form: ClientSecretForm, expiresAt: Int,
        with parameters: SessionParameters
    ) -> HTTPResponse {
        var shown = parameters
        if shown.model.isEmpty { shown.model = configuration.defaultModel }
        let body = ClientSecretAnswer.write(
            value: secret, expiresAt: expiresAt,
            sessionID: VoiceSession.id(seed: services.makeSessionSeed()), shown, in: form)
        var response = HTTPResponse.json(body)
        // It contains a secret: no cache may store it (RFC 9111 §5.2.2.5).
        response.fields.append("Cache-Control", "no-store")
        return response
    }

    // MARK: Expiry

    /// When a session ends, in seconds since 1970, for an event that shows the session. Nil where
    /// it shows none, or one without an end.
    @inline(__always)
    func expiry(of live: LiveSession, in event: ServerEvent) -> Int? {
        guard let end = live.grant?.end else { return nil }
        switch event {
        case .sessionCreated, .sessionUpdated, .resumed:
            return returning.calendar.seconds(
                at: end, now: now, wallSeconds: services.wallSeconds())
        default: return nil
        }
    }

    /// A session has lasted as long as its credential allows: sends an error, and closes. With
    /// 1001, as OpenAI does: the client has broken no rule, and may come back.
    func expire(_ live: LiveSession) {
        metrics.add(.sessionsExpired)
        step(live) { $0.handle(.sessionExpired, at: now) }
        guard !live.hasEnded else { return }
        close(live, .goingAway, reason: "The session's time is over.")
    }
}
