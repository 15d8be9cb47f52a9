// Carries out what a change of a connection's state asks of the loop (ConnectionActions): its watch, its
// deadline, its queues.

import Session

extension Shard {
    /// Carries out what a change of a connection's state asks for; the only place that does.
    ///
    /// `watch` may fail and close the connection, so it comes before what a closed connection must
    /// not be queued for; the queues leave out what is closed.
    @inline(__always)
    func perform(_ actions: ConnectionActions, on connection: Connection) {
        if actions.contains(.settle) { memory.ledgers.touch(connection) }
        if actions.contains(.rearm) { rearm(connection) }
        if actions.contains(.watch) { watch(connection) }
        if actions.contains(.flush) { output.schedule(connection) }
        if actions.contains(.resume) { scheduleMessages(of: connection) }
        if actions.contains(.remove) { tickWork.closed.append(connection.token.index) }
    }

    /// Makes the connection's entry early enough for what it now waits for. Entries that have
    /// become too early are left: they cost one look when they expire, not one per packet.
    private func rearm(_ connection: Connection) {
        let wanted = nextDeadline(of: connection)
        if wanted < deadlines.deadline(of: connection.deadline) {
            deadlines.reschedule(connection.deadline, at: wanted)
        }
    }

    /// Watches for what the connection can use now.
    private func watch(_ connection: Connection) {
        guard connection.state != .closed else { return }
        var interest = connection.interest.intersection(.batched)
        if !connection.hasEnded && !connection.isPaused { interest.insert(.reads) }
        // Output that is queued for the flush is tried first; only a full socket adds `.writes`.
        if connection.interest.contains(.writes) && connection.hasOutput {
            interest.insert(.writes)
        }
        setInterest(of: connection, to: interest)
    }

    /// The socket is full: watches for room.
    func watchForRoom(_ connection: Connection) {
        setInterest(of: connection, to: connection.interest.union(.writes))
    }

    /// The connection brings audio, and so a message every few milliseconds: its reads may come together
    /// with others'.
    @inline(__always)
    func batchReads(of connection: Connection) {
        guard !connection.interest.contains(.batched) else { return }
        setInterest(of: connection, to: connection.interest.union(.batched))
    }

    private func setInterest(of connection: Connection, to interest: Interest) {
        guard interest != connection.interest else { return }
        connection.interest = interest
        let code = io.watch(
            connection.handle, for: interest, token: connection.token, isNew: false)
        if code != 0 { lose(connection) }
    }

    /// Has a connection's messages handled in the next tick.
    private func scheduleMessages(of connection: Connection) {
        guard !connection.isUnfinished else { return }
        connection.isUnfinished = true
        tickWork.unfinished.append(connection.token.index)
    }
}
