// The place of a session that is about to begin: who seeks it, why it is refused, and the places
// that are held once it is taken.

import Codec
import Session

/// The caller that seeks the place of a session.
struct PlaceSeeker {
    /// With the limits of its agent.
    var caller: Caller
    /// The agent of its session. Nil means that it has none.
    var profile: AgentProfile?
    /// Its address.
    let client: NetworkAddress
    /// The tag that the session's work counts for.
    let tag: CallerTag
    /// Whether it is an operator on this machine, who may know why a service has failed.
    let isLocalOperator: Bool

    /// Takes the agent of its session, whose limits count for it.
    mutating func take(_ profile: AgentProfile?) {
        self.profile = profile
        caller = caller.limited(by: profile)
    }
}

/// Why a caller gets no place.
enum PlaceRefusal: Error {
    /// A limit of its credential.
    case credential(RefusalReason)
    /// A quota.
    case quota(QuotaRefusal)
    case memoryIsShort, serverIsFull
}

/// The place of a session that has not begun: it is to be used, or released.
struct SessionPlaceHeld {
    /// The session as its request and its credential have it.
    var parameters: SessionParameters
    /// Limits of the credential; nil where there are none.
    let grant: SessionGrant?
    /// The caller that has it.
    let seeker: PlaceSeeker
    /// The owner of the session, as a tag.
    var tag: CallerTag { seeker.tag }
    /// The same, as its credential names it.
    let owner: SessionOwner
}

/// The owner of a session, as records name it.
struct SessionOwner {
    /// The key together with its client secrets, or a subject. Nil where callers are not told
    /// apart.
    let principal: SHA256Digest?
    /// The name of the key, or the subject of the token. Nil means that it has none.
    let subject: String?

    init(_ caller: Caller) { (principal, subject) = (caller.principal, caller.subject) }
}
