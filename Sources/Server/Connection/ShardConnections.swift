// The life of a connection on its shard, whatever protocol it speaks: readiness in, flushing out,
// deadlines, and the end. The meaning of the bytes is in ShardHTTP and ShardWebSocket.
//
// Invariant: a connection with output is queued for the flush or watched for writes, never neither;
// its entry in the deadline queue is never later than what it waits for.

import CLinux
import Codec
import Session

extension Shard {
    // MARK: In

    @inline(__always)
    func handleReadiness(_ report: Readiness, of connection: Connection) {
        if report.isWritable { perform(.flush, on: connection) }
        if report.isReadable || (report.hasFailed && connection.interest.contains(.reads)) {
            read(connection)
        } else if report.hasFailed {
            // It is not read from, so no read would find the failure, and epoll would report it
            // without end.
            lose(connection)
        }
    }

    /// Reads a connection, if the tick has time for that.
    @inline(__always)
    private func read(_ connection: Connection) {
        guard connection.state != .http || admitsRequest(of: connection) else { return }
        readNow(connection)
    }

    /// Reads a connection, however late the tick is.
    @inline(__always)
    func readNow(_ connection: Connection) {
        guard connection.interest.contains(.reads), connection.state != .closed,
            connection.tls == nil || admitsRead(of: connection)
        else { return }
        perform(.settle, on: connection)
        switch io.read(connection.handle, into: fixtures.readBuffer) {
        case .done(let count):
            metrics.add(.bytesReceived, count)
            perform(connection.handleReceived(at: peerClock), on: connection)
            let bytes = UnsafeMutableRawBufferPointer(rebasing: fixtures.readBuffer[..<count])
            take(bytes, from: connection)
        case .wouldBlock: break
        case .ended:
            noteTruncation(of: connection)
            handleEnd(of: connection)
        case .failed: lose(connection)
        }
    }

    /// Takes bytes, encrypted if the connection is.
    @inline(__always)
    func take(_ bytes: UnsafeMutableRawBufferPointer, from connection: Connection) {
        if connection.tls == nil {
            receive(bytes, on: connection)
        } else {
            receiveRecords(bytes, on: connection)
        }
    }

    /// Takes bytes, decrypted if they were encrypted.
    @inline(__always)
    func receive(_ bytes: UnsafeMutableRawBufferPointer, on connection: Connection) {
        switch connection.state {
        case .proxyHeader: receiveProxyHeader(bytes, on: connection)
        case .http: receiveHTTP(bytes, on: connection)
        case .webSocket, .closing: receiveMessages(bytes, on: connection)
        case .lingering, .closed: break
        }
    }

    /// The peer sends no more. Answers under way still reach it.
    func handleEnd(of connection: Connection) {
        connection.hasEnded = true
        switch connection.state {
        case .http where connection.http?.reply != nil || connection.http?.relay != nil:
            // A client that closes its side while a reply is on its way does not want the rest: it
            // is the only way in which a browser and an SDK cancel.
            close(connection)
        case .http where connection.hasOutput || connection.http?.isPaused == true:
            perform(.watch, on: connection)
        case .http where connection.http?.asksElsewhere == true:
            perform(.watch, on: connection)
        case .lingering where connection.hasOutput:
            perform(.watch, on: connection)
        // A WebSocket that ends without a Close is lost (RFC 6455 §7.1.5).
        case .webSocket: lose(connection)
        case .proxyHeader, .http, .closing, .lingering, .closed: close(connection)
        }
    }

    // MARK: Out

    /// Writes to the sockets; elsewhere only connections that are refused are written to. A
    /// connection with more than a tick's share stays queued for the next tick; one whose socket is
    /// full waits until the backend reports room.
    func flushWrites() {
        let count = output.beginRound()
        guard count > 0 else { return }
        for position in 0..<count {
            connections.reference(inSlot: output.slot(at: position))?._withUnsafeGuaranteedRef {
                guard $0.isDirty else { return }
                $0.isDirty = false
                perform(.settle, on: $0)
                if $0.state != .closed { flush($0) }
            }
        }
        output.endRound()
    }

    @inline(__always)
    private func flush(_ connection: Connection) {
        var left = configuration.loop.maxWriteBytesPerTick
        while left > 0, !connection.output.isEmpty {
            var share = left
            if connection.backlog != nil {
                share = min(left, bytesBeforeLateAudio(of: connection))
                guard share > 0 else { continue }
            }
            let front = connection.output.front
            let piece = UnsafeRawBufferPointer(rebasing: front[..<min(share, front.count)])
            switch write(piece, of: connection) {
            case .done(let count):
                metrics.add(.bytesSent, count)
                connection.output.removeFirst(count, pool: fixtures.chunks)
                left -= count
                if connection.backlog != nil { handleWritten(count, on: connection) }
            case .wouldBlock, .ended:
                connection.isBehind = true
                watchForRoom(connection)
                return
            case .failed:
                lose(connection)
                return
            }
        }
        if connection.output.isEmpty {
            connection.isBehind = false
            output.releaseBacklog(of: connection)
            handleFlushed(connection)
        } else {
            connection.isBehind = true
            perform(.flush, on: connection)
        }
    }

