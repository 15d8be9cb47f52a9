// Requests that another node answers on a shard's connections: it begins a relay once ShardForwarding
// has found the node, and moves bytes both ways. The client sees one connection, to this node.
//
// Invariant: both sides end together. A client gets an answer or a Close where it can still be given
// one: before the first byte of the other node, and between two frames of a WebSocket.

import Codec
import Session

extension Shard {
    // MARK: The beginning

    /// Passes a request on to the node that has its session or chat.
    /// - Parameter fallback: called where that node does not answer with a WebSocket, instead of
    ///   passing its answer on. The request is being served then.
    func beginRelay(
        of request: HTTPRequest, to name: String, for caller: Caller, on connection: Connection,
        otherwise fallback: ((Connection) -> Void)? = nil
    ) {
        guard !shutdown.isStopping, !isTooLate(connection) else {
            return answerLate(fixtures.routes.stopping.response, to: request, on: connection)
        }
        let tag = tag(of: caller, sending: request, on: connection)
        // Without the fallback: a session is not taken from a server that is well.
        guard upstreams.relays.admits(tag) else {
            return answerLate(RouteFailure.tooManyRelays.response, to: request, on: connection)
        }
        guard let node = services.nodes.node(named: name), let url = node.url,
            let passed = services.nodes.request(
                request.method, request.target, to: node, for: caller,
                at: services.wallSeconds())
        else {
            if let fallback { return fallback(connection) }
            return answerLate(RouteFailure.nodeAway.response, to: request, on: connection)
        }
        var fields = HTTPFields()
        if fixtures.routes.route(at: request.path)?.servesOtherOrigins == true {
            fixtures.admission.crossOrigin.permit(request, in: &fields)
        }
        let relay = NodeRelay(
            of: request, from: tag, head: Self.head(of: request, to: url, by: passed.pass),
            over: upstreams.relays.connect(url), adding: fields, for: connection.token,
            otherwise: fallback.map { serve in { [unowned connection] in serve(connection) } },
            at: peerClock)
        upstreams.relays.insert(relay)
        metrics.add(.relaysBegun)
        metrics.set(.relaysOpen, to: upstreams.relays.count)
        connection.http?.beginAnswer(.relay(relay))
        perform([.settle, .rearm, .watch], on: connection)
        continueRelay(on: connection)
    }

    /// The request as the other node gets it: the pass in place of the credential, and no field that
    /// says more of the client than the node needs.
    private static func head(of request: HTTPRequest, to url: String, by pass: String) -> [UInt8] {
        var fields = HTTPFields()
        fields.append("Host", String(url.drop { $0 != ":" }.dropFirst(3)))
        fields.append(NodePass.field, pass)
        // The other node ends the connection where it does not become a WebSocket: the client's
        // next bytes are no request of this pass.
        if WebSocketHandshake.isRequested(by: request) {
            fields.append("Connection", "Upgrade, close")
            for name in ["Upgrade", "Sec-WebSocket-Key", "Sec-WebSocket-Version"] {
                if let value = request.header(name) { fields.append(name, value) }
            }
            // Others may be credentials.
            let offered = request.fields.elements(of: "Sec-WebSocket-Protocol")
            if offered.contains(WebSocketHandshake.realtimeSubprotocol) {
                fields.append("Sec-WebSocket-Protocol", WebSocketHandshake.realtimeSubprotocol)
            }
        } else {
            fields.append("Connection", "close")
        }
        var head = ByteWriter(capacity: 512)
        // The value as the client sent it, so that the other node refuses whatever it would refuse
        // from a client.
        let version = request.version == .http10 ? "1.0" : "1.1"
        head.append("\(request.method.name) \(request.target) HTTP/\(version)\r\n")
        HTTPResponseHead.writeFields(fields, into: &head)
        head.append("\r\n")
        return head.copiedBytes
    }

    // MARK: What the loop reports

    /// A descriptor of a relay is ready.
    func handleRelayReady(fd: Int32, readable: Bool, writable: Bool, failed: Bool) {
        let token = upstreams.relays.handleReady(
            fd: fd, readable: readable, writable: writable, failed: failed)
        if let token, let connection = connections[token] { continueRelay(on: connection) }
    }

    /// Handles a relay that is connecting.
    func handleRelayTimer() {
        for token in upstreams.relays.handleTimer() {
            if let connection = connections[token] { continueRelay(on: connection) }
        }
    }

    /// The output has left: the client reads.
    func handleRelayFlushed(on connection: Connection) {
        connection.http?.relay?.noteProgress()
        continueRelay(on: connection)
    }

    // MARK: Bytes

    /// Moves what can be moved.
    func continueRelay(on connection: Connection) {
        guard connection.state == .http, let relay = connection.http?.relay else { return }
        switch relay.stream.state {
        case .connecting: return
        case .failed(let reason): return lose(relay, because: reason, on: connection)
        case .open: break
        }
        perform(.settle, on: connection)
        guard sendInput(over: relay, on: connection) else {
            return lose(relay, because: "the connection broke", on: connection)
        }
        receiveOutput(over: relay, on: connection)
    }

