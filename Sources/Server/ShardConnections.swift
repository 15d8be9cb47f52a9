// The life of a connection on its shard, whatever protocol it speaks: readiness in, flushing out,
// deadlines, and the end. What the bytes mean is in ShardHTTP and ShardWebSocket.
//
// Invariant: a connection with output is on the dirty list or watched for writes, never neither;
// its entry in the deadline queue is never later than what it waits for.

import CLinux
import Codec
import Session

extension Shard {
    // MARK: In

    func handleReadiness(_ report: Readiness, of connection: Connection) {
        if report.isWritable { markDirty(connection) }
        if report.isReadable || (report.hasFailed && connection.interest.contains(.reads)) {
            read(connection)
        } else if report.hasFailed {
            // Nothing is read from it, so nobody else would notice, and epoll would report it
            // without end.
            close(connection)
        }
    }

    private func read(_ connection: Connection) {
        guard connection.interest.contains(.reads), connection.state != .closed else { return }
        switch io.read(connection.handle, into: readBuffer) {
        case .done(let count):
            metrics.add(.bytesReceived, count)
            connection.lastReceived = now
            if connection.isPinged {
                // The entry waited for the end; now the next ping is due before that.
                connection.isPinged = false
                armDeadline(of: connection)
            }
            receive(UnsafeMutableRawBufferPointer(rebasing: readBuffer[..<count]), on: connection)
        case .wouldBlock: break
        case .ended: handleEnd(of: connection)
        case .failed: close(connection)
        }
    }

    private func receive(_ bytes: UnsafeMutableRawBufferPointer, on connection: Connection) {
        switch connection.state {
        case .http: receiveHTTP(bytes, on: connection)
        case .webSocket, .closing: receiveMessages(bytes, on: connection)
        case .lingering, .closed: break
        }
    }

    /// The peer sends no more. Answers under way still reach it.
    private func handleEnd(of connection: Connection) {
        connection.hasEnded = true
        switch connection.state {
        case .http where !connection.output.isEmpty || connection.http?.isPaused == true:
            updateInterest(of: connection)
        case .lingering where !connection.output.isEmpty:
            updateInterest(of: connection)
        case .http, .webSocket, .closing, .lingering, .closed:
            close(connection)
        }
    }

    // MARK: Out

    /// Sees to it that the connection's output is flushed, and its limit kept, this turn.
    func markDirty(_ connection: Connection) {
        guard connection.state != .closed else { return }
        guard connection.output.count <= configuration.maxQueuedOutputBytes else {
            return cutOff(connection)
        }
        if connection.output.count > configuration.softQueuedOutputBytes {
            holdUpAgents(of: connection)
        }
        if !connection.isDirty {
            connection.isDirty = true
            dirtySlots.append(connection.token.index)
        }
    }

    /// A reader this slow gets no farewell: that would only wait behind the rest.
    private func cutOff(_ connection: Connection) {
        metrics.add(.outputLimitCloses)
        logger.info(
            "slow reader cut off",
            metadata: [
                "session": "\(connection.live?.session.id ?? "none")",
                "queued_bytes": "\(connection.output.count)",
                "reason": "max-queued-output-bytes",
            ])
        close(connection)
    }

    /// The session's agents wait before their next delivery.
    private func holdUpAgents(of connection: Connection) {
        guard !connection.isCongested, connection.live != nil else { return }
        connection.isCongested = true
        gate.assumeIsolated { [token = connection.token] in $0.hold(token) }
    }

    /// The session's agents go on.
    func releaseAgents(of connection: Connection) {
        guard connection.isCongested else { return }
        connection.isCongested = false
        gate.assumeIsolated { [token = connection.token] in $0.release(token) }
    }

    /// Writes to the sockets; elsewhere only a connection that is refused is written to. Who has
    /// more than a turn's share stays on the list for the next turn; whose socket is full waits for
    /// it to have room.
    func flushWrites() {
        let slots = dirtySlots
        guard !slots.isEmpty else { return }
        dirtySlots.removeAll(keepingCapacity: true)
        for slot in slots {
            guard let connection = connections[slot: slot], connection.isDirty else { continue }
            connection.isDirty = false
            if connection.state != .closed { flush(connection) }
        }
    }

