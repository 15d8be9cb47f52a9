// The messages between shards about calls. A shard asks all for a session by its id, to hang it up, to
// find it or to join it. Once it has joined, the session's shard and that of the sideband exchange
// events. Every value here travels through mailboxes; none is changed after it was posted.
//
//   sideband's shard                          session's shard
//        │ ask(question) ─────────────────────────▶ │  (all shards are asked)
//        │ ◀───────────────────────── answer(joined) │
//        │ ◀──────────────── event(session.created) │
//        │ input ─────────────────────────────────▶ │
//        │ ◀───────────────────────────────── event │
//        │ leave ─────▶          or          ◀ ended│
//
// Invariant: after `leave` or `ended` neither side sends more for that sideband; what crosses it on
// the way is dropped where it arrives.

import Codec
import Session
import Synchronization

/// A question for one session, put to every shard.
struct CallQuestion: Sendable {
    /// The action that the session's shard is to take.
    enum Purpose: Sendable {
        /// Let this sideband join the session.
        case join(SidebandLink)
        /// End the session.
        case hangUp
        /// Nothing: another node asks where it is.
        case find
    }

    /// `sess_…`, as the client wrote it.
    let sessionID: String
    /// The owner whose sessions may be found. Nil means any owner's.
    let owner: CallerTag?
    let purpose: Purpose
    /// Takes the shard's answer. Any thread.
    let answer: @Sendable (CallAnswer) -> Void
}

/// The answer of one shard.
enum CallAnswer: Sendable {
    /// The shard has no such session, or it belongs to another owner.
    case missing
    /// Other nodes may have it, and did not answer.
    case away
    /// The sideband has joined the session.
    case joined(SessionPlace, SidebandLink)
    /// The session has ended.
    case hungUp
    /// It is here, for another node.
    case found
    /// Another node has it; its name.
    case elsewhere(String)
    /// The session is there, and cannot be joined.
    case refused(RouteFailure)
}

/// Where a joined session is.
struct SessionPlace: Sendable {
    /// `sess_…`
    let sessionID: String
    /// Its token on its shard.
    let token: EventToken
    /// Posts to that shard. Any thread.
    let post: @Sendable (SidebandMessage) -> Void
}

/// Why the session's side ends a sideband.
enum SidebandEnd: Sendable {
    /// The session is over.
    case sessionEnded
    /// More events wait for the sideband than `max-sideband-queued-bytes`.
    case tooSlow
}

/// A message of one shard to another about calls.
enum SidebandMessage: Sendable {
    /// To every shard: look for a session.
    case ask(CallQuestion)
    /// To the shard that asked.
    case answer(CallAnswer, to: CallID)
    /// To the session's shard: an event of the sideband, as its text.
    case input([UInt8], from: SidebandLink, to: EventToken)
    /// To the session's shard: the sideband is gone.
    case leave(SidebandLink, EventToken)
    /// To the sideband's shard: an event of the session, as its text.
    case event([UInt8], isError: Bool, to: SidebandLink)
    /// To the sideband's shard: nothing more comes.
    case ended(SidebandEnd, SidebandLink)
}

/// One sideband, as both shards know it. Its identity is the object's.
final class SidebandLink: Sendable {
    /// Bytes of the object itself.
    private static let objectBytes = HeapBlock.object(SidebandLink.self)

    /// Events of one sideband that may wait: 1,024. A shard handles 64 in a tick. A sideband that
    /// writes a whole conversation anew keeps below it, and a flood of small events does not.
    static let maxInputs = 1_024

    /// The sideband's connection, on its own shard.
    let observer: EventToken
    /// Functions whose calls are for this sideband alone.
    let tools: [String]
    /// Whether the sideband is an operator's, which gets words but no audio.
    let isOperator: Bool
    private let post: @Sendable (SidebandMessage) -> Void
    private let events = Atomic<Int>(0)
    private let inputs = Atomic<Int>(0)
    private let waitingInputs = Atomic<Int>(0)

    /// - Parameter post: posts to the sideband's shard; any thread.
    init(
        observer: EventToken, tools: [String], isOperator: Bool = false,
        post: @escaping @Sendable (SidebandMessage) -> Void
    ) {
        self.observer = observer
        self.isOperator = isOperator
        self.tools = tools
        self.post = post
    }

    /// Bytes of events that were posted to the sideband's shard, and that it has not taken.
    var eventBytes: Int { events.load(ordering: .relaxed) }
    /// Heap bytes of the sideband's events that its session has not handled.
    var inputBytes: Int { inputs.load(ordering: .relaxed) }
    /// How many they are.
    var inputCount: Int { waitingInputs.load(ordering: .relaxed) }
    /// Bytes of the object and its names.
    var heldBytes: Int {
        tools.reduce(Self.objectBytes + tools.heapBytes) { $0 + $1.heapBytes }
    }

    /// Posts an event of the session.
    func send(_ text: [UInt8], isError: Bool) {
        events.add(text.count, ordering: .relaxed)
        post(.event(text, isError: isError, to: self))
    }

    /// The sideband's shard has taken an event.
    func noteTaken(_ count: Int) { events.subtract(count, ordering: .relaxed) }

    /// Tells the sideband's shard that nothing more comes.
    func end(_ end: SidebandEnd) { post(.ended(end, self)) }

    /// Posts an event of the sideband to its session.
    func send(_ text: [UInt8], to place: SessionPlace) {
        inputs.add(Self.heldBytes(ofInput: text), ordering: .relaxed)
        waitingInputs.add(1, ordering: .relaxed)
        place.post(.input(text, from: self, to: place.token))
    }

    /// The session has handled, or dropped, an event of the sideband.
    func noteHandled(_ text: [UInt8]) {
        inputs.subtract(Self.heldBytes(ofInput: text), ordering: .relaxed)
        waitingInputs.subtract(1, ordering: .relaxed)
    }

    /// Bytes that a waiting event takes: its text, and its place in a queue.
    private static func heldBytes(ofInput text: [UInt8]) -> Int {
        HeapBlock.array(capacity: text.count, stride: 1) + MemoryLayout<SidebandMessage>.stride
    }
}
