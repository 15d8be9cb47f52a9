// Clients that read more slowly than the server sends: the outcome of a send, the agents that are
// paused meanwhile, and the audio that is dropped instead of sent. ShardConnections writes,
// OutputSchedule has the limits.
//
// Invariant: a session's connection queues at most `maxQueuedOutputBytes`; an echo's at most
// `softQueuedOutputBytes` and one message, because nothing more is taken in until it has room.

import Codec
import Session

/// The outcome of a send.
enum SendOutcome {
    /// It leaves with this tick's flush, as far as the socket has room.
    case sent
    /// It waits behind output of an earlier tick.
    case buffered
    /// It was more than the limit: the connection is closed.
    case overLimit
}

extension Shard {
    // MARK: Limits

    /// Applies the limits after something was put into the send buffer, and has it flushed.
    @discardableResult
    func admitOutput(of connection: Connection) -> SendOutcome {
        guard connection.state != .closed else { return .overLimit }
        if output.isBeyondALimit(connection), !relieve(connection) {
            metrics.add(.sendsOverLimit)
            return .overLimit
        }
        perform(.flush, on: connection)
        metrics.add(connection.isBehind ? .sendsBuffered : .sendsSent)
        return connection.isBehind ? .buffered : .sent
    }

    /// More than a limit waits: late audio is dropped, and the sources of more output are paused.
    /// - Returns: false where it is still more than the hard limit, and the connection is closed.
    @inline(never)
    private func relieve(_ connection: Connection) -> Bool {
        dropLateAudio(of: connection)
        switch output.verdict(on: connection) {
        case .fits: return true
        case .cutOff:
            cutOff(connection, by: .outputLimitCloses, reason: "max-queued-output-bytes")
            return false
        case .pauseSources:
            pauseSources(of: connection)
            return true
        }
    }

    private func pauseSources(of connection: Connection) {
        let backlog = output.backlog(of: connection)
        perform(connection.handleSoftLimit(backlog, at: peerClock), on: connection)
        if connection.isEcho {
            // `handleMessages` sees it before it takes the next.
            perform(connection.stopTakingMessages(for: .room), on: connection)
        } else {
            suspendAgents(of: connection)
        }
    }

    /// Closes the connection of a slow reader. There is no Close frame: it would queue behind the
    /// output that is not being read.
    func cutOff(_ connection: Connection, by metric: ShardMetric, reason: String) {
        metrics.add(metric)
        logger.info(
            "slow reader cut off",
            metadata: [
                "session": "\(connection.live?.session.id ?? "none")",
                "queued_bytes": "\(connection.output.count)", "reason": "\(reason)",
            ])
        lose(connection)
    }

    /// Suspends the session's agents before their next delivery.
    private func suspendAgents(of connection: Connection) {
        guard !connection.isCongested, let live = connection.live else { return }
        connection.isCongested = true
        agents.gate.assumeIsolated { [token = live.token] in $0.suspend(token) }
    }

    /// Resumes the session's agents, while the connection has its session.
    func releaseAgents(of connection: Connection) {
        guard connection.isCongested, let live = connection.live else { return }
        connection.isCongested = false
        agents.gate.assumeIsolated { [token = live.token] in $0.resume(token) }
    }

    // MARK: Progress

    /// The socket took bytes of a connection that has a backlog.
    func handleWritten(_ count: Int, on connection: Connection) {
        guard let backlog = connection.backlog else { return }
        backlog.audio.handleRemoved(count)
        noteLevel(of: connection, backlog)
        if let pong = backlog.takeDuePong() {
            pong.withUnsafeBytes { queuePong($0, on: connection, backlog) }
        }
    }

    /// Less output waits than before: resumes sources.
    private func noteLevel(of connection: Connection, _ backlog: OutputBacklog) {
        if output.isWithinSoftLimit(connection) { backlog.overSoftLimitSince = nil }
        if output.mayResumeSources(of: connection) {
            releaseAgents(of: connection)
            perform(connection.takeMessagesAgain(after: .room), on: connection)
        }
    }

    // MARK: Pongs

    /// Answers a ping. While a chunk or more of output waits, at most one pong waits with it, and
    /// only the newest of the pings after that is answered once it has left. So a flood of pings
    /// from a client that does not read grows no queue. Below a chunk pongs cost no memory, and
    /// each ping has its own.
    func answerPing(_ payload: UnsafeRawBufferPointer, on connection: Connection) {
        guard connection.state == .webSocket else { return }
        guard connection.isBehind, connection.output.count >= ChunkPool.chunkBytes else {
            send(.pong, payload, on: connection)
            return
        }
        let backlog = output.backlog(of: connection)
        if backlog.hasQueuedPong {
            metrics.add(.postponedPongs)
            backlog.postponePong(payload)
        } else {
            queuePong(payload, on: connection, backlog)
            admitOutput(of: connection)
        }
    }

