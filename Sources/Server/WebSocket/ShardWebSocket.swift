// WebSocket on a shard's connections: bytes become messages, for which ShardFronts has a meaning, and
// messages become frames in the send buffer. A connection's share of a tick, silence and the close.
//
// Invariant: a connection with pending messages, or with the rest of a long one, is queued for the next
// tick, and not read from until then.

import Codec
import Session

extension Shard {
    // MARK: In

    /// Takes bytes of a WebSocket.
    @inline(__always)
    func receiveMessages(_ bytes: UnsafeMutableRawBufferPointer, on connection: Connection) {
        let unused = handleMessages(in: bytes, on: connection)
        trackMessage(bytes.count - unused, on: connection)
        guard unused > 0 || connection.hasUnheardAudio else { return }
        keepPending(UnsafeRawBufferPointer(rebasing: bytes.suffix(unused)), on: connection)
    }

    /// Keeps bytes for the next tick. A function of its own, so that `receiveMessages` is small enough
    /// to be inlined: otherwise an echo takes 30 instructions more.
    @inline(never)
    private func keepPending(_ bytes: UnsafeRawBufferPointer, on connection: Connection) {
        perform(connection.keepPending(Array(bytes)), on: connection)
    }

    /// Handles messages that the tick before left: each connection has its share again, in the
    /// order in which they were queued. Once the tick's time for them is over, the others wait for
    /// another tick, in which they come first. So do connections with the rest of a long message once
    /// the tick's share of audio is used up.
    func continueMessages() {
        let count = tickWork.unfinished.beginRound()
        guard count > 0 else { return }
        var postponed: [Int] = []
        for position in 0..<count {
            let slot = tickWork.unfinished.slot(at: position)
            guard let connection = connections[slot: slot], connection.isUnfinished
            else { continue }
            connection.isUnfinished = false
            let isHTTP = connection.state == .http
            guard isHTTP || connection.isReceivingMessages && connection.pauses.isEmpty
            else { continue }
            let mustWait =
                connection.hasUnheardAudio && sessionContext.isTickSpent
                || position > 0 && tickWork.messageTime.isSpent(at: io.now)
            if mustWait {
                connection.isUnfinished = true
                postponed.append(slot)
                continue
            }
            if isHTTP {
                continueRequests(on: connection)
                continue
            }
            tickWork.messageTime.beginShare(position, of: count)
            perform(.settle, on: connection)
            var pending: [UInt8] = []
            swap(&pending, &connection.pending)
            let unused = pending.withUnsafeMutableBytes { handleMessages(in: $0, on: connection) }
            trackMessage(pending.count - unused, on: connection)
            if unused > 0 || connection.hasUnheardAudio {
                pending.removeFirst(pending.count - unused)
                perform(connection.keepPending(pending), on: connection)
            } else {
                perform(.watch, on: connection)
            }
        }
        tickWork.unfinished.endRound()
        tickWork.messageTime.endShares()
        if !postponed.isEmpty { tickWork.unfinished.postpone(postponed) }
    }

    /// Handles messages until the bytes or the connection's share of the tick are used up, or the
    /// connection takes no more. Audio counts by its duration: eight bytes of Opus may stand for
    /// 120 ms. If a message lasts longer than the share, the session keeps the rest of it.
    /// - Returns: how many bytes at the end wait for the next tick.
    private func handleMessages(
        in bytes: UnsafeMutableRawBufferPointer, on connection: Connection
    ) -> Int {
        var rest = bytes
        var messages = 0
        var looked = (messages: 0, rest: bytes.count)
        sessionContext.beginShare()
        if let live = connection.live, live.session.hasUnheardAudio { hearRest(live) }
        do throws(WebSocketError) {
            while connection.isReceivingMessages {
                // With nothing left, `next` is called once more: it frees the last message.
                if !rest.isEmpty,
                    messages >= configuration.loop.maxMessagesPerTick || !connection.pauses.isEmpty
                        || sessionContext.isShareSpent || connection.hasUnheardAudio
                        || isOutOfTime(messages, rest.count, since: &looked)
                {
                    return rest.count
                }
                guard let event = try connection.webSocket?.next(&rest) else { return 0 }
                messages += try handle(event, on: connection)
            }
        } catch {
            metrics.add(.protocolErrors)
            logger.debug("bad message", metadata: ["rule": "\(error)"])
            closeWebSocket(connection, error.closeCode, reason: error.closeReason)
        }
        return 0
    }

    /// Whether the connection has to leave its other messages to the next tick.
    /// - Parameters:
    ///   - messages: those that were handled.
    ///   - rest: bytes that were not used.
    ///   - looked: both, as of the last look at the clock.
    @inline(__always)
    private func isOutOfTime(
        _ messages: Int, _ rest: Int, since looked: inout (messages: Int, rest: Int)
    ) -> Bool {
        guard
            tickWork.messageTime.needsLook(
                after: messages - looked.messages, bytes: looked.rest - rest)
        else { return false }
        looked = (messages, rest)
        return tickWork.messageTime.isShareSpent(at: io.now)
    }

