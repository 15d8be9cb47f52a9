// One TCP connection of a shard: what it has received and not used, what it has yet to send, and
// how far its life is. What happens at each step is the shard's (Shard, ShardHTTP, ShardWebSocket).
//
// Small when idle: the HTTP state goes away at the upgrade, the send buffer holds nothing, the
// session hangs off one reference.
//
//   http ──upgrade──▶ webSocket ──our Close──▶ closing ──peer's Close──┐
//    │                    └──peer's Close, or its error──▶ lingering ◀─┘
//    ├──last answer, or an error──────────────────────────▶ │
//    └──reset, end, timeout─────▶ closed ◀──end, timeout────┘      (closed from every state)

import Codec
import Session

/// What HTTP needs of a connection until it is upgraded.
final class HTTPState {
    var parser: HTTPRequestParser
    /// Whether the bytes held begin with requests that only wait for the output to drain.
    var isPaused = false
    /// Whether a request has been answered; silence is then a kept-alive connection's.
    var hasAnswered = false
    /// Whether the request in progress has had its `100 Continue`.
    var didSendContinue = false

    init(limits: HTTPLimits) { parser = HTTPRequestParser(limits: limits) }
}

/// A session and what belongs to it alone.
final class LiveSession {
    let session: VoiceSession
    let writer: ServerEventWriter
    /// Number of the next event.
    var eventNumber: UInt64 = 1
    /// When it wants to be called again, as of its last draining.
    var deadline: Instant?
    /// What it held, as of its last draining; part of the shard's sum.
    var heldBytes = 0
    /// Agents at work for it.
    var work = AgentWork()

    init(session: VoiceSession) {
        self.session = session
        writer = ServerEventWriter(sessionID: session.id)
    }
}

/// One TCP connection. Confined to its shard's thread.
final class Connection {
    /// How far its life is; the diagram is at the top of the file.
    enum State: UInt8 {
        /// Requests are read and answered. Next: webSocket, lingering, closed.
        case http
        /// Messages go both ways. Next: closing, lingering, closed.
        case webSocket
        /// Our Close is sent, the peer's is awaited; the session is gone. Next: lingering, closed.
        case closing
        /// The last bytes are on their way; input is discarded, so that the kernel does not answer
        /// it with a reset that would destroy them. Next: closed.
        case lingering
        /// To be removed at the end of the turn.
        case closed
    }

    let token: EventToken
    let handle: IOHandle
    var state = State.http
    /// Whether the shard's list of connections to flush names it.
    var isDirty = false
    /// Whether the peer has been pinged since it was last heard.
    var isPinged = false
    /// Whether the peer will send no more.
    var hasEnded = false
    /// Whether our direction of the connection is shut.
    var isFinished = false
    /// What the backend watches it for.
    var interest: Interest = .reads
    /// Its entry in the shard's deadline queue, never later than what it waits for.
    var deadline = DeadlineQueue<DeadlineOwner>.Handle.none
    /// When bytes came last.
    var lastReceived: Instant
    /// When the request in progress began, or the closing.
    var phaseStart: Instant
    var output = SendBuffer()
    /// Whether so much output waits that the session's agents are held up.
    var isCongested = false
    /// Bytes that came and are not used yet: a request's beginning, pipelined requests behind an
    /// answer that is still being sent, or messages that another turn is for.
    var held: [UInt8] = []
    var http: HTTPState?
    var webSocket: WebSocketConnection?
    var live: LiveSession?

    init(token: EventToken, handle: IOHandle, limits: HTTPLimits, at now: Instant) {
        self.token = token
        self.handle = handle
        lastReceived = now
        phaseStart = now
        http = HTTPState(limits: limits)
    }

    /// Whether messages are taken in: until the peer's Close, or its error.
    var isReceivingMessages: Bool { state == .webSocket || state == .closing }

    /// Whether what was read must be used before more is.
    var isPaused: Bool {
        switch state {
        case .http: http?.isPaused == true
        case .webSocket, .closing: !held.isEmpty
        case .lingering, .closed: false
        }
    }

    /// When the shell, rather than the session, must next look at it.
    func protocolDeadline(_ configuration: ServerConfiguration) -> Instant {
        switch state {
        case .http:
            guard let http, held.isEmpty, http.hasAnswered else {
                return phaseStart + configuration.headerTimeout
            }
            return lastReceived + configuration.keepAliveTimeout
        case .webSocket:
            let end = lastReceived + configuration.idleTimeout
            return isPinged ? end : min(end, lastReceived + configuration.pingInterval)
        case .closing, .lingering: return phaseStart + configuration.closeTimeout
        case .closed: return lastReceived
        }
    }
}
