// The peer's end of a simulated connection. It checks the bytes that it reads: HTTP responses, and
// after a 101 valid frames whose texts fit the protocol's tables.

import Codec
import Simulation

/// A peer that checks everything that it receives.
final class FuzzedPeer {
    private let peer: SimulatedPeer
    /// Whether every WebSocket of this server is a session; an echo may send anything.
    private let expectsEvents: Bool
    private var pending: [UInt8] = []
    private var webSocket: WebSocketConnection?
    private var inflater: MessageInflater?
    private var deflater: MessageDeflater?
    private let buffer = CompressionBuffer()
    /// Everything read, without interim responses, which depend on how the input was split.
    private(set) var received: [UInt8] = []
    /// The session that it has; nil: none that it has read of.
    private(set) var sessionID: String?
    /// Whether it is shown the server, as an operator is.
    private var isOperator = false
    /// Whether the answers depend on how this peer's bytes were split: agents may answer between
    /// two reads, a metrics scrape counts reads, and an operator sees the memory of this process.
    private(set) var dependsOnCut = false
    private(set) var bytesSent = 0
    private(set) var bytesRead = 0
    /// Whether it has stopped sending.
    private(set) var hasFinished = false
    /// Whether its window was ever smaller than the server may need. Data that does not fit in time
    /// is lost.
    private var hasStalled = false
    private var masks = SeededGenerator(seed: 1)

    init(_ peer: SimulatedPeer, expectsEvents: Bool) {
        self.peer = peer
        self.expectsEvents = expectsEvents
    }

    /// Whether the server has closed the connection.
    var isClosed: Bool { peer.isClosed }
    /// Whether either side has reset the connection. Its last bytes may then be missing.
    var isReset: Bool { peer.isReset }

    // MARK: Out

    func send(_ bytes: [UInt8]) {
        guard !hasFinished else { return }
        bytesSent += bytes.count
        peer.send(bytes)
    }

    func send(_ opcode: WebSocketOpcode, _ payload: [UInt8], isFinal: Bool = true) {
        let isWhole = isFinal || opcode.isControl
        let limit = opcode.isControl ? WebSocketFrame.maxControlPayloadBytes : Int.max
        var frame = ByteWriter(capacity: payload.count + 16)
        Array(payload.prefix(limit)).withUnsafeBytes {
            WebSocketFrame.write(
                opcode, payload: $0, isFinal: isWhole,
                mask: UInt32(truncatingIfNeeded: masks.next()),
                into: &frame)
        }
        send(frame.copiedBytes)
    }

    /// Sends a whole compressed message, if compression was agreed.
    func sendCompressed(_ opcode: WebSocketOpcode, _ payload: [UInt8]) {
        let isDone = payload.withUnsafeBytes {
            deflater?.deflate($0, atMost: payload.count + 100, into: buffer)
        }
        guard isDone == true else { return }
        sendMarked(opcode, Array(buffer.bytes))
    }

    /// Sends a frame with the compression bit set.
    func sendMarked(_ opcode: WebSocketOpcode, _ payload: [UInt8]) {
        var frame = ByteWriter(capacity: payload.count + 16)
        WebSocketFrame.writeHeader(
            opcode == .text ? .text : .binary, payloadBytes: payload.count, isCompressed: true,
            mask: 0, into: &frame)
        payload.withUnsafeBytes { frame.append($0) }
        send(frame.copiedBytes)
    }

    func finishWriting() {
        hasFinished = true
        peer.finishWriting()
    }

    func reset() {
        hasFinished = true
        peer.reset()
    }

    /// Sets how many unread bytes the server may have written.
    func setWindow(_ bytes: Int) {
        hasStalled = true
        peer.window = bytes
    }

    // MARK: In

    /// Reads at most `limit` bytes and checks everything in them that is complete.
    func read(atMost limit: Int = .max) {
        let bytes = peer.receive(atMost: limit)
        bytesRead += bytes.count
        pending += bytes
        while webSocket == nil, let response = takeResponse() {
            if String(decoding: response.body, as: UTF8.self).contains("parley_connections") {
                dependsOnCut = true
            }
            if response.status == 101 { beginWebSocket(response) }
        }
        if webSocket != nil { takeMessages() }
    }

    /// Checks after the end that nothing was cut off, unless the connection was.
    func checkEnd() {
        guard !isReset, !hasStalled, webSocket == nil else { return }
        require(pending.isEmpty, "ends within a response: \(text(pending))")
    }

    private static let statusLine = Array("HTTP/1.1 ".utf8)

