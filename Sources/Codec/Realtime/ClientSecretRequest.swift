// Parses the request of `POST /v1/realtime/client_secrets` and writes its answer. Server creates
// the secrets and keeps the settings that belong to each.
//
// The parsers of `session.update` check a session in the request, so that both accept and refuse
// the same.

/// A request for a client secret.
public struct ClientSecretRequest: Sendable {
    /// Allowed lifetimes of a secret in seconds, as in the protocol.
    public static let secondsRange = 10...7_200
    /// The protocol's default.
    public static let defaultSeconds = 600

    /// How long the secret can open sessions, in seconds.
    public let seconds: Int
    /// The model of its sessions; nil: the one in the connection's URL.
    public let model: String?
    /// The settings of its sessions that differ from the defaults.
    public let session: SessionUpdate

    /// Parses a body. An empty one asks for the defaults.
    /// - Throws: the error with which `session.update` would be refused; `param` is the field's
    ///   path.
    public init(body: [UInt8]) throws(ClientEventError) {
        guard !body.isEmpty else {
            (seconds, model, session) = (Self.defaultSeconds, nil, SessionUpdate())
            return
        }
        let fields = try EventFields(body: body, JSONParser())
        let expiry = try fields.read(ClientSecretFields.expiresAfter)
        _ = try expiry?.read(ExpiryFields.anchor)
        seconds = try expiry?.read(ExpiryFields.seconds) ?? Self.defaultSeconds
        guard let bound = try fields.read(ClientSecretFields.session) else {
            (model, session) = (nil, SessionUpdate())
            return
        }
        let name = try bound.read(SessionFields.model)
        model = name?.isEmpty == false ? name : nil
        session = try SessionUpdate(bound)
    }
}

/// The answer to a request for a client secret.
public enum ClientSecretAnswer {
    /// Writes `{value, expires_at, session}`. The session has the form of `session.created`.
    /// - Parameters:
    ///   - expiresAt: seconds since 1970.
    ///   - sessionID: `sess_…`
    public static func write(
        value: String, expiresAt: Int, sessionID: String, _ parameters: SessionParameters
    ) -> [UInt8] {
        var json = JSONWriter(ByteWriter(capacity: 2_048))
        json.object { json in
            json.member("value", value)
            json.member("expires_at", expiresAt)
            json.key("session")
            json.session(id: sessionID, parameters)
        }
        return json.finish().copiedBytes
    }
}
