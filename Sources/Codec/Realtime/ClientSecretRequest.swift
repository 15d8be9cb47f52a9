// Parses the request of `POST /v1/realtime/client_secrets` and writes its answer, and the same in
// the beta's forms (Beta/BetaSecretForms). Server creates the secrets and keeps the settings that
// belong to each.
//
// The parsers of `session.update` check a session in the request, so that both accept and refuse
// the same.

/// The form of a request for a client secret and of its answer. Each has its own path.
public enum ClientSecretForm: Sendable {
    /// `/v1/realtime/client_secrets`
    case current
    /// `/v1/realtime/sessions` of the beta.
    case betaSession
    /// `/v1/realtime/transcription_sessions` of the beta.
    case betaTranscription

    /// The error about the session of a request, by the names of the form. In the beta's forms the
    /// session is the body itself.
    public func wording(of error: ClientEventError) -> ClientEventError {
        switch self {
        case .current: error
        case .betaSession, .betaTranscription: BetaPaths.wordingOfBody(of: error)
        }
    }
}

/// A request for a client secret.
public struct ClientSecretRequest: Sendable {
    /// Allowed lifetimes of a secret in seconds, as in the protocol.
    public static let secondsRange = 10...7_200
    /// The protocol's default.
    public static let defaultSeconds = 600

    /// How long the secret can open sessions, in seconds.
    public let seconds: Int
    /// The model of its sessions. The default is the one in the connection's URL.
    public let model: String?
    /// The name of the agent of its sessions (an extension of Parley). The default is the agent of
    /// the caller's key.
    public let agent: String?
    /// The settings of its sessions that differ from the defaults.
    public let session: SessionUpdate
    /// Whether the user agrees to be recorded in its sessions (an extension of Parley).
    public let hasRecordingConsent: Bool

    /// Parses a body. An empty one asks for the defaults.
    /// - Parameter refusesUnknownFields: whether a field that the protocol does not have is refused,
    ///   or ignored, as in the beta's forms.
    /// - Throws: the error with which `session.update` would be refused; `param` is the field's
    ///   path.
    public init(
        body: [UInt8], in form: ClientSecretForm = .current, refusesUnknownFields: Bool = true
    ) throws(ClientEventError) {
        let fields = try EventFields(body: body.isEmpty ? Array("{}".utf8) : body, JSONParser())
        switch form {
        case .current:
            seconds = try Self.seconds(fields.read(ClientSecretFields.expiresAfter))
            agent = try fields.read(ClientSecretFields.agent)
            let bound = try fields.read(ClientSecretFields.session)
            model = try bound.flatMap { (bound) throws(ClientEventError) in try Self.model(bound) }
            session =
                try bound.map { (bound) throws(ClientEventError) in try SessionUpdate(bound) }
                ?? SessionUpdate()
            hasRecordingConsent = try bound.map(Self.hasRecordingConsent) ?? false
            guard refusesUnknownFields else { return }
            try ClientSecretTables.request.checkNames(of: fields.object, at: "")
        case .betaSession:
            agent = nil
            let secret = try fields.read(BetaSecretFields.secret)
            seconds = try Self.seconds(secret?.read(BetaExpiryFields.expiresAfter))
            model = try Self.model(fields)
            session = try SessionUpdate(beta: fields)
            hasRecordingConsent = try Self.hasRecordingConsent(fields)
        case .betaTranscription:
            agent = nil
            let secret = try fields.read(BetaSecretFields.transcriptionSecret)
            seconds = try Self.seconds(secret?.read(BetaExpiryFields.expiresAt))
            model = nil
            session = try SessionUpdate(betaTranscription: fields)
            hasRecordingConsent = try Self.hasRecordingConsent(fields)
        }
    }

    private static func seconds(_ expiry: EventFields?) throws(ClientEventError) -> Int {
        _ = try expiry?.read(ExpiryFields.anchor)
        return try expiry?.read(ExpiryFields.seconds) ?? defaultSeconds
    }

    private static func hasRecordingConsent(
        _ session: EventFields
    ) throws(ClientEventError) -> Bool { try ClientWishes(session).recordingConsent == true }

    private static func model(_ session: EventFields) throws(ClientEventError) -> String? {
        let name = try session.read(SessionFields.model)
        return name?.isEmpty == false ? name : nil
    }
}

/// The answer to a request for a client secret.
public enum ClientSecretAnswer {
    /// Writes `{value, expires_at, session}`, or in the beta's forms the session with
    /// `client_secret {value, expires_at}`. The session has the form of `session.created`.
    /// - Parameters:
    ///   - expiresAt: seconds since 1970.
    ///   - sessionID: `sess_…`
    public static func write(
        value: String, expiresAt: Int, sessionID: String, _ parameters: SessionParameters,
        in form: ClientSecretForm = .current
    ) -> [UInt8] {
        func secret(_ json: inout JSONWriter) {
            json.member("value", value)
            json.member("expires_at", expiresAt)
        }
        var json = JSONWriter(ByteWriter(capacity: 2_048))
        json.object { json in
            switch form {
            case .current:
                secret(&json)
                json.key("session")
                json.session(id: sessionID, parameters, in: .ga)
            case .betaSession, .betaTranscription:
                json.betaSession(id: sessionID, parameters)
                json.object("client_secret", secret)
            }
        }
        return json.finish().copiedBytes
    }
}