    private func flush(_ connection: Connection) {
        var left = configuration.maxWriteBytesPerTurn
        while left > 0, !connection.output.isEmpty {
            let front = connection.output.front
            let piece = UnsafeRawBufferPointer(rebasing: front[..<min(left, front.count)])
            switch io.write(connection.handle, piece) {
            case .done(let count):
                metrics.add(.bytesSent, count)
                connection.output.removeFirst(count, pool: chunks)
                left -= count
                // Half, so that a reader at the limit does not stop and start them every turn.
                if connection.output.count <= configuration.softQueuedOutputBytes / 2 {
                    releaseAgents(of: connection)
                }
            case .wouldBlock, .ended:
                watchForRoom(connection)
                return
            case .failed:
                close(connection)
                return
            }
        }
        if connection.output.isEmpty {
            handleFlushed(connection)
        } else {
            markDirty(connection)
        }
    }

    private func watchForRoom(_ connection: Connection) {
        setInterest(of: connection, to: connection.interest.union(.writes))
    }

    private func handleFlushed(_ connection: Connection) {
        switch connection.state {
        case .http where connection.http?.isPaused == true:
            resumeHTTP(connection)
        case .http where connection.hasEnded, .lingering where connection.hasEnded:
            close(connection)
        case .lingering where !connection.isFinished:
            connection.isFinished = true
            io.finishWriting(connection.handle)
            updateInterest(of: connection)
        case .http, .webSocket, .closing, .lingering, .closed:
            updateInterest(of: connection)
        }
    }

    /// Watches for what the connection can use now.
    func updateInterest(of connection: Connection) {
        guard connection.state != .closed else { return }
        var interest: Interest = []
        if !connection.hasEnded && !connection.isPaused { interest.insert(.reads) }
        // Output that is on the dirty list is tried first; only a full socket adds `.writes`.
        if connection.interest.contains(.writes) && !connection.output.isEmpty {
            interest.insert(.writes)
        }
        setInterest(of: connection, to: interest)
    }

    private func setInterest(of connection: Connection, to interest: Interest) {
        guard interest != connection.interest else { return }
        connection.interest = interest
        let code = io.watch(
            connection.handle, for: interest, token: connection.token, isNew: false)
        if code != 0 { close(connection) }
    }

    // MARK: Deadlines

    /// Makes the connection's entry early enough for what it now waits for. Entries that have
    /// become too early are left: they cost one look when they expire, not one per packet.
    func armDeadline(of connection: Connection) {
        let wanted = nextDeadline(of: connection)
        if wanted < deadlines.deadline(of: connection.deadline) {
            deadlines.reschedule(connection.deadline, at: wanted)
        }
    }

    private func nextDeadline(of connection: Connection) -> Instant {
        let own = connection.protocolDeadline(configuration)
        guard let session = connection.live?.deadline else { return own }
        return min(own, session)
    }

    /// The entry of a connection has expired; it is given a new one in any case.
    func handleDeadline(ofSlot slot: Int) {
        guard let connection = connections[slot: slot] else { return }
        // Never in the past: a session that asks for that is called once per turn, no more.
        connection.deadline = deadlines.schedule(
            .connection(slot), at: now + configuration.closeTimeout)
        if let live = connection.live, let due = live.deadline, due <= now {
            live.deadline = nil
            live.session.handleDeadline(at: now)
            drain(live, of: connection)
        }
        if connection.protocolDeadline(configuration) <= now { handleSilence(of: connection) }
        guard connection.state != .closed else { return }
        let next = max(nextDeadline(of: connection), Instant(nanoseconds: now.nanoseconds + 1))
        deadlines.reschedule(connection.deadline, at: next)
    }

    private func handleSilence(of connection: Connection) {
        switch connection.state {
        case .http: handleHTTPTimeout(of: connection)
        case .webSocket: handleWebSocketSilence(of: connection)
        case .closing, .lingering: close(connection)
        case .closed: break
        }
    }

    // MARK: The end

    /// Sends what is queued, then our end of the stream, and waits for the peer's.
    func linger(_ connection: Connection) {
        guard connection.state != .closed else { return }
        endSession(of: connection)
        connection.http = nil
        connection.held = []
        connection.state = .lingering
        connection.phaseStart = now
        armDeadline(of: connection)
        markDirty(connection)
    }

    /// Ends a connection at once. It is removed at the end of the turn.
    func close(_ connection: Connection) {
        guard connection.state != .closed else { return }
        endSession(of: connection)
        connection.state = .closed
        closedSlots.append(connection.token.index)
    }

    func removeClosed() {
        guard !closedSlots.isEmpty else { return }
        for slot in closedSlots {
            guard let connection = connections[slot: slot] else { continue }
            connection.output.removeAll(into: chunks)
            deadlines.cancel(connection.deadline)
            io.unwatch(connection.handle)
            io.close(connection.handle)
            connections.remove(connection)
            services.metrics.connections.subtract(1, ordering: .relaxed)
        }
        closedSlots.removeAll(keepingCapacity: true)
    }
}