    /// - Returns: the messages that the event counts as in the tick's share of its connection.
    @inline(__always)
    private func handle(
        _ event: WebSocketEvent, on connection: Connection
    ) throws(WebSocketError) -> Int {
        switch event {
        case .text(let message):
            let before = noteMessage(ofBytes: message.count, on: connection)
            return receive(.text, message, on: connection, after: before)
        case .binary(let packet):
            let before = noteMessage(ofBytes: packet.count, on: connection)
            return receive(.binary, packet, on: connection, after: before)
        case .compressed(let message):
            return try handleCompressed(message, on: connection)
        case .ping(let payload):
            if spendFloodBudget(1, of: connection) { answerPing(payload, on: connection) }
        case .pong(let payload):
            spendFloodBudget(1, of: connection)
            connection.live?.resume?.handlePong(payload, at: now)
        case .close(let code, _): handleClose(code, on: connection)
        }
        return 1
    }

    @inline(never)
    private func handleClose(_ code: WebSocketCloseCode?, on connection: Connection) {
        // The same code goes back (RFC 6455 §5.5.1); then neither side sends any more.
        connection.webSocket?.close(code, into: &scratch)
        if scratch.count > 0 { enqueueScratch(on: connection) }
        noteEnd(SessionEnd(.clientClosed, closeCode: code), of: connection.live)
        linger(connection)
        // Nothing may follow a Close, so there is no end of the stream to wait for either: the
        // server closes first (RFC 6455 §7.1.1).
        connection.hasEnded = true
    }

    // MARK: Out

    /// Sends a message or control frame.
    @discardableResult
    func send(
        _ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer, isCompressed: Bool = false,
        on connection: Connection
    ) -> SendOutcome {
        queue(opcode, payload, isCompressed: isCompressed, on: connection)
        return admitOutput(of: connection)
    }

    /// Puts a frame into the send buffer; `admitOutput` applies its limits.
    func queue(
        _ opcode: WebSocketOpcode, _ payload: UnsafeRawBufferPointer, isCompressed: Bool = false,
        on connection: Connection
    ) {
        workspace.frames.append(
            opcode, payload, isCompressed: isCompressed, to: &connection.output,
            pool: fixtures.chunks
        )
    }

    // MARK: Liveness and the end

    /// The deadline of a WebSocket has passed. Any bytes count as a sign of life, and time in which
    /// the shard was away does not count. A client that was silent or idle broke no rule: with 1001
    /// it may come back, with 1008 it may not.
    func handleWebSocketSilence(of connection: Connection) {
        switch connection.overdue(at: peerClock, configuration.connection) {
        case .slowReader:
            cutOff(connection, by: .slowReaderCloses, reason: "slow-reader-timeout-ms")
        case .excused:
            connection.lastReceived = peerClock
            connection.lastMessage = peerClock
            connection.messageDue = Connection.noMessageDue
            trackMessage(0, on: connection)
        case .slowMessage:
            metrics.add(.slowMessageCloses)
            closeWebSocket(connection, .policyViolation, reason: "The message takes too long.")
        case .noCall:
            metrics.add(.callsRefused)
            closeWebSocket(connection, .policyViolation, reason: "The call does not begin.")
        case .idleMessages:
            metrics.add(.messageIdleCloses)
            closeWebSocket(connection, .goingAway, reason: "No message for too long.")
        case .silence:
            metrics.add(.silenceCloses)
            if let live = connection.live {
                if beginWaiting(live) { return close(connection) }
                keepLastState(of: live)
            }
            closeWebSocket(connection, .goingAway, reason: "No sign of life.")
        case .ping:
            connection.isPinged = true
            send(.ping, UnsafeRawBufferPointer(start: nil, count: 0), on: connection)
        case nil: break
        }
    }

    /// Sends our Close. The session ends now; the connection when the peer has answered, or after
    /// `closeTimeout`.
    func closeWebSocket(
        _ connection: Connection, _ code: WebSocketCloseCode, reason: StaticString
    ) {
        noteEnd(SessionEnd(closing: code, reason), of: connection.live)
        if connection.role == .front, connection.state == .webSocket {
            clients.fronts[connection.token]?.hangUp(connection, self)
        }
        endSession(of: connection)
        scratch.removeAll()
        connection.webSocket?.close(code, reason: "\(reason)", into: &scratch)
        enqueueScratch(on: connection)
        guard connection.state == .webSocket else {
            // Our Close went out before, and now the peer broke a rule instead of answering it.
            return linger(connection)
        }
        guard connection.webSocket?.isClosed == false else { return linger(connection) }
        perform(connection.beginClosing(at: peerClock), on: connection)
    }
}

extension WebSocketError {
    /// The reason in the Close frame, for those who debug the peer.
    fileprivate var closeReason: StaticString {
        switch self {
        case .messageTooBig: "The message is too big."
        case .inflationRatioTooHigh: "The message is too big for what was sent."
        case .invalidDeflate: "The message is not deflate data."
        case .tooManyBlocks: "The message has too many deflate blocks."
        case .tooManyFrames: "The message has too many frames."
        case .invalidUTF8, .invalidCloseReason: "The text is not UTF-8."
        case .reservedBitSet, .reservedOpcode, .unmaskedClientFrame, .maskedServerFrame,
            .fragmentedControlFrame, .controlFrameTooLong, .nonMinimalLength, .lengthTopBitSet,
            .unexpectedContinuation, .interruptedMessage, .truncatedCloseCode, .invalidCloseCode:
            "The frame breaks a rule of RFC 6455."
        }
    }
}
