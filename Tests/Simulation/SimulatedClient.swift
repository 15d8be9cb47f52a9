// A WebSocket client on a simulated connection, using the codec in the client's role. It records
// what it receives as values that tests can compare. Every event of a session is checked against
// the protocol's tables on arrival; an invalid one ends the run, whatever the test is about.

import Codec
import Session

/// A message that a client received.
package enum ReceivedMessage: Equatable, Sendable {
    case text(String)
    case binary([UInt8])
    case ping([UInt8])
    case pong([UInt8])
    case close(UInt16?, String)
    /// The server broke a rule of RFC 6455.
    case violation(WebSocketError)
}

/// A peer that speaks HTTP first and then WebSocket.
package final class SimulatedClient {
    package let peer: SimulatedPeer
    /// Messages in the order received.
    package private(set) var messages: [ReceivedMessage] = []
    /// The time of each message, where `poll` was given one.
    package private(set) var times: [Instant] = []
    /// The answer to the handshake, once it has arrived.
    package private(set) var answer: HTTPResponse?
    /// The subprotocol that the server selected.
    package private(set) var subprotocol: String?
    /// The agreed compression, if it was offered.
    package private(set) var agreement: PerMessageDeflateAgreement?
    /// How many of the messages were compressed.
    package private(set) var compressedCount = 0
    /// Whether it answers pings and echoes a Close.
    package var isPolite = true
    /// Whether the simulation polls it; a test polls a slow reader itself.
    package var isReading = true

    private var webSocket: WebSocketConnection?
    private var pending: [UInt8] = []
    private var parser = HTTPResponseParser()
    private let key = "dGhlIHNhbXBsZSBub25jZQ=="
    private var offered: [String] = []
    /// The dialect of the messages, if they are events of a session.
    private var dialect: RealtimeDialect?
    private var offer: PerMessageDeflateOffer?
    private var inflater: MessageInflater?
    private var deflater: MessageDeflater?
    private let inflated = CompressionBuffer()
    private let deflated = CompressionBuffer()
    private var masks: SeededGenerator

    package init(_ peer: SimulatedPeer, seed: UInt64 = 1) {
        self.peer = peer
        masks = SeededGenerator(seed: seed)
    }

    /// Whether the handshake is complete.
    package var isOpen: Bool { webSocket != nil }

    /// The text messages.
    package var texts: [String] {
        messages.compactMap { if case .text(let text) = $0 { text } else { nil } }
    }

    /// The `type` of each event, in order.
    package var eventTypes: [String] {
        texts.map { text in
            text.split(separator: #""type":""#).dropFirst().first.map {
                String($0.prefix { $0 != "\"" })
            } ?? text
        }
    }

    /// The code of the Close, if one was received.
    package var closeCode: UInt16? {
        for case .close(let code, _) in messages { return code }
        return nil
    }

    // MARK: Out

    /// Requests a session.
    package func open(
        _ target: String = "/v1/realtime?model=test", subprotocols: [String] = ["realtime"],
        offer: PerMessageDeflateOffer? = nil, credential: String? = nil,
        beta: String? = nil, fields: [(String, String)] = []
    ) {
        offered = subprotocols
        self.offer = offer
        var headers = HTTPFields()
        for (name, value) in fields { headers.append(name, value) }
        if let beta { headers.append("OpenAI-Beta", beta) }
        let asked = RealtimeDialect(askedForBy: headers)
        let isBeta = asked == .beta || subprotocols.contains(RealtimeDialect.betaSubprotocol)
        if target.hasPrefix("/v1/realtime") { dialect = isBeta ? .beta : .ga }
        if let offer { headers.append("Sec-WebSocket-Extensions", offer.headerValue) }
        if let credential { headers.append("Authorization", "Bearer \(credential)") }
        var request = ByteWriter(capacity: 512)
        WebSocketHandshake.writeRequest(
            target: target, host: "localhost", key: key, subprotocols: subprotocols,
            headers: headers, into: &request)
        peer.send(request.copiedBytes)
    }

    /// Sends a frame.
    package func send(_ opcode: WebSocketOpcode, _ payload: [UInt8], isFinal: Bool = true) {
        var frame = ByteWriter(capacity: payload.count + 16)
        let mask = UInt32(truncatingIfNeeded: masks.next())
        payload.withUnsafeBytes {
            WebSocketFrame.write(opcode, payload: $0, isFinal: isFinal, mask: mask, into: &frame)
        }
        peer.send(frame.copiedBytes)
    }

    /// Sends a compressed message, as agreed.
    package func sendCompressed(_ opcode: WebSocketOpcode, _ payload: [UInt8]) {
        let isDone = payload.withUnsafeBytes {
            deflater?.deflate($0, atMost: payload.count + 100, into: deflated)
        }
        precondition(isDone == true, "nothing was agreed on")
        var frame = ByteWriter(capacity: deflated.count + 16)
        WebSocketFrame.writeHeader(
            opcode, payloadBytes: deflated.count, isCompressed: true, mask: 0, into: &frame)
        frame.append(deflated.bytes)
        peer.send(frame.copiedBytes)
    }

    /// Sends a text message.
    package func send(_ text: String) { send(.text, Array(text.utf8)) }

    /// Starts the closing handshake, or answers the server's.
    package func close(_ code: WebSocketCloseCode? = .normalClosure) {
        var frame = ByteWriter(capacity: 128)
        let mask = UInt32(truncatingIfNeeded: masks.next())
        webSocket?.close(code, mask: mask, into: &frame)
        if frame.count > 0 { peer.send(frame.copiedBytes) }
    }

    // MARK: In

    /// Reads at most `limit` bytes.
    package func poll(atMost limit: Int = .max, at now: Instant = Instant(nanoseconds: 0)) {
        pending += peer.receive(atMost: limit)
        if webSocket == nil { pollHandshake() }
        if webSocket != nil { pollMessages() }
        times += Array(repeating: now, count: messages.count - times.count)
    }

    private func pollHandshake() {
        guard answer == nil, !offered.isEmpty || !pending.isEmpty else { return }
        guard let (response, consumed) = pending.withUnsafeBytes({ try? parser.parse($0) })
        else { return }
        answer = response
        pending.removeFirst(consumed)
        guard response.status == 101 else { return }
        subprotocol =
            (try? WebSocketHandshake.validate(
                response, key: key, subprotocols: offered, offersExtensions: offer != nil)) ?? nil
        agreement = (try? offer?.agreement(in: response.fields)) ?? nil
        if let agreement {
            inflater = MessageInflater(
                windowBits: agreement.serverWindowBits,
                keepsContext: agreement.serverKeepsContext)
            deflater = MessageDeflater(
                windowBits: agreement.clientWindowBits,
                keepsContext: agreement.clientKeepsContext)
        }
        webSocket = WebSocketConnection(role: .client, takesCompressed: agreement != nil)
    }

    private func pollMessages() {
        var bytes: [UInt8] = []
        swap(&bytes, &pending)
        bytes.withUnsafeMutableBytes { buffer in
            var rest = buffer
            do throws(WebSocketError) {
                while let event = try webSocket?.next(&rest) { take(try inflate(event)) }
            } catch {
                messages.append(.violation(error))
            }
        }
    }

    private func inflate(_ event: WebSocketEvent) throws(WebSocketError) -> WebSocketEvent {
        guard case .compressed(let message) = event, let inflater else { return event }
        compressedCount += 1
        var limits = InflationLimits()
        limits.maxRatio = 10_000
        return try webSocket?.inflate(message, with: inflater, limits: limits, into: inflated)
            ?? event
    }

    private static func check(_ event: String, in dialect: RealtimeDialect) {
        let violations = RealtimeSchema.of(dialect).violations(inServerEvent: event)
        precondition(violations.isEmpty, "no event of the protocol: \(violations)\n\(event)")
    }

    private func take(_ event: WebSocketEvent) {
        switch event {
        case .text(let bytes):
            let text = String(decoding: bytes, as: UTF8.self)
            if let dialect { Self.check(text, in: dialect) }
            messages.append(.text(text))
        case .binary(let bytes): messages.append(.binary(Array(bytes)))
        case .compressed: preconditionFailure("compressed messages are inflated first")
        case .ping(let bytes):
            messages.append(.ping(Array(bytes)))
            if isPolite { send(.pong, Array(bytes)) }
        case .pong(let bytes): messages.append(.pong(Array(bytes)))
        case .close(let code, let reason):
            messages.append(.close(code?.rawValue, String(decoding: reason, as: UTF8.self)))
            if isPolite { close(code) }
            if isPolite { peer.finishWriting() }
        }
    }
}