    private func queuePong(
        _ payload: UnsafeRawBufferPointer, on connection: Connection, _ backlog: OutputBacklog
    ) {
        // After a Close nothing may follow (RFC 6455 §5.5.1).
        guard connection.state == .webSocket else { return }
        queue(.pong, payload, on: connection)
        backlog.handlePongQueued(end: backlog.audio.removed + connection.output.count)
    }

    // MARK: Audio

    /// Records a message of reply audio at the end of the send buffer.
    func noteAudio(_ packet: OutputAudioPacket, from start: Int, on connection: Connection) {
        let backlog = output.backlog(of: connection)
        // The lead by which a session sends ahead of the playing. The rest of a reply is sent
        // further ahead.
        let lead = Duration.milliseconds(configuration.session.playoutLeadMilliseconds)
        let heard = max(now + lead, connection.live?.session.sentAudioEnd ?? now)
        backlog.audio.append(
            QueuedAudio.Message(
                start: backlog.audio.removed + start, byteCount: connection.output.count - start,
                usefulUntil: heard + configuration.connection.lateAudioTolerance,
                responseID: packet.part.responseID, itemID: packet.itemID, position: packet.start))
    }

    /// Passes a session where its unsent audio begins. Part of `step`.
    @inline(never)
    func noteUnsentAudio(_ backlog: OutputBacklog, to session: VoiceSession) {
        for message in backlog.audio.waiting
        where session.noteUnsent(itemID: message.itemID, position: message.position) {
            return
        }
    }

    /// Tells the session of audio that its connection has dropped.
    private func noteLost(_ message: QueuedAudio.Message, of connection: Connection) {
        guard let live = connection.live else { return }
        live.session.noteLost(itemID: message.itemID, position: message.position)
        // The session acts on it when its deadline expires, in the next tick.
        live.deadline = min(live.deadline ?? now, now)
        perform(.rearm, on: connection)
    }

    /// Bytes that may be written before the next message of late audio. Late messages at the front
    /// are dropped.
    func bytesBeforeLateAudio(of connection: Connection) -> Int {
        guard let backlog = connection.backlog else { return connection.output.count }
        while let late = backlog.audio.takeLateFront(at: now) {
            connection.output.discardFirst(late.byteCount, pool: fixtures.chunks)
            backlog.audio.handleRemoved(late.byteCount)
            noteLost(late, of: connection)
            metrics.add(.lateAudioMessages)
            metrics.add(.lateAudioBytes, late.byteCount)
            noteLevel(of: connection, backlog)
        }
        return backlog.audio.bytesBeforeLate(at: now) ?? connection.output.count
    }

    /// Drops late audio, wherever it waits, where that is worth the copies.
    private func dropLateAudio(of connection: Connection) {
        guard let backlog = connection.backlog else { return }
        let late = backlog.audio.lateBytes(at: now)
        guard output.isWorthDropping(lateBytes: late, of: connection) else { return }
        let ranges = backlog.takeAudio { message in
            guard message.usefulUntil < now else { return false }
            noteLost(message, of: connection)
            return true
        }
        drop(ranges, of: connection, messages: .lateAudioMessages, bytes: .lateAudioBytes)
    }

    /// Drops a response's audio as the session has decided. The events of the reply stay complete
    /// and in order: only audio goes.
    func dropAudio(of responseID: String, in live: LiveSession) {
        dropAudio(in: live) { $0.responseID == responseID }
    }

    /// Drops one item's audio.
    func dropAudio(ofItem itemID: String, in live: LiveSession) {
        dropAudio(in: live) { $0.itemID == itemID }
    }

    private func dropAudio(
        in live: LiveSession, where isUnwanted: (QueuedAudio.Message) -> Bool
    ) {
        guard let connection = live.connection, let backlog = connection.backlog,
            !backlog.audio.isEmpty
        else { return }
        drop(
            backlog.takeAudio(where: isUnwanted), of: connection,
            messages: .cancelledAudioMessages, bytes: .cancelledAudioBytes)
    }

    private func drop(
        _ ranges: [Range<Int>], of connection: Connection, messages: ShardMetric,
        bytes: ShardMetric
    ) {
        guard !ranges.isEmpty, let backlog = connection.backlog else { return }
        connection.output.remove(ranges, pool: fixtures.chunks)
        metrics.add(messages, ranges.count)
        metrics.add(bytes, ranges.reduce(0) { $0 + $1.count })
        noteLevel(of: connection, backlog)
        // With nothing left, the flush goes on as after the last byte.
        perform(.flush, on: connection)
    }
}