    @inline(__always)
    private func handleFlushed(_ connection: Connection) {
        guard connection.tls == nil || finishRecords(of: connection) else { return }
        switch connection.state {
        case .http where connection.http?.reply != nil:
            if connection.interest.contains(.writes) { perform(.watch, on: connection) }
            handleAnswerFlushed(on: connection)
        case .http where connection.http?.relay != nil:
            if connection.interest.contains(.writes) { perform(.watch, on: connection) }
            handleRelayFlushed(on: connection)
        case .http where connection.http?.isPaused == true:
            if admitsRequest(of: connection) { resumeHTTP(connection) }
        case .http where connection.hasEnded && connection.http?.asksElsewhere != true,
            .lingering where connection.hasEnded:
            close(connection)
        case .lingering where !connection.isFinished:
            connection.isFinished = true
            io.finishWriting(connection.handle)
            perform(.watch, on: connection)
        case .proxyHeader, .http, .webSocket, .closing, .lingering, .closed:
            // Otherwise a flush does not change what the connection waits for.
            if connection.interest.contains(.writes) { perform(.watch, on: connection) }
        }
    }

    // MARK: Deadlines

    /// When the connection, or the session of its client, must next be handled.
    func nextDeadline(of connection: Connection) -> Instant {
        var first = Connection.noMessageDue
        if let live = connection.live {
            forEachTimer(of: live) { _, due in first = min(first, due) }
        }
        forEachTimer(of: connection) { _, due in first = min(first, due) }
        return first
    }

    /// Handles the expired entry of a connection, which gets a new one in any case.
    func handleDeadline(ofSlot slot: Int) {
        guard let connection = connections[slot: slot] else { return }
        // Never in the past: a session that asks for that is called once per tick, no more.
        connection.deadline = deadlines.schedule(
            .connection(slot), at: now + configuration.connection.closeTimeout)
        if let due = connection.live?.deadline, now - due > ShardClock.unnoticed {
            // Its bytes may have come while the shard was away, and wait behind others': audio that
            // waits there is no gap in its user's speech.
            readNow(connection)
        }
        if let live = connection.live { serveTimers(of: live) }
        forEachTimer(of: connection) { timer, due in
            if due <= now { serve(timer, of: connection) }
        }
        guard connection.state != .closed else { return }
        let next = max(nextDeadline(of: connection), Instant(nanoseconds: now.nanoseconds + 1))
        deadlines.reschedule(connection.deadline, at: next)
    }

    /// The timers of a connection that run, and when each is due. Serving one may stop the timers
    /// behind it. SessionTimers has the timers of its session.
    @inline(__always)
    private func forEachTimer(
        of connection: Connection, _ body: (ConnectionTimer, Instant) -> Void
    ) {
        if let due = workDeadline(of: connection) { body(.work, due) }
        if connection.role == .front, let due = clients.fronts[connection.token]?.deadline {
            body(.front, due)
        }
        let due = connection.protocolDeadline(configuration.connection)
        // "Never" is no time of the peers' clock.
        if due != Connection.noMessageDue { body(.peer, time(ofPeerTime: due)) }
    }

    private func serve(_ timer: ConnectionTimer, of connection: Connection) {
        switch timer {
        case .work: perform(connection.takeMessagesAgain(after: .work), on: connection)
        case .front:
            if let live = connection.live, let (front, _) = front(of: live) {
                front.handleDeadline(of: live, self)
            }
        case .peer:
            // Its bytes may have come while the shard was away, and wait behind others'.
            if connection.state == .http, connection.isUnfinished {
                connection.isUnfinished = false
                continueRequests(on: connection)
            } else {
                readNow(connection)
            }
            if connection.protocolDeadline(configuration.connection) <= peerClock {
                handleSilence(of: connection)
            }
        }
    }

    private func handleSilence(of connection: Connection) {
        switch connection.state {
        case .http: handleHTTPTimeout(of: connection)
        case .webSocket: handleWebSocketSilence(of: connection)
        case .proxyHeader, .closing, .lingering: close(connection)
        case .closed: break
        }
    }

    // MARK: The end

    /// Sends what is queued, then our end of the stream, and waits for the peer's.
    func linger(_ connection: Connection) {
        guard connection.state != .closed else { return }
        endSession(of: connection)
        abandonAnswer(of: connection)
        perform(connection.beginLingering(at: peerClock), on: connection)
    }

    /// Ends a connection at once. It is removed at the end of the tick.
    func close(_ connection: Connection) {
        guard connection.state != .closed else { return }
        endSession(of: connection)
        abandonAnswer(of: connection)
        perform(connection.beginRemoval(), on: connection)
    }

    func removeClosed() {
        let count = tickWork.closed.beginRound()
        guard count > 0 else { return }
        for position in 0..<count {
            guard let connection = connections[slot: tickWork.closed.slot(at: position)] else {
                continue
            }
            releaseSocket(of: connection)
            deadlines.cancel(connection.deadline)
            clients.work.remove(connection.token)
            memory.ledgers.refund(connection)
            connections.remove(connection)
        }
        tickWork.closed.endRound()
    }

    /// Closes the socket of a connection, if it still has one, and lets go of all that belongs to
    /// the socket.
    func releaseSocket(of connection: Connection) {
        guard connection.handle != Connection.noHandle else { return }
        endRecords(of: connection)
        connection.output.removeAll(into: fixtures.chunks)
        output.releaseBacklog(of: connection)
        releaseContexts(of: connection)
        io.close(connection.handle)
        connection.handle = Connection.noHandle
        releaseAddressPlace(of: connection)
        services.metrics.connections.subtract(1, ordering: .relaxed)
    }
}

/// The timers of a connection, in the order in which they are served. One table (`forEachTimer`) has
/// their times: the deadline of the connection and what is served then both come from there.
private enum ConnectionTimer {
    /// The budget of a connection that waits for it has filled.
    case work
    /// A front's deadline has come: the caller of a telephone line has pressed the last key.
    case front
    /// The peer has been waited for long enough.
    case peer
}
