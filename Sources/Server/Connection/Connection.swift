// One TCP connection of a shard: bytes received and not used, bytes to be sent, and its state. The
// changes of the state are in ConnectionActions; the shard makes them (ShardConnections, ShardHTTP,
// ShardWebSocket).
//
// Small when idle: the state of HTTP (HTTPServerConnection) goes away at the upgrade, the
// send buffer is empty, the session hangs off one reference.
//
//   (proxyHeader ──a proxy's header──▶)
//   http ──upgrade──▶ webSocket ──our Close──▶ closing ──peer's Close──┐
//    │                    └──peer's Close, or its error──▶ lingering ◀─┘
//    ├──last answer, or an error──────────────────────────▶ │
//    └──reset, end, timeout─────▶ closed ◀──end, timeout────┘      (closed from every state)

import Codec
import Session

/// One TCP connection. Confined to its shard's thread.
///
/// Some properties are exempt from Swift's run-time check for overlapping accesses. The comment beside
/// each says what the check would cost an echo (docs/decisions/0030-echo-path.md). No access here
/// overlaps another, as each is one load, one store, or a call that knows no connection.
final class Connection: SessionHolder, SlotMember {
    /// The states of a connection; the diagram is at the top of the file.
    enum State: UInt8 {
        /// A trusted proxy first names its client. Next: http, lingering, closed.
        case proxyHeader
        /// Requests are read and answered. Next: webSocket, lingering, closed.
        case http
        /// Messages go both ways. Next: closing, lingering, closed.
        case webSocket
        /// Our Close is sent, the peer's is awaited; the session is gone. Next: lingering, closed.
        case closing
        /// The last bytes are on their way; input is discarded, so that the kernel does not answer
        /// it with a reset that would destroy them. Next: closed.
        case lingering
        /// To be removed at the end of the tick.
        case closed
    }

    /// The role of a connection. Each role but the first is a WebSocket's.
    enum Role: UInt8 {
        /// Requests over HTTP; no WebSocket yet.
        case http
        /// Every message is sent back.
        case echo
        /// The client of a session, which speaks the Realtime protocol.
        case client
        /// It shows a session that has another client (SidebandTable).
        case sideband
        /// An operator watches the server on it (OperatorTable).
        case `operator`
        /// The client of a session, in a protocol that has an object for each client (Front).
        case front
    }

    /// Its name on its shard.
    let token: EventToken
    /// The socket; `noHandle` where it is gone, or has moved to another shard.
    var handle: IOHandle
    var state = State.http
    var role = Role.http
    /// Whether it is queued for the flush.
    var isDirty = false
    /// Whether its ledger is to be settled at the end of the tick.
    var isTouched = false
    /// The state of its session when its ledger was last settled; nil before.
    var chargedState: SessionState?
    /// Bytes of its ledger when that was last settled: its part of the shard's sum.
    var charged: UInt32 = 0
    /// Whether the peer has been pinged since it was last heard.
    var isPinged = false
    /// Whether the peer will send no more.
    var hasEnded = false
    /// Whether our direction of the connection is shut.
    var isFinished = false
    /// The reports that the backend is to give of it.
    var interest: Interest = .reads
    /// Its entry in the shard's deadline queue, never later than what it waits for.
    var deadline = DeadlineHandle.none
    /// When bytes came last. Like the other times here, by the peers' clock (`Shard.peerClock`).
    var lastReceived: Instant
    /// When its state began: of a WebSocket the handshake. HTTP has the time of its own request.
    var phaseStart: Instant
    /// The deadline of the unfinished WebSocket message, by the bytes that have come.
    /// `noMessageDue` while there is none.
    var messageDue = Connection.noMessageDue
    /// When a WebSocket message, other than control frames, came or left last.
    var lastMessage: Instant
    /// How much may still come of messages that cost a peer nothing; see MessageRules.
    var floodBudget = TokenBucket()
    @exclusivity(unchecked) var output = SendBuffer()  // 398 instructions an echo.
    /// The record of output that waits; nil while none of it matters.
    var backlog: OutputBacklog?
    /// Whether output of an earlier tick waits.
    var isBehind = false
    /// Whether the output that waits is enough to suspend the session's agents.
    var isCongested = false
    /// Why no message is taken in; empty: messages are.
    var pauses: InputPause = []
    /// Whether it is queued for its pending messages to be handled, or its requests to be read, in the next
    /// tick.
    var isUnfinished = false
    /// Bytes that came and are not used yet: the beginning of a proxy's header, or messages for the
    /// next tick. HTTP has its own.
    @exclusivity(unchecked) var pending: [UInt8] = []  // 68 instructions an echo.
    /// The place of the address that it counts for.
    var addressPlace = AddressPlace.none
    var http: HTTPServerConnection?
    @exclusivity(unchecked) var webSocket: WebSocketConnection?  // 291 instructions an echo.
    /// Bits of the window that messages to the peer are compressed with; 0: they are not.
    var deflateWindowBits: UInt8 = 0
    /// Compression that remembers earlier messages, where there was memory for it.
    var contexts: CompressionContexts?
    /// The session of its client, if it has one (`give`, `part`).
    var live: LiveSession?
    /// Nil where the server speaks plain TCP.
    var tls: TLSConnection?

