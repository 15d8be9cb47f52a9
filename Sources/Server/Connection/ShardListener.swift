// How a shard comes by its connections: a bounded number of accepts per tick, a pause when the
// process runs out of descriptors.

import CLinux
import Codec
import Session

extension Shard {
    /// Starts accepting from a listening, non-blocking handle, which becomes the shard's own.
    /// - Throws: `IOError` when the handle cannot be watched.
    package func listen(on handle: IOHandle) throws(IOError) {
        let code = watch(handle)
        guard code == 0 else { throw IOError(call: "epoll_ctl", code: code) }
        listeners.append(handle)
    }

    private func watch(_ listener: IOHandle) -> Int32 {
        let token = EventToken(.listener, index: 0, generation: 0)
        return io.watch(listener, for: .reads, token: token, isNew: true)
    }

    /// Closes the listening handles.
    func stopListening() {
        for listener in listeners {
            if !isAcceptPaused { io.unwatch(listener) }
            io.close(listener)
        }
        listeners = []
    }

    /// Accepts everybody who waits: at most as many as the queue holds, and not without
    /// descriptors.
    func acceptWaiting() {
        for _ in 0...configuration.listenBacklog / configuration.maxAcceptsPerTurn {
            let before = connections.count
            acceptConnections()
            if connections.count == before { return }
        }
    }

    /// Accepts until nobody waits, at most `maxAcceptsPerTurn` so that a storm of connections does
    /// not delay those that are there.
    func acceptConnections() {
        for listener in listeners where !isAcceptPaused { acceptConnections(from: listener) }
    }

    private func acceptConnections(from listener: IOHandle) {
        var peer = NetworkAddress.unspecified
        for _ in 0..<configuration.maxAcceptsPerTurn {
            switch io.accept(from: listener, peer: &peer) {
            case .done(let handle):
                noteAccept()
                deal(IOHandle(truncatingIfNeeded: handle), of: peer)
            case .wouldBlock, .ended: return
            case .failed(ECONNABORTED), .failed(EPROTO):
                // The peer left while it waited; the next may be fine.
                metrics.add(.acceptFailures)
            case .failed(let code):
                metrics.add(.acceptFailures)
                if code == EMFILE || code == ENFILE { turnAway(from: listener) }
                pauseAccepting(code)
                return
            }
        }
    }

    /// Without a descriptor nobody can be accepted, and who waits would wait for nothing: as many
    /// as a tick takes are told to come back, with the one descriptor that is kept for it.
    private func turnAway(from listener: IOHandle) {
        var peer = NetworkAddress.unspecified
        for _ in 0..<configuration.maxAcceptsPerTurn {
            guard case .done(let handle) = io.acceptOnSpare(from: listener, peer: &peer)
            else { return }
            refuse(IOHandle(truncatingIfNeeded: handle), of: peer, .descriptors)
        }
    }

    /// Out of descriptors or memory, the listener stays readable: without a pause the shard would
    /// spin on it.
    private func pauseAccepting(_ code: Int32) {
        isAcceptPaused = true
        listeners.forEach(io.unwatch)
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
        guard isAcceptPaused, !listeners.isEmpty else { return }
        isAcceptPaused = false
        for listener in listeners {
            let code = watch(listener)
            guard code == 0 else { return pauseAccepting(code) }
        }
    }

    /// Answers a connection that there is no place for, as well as goes without keeping it: what
    /// already came is read, because the kernel answers a close with unread bytes by a reset, which
    /// may destroy the answer. A short answer always fits an empty socket, so this one write needs
    /// no send buffer.
    private func refuse(_ handle: IOHandle, of peer: NetworkAddress, _ reason: RefusalReason) {
        noteRefusal(reason, of: peer)
        defer { io.close(handle) }
        // Nobody could read a word of it without a handshake, which is what there is no place for.
        if wire != nil { return }
        _ = io.read(handle, into: readBuffer)
        _ = admission.answers[reason].withUnsafeBytes { io.write(handle, $0) }
        io.finishWriting(handle)
    }

    func addConnection(_ handle: IOHandle, of peer: NetworkAddress) {
        let limit = configuration.maxConnections
        guard services.metrics.reserve(services.metrics.connections, limit: limit) else {
            return refuse(handle, of: peer, .maxConnections)
        }
        let charge: AddressCharge
        switch admission.admit(peer, at: now) {
        case .admitted(let admitted): charge = admitted
        case .refused(let reason):
            services.metrics.connections.subtract(1, ordering: .relaxed)
            return refuse(handle, of: peer, reason)
        }
        guard let token = connections.reserveToken(),
            io.watch(handle, for: .reads, token: token, isNew: true) == 0
        else {
            services.metrics.connections.subtract(1, ordering: .relaxed)
            admission.limits.release(charge, at: now)
            metrics.add(.acceptFailures)
            io.close(handle)
            return
        }
        let connection = Connection(token: token, handle: handle, at: peerClock)
        connection.charge = charge
        connection.http?.client = peer
        // A proxy's header comes before the TLS of its client.
        if admission.expectsProxyHeader(from: peer) { connection.state = .proxyHeader }
        guard connection.state == .proxyHeader || secure(connection) else {
            services.metrics.connections.subtract(1, ordering: .relaxed)
            admission.limits.release(charge, at: now)
            metrics.add(.acceptFailures)
            io.close(handle)
            return
        }
        connections.insert(connection)
        touch(connection)
        connection.deadline = deadlines.schedule(
            .connection(token.index),
            at: time(ofPeerTime: connection.protocolDeadline(configuration)))
        metrics.add(.connectionsAccepted)
    }
}
