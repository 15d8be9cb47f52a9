// A session on its shard, and what the shard keeps for it alone. It has a token of its own, and lasts
// longer than a connection: its client may have one now and another later. ShardSessions gives it
// inputs and takes its outputs.
//
//   a WebSocket or a call     has a connection, and none while it waits for its client (Resume)
//   a request over HTTP       never has one: its reply goes to readers (TextRequests)

import Codec
import Session

/// The holder of a session: a class above the sessions (Connection), which know only its identity.
class SessionHolder {}

/// A session and what belongs to it alone. Confined to its shard's thread.
final class LiveSession: SlotMember {
    /// Its name on its shard, for as long as it lasts.
    let token: EventToken
    let session: VoiceSession
    /// Its holder: its client's connection, or nil where none has it. Not counted, as it is taken
    /// away before the connection ends (`Connection.give`, `part`).
    unowned(unsafe) var holder: SessionHolder?
    /// Number of the next event.
    var eventNumber: UInt64 = 1
    /// When it wants to be called again, as of its last step.
    var deadline: Instant?
    /// The dialect of its client. One byte, which lies in the padding behind `deadline`.
    let dialect: RealtimeDialect
    /// How its last turn went. Six bytes, which lie in the same padding.
    var lastTurn = TurnLatencies()
    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.object(LiveSession.self)
    /// Bytes of its place in the shard's table: a slot.
    static let tableBytes = MemoryLayout<LiveSession?>.stride
    /// Agents at work for it.
    @exclusivity(unchecked) var work: AgentWork  // 10,700 instructions a typed turn.
    /// Whether it is over: nothing reaches it any more. In the padding behind `work`, like the next two.
    var hasEnded = false
    /// Whether sidebands see its events (SessionObservation).
    var isObserved = false
    /// Responses that it has begun.
    var turns: UInt32 = 0
    /// Limits of its credential; nil where there are none.
    var grant: SessionGrant?
    /// How its client comes back to it; nil where it has not asked for that.
    var resume: ResumeState?

    /// - Parameter caller: the caller whose session it is.
    init(
        token: EventToken, session: VoiceSession, caller: CallerTag, dialect: RealtimeDialect = .ga
    ) {
        self.token = token
        self.session = session
        self.dialect = dialect
        work = AgentWork(caller: caller)
    }

    /// Whether it was claimed from the store: another server began it, or this one has released it.
    /// The numbers of its events then begin with a fence (`Shard.goOn`).
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

    /// Notes an event that may begin a turn: words to be answered, or a response without words. A
    /// response after the first token of another answers something new. A response that has ended
    /// has used tokens.
    func noteTurn(_ event: ServerEvent, at now: Instant) {
        switch event {
        case .inputAudioBufferCommitted: beginTurn()
        case .responseCreated:
            if lastTurn[.firstToken] != nil { beginTurn() }
            turns &+= 1
        case .responseDone(let response): grant?.quotas?.noteEnd(of: response, at: now)
        default: break
        }
    }

    private func beginTurn() {
        if lastTurn[.firstToken] != nil { work.tools?.answeredTurn = lastTurn }
        lastTurn = TurnLatencies()
    }
}