    init(token: EventToken, handle: IOHandle, at now: Instant) {
        self.token = token
        self.handle = handle
        lastReceived = now
        phaseStart = now
        lastMessage = now
        http = HTTPServerConnection(at: now)
    }

    /// The handle of a connection without a socket.
    static var noHandle: IOHandle { -1 }

    /// The deadline of a connection without an unfinished message.
    static var noMessageDue: Instant { Instant(nanoseconds: .max) }

    /// Whether it sends messages back, and is not closing.
    var isEcho: Bool { role == .echo && state == .webSocket }

    /// Whether it is a telephone line whose call has not begun.
    var awaitsCall: Bool { role == .front && live == nil }

    /// Whether its session has yet to hear the rest of a long message; everything of the client
    /// that follows waits.
    @inline(__always)
    var hasUnheardAudio: Bool { live?.session.hasUnheardAudio == true }

    /// Whether messages are taken in: until the peer's Close, or its error.
    var isReceivingMessages: Bool { state == .webSocket || state == .closing }

    /// Whether the bytes that were read must be used before more are read.
    var isPaused: Bool {
        switch state {
        case .http: isUnfinished || http?.mustStopReading ?? false
        case .webSocket: !pending.isEmpty || !pauses.isEmpty || hasUnheardAudio
        case .closing: !pending.isEmpty
        case .proxyHeader, .lingering, .closed: false
        }
    }

    /// When the request in progress began, or the state where there is none.
    var activityStart: Instant { http?.requestStart ?? phaseStart }

    /// When the shell, rather than the session, must next look at it; by the peers' clock.
    func protocolDeadline(_ settings: ConnectionSettings) -> Instant {
        switch state {
        case .proxyHeader: return phaseStart + settings.http.headerTimeout
        case .http:
            return http?.deadline(lastReceived: lastReceived, settings) ?? lastReceived
        case .webSocket: return webSocketDeadline(settings)
        case .closing, .lingering: return phaseStart + settings.closeTimeout
        // No peer is waited for.
        case .closed: return Self.noMessageDue
        }
    }
}

extension Connection {
    /// Attaches a session to this connection.
    func give(_ live: LiveSession) {
        self.live = live
        live.holder = self
    }

    /// Detaches its session, if it has one.
    func part() {
        live?.holder = nil
        live = nil
    }
}

extension LiveSession {
    /// The connection of its client, or nil where no connection has it.
    var connection: Connection? {
        @inline(__always) get { holder.map { unsafeDowncast($0, to: Connection.self) } }
    }
}
