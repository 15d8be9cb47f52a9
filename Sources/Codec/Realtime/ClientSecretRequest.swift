// `POST /v1/realtime/client_secrets`: its request read, and its answer written. Making secrets and
// remembering what is bound to them is Server's.
//
// A session in the request is checked by the same parsers as `session.update`, so that both take
// and refuse the same.

/// What somebody wants who asks for a client secret.
public struct ClientSecretRequest: Sendable {
    /// For how long a secret may open sessions, in seconds, as the protocol has it.
    public static let secondsRange = 10...7_200
    /// The protocol's default.
    public static let defaultSeconds = 600

    /// How long the secret is to live.
    public let seconds: Int
    /// The model of the sessions to come; nil: as the URL of the connection says.
    public let model: String?
    /// What the sessions to come differ in from a default one.
    public let session: SessionUpdate

    /// Reads a body; an empty one asks for nothing in particular.
    /// - Throws: what `session.update` would be refused with; `param` is the field's path.
    public init(
        body: [UInt8], limits: ClientEventLimits = ClientEventLimits()
    ) throws(ClientEventError) {
        guard !body.isEmpty else {
            (seconds, model, session) = (Self.defaultSeconds, nil, SessionUpdate())
            return
        }
        let parser = JSONParser(limits: limits.json)
        let root: JSONValue
        do {
            root = try parser.parse(body)
        } catch {
            throw ClientEventError(
                code: "invalid_json",
                message: "The body is not JSON that can be read: \(error.explanation).")
        }
        let fields = try EventFields(root, path: "", limits: limits)
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

/// The answer to it.
public enum ClientSecretAnswer {
    /// Writes `{value, expires_at, session}`; the session is as in `session.created`.
    /// - Parameters:
    ///   - expiresAt: seconds since 1970.
    ///   - sessionID: `sess_…`
    public static func write(
        value: String, expiresAt: Int, sessionID: String, _ parameters: SessionParameters
    ) -> [UInt8] {
        var json = JSONWriter(ByteWriter(capacity: 2_048))
        json.beginObject()
        json.member("value", value)
        json.member("expires_at", expiresAt)
        json.key("session")
        json.session(id: sessionID, parameters)
        json.endObject()
        return json.finish().copiedBytes
    }
}
