// A session on its shard, and what the shard keeps for it alone. Whose messages it gets is up to the
// connection that has it; ShardSessions gives it inputs and takes its outputs.

import Codec
import Session

/// A session and what belongs to it alone.
final class LiveSession {
    let session: VoiceSession
    /// Number of the next event.
    @exclusivity(unchecked) var eventNumber: UInt64 = 1
    /// When it wants to be called again, as of its last step.
    var deadline: Instant?
    /// The dialect of its client. One byte, which lies in the padding behind `deadline`.
    let dialect: RealtimeDialect
    /// How its last turn went. Six bytes, which lie in the same padding.
    var lastTurn = TurnLatencies()
    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(LiveSession.self)
    /// Agents at work for it.
    @exclusivity(unchecked) var work: AgentWork
    /// Responses that it has begun. Four bytes, which lie in the padding behind `work`.
    var turns: UInt32 = 0
    /// Limits of its credential; nil where there are none.
    var grant: SessionGrant?
    /// How its client comes back to it; nil where it has not asked for that.
    @exclusivity(unchecked) var resume: ResumeState?

    /// - Parameter caller: whose session it is.
    init(session: VoiceSession, caller: CallerTag, dialect: RealtimeDialect = .ga) {
        self.session = session
        self.dialect = dialect
        work = AgentWork(caller: caller)
    }

    /// Whether it began elsewhere, or was given up before: the numbers of its events then begin with
    /// a fence (`Shard.goOn`).
    var isContinued: Bool { eventNumber >> 32 > 0 }

    /// Writes its events. It holds the session's id alone, which lies inside the value.
    var writer: ServerEventWriter { ServerEventWriter(sessionID: session.id) }

    /// The session has had an input: takes note of when it wants to be called again.
    @inline(__always)
    func noteDeadline(at now: Instant) {
        // A deadline that has come but was not served yet, because this tick read the client's
        // bytes first, stands: the session returns only deadlines that are still to come.
        if let due = deadline, due <= now { return }
        deadline = session.nextDeadline(after: now)
    }
}
