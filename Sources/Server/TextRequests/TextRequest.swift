// The two ends of a request that a model answers over HTTP. The request has a session of its own on
// one shard; the answer is on a connection of this or another shard. A ReplyLog joins them.
// TextRequests decides what happens to a request; ShardTextRequests and ShardTextAnswers do it.
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
    /// The same, for a reply that has already begun.
    case uiMessagesResumed
}

/// A session that answers one request.
final class TextRequest {
    /// The progress of its work; the diagram is in TextRequests.swift.
    enum Phase {
        /// The model may write.
        case writing
        /// The model waits for a reader.
        case paused
        /// The work is done; the log is left.
        case complete
    }

    let token: EventToken
    let live: LiveSession
    let log: ReplyLog
    /// The chat by which the reply can be found again, or nil.
    let chat: ChatKey?
    /// The address that asked.
    let client: NetworkAddress
    /// Places of the reply's calls by the output index of their items, in the order of their start.
    var calls: [Int] = []
    /// Its entry in the shard's deadline queue, while it has one.
    var deadline: DeadlineQueue<DeadlineOwner>.Handle?
    /// When it began, and when it last had input or output; by the peers' clock.
    let started: Instant
    var lastActive: Instant
    /// When it is removed unless a reader comes; nil while it has one.
    var expiry: Instant?
    var phase = Phase.writing
    /// Whether its work is done.
    var isOver: Bool { phase == .complete }
    /// Bytes of its ledger when that was last settled: its part of the shard's sum.
    var charged: UInt32 = 0
    /// Bytes of its places in the shard's table and queue, about.
    static let placeBytes = 64
    /// Bytes of the object itself, and of its places.
    static let objectBytes = HeapBlock.object(TextRequest.self) + placeBytes

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

/// An incomplete answer on a connection. Requests that come meanwhile wait behind it.
final class TextAnswer {
    /// The format of the reply.
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
    /// Whether the status has been queued.
    var hasSentHead = false
    /// Since when no more is read from the log, as the client does not read; by the peers' clock.
    var stalledSince: Instant?
    /// When bytes were last sent; by the peers' clock.
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
    static let objectBytes = HeapBlock.object(TextAnswer.self)
    /// Bytes of all of it but the reply.
    var heldBytes: Int { Self.objectBytes }

    /// When the connection must next be looked at, by the peers' clock.
    func deadline(_ configuration: ServerConfiguration) -> Instant {
        let ping = lastSent + configuration.pingInterval
        guard let stalledSince else { return ping }
        return min(ping, stalledSince + configuration.slowReaderTimeout)
    }
}
