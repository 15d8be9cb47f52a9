// Credentials on a shard's connections: who sends a request, whether that opens what it asks for,
// client secrets, sessions that come to the end of their time. Who is who is Authenticator's, what
// a path asks for is Routes'.
//
// Invariant: a request is answered by nothing but a refusal until its credential is good enough.

import Codec
import Session

extension Shard {
    /// Finds out who sends a request, and counts an attempt that fails.
    /// - Parameter address: where it comes from, as far as proxies are to be believed.
    func caller(
        sending request: HTTPRequest, from address: NetworkAddress
    ) throws(RefusalReason) -> Caller {
        let isLimited = !admission.isUnlimited(address)
        // Before the credential is looked at: a client that guesses must not learn of a success.
        if isLimited, services.authenticator.failures.isExhausted(address, at: now) {
            throw .failedAttempts
        }
        do {
            return try services.authenticator.caller(
                of: RequestCredential(request.fields), at: now,
                wallSeconds: services.wallSeconds())
        } catch {
            if isLimited, error.isFailedAttempt {
                services.authenticator.failures.spend(address, at: now)
            }
            throw error
        }
    }

    /// What the work of a caller's sessions counts under: its credential, or else its address.
    func tag(
        of caller: Caller, sending request: HTTPRequest, on connection: Connection
    ) -> CallerTag {
        CallerTag(
            principal: caller.principal, address: source(of: request, on: connection).client)
    }

    /// Counts a refusal, and makes its answer.
    /// - Parameter retryAfterSeconds: `retry-after-seconds` where nil.
    func credentialRefusal(
        _ reason: RefusalReason, retryAfterSeconds: Int? = nil, on connection: Connection
    ) -> HTTPResponse {
        noteRefusal(reason, of: connection.http?.client ?? .unspecified)
        let seconds = retryAfterSeconds ?? configuration.retryAfterSeconds
        return reason.failure(retryAfterSeconds: seconds).response
    }

    /// What a session begins with that a caller opens, and its place among the caller's.
    /// - Parameter asked: what the connection asks for; a client secret's own session counts
    ///   before it.
    /// - Throws: the credential's limit in the way.
    func admit(
        _ caller: Caller, to asked: SessionParameters
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
        let grant = try caller.grant(from: services.authenticator.places, configuration, at: now)
        return (parameters, grant)
    }

    // MARK: Client secrets

    /// Makes a secret with a session bound to it.
    func issueClientSecret(
        _ request: HTTPRequest, to caller: Caller, on connection: Connection
    ) -> HTTPResponse {
        let wanted: ClientSecretRequest
        let parameters: SessionParameters
        do throws(ClientEventError) {
            wanted = try ClientSecretRequest(body: request.body)
            parameters = try sessionContext.parameters(
                SessionParameters(model: wanted.model ?? ""), changedBy: wanted.session)
        } catch {
            return HTTPResponse(badRequest: error)
        }
        guard wanted.model.map(caller.allowance.allows(model:)) ?? true else {
            return credentialRefusal(.model, on: connection)
        }
        let holder = Caller(
            access: .session, principal: caller.principal, allowance: caller.allowance,
            session: parameters)
        let client = source(of: request, on: connection).client
        do {
            let secret = try services.authenticator.secrets.issue(
                services.makeRandomBytes(ClientSecrets.randomBytes),
                to: SecretOwner(caller, at: client), key: caller.principal, caller: holder,
                bodyBytes: request.body.count, until: now + .seconds(wanted.seconds), at: now)
            metrics.add(.clientSecretsIssued)
            return answer(
                secret, expiresAt: services.wallSeconds() + wanted.seconds, with: parameters)
        } catch {
            return credentialRefusal(
                .clientSecrets, retryAfterSeconds: error.retryAfterSeconds, on: connection)
        }
    }

    private func answer(
        _ secret: String, expiresAt: Int, with parameters: SessionParameters
    ) -> HTTPResponse {
        var shown = parameters
        if shown.model.isEmpty { shown.model = configuration.defaultModel }
        var fields = HTTPFields()
        fields.append("Content-Type", "application/json")
        // It holds a secret: no cache may keep it (RFC 9111 §5.2.2.5).
        fields.append("Cache-Control", "no-store")
        return HTTPResponse(
            status: 200, fields: fields,
            body: ClientSecretAnswer.write(
                value: secret, expiresAt: expiresAt,
                sessionID: VoiceSession.id(seed: services.makeSessionSeed()), shown))
    }

    // MARK: The end of a session's time

    /// A session has lasted as long as its credential allows: says so, and closes. 1001, as OpenAI
    /// does: the client has done nothing wrong, and may come back.
    func expireSession(of connection: Connection) {
        guard connection.state == .webSocket, let live = connection.live else { return }
        metrics.add(.sessionsExpired)
        step(live, of: connection) {
            $0.handle(
                ClientEventError(
                    code: "session_expired",
                    message: "Your session has lasted as long as its credential allows."),
                at: now)
        }
        guard connection.state == .webSocket else { return }
        closeWebSocket(connection, .goingAway, reason: "The session's time is over.")
    }
}

extension HTTPResponse {
    /// 400, with what is wrong with the request's body. It may quote a value of the body, as the
    /// `error` events of a session do.
    init(badRequest error: ClientEventError) {
        var json = JSONWriter(ByteWriter(capacity: 512))
        json.beginObject()
        json.key("error")
        json.beginObject()
        json.member("message", error.message)
        json.member("type", error.kind.rawValue)
        json.member("code", error.code)
        json.member("param", error.param)
        json.endObject()
        json.endObject()
        var fields = HTTPFields()
        fields.append("Content-Type", "application/json")
        self.init(
            status: error.kind == .server ? 500 : 400, fields: fields,
            body: json.finish().copiedBytes)
    }
}
