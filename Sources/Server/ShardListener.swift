// How a shard comes by its connections: a bounded number of accepts per turn, a pause when the
// process runs out of descriptors.

import CLinux
import Codec
import Session

extension Shard {
    /// Starts accepting from a listening, non-blocking handle, which becomes the shard's own.
    /// - Throws: `IOError` when the handle cannot be watched.
    package func listen(on handle: IOHandle) throws(IOError) {
        precondition(listener == nil, "a shard listens to one handle")
        let token = EventToken(.listener, index: 0, generation: 0)
        let code = io.watch(handle, for: .reads, token: token, isNew: true)
        guard code == 0 else { throw IOError(call: "epoll_ctl", code: code) }
        listener = handle
    }

    /// Accepts nobody any more; new connections go to the other listeners of the port, or fail.
    func stopListening() {
        guard let listener else { return }
        if !isAcceptPaused { io.unwatch(listener) }
        io.close(listener)
        self.listener = nil
    }

    /// Accepts until nobody waits, at most `maxAcceptsPerTurn` so that a storm of connections does
    /// not delay those that are there.
    func acceptConnections() {
        guard let listener, !isAcceptPaused else { return }
        for _ in 0..<configuration.maxAcceptsPerTurn {
            switch io.accept(from: listener) {
            case .done(let handle):
                noteAccept()
                addConnection(IOHandle(truncatingIfNeeded: handle))
            case .wouldBlock, .ended: return
            case .failed(ECONNABORTED), .failed(EPROTO):
                // The peer left while it waited; the next may be fine.
                metrics.add(.acceptFailures)
            case .failed(let code):
                metrics.add(.acceptFailures)
                pauseAccepting(code)
                return
            }
        }
    }

    /// Out of descriptors or memory, the listener stays readable: without a pause the shard would
    /// spin on it.
    private func pauseAccepting(_ code: Int32) {
        guard let listener else { return }
        isAcceptPaused = true
        io.unwatch(listener)
        _ = deadlines.schedule(.acceptPause, at: now + configuration.acceptPause)
        // At the limit one pause follows the other, with an accept between two when somebody left:
        // one line is enough for all of them.
        let isNew = lastAcceptPause.map { now - $0 >= Self.acceptCalm } ?? true
        lastAcceptPause = now
        guard isNew else { return }
        let reason = String(cString: strerror(code))
        logger.warning("accepting paused", metadata: ["reason": "\(reason)"])
    }

    /// Accepting works; without a pause for a while, the trouble is over.
    private func noteAccept() {
        guard let last = lastAcceptPause, now - last >= Self.acceptCalm else { return }
        lastAcceptPause = nil
        logger.info("accepting again")
    }

    /// Time without a pause after which the next one is news. 10 s.
    private static var acceptCalm: Duration { .seconds(10) }

    /// The pause is over.
    func resumeAccepting() {
        guard let listener, isAcceptPaused else { return }
        isAcceptPaused = false
        let token = EventToken(.listener, index: 0, generation: 0)
        let code = io.watch(listener, for: .reads, token: token, isNew: true)
        if code != 0 { pauseAccepting(code) }
    }

    /// Answers a connection that there is no place for, as well as goes without keeping it: what
    /// already came is read, because the kernel answers a close with unread bytes by a reset, which
    /// may destroy the answer. A short answer always fits an empty socket, so this one write needs
    /// no send buffer.
    private func refuse(_ handle: IOHandle) {
        metrics.add(.connectionsRefused)
        logger.debug("connection refused", metadata: ["reason": "max-connections"])
        _ = io.read(handle, into: readBuffer)
        scratch.removeAll()
        routes.crowded.response.write(answering: .get, keepAlive: false, into: &scratch)
        _ = scratch.withUnsafeBytes { io.write(handle, $0) }
        scratch.removeAll()
        io.finishWriting(handle)
        io.close(handle)
    }

    private func addConnection(_ handle: IOHandle) {
        let limit = configuration.maxConnections
        guard services.metrics.reserve(services.metrics.connections, limit: limit) else {
            refuse(handle)
            return
        }
        guard let token = connections.reserveToken(),
            io.watch(handle, for: .reads, token: token, isNew: true) == 0
        else {
            services.metrics.connections.subtract(1, ordering: .relaxed)
            metrics.add(.acceptFailures)
            io.close(handle)
            return
        }
        let connection = Connection(
            token: token, handle: handle, limits: configuration.httpLimits, at: now)
        connections.insert(connection)
        connection.deadline = deadlines.schedule(
            .connection(token.index), at: connection.protocolDeadline(configuration))
        metrics.add(.connectionsAccepted)
    }
}