    private func takeResponse() -> HTTPResponse? {
        guard !pending.isEmpty else { return nil }
        let start = pending.prefix(Self.statusLine.count)
        require(Self.statusLine.starts(with: start), "no response: \(text(pending))")
        let interim = Array("\(HTTPResponse.continueHead)".utf8)
        if pending.starts(with: interim) { pending.removeFirst(interim.count) }
        // The answered request is not known here. After a HEAD there is no body: another response
        // follows, or nothing.
        for method in [HTTPMethod.get, .head] {
            var parser = HTTPResponseParser(answering: method, limits: Self.responseLimits)
            do throws(HTTPError) {
                let parsed = try withBytes(of: pending) { (bytes) throws(HTTPError) in
                    try parser.parse(bytes)
                }
                guard let (response, consumed) = parsed else { continue }
                let body = pending[..<consumed].suffix(response.body.count)
                if method == .get, body.starts(with: Self.statusLine) { continue }
                if method == .head, !isHead(endingAt: consumed) { return nil }
                received += pending[..<consumed]
                pending.removeFirst(consumed)
                return response
            } catch {
                fatalError("\(error) in a response: \(text(pending))")
            }
        }
        return nil
    }

    /// The page's scripts and the metrics exceed the response limits of Parley's own client.
    private static var responseLimits: HTTPLimits {
        var limits = HTTPLimits()
        limits.maxBodyBytes = 1 << 20
        return limits
    }

    /// Whether a response consists of its head alone: another response follows it, or nothing.
    private func isHead(endingAt end: Int) -> Bool {
        let rest = pending[end...]
        guard rest.isEmpty else { return rest.starts(with: Self.statusLine) }
        return peer.isEnded && peer.unreadBytes == 0
    }

    private func beginWebSocket(_ response: HTTPResponse) {
        // The offer is not known here; the answer alone determines the agreement.
        var offer = PerMessageDeflateOffer()
        offer.letsLimitClientWindow = true
        do throws(WebSocketHandshakeError) {
            if let agreement = try offer.agreement(in: response.fields) {
                inflater = MessageInflater(
                    windowBits: agreement.serverWindowBits,
                    keepsContext: agreement.serverKeepsContext)
                deflater = MessageDeflater(
                    windowBits: agreement.clientWindowBits,
                    keepsContext: agreement.clientKeepsContext)
            }
        } catch {
            fatalError("\(error) in the acceptance: \(response.fields.map { $0 })")
        }
        webSocket = WebSocketConnection(role: .client, takesCompressed: inflater != nil)
    }

    private func takeMessages() {
        received += pending
        var bytes: [UInt8] = []
        swap(&bytes, &pending)
        bytes.withUnsafeMutableBytes { buffer in
            var rest = buffer
            do throws(WebSocketError) {
                while let event = try webSocket?.next(&rest) { check(try inflate(event)) }
            } catch {
                fatalError("the server broke a rule: \(error)")
            }
        }
    }

    private func inflate(_ event: WebSocketEvent) throws(WebSocketError) -> WebSocketEvent {
        guard case .compressed(let message) = event, let inflater else { return event }
        let limits = InflationLimits.generous
        return try webSocket?.inflate(message, with: inflater, limits: limits, into: buffer)
            ?? event
    }

    private func check(_ event: WebSocketEvent) {
        guard case .text(let bytes) = event else { return }
        guard let words = String(validating: bytes, as: UTF8.self) else {
            fatalError("a text that is no UTF-8: \(Array(bytes))")
        }
        if words.contains(#""type":"response.created""#) { dependsOnCut = true }
        if words.hasPrefix(#"{"type":"server.history""#) {
            isOperator = true
            dependsOnCut = true
        }
        guard expectsEvents else { return }
        if isOperator { return checkOperatorMessage(words) }
        if words.contains(#""type":"session.created""#) {
            sessionID = (try? JSONParser().parse(words))?["session"]?["id"]?.string ?? sessionID
        }
        // The input may be a handshake that asks for the beta's dialect.
        guard !RealtimeSchema.beta.violations(inServerEvent: words).isEmpty else { return }
        let violations = RealtimeSchema.shared.violations(inServerEvent: words)
        require(violations.isEmpty, "\(violations) in \(words)")
    }

    private static let operatorTypes = [
        "server.failures", "server.history", "server.overview", "sessions.page", "session.card",
        "session.event",
        "session.watched", "session.ended", "session.closed", "error",
    ]

    /// A message to an operator's page, of which the protocol's tables know nothing.
    private func checkOperatorMessage(_ words: String) {
        let type = (try? JSONParser().parse(words))?["type"]?.string
        require(Self.operatorTypes.contains(type ?? ""), "no message of an operator's: \(words)")
    }

    private func text(_ bytes: [UInt8]) -> String {
        String(decoding: bytes.prefix(200), as: UTF8.self)
    }
}
