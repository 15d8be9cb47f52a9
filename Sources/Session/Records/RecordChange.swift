// The parts of a record of a conversation, as values. SessionRecorder makes them on the shard's
// thread and hands them to a RecordKeeper; RecordWriter+JSON writes them elsewhere. Here is no JSON
// and no clock: an instant is a shard's, and the keeper knows what time of day it was.

import Codec

/// The changes of one session since the change before.
public struct RecordChange: Sendable {
    /// `sess_…`
    public var sessionID: String
    /// Which process owns the session: 1 for a new one, more after each return at another server.
    public var fence: UInt64
    /// When the change was taken.
    public var takenAt: Instant
    /// The facts of the session, and its use so far.
    public var summary: SessionSummary
    /// Items that are new, or that have changed, in the conversation's order.
    public var items: [RecordedItem] = []
    /// Items that were deleted, and when.
    public var deleted: [DeletedItem] = []
    /// Responses that have ended.
    public var turns: [RecordedTurn] = []
    /// Whether it is the first of this session in this process.
    public var isFirst = false
    /// Why the session has ended, or nil where it goes on.
    public var end: SessionEnd?
    /// The stage of the question about the session, if one is asked.
    public var afterCall: AfterCallStage?

    /// An item that was deleted, by the client or by the server.
    public struct DeletedItem: Sendable {
        /// The item.
        public var id: String
        /// When it was deleted.
        public var at: Instant
    }

    /// Bytes that the change takes while it waits for the keeper, about.
    public var heldBytes: Int {
        var bytes = 512
        bytes += items.reduce(0) { $0 + $1.heldBytes }
        bytes += turns.reduce(0) { $0 + 512 + $1.heapBytes }
        bytes += deleted.reduce(0) { $0 + 64 + $1.id.heapBytes }
        if case .answered(let answer)? = afterCall { bytes += answer.heapBytes }
        return bytes
    }
}

/// The stage of the question about a session that is over (`AfterCall`).
public enum AfterCallStage: Equatable, Sendable {
    /// With the session's end: an answer will follow.
    case asked
    /// With a change that has nothing else. It comes once.
    case answered(AfterCallAnswer)
}

/// The facts of a session, and its use so far.
public struct SessionSummary: Sendable {
    /// When it began in this process.
    public var startedAt: Instant
    /// Whether it began in another process.
    public var isContinued = false
    /// The digest of the key or subject whose session it is, as hexadecimal digits. Nil where the
    /// server does not tell callers apart.
    public var principal: String?
    /// The caller's name: that of its key, or the subject of its token, if it has one.
    public var subject: String?
    /// The name of its agent, if it has one.
    public var agent: String?
    /// The telephone call of the session, if it has one.
    public var call: TelephoneCall?
    /// The model.
    public var model = ""
    /// The voice.
    public var voice = ""
    /// The modality of the agent's answers.
    public var outputModality = OutputModality.audio
    /// The format of the user's audio.
    public var inputFormat = AudioFormat.pcm
    /// The format of the agent's audio.
    public var outputFormat = AudioFormat.pcm
    /// Responses that have begun.
    public var turns = 0
    /// Tokens of all responses that have ended.
    public var usage = ResponseUsage()
    /// Audio that the user has sent, in samples at 16 kHz.
    public var samplesIn = 0
    /// The most bytes that the session's ledger has had at the end of a tick.
    public var peakBytes = 0

    /// A session that begins.
    public init(startedAt: Instant) { self.startedAt = startedAt }
}

/// An item of a conversation, and how much of it was heard.
public struct RecordedItem: Sendable {
    /// The item. The transcript of a reply has only the words that were heard.
    public var item: ConversationItem
    /// When it came into the conversation.
    public var addedAt: Instant
    /// All that the agent has written of a spoken reply, where it is known and more than was heard.
    public var written: String?
    /// How a reply was spoken. Nil for any other item.
    public var speech: Speech?
    /// Whether it belongs to a response outside the conversation.
    public var isOutOfBand = false

    /// How a reply was spoken.
    public struct Speech: Equatable, Sendable {
        /// Milliseconds of its audio that were sent.
        public var sentMilliseconds: Int
        /// Milliseconds that were heard.
        public var heardMilliseconds: Int
        /// Whether not all of its words were heard.
        public var isCut: Bool
    }

    var heldBytes: Int { 256 + item.heapBytes + (written?.utf8.count ?? 0) }
}

/// A response that has ended.
public struct RecordedTurn: Sendable {
    /// Its place among the responses of the session in this process, from 1.
    public var number: Int
    /// The response as its client was told.
    public var response: ResponseDescription
    /// When it began.
    public var startedAt: Instant
    /// When it ended.
    public var endedAt: Instant
    /// Milliseconds from the end of the user's speech, or from the request, until each hop.
    public var hops: [TurnHop: Int]

    /// Bytes of its texts.
    var heapBytes: Int { response.id.heapBytes + response.output.reduce(0) { $0 + $1.heapBytes } }
}

/// Why a session has ended.
public struct SessionEnd: Equatable, Sendable {
    /// The kind of end, as records name it.
    public enum Reason: String, CaseIterable, Sendable {
        /// The client closed its WebSocket.
        case clientClosed = "client_closed"
        /// The connection was lost.
        case connectionLost = "connection_lost"
        /// The client lost its connection, and did not come back in time.
        case notResumed = "not_resumed"
        /// The server closed the session; the code and the message say why.
        case serverClosed = "server_closed"
        /// It goes on at another connection or in another process.
        case continuedElsewhere = "continued_elsewhere"
        /// The process ended without saying so.
        case serverLost = "server_lost"
    }

    /// The kind of end.
    public var reason: Reason
    /// The close code (RFC 6455 §7.4) that was sent or received, if there was one.
    public var closeCode: WebSocketCloseCode?
    /// The server's message. It is empty where there is none.
    public var message = ""

    /// Creates an end.
    public init(_ reason: Reason, closeCode: WebSocketCloseCode? = nil, message: String = "") {
        (self.reason, self.closeCode, self.message) = (reason, closeCode, message)
    }
}
