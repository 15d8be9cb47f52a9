// Who a request comes from, as far as its credential says, and what that opens. How it was found
// out is Authenticator's.

import Codec
import Session

/// Somebody who may use the server.
struct Caller: Sendable {
    /// How far.
    var access: RouteAccess
    /// Whose sessions count together: a key's and those of its client secrets, or a subject's. Nil:
    /// nobody is told apart.
    var principal: SHA256Digest?
    /// Limits of these sessions.
    var allowance = SessionAllowance()
    /// What a client secret binds its sessions to; an empty model is the connection's choice.
    var session: SessionParameters?
    /// The client secret that was shown, if it was one.
    var secret: SHA256Digest?
    /// Whose chats can be resumed: users of an application, each with a secret of his own, do not
    /// see each other's.
    var chatOwner: SHA256Digest? { secret ?? principal }

    /// Anybody, where no credentials are asked for.
    static let anybody = Caller(access: .operator)
    /// Anybody, on a route that is open.
    static let visitor = Caller(access: .open)
}

/// The place of a session among those of its caller, and when it must end. One object per limited
/// session; the place is free again when it goes.
final class SessionGrant {
    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(SessionGrant.self)

    /// When the session has lasted as long as it may; nil: never.
    let end: Instant?
    private let principal: SHA256Digest?
    private let places: SessionPlaces

    fileprivate init(end: Instant?, principal: SHA256Digest?, places: SessionPlaces) {
        self.end = end
        self.principal = principal
        self.places = places
    }

    deinit { if let principal { places.release(principal) } }
}

extension Caller {
    /// Takes a place for a session.
    /// - Returns: nil where there is nothing to limit.
    /// - Throws: `.credentialSessions`.
    func grant(
        from places: SessionPlaces, _ configuration: ServerConfiguration, at now: Instant
    ) throws(RefusalReason) -> SessionGrant? {
        let seconds = allowance.maxSessionSeconds ?? configuration.maxSessionSeconds
        let end = seconds > 0 ? now + .seconds(seconds) : nil
        let most = allowance.maxSessions ?? configuration.maxSessionsPerKey
        guard let principal, most > 0 else {
            return end.map { SessionGrant(end: $0, principal: nil, places: places) }
        }
        guard places.take(principal, atMost: most) else { throw .credentialSessions }
        return SessionGrant(end: end, principal: principal, places: places)
    }
}
