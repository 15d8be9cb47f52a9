// The members that the events of a resumable session have beyond the protocol: `offset`, and in some
// events `resume`. Both are extensions of Parley; only a client that asked for them sees them.
// Server numbers the events and makes the handles.

/// The note in an event to a client that can resume its session.
public struct ResumeNote: Equatable, Sendable {
    /// The handle with which a client comes back.
    public struct Grant: Equatable, Sendable {
        /// A secret that names the session. The client sends it back as it came.
        public var handle: String
        /// Until when the handle is good, in seconds since 1970.
        public var expiresAt: Int
        /// Which count of offsets the session's events are in. Another epoch means that events were
        /// lost.
        public var epoch: UInt32

        /// Describes a handle.
        public init(handle: String, expiresAt: Int, epoch: UInt32) {
            self.handle = handle
            self.expiresAt = expiresAt
            self.epoch = epoch
        }
    }

    /// The event's number within the epoch, from 1, or nil where the event is not counted.
    public var offset: UInt64?
    /// The member `resume`, where the event has one.
    public var grant: Grant?

    /// Describes the members of one event.
    public init(offset: UInt64?, grant: Grant? = nil) {
        self.offset = offset
        self.grant = grant
    }
}

/// Why a session will end, as `parley.going_away` names it.
public enum GoingAwayReason: String, CaseIterable, Sendable {
    /// The server restarts. The session goes on where the client comes back to.
    case restart
    /// The session has lasted nearly as long as it may.
    case sessionLimit = "session_limit"
}

extension JSONWriter {
    /// Writes the members of a note that stand behind `event_id`.
    mutating func members(of note: ResumeNote) {
        if let offset = note.offset { member("offset", Int(clamping: offset)) }
        guard let grant = note.grant else { return }
        object("resume") { json in
            json.member("handle", grant.handle)
            json.member("expires_at", grant.expiresAt)
            json.member("epoch", Int(grant.epoch))
        }
    }
}
