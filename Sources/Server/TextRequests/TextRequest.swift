// The two ends of a request that a model answers over HTTP: the request, which has a session of its
// own on one shard, and the answer on a connection, perhaps of another. Between them is a ReplyLog.
// What is done with them is in ShardTextRequests and ShardTextAnswers.
//
// A request has a token of its own, because it may outlive the connection that asked for it.

import Codec
import Session

/// A format in which text is asked for and answered.
enum TextFront: Sendable {
    /// OpenAI's chat completions.
    case chatCompletions
    /// The UI message stream of the Vercel AI SDK.
    case uiMessages
    /// The same, of a reply that is already on its way.
    case uiMessagesResumed
}

/// A session that answers one request.
final class TextRequest {
    let token: EventToken
    let live: LiveSession
    let log: ReplyLog
    /// The chat by which the reply can be found again, or nil.
    let chat: ChatKey?
    /// Who asked.
    let client: NetworkAddress
    /// Places of the reply's calls by the output index of their items, in the order of their start.
    var calls: [Int] = []
    /// Its entry in the shard's deadline queue, while it has one.
    var deadline: DeadlineQueue<DeadlineOwner>.Handle?
    /// When it began, and when something of it last came or went; by the peers' clock.
    let started: Instant
    var lastActive: Instant
    /// When nobody waits for it any more; nil while somebody reads it.
    var expiry: Instant?
    /// Whether its model waits for a reader.
    var isHeldUp = false
    /// Whether its work is done; what is left of it is the log.
    var isOver = false
    /// Bytes of its ledger when that was last settled: its part of the shard's sum.
    var charged: UInt32 = 0
    /// Bytes of its places in the shard's table and queue, about.
    static let placeBytes = 64
    /// Bytes of the object itself, and of its places.
    static let objectBytes = HeapBlock.bytes(200) + placeBytes

    init(
        token: EventToken, live: LiveSession, log: ReplyLog, chat: ChatKey?, client: NetworkAddress,
        at now: Instant
    ) {
        self.token = token
        self.live = live
        self.log = log
        self.chat = chat
        self.client = client
        started = now
        lastActive = now
    }
}

/// The requests of one shard.
struct TextRequestTable {
    private var requests: [UInt32: TextRequest] = [:]
    private var nextGeneration: UInt32 = 0

    /// A token that no request has.
    mutating func reserveToken() -> EventToken {
        repeat { nextGeneration &+= 1 } while requests[nextGeneration] != nil
        return EventToken(.textRequest, index: 0, generation: nextGeneration)
    }

    mutating func insert(_ request: TextRequest) { requests[request.token.generation] = request }

    mutating func remove(_ request: TextRequest) { requests[request.token.generation] = nil }

    /// The request that a token means, if it still is there.
    subscript(token: EventToken) -> TextRequest? { requests[token.generation] }

    /// Visits all of them, in no order.
    func forEach(_ body: (TextRequest) -> Void) { requests.values.forEach(body) }

    /// All of them, the oldest first.
    var all: [TextRequest] {
        requests.values.sorted { $0.token.generation < $1.token.generation }
    }
}

/// An answer on a connection that is not complete. Bytes that come meanwhile wait behind it.
final class TextAnswer {
    /// How the reply is shown.
    enum Style {
        case chunks(ChatCompletionWriter)
        case whole(ChatCompletionWriter.Heading)
        case uiMessages(UIMessageStreamWriter)
    }

    let log: ReplyLog
    let reader: ReplyReader
    /// The chat by which the reply can be found again, or nil.
    let chat: ChatKey?
    var style: Style
    /// Fields of the answer, those of its style aside.
    let fields: HTTPFields
    /// Whether the connection may have another request.
    let keepAlive: Bool
    /// Whether the client knows chunks (HTTP/1.1).
    let isChunked: Bool
    /// Whether the status is on its way.
    var hasSentHead = false
    /// Since when nothing more was read, because the client does not; by the peers' clock.
    var stalledSince: Instant?
    /// When something was sent last; by the peers' clock.
    var lastSent: Instant

    init(
        log: ReplyLog, reader: ReplyReader, chat: ChatKey?, style: Style, fields: HTTPFields,
        answering request: HTTPRequest, keepAlive: Bool, at now: Instant
    ) {
        self.log = log
        self.reader = reader
        self.chat = chat
        self.style = style
        self.fields = fields
        isChunked = request.version == .http11
        self.keepAlive = keepAlive && isChunked
        lastSent = now
    }

    /// Whether nothing is sent before the reply is complete.
    var needsAll: Bool { if case .whole = style { true } else { false } }

    /// Bytes of the object itself.
    static let objectBytes = HeapBlock.bytes(232)
    /// Bytes of all of it but the reply.
    var heldBytes: Int { Self.objectBytes }

    /// When the connection must next be looked at, by the peers' clock.
    func deadline(_ configuration: ServerConfiguration) -> Instant {
        let ping = lastSent + configuration.pingInterval
        guard let stalledSince else { return ping }
        return min(ping, stalledSince + configuration.slowReaderTimeout)
    }
}