    /// Sends the rest of the request, then the client's bytes.
    /// - Returns: false: the connection to the node is lost.
    private func sendInput(over relay: NodeRelay, on connection: Connection) -> Bool {
        guard let http = connection.http else { return true }
        if !relay.unsentHead.isEmpty {
            guard let count = relay.unsentHead.withUnsafeBytes({ relay.stream.send($0) })
            else { return false }
            relay.noteHeadSent(count)
        }
        guard relay.unsentHead.isEmpty, relay.forwardsInput, !http.pending.isEmpty else {
            return true
        }
        var bytes = http.takePending()
        guard let count = bytes.withUnsafeBytes({ relay.stream.send($0) }) else { return false }
        bytes.removeFirst(count)
        http.putBack(bytes)
        if count > 0 {
            relay.noteInput(at: peerClock)
            // Reading may have stopped.
            perform(.watch, on: connection)
        }
        return true
    }

    /// Moves the answer into the send buffer, as far as it has come and there is room.
    private func receiveOutput(over relay: NodeRelay, on connection: Connection) {
        while connection.http?.relay === relay {
            guard connection.output.count < answerWindow else {
                relay.stream.isReading = false
                relay.noteStall(at: peerClock)
                return perform(.rearm, on: connection)
            }
            switch relay.stream.receive(into: upstreams.relays.buffer) {
            case .bytes(let count):
                let isFirst = relay.status == nil
                scratch.removeAll()
                do throws(MalformedAnswer) {
                    try relay.take(
                        UnsafeRawBufferPointer(rebasing: upstreams.relays.buffer[..<count]),
                        into: &scratch, at: peerClock)
                } catch {
                    return lose(relay, because: "its answer is not HTTP", on: connection)
                }
                if let status = relay.status, status != 101, relay.fallback != nil {
                    scratch.removeAll()
                    return fallBack(from: relay, on: connection)
                }
                enqueueScratch(on: connection)
                if isFirst, relay.status != nil { noteStart(of: relay, on: connection) }
            case .nothing:
                relay.stream.isReading = true
                return
            case .lost(let reason): return lose(relay, because: reason, on: connection)
            }
        }
    }

    /// The other node has answered.
    private func noteStart(of relay: NodeRelay, on connection: Connection) {
        noteAnswer(relay.status ?? 0, to: relay.request, sentBy: connection.http?.client)
        if relay.isWebSocket { scheduleClose(of: connection) }
        perform(.rearm, on: connection)
    }

    // MARK: The end

    /// Nothing more comes from the other node: because its answer is over, or because it is gone.
    private func lose(_ relay: NodeRelay, because reason: String, on connection: Connection) {
        logger.debug(
            "relay ended", metadata: ["path": "\(relay.request.path)", "reason": "\(reason)"])
        guard relay.status == nil else {
            return endRelay(
                of: connection, .serviceRestart, reason: "The session's server is gone: come back.")
        }
        guard relay.fallback == nil else { return fallBack(from: relay, on: connection) }
        metrics.add(.relaysFailed)
        end(relay)
        perform(.settle, on: connection)
        answerLate(RouteFailure.nodeAway.response, to: relay.request, on: connection)
    }

    /// The other node has not answered, or has refused: this one serves the client in another way.
    /// The client has noticed nothing so far.
    private func fallBack(from relay: NodeRelay, on connection: Connection) {
        metrics.add(.relaysFailed)
        end(relay)
        connection.http?.beginServing()
        perform(.settle, on: connection)
        relay.fallback?()
    }

    /// Ends a client's relay. A WebSocket whose last frame is whole gets a Close first, unless it has
    /// one.
    func endRelay(of connection: Connection, _ code: WebSocketCloseCode, reason: StaticString) {
        guard let relay = connection.http?.relay else { return }
        if relay.canBeClosed {
            scratch.removeAll()
            WebSocketFrame.writeClose(code, reason: "\(reason)", into: &scratch)
            enqueueScratch(on: connection)
        }
        linger(connection)
    }

    /// Ends a relay that its connection no longer needs.
    func end(_ relay: NodeRelay) {
        upstreams.relays.end(relay)
        metrics.set(.relaysOpen, to: upstreams.relays.count)
    }

    /// The other node was silent, or the client does not read.
    func handleTimeout(of relay: NodeRelay, on connection: Connection) {
        if relay.isStalled(
            at: peerClock, patience: configuration.connection.slowReaderTimeout)
        {
            return cutOff(connection, by: .slowReaderCloses, reason: "slow-reader-timeout-ms")
        }
        lose(relay, because: "it is silent", on: connection)
    }
}

extension RouteFailure {
    static let nodeAway = unavailable(
        "node_away", "The server that has it did not answer in time.", retryAfterSeconds: 1)
    static let tooManyRelays = unavailable(
        "too_many_relays", "Too many requests for other servers are under way.",
        retryAfterSeconds: 1)
}
