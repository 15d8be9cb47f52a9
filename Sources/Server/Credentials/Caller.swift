// The caller of a request, by its credential, and what it may do. Authenticator finds it.

import Codec
import Session

/// A user of the server.
struct Caller: Sendable {
    /// The routes that it may use.
    var access: RouteAccess
    /// The identity whose sessions count together: a key, together with its client secrets, or a
    /// subject. Nil where callers are not told apart.
    var principal: SHA256Digest?
    /// The caller's name for agents: that of its key, or the subject of its token, if it has one.
    var subject: String?
    /// The limits of its sessions.
    var allowance = SessionAllowance()
    /// The session to which a client secret is bound; with an empty model the connection chooses.
    var session: SessionParameters?
    /// The agent to which a client secret is bound, if it is bound to one.
    var agent: String?
    /// The agent whose sessions are counted, and the most that it may have. Nil where it has no
    /// limit.
    var agentPlaces: (agent: SHA256Digest, most: Int)?
    /// Whether the session of a client secret has the user's consent to be recorded.
    var hasRecordingConsent = false
    /// The client secret that was presented, if it was one.
    var secret: SHA256Digest?
    /// Whether another node passes the request on, which is not to be passed on again.
    var isNode = false
    /// The owner of the chats that it can resume. The users of an application, each with its own
    /// client secret, do not see each other's chats.
    var chatOwner: SHA256Digest? { secret ?? principal }

    /// Every caller, where no credential is needed.
    static let anonymous = Caller(access: .operator)
    /// Every caller of an open route.
    static let visitor = Caller(access: .open)
}

/// The places of a session among those of its caller and of its agent, its caller's name, what it may
/// use, and when it must end. One object per session that has one of these; its end frees the places.
final class SessionGrant {
    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(SessionGrant.self)

    /// When the session must end, or nil where it has no end.
    private(set) var end: Instant?
    /// The caller's name for agents, or nil.
    let subject: String?
    /// The quotas of the session. Nil means that it has none.
    let quotas: SessionQuotas?
    /// Whether the session is recorded. Nil means the server's default.
    let recording: RecordingRule?
    private let principal: SHA256Digest?
    private var agent: SHA256Digest?
    private let places: SessionPlaces

    fileprivate init(
        end: Instant?, subject: String?, quotas: SessionQuotas?, recording: RecordingRule?,
        principal: SHA256Digest?, places: SessionPlaces
    ) {
        self.end = end
        self.recording = recording
        self.subject = subject
        self.quotas = quotas
        self.principal = principal
        self.places = places
    }

    /// The grant of a question about a session that is over. It has the session's name and quotas, and
    /// no place: the caller who calls again is not kept out.
    convenience init(after ended: SessionGrant?, until end: Instant, in places: SessionPlaces) {
        self.init(
            end: end, subject: ended?.subject, quotas: ended?.quotas, recording: nil,
            principal: nil, places: places)
    }

    /// Takes a place among the sessions of an agent.
    /// - Throws: `.agentSessions`.
    fileprivate func take(
        _ agentPlaces: (agent: SHA256Digest, most: Int), isMoved: Bool
    ) throws(RefusalReason) {
        guard places.take(agentPlaces.agent, atMost: agentPlaces.most, isMoved: isMoved) else {
            throw .agentSessions
        }
        agent = agentPlaces.agent
    }

    /// Moves the end of a session that began in another process to the time when it would have
    /// ended there.
    func shorten(to other: Instant) { end = end.map { min($0, other) } }

    /// Bytes of the whole grant.
    var heldBytes: Int { Self.objectBytes + subject.heapBytes + (quotas?.heldBytes ?? 0) }

    deinit {
        if let principal { places.release(principal) }
        if let agent { places.release(agent) }
    }
}

extension Caller {
    /// Takes the places of a session.
    /// - Parameters:
    ///   - quotas: the session's quotas, or nil where its use has no limit.
    ///   - isMoved: whether the session comes from another server.
    /// - Returns: the grant, or nil where there is nothing to limit or to name.
    /// - Throws: `.credentialSessions` or `.agentSessions`. Then no place is taken.
    func grant(
        from places: SessionPlaces, _ quotas: SessionQuotas?,
        _ settings: CredentialSettings, isMoved: Bool = false, at now: Instant
    ) throws(RefusalReason) -> SessionGrant? {
        let seconds = allowance.maxSessionSeconds ?? settings.maxSessionSeconds
        let end = seconds > 0 ? now + .seconds(seconds) : nil
        let most = allowance.maxSessions ?? settings.maxSessionsPerKey
        let counted = most > 0 ? principal : nil
        guard
            counted != nil || agentPlaces != nil || end != nil || subject != nil
                || quotas != nil || allowance.recording != nil
        else { return nil }
        if let counted, !places.take(counted, atMost: most, isMoved: isMoved) {
            throw .credentialSessions
        }
        let grant = SessionGrant(
            end: end, subject: subject, quotas: quotas, recording: allowance.recording,
            principal: counted, places: places)
        if let agentPlaces { try grant.take(agentPlaces, isMoved: isMoved) }
        return grant
    }
}
