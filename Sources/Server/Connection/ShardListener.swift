// New connections: each goes to the next shard in order, is refused where there is no place for it,
// or is put into the table. A tick accepts a bounded number. Acceptor has the listeners themselves.

import CLinux
import Codec
import Session

extension Shard {
    /// The shard as another sees it.
    package var asSibling: ShardSibling {
        ShardSibling(adopt: adopt, drain: drain)
    }

    /// Stops accepting: new connections are the successor's, wait for the next server of the
    /// supervisor, or fail.
    func stopListening() {
        switch duty {
        case .own, .shared: acceptWaiting()
        case .inherited(let siblings):
            // Their mailboxes have the connections that were given to them before this.
            for sibling in siblings { sibling.drain(.zero) }
        }
        acceptor.closeListeners()
    }

    /// The owner of the listeners. Set before the first tick.
    package var duty: ListeningDuty {
        get { acceptor.duty }
        set { acceptor.duty = newValue }
    }

    /// Starts accepting from a listening, non-blocking socket, which becomes the shard's own.
    /// - Throws: `IOError` when the socket cannot be watched.
    package func listen(on handle: IOHandle) throws(IOError) {
        try acceptor.listen(on: handle)
    }

    /// Passes the sockets of the port on to a successor that asks, until the shard stops listening.
    /// - Throws: `IOError` when the hand-over cannot be watched.
    package func offer(_ handover: PortHandover) throws(IOError) {
        try acceptor.offer(handover)
    }

    /// A successor may have asked for the sockets of the port.
    func answerSuccessor() {
        // An earlier event of the tick may have ended the hand-over.
        guard let handover = acceptor.handover, !acceptor.isPaused else { return }
        switch acceptor.accept(from: handover.handle) {
        case .accepted(let successor, _):
            handover.pass(to: successor)
            io.close(successor)
        // The successor may also have asked another server that shares the port.
        case .none, .peerLeft: break
        case .failed(let code): pauseAccepting(code)
        }
    }

    /// Accepts the connections that wait, at most as many as the queue has room for. Without
    /// descriptors it accepts none.
    func acceptWaiting() {
        for _ in 0...configuration.listener.backlog / configuration.loop.maxAcceptsPerTick {
            let before = connections.count
            acceptConnections()
            if connections.count == before { return }
        }
    }

    /// Accepts until no connection waits, at most `maxAcceptsPerTick` so that a storm of
    /// connections does not delay the open ones.
    func acceptConnections() {
        for listener in acceptor.listeners where !acceptor.isPaused {
            acceptConnections(from: listener)
        }
    }

    private func acceptConnections(from listener: IOHandle) {
        for _ in 0..<configuration.loop.maxAcceptsPerTick {
            let outcome = acceptor.accept(from: listener)
            switch outcome {
            case .accepted(let handle, let peer):
                if acceptor.handleAccepted(at: now) { logger.info("accepting again") }
                if !services.metrics.account.hasBegun { beginAccount() }
                assign(handle, of: peer)
            case .none: return
            case .peerLeft: metrics.add(.acceptFailures)
            case .failed(let code):
                metrics.add(.acceptFailures)
                if outcome.isOutOfDescriptors { turnAway(from: listener) }
                pauseAccepting(code)
                return
            }
        }
    }

    /// Refuses waiting clients with Retry-After, at most as many as a tick accepts. Without a descriptor no
    /// connection can be kept, and they would wait in the queue for nothing.
    private func turnAway(from listener: IOHandle) {
        for _ in 0..<configuration.loop.maxAcceptsPerTick {
            guard let (handle, peer) = acceptor.acceptOnSpare(from: listener) else {
                return
            }
            refuse(handle, of: peer, .descriptors)
        }
    }

    private func pauseAccepting(_ code: Int32) {
        let isFirst = acceptor.pause(at: now)
        _ = deadlines.schedule(.acceptPause, at: now + configuration.loop.acceptPause)
        guard isFirst else { return }
        let reason = String(cString: strerror(code))
        logger.warning("accepting paused", metadata: ["reason": "\(reason)"])
    }

    /// The pause is over.
    func resumeAccepting() {
        let code = acceptor.resume()
        if code != 0 { pauseAccepting(code) }
    }

    /// Gives an accepted connection to the next shard in order.
    private func assign(_ handle: IOHandle, of peer: NetworkAddress) {
        if let sibling = acceptor.nextOwner() {
            sibling.adopt(handle, peer)
        } else {
            addConnection(handle, of: peer)
        }
    }

    /// Takes over a connection that a sibling accepted, unless the shard is stopping.
    func takeOver(_ handle: IOHandle, of peer: NetworkAddress) {
        if shutdown.isStopping { io.close(handle) } else { addConnection(handle, of: peer) }
    }

    /// Answers a connection that there is no place for, and closes it. Bytes that already came are
    /// read first, because the kernel answers a close with unread bytes by a reset, which may
    /// destroy the answer. A short answer always fits an empty socket, so this one write needs no
    /// send buffer.
    private func refuse(_ handle: IOHandle, of peer: NetworkAddress, _ reason: RefusalReason) {
        noteRefusal(reason, of: peer)
        defer { io.close(handle) }
        // The client could read the answer only after a handshake, for which there is no room.
        if fixtures.wire != nil { return }
        _ = io.read(handle, into: fixtures.readBuffer)
        _ = fixtures.admission.answers[reason].withUnsafeBytes { io.write(handle, $0) }
        io.finishWriting(handle)
    }

    private func addConnection(_ handle: IOHandle, of peer: NetworkAddress) {
        let limit = configuration.admission.maxConnections
        guard services.metrics.reserve(services.metrics.connections, limit: limit) else {
            return refuse(handle, of: peer, .maxConnections)
        }
        let place: AddressPlace
        switch fixtures.admission.admit(peer, at: now) {
        case .admitted(let admitted): place = admitted
        case .refused(let reason):
            services.metrics.connections.subtract(1, ordering: .relaxed)
            return refuse(handle, of: peer, reason)
        }
        guard let token = connections.reserveToken(),
            io.watch(handle, for: .reads, token: token, isNew: true) == 0
        else { return discard(handle, countedAt: place) }
        let connection = Connection(token: token, handle: handle, at: peerClock)
        connection.addressPlace = place
        connection.http?.client = peer
        // A proxy's header comes before the TLS of its client.
        if fixtures.admission.expectsProxyHeader(from: peer) { connection.state = .proxyHeader }
        guard connection.state == .proxyHeader || secure(connection) else {
            return discard(handle, countedAt: place)
        }
        connections.insert(connection)
        perform(.settle, on: connection)
        connection.deadline = deadlines.schedule(
            .connection(token.index),
            at: time(ofPeerTime: connection.protocolDeadline(configuration.connection)))
        metrics.add(.connectionsAccepted)
    }

    /// Closes a connection that could not be set up, after it was counted.
    private func discard(_ handle: IOHandle, countedAt place: AddressPlace) {
        services.metrics.connections.subtract(1, ordering: .relaxed)
        fixtures.admission.limits.release(place, at: now)
        metrics.add(.acceptFailures)
        io.close(handle)
    }
}
