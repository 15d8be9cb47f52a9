// The client's side of one WebSocket connection: upgrade, send, receive until a time. Framing and
// masking are Codec's; the callers know what events mean. Calls block, with poll(2): a command-line
// client has one connection and one thread.

import Codec

/// A message from the server.
enum ServerMessage {
    /// An event, parsed; `text` is the JSON as it came. The body is valid until the next message is
    /// received.
    case event(type: String, body: JSONValue, text: String)
    /// A binary message: a packet of reply audio.
    case binary([UInt8])
}

/// How a connection has ended.
enum ConnectionEnd: Equatable {
    /// Without a Close.
    case lost
    /// With a Close of the server's. Nil means that it had no code.
    case closed(WebSocketCloseCode?)
}

/// One connection to a realtime server.
final class RealtimeClient {
    private let socket: ClientSocket
    private var framing: WebSocketConnection
    private var writer = ByteWriter(capacity: 4_096)
    private let parser = JSONParser()
    private var messages: [(isText: Bool, bytes: [UInt8])] = []
    private var closing: CommandFailure?
    /// How the connection has ended, once reading has shown it. Nil means that it is open, or that
    /// the server broke its rules.
    private(set) var end: ConnectionEnd?
    private var isOpen = false
    private var life = SignsOfLife(at: monotonicSeconds())
    private var readBuffer = UnsafeMutableRawBufferPointer.allocate(
        byteCount: 64 << 10, alignment: 16)

    /// Whether a message can be received without waiting.
    var hasMessage: Bool { !messages.isEmpty }

    /// Connects, upgrades, and returns once the server has accepted.
    /// - Parameters:
    ///   - trust: which certificates to trust, where the URL asks for TLS.
    ///   - fields: header fields of the request beside the usual ones.
    ///   - subprotocols: those that are offered.
    /// - Throws: a `CommandFailure` that names the server and the reason.
    init(
        url: RealtimeURL, key: String?, trust: ServerTrust = .system,
        fields: [(name: String, value: String)] = [], subprotocols: [String] = []
    ) throws(CommandFailure) {
        socket = try ClientSocket(host: url.host, port: url.port)
        if url.isSecure { try socket.secure(host: url.host, trust: trust) }
        framing = WebSocketConnection(role: .client, limits: WebSocketLimits())
        try upgrade(to: url, key: key, fields: fields, subprotocols: subprotocols)
        life.noteBytes(at: monotonicSeconds())
        isOpen = true
    }

    deinit {
        if isOpen, end == nil { close() }
        readBuffer.deallocate()
    }

    /// Sends an event.
    /// - Parameter writeMembers: writes what the event has besides its type.
    /// - Throws: a `CommandFailure` when the connection is lost.
    func send(
        event type: String, _ writeMembers: (inout JSONWriter) -> Void = { _ in }
    ) throws(CommandFailure) {
        var json = JSONWriter(ByteWriter(capacity: 1_024))
        json.beginObject()
        json.member("type", type)
        writeMembers(&json)
        json.endObject()
        try send(.text, json.finish().copiedBytes)
    }

    /// Sends a text message that is no event.
    /// - Throws: a `CommandFailure` when the connection is lost.
    func send(text: [UInt8]) throws(CommandFailure) { try send(.text, text) }

    /// Sends a packet of audio as a binary message.
    /// - Throws: a `CommandFailure` when the connection is lost.
    func send(binary packet: [UInt8]) throws(CommandFailure) {
        try send(.binary, packet)
    }

    /// Waits for the next message until a time on `monotonicSeconds()`; nil when none came.
    /// - Throws: a `CommandFailure` when the server closed the connection or broke its rules.
    func receive(until deadline: Double) throws(CommandFailure) -> ServerMessage? {
        guard let (isText, bytes) = try receiveMessage(until: deadline) else { return nil }
        return isText ? try parse(event: bytes) : .binary(bytes)
    }

    /// Waits for the next message, which need not be an event, until a time; nil when none came.
    /// - Throws: as `receive(until:)`.
    func receiveMessage(
        until deadline: Double
    ) throws(CommandFailure) -> (isText: Bool, bytes: [UInt8])? {
        while messages.isEmpty {
            if let closing { throw closing }
            guard try waitForSocket(until: deadline).isSocketReadable else { return nil }
            try readMessages()
        }
        return messages.removeFirst()
    }

    /// Waits until a message can be received, another descriptor can be read, or until a time.
    /// - Returns: whether the other descriptor can be read.
    /// - Throws: a `CommandFailure` when the server closed the connection or broke its rules.
    func wait(alsoFor other: Int32?, until deadline: Double) throws(CommandFailure) -> Bool {
        if let closing, messages.isEmpty { throw closing }
        let readiness = try waitForSocket(alsoFor: other, until: hasMessage ? 0 : deadline)
        if readiness.isSocketReadable { try readMessages() }
        return readiness.isOtherReadable
    }

    // MARK: Handshake

    private func upgrade(
        to url: RealtimeURL, key: String?, fields: [(name: String, value: String)],
        subprotocols: [String]
    ) throws(CommandFailure) {
        let nonce = WebSocketHandshake.makeKey()
        var headers = HTTPFields()
        if let key { headers.append("Authorization", "Bearer \(key)") }
        for (name, value) in fields { headers.append(name, value) }
        writer.removeAll()
        WebSocketHandshake.writeRequest(
            target: url.target, host: url.authority, key: nonce, subprotocols: subprotocols,
            headers: headers, into: &writer)
        try socket.write(writer)
        var (response, rest) = try socket.readResponse(from: url.authority, within: 10)
        guard response.status == 101 else {
            let body = String(decoding: response.body.prefix(300), as: UTF8.self)
            let reason = body.split(separator: "\n").first.map { ": \($0)" } ?? ""
            let advice = Self.advice(status: response.status, hasKey: key != nil)
            throw CommandFailure(
                description:
                    "\(url.authority) refused the session with \(response.status)\(reason)"
                    + advice,
                httpStatus: response.status)
        }
        do throws(WebSocketHandshakeError) {
            try WebSocketHandshake.validate(response, key: nonce, subprotocols: subprotocols)
        } catch {
            throw CommandFailure(description: "\(url.authority) does not speak WebSocket: \(error)")
        }
        // Messages may have come with the answer.
        try rest.withUnsafeMutableBufferPointer { (bytes) throws(CommandFailure) in
            try parse(UnsafeMutableRawBufferPointer(bytes))
        }
    }

    /// The advice about a refusal, as the end of its line. It is empty where the reason says it.
    static func advice(status: Int, hasKey: Bool) -> String {
        guard status == 401 else { return "" }
        return hasKey
            ? "; check the key of --key or PARLEY_API_KEY" : "; give --key, or set PARLEY_API_KEY"
    }

    // MARK: Messages

    private func send(_ opcode: WebSocketOpcode, _ payload: [UInt8]) throws(CommandFailure) {
        if let closing { throw closing }
        writer.removeAll()
        payload.withUnsafeBytes {
            WebSocketFrame.write(opcode, payload: $0, mask: .random(in: 0 ... .max), into: &writer)
        }
        try socket.write(writer)
    }

    /// Seconds that the server may take to answer a Close.
    private static let closePatience = 1.0

    /// Ends the session: without a Close, one that can be resumed would wait for its client. The
    /// bytes that the server had sent are read: a socket that is closed with unread bytes is reset,
    /// and the Close might be lost.
    private func close() {
        writer.removeAll()
        framing.close(.normalClosure, mask: .random(in: 0 ... .max), into: &writer)
        let deadline = monotonicSeconds() + Self.closePatience
        do throws(CommandFailure) {
            try socket.write(writer)
            while try socket.wait(until: deadline).isSocketReadable {
                if try socket.read(into: readBuffer) == 0 { return }
            }
        } catch {
            // The connection is lost, and the session ends after its time.
        }
    }

    /// Waits as the socket does, and asks a silent server for a sign of life. Bytes that have come are
    /// read first: the caller may have been away for long.
    private func waitForSocket(
        alsoFor other: Int32? = nil, until deadline: Double
    ) throws(CommandFailure) -> ClientSocket.Readiness {
        while true {
            let readiness = try socket.wait(alsoFor: other, until: min(deadline, life.due))
            let now = monotonicSeconds()
            if readiness.isSocketReadable { return readiness }
            switch life.need(at: now) {
            case .ping: try send(.ping, [])
            case .end:
                end = end ?? .lost
                throw CommandFailure(
                    description: "the connection is lost: the server shows no sign of life")
            case nil: break
            }
            if readiness.isOtherReadable || now >= deadline { return readiness }
        }
    }

    private func readMessages() throws(CommandFailure) {
        var count = 0
        do throws(CommandFailure) {
            guard let read = try socket.read(into: readBuffer) else { return }
            life.noteBytes(at: monotonicSeconds())
            count = read
        } catch {
            end = end ?? .lost
            throw error
        }
        if count == 0 {
            end = end ?? .lost
            closing = closing ?? CommandFailure(description: "the server closed the connection")
            return
        }
        try parse(UnsafeMutableRawBufferPointer(rebasing: readBuffer[..<count]))
    }

    private func parse(_ bytes: UnsafeMutableRawBufferPointer) throws(CommandFailure) {
        var input = bytes
        do throws(WebSocketError) {
            while let event = try framing.next(&input) { handle(event) }
        } catch {
            throw CommandFailure(description: "the server broke the WebSocket protocol: \(error)")
        }
    }

    private func parse(event bytes: [UInt8]) throws(CommandFailure) -> ServerMessage {
        let text = String(decoding: bytes, as: UTF8.self)
        guard let body = try? parser.parse(text), let type = body["type"]?.string else {
            throw CommandFailure(description: "the server sent text that is not an event")
        }
        return .event(type: type, body: body, text: text)
    }

    private func handle(_ event: WebSocketEvent) {
        switch event {
        case .text(let bytes): messages.append((true, [UInt8](bytes)))
        case .binary(let bytes): messages.append((false, [UInt8](bytes)))
        case .ping(let payload): try? send(.pong, [UInt8](payload))
        // Compression is never offered, so the codec refuses compressed messages.
        case .pong, .compressed: break
        case .close(let code, let reason):
            // The close is answered (RFC 6455 §5.5.1); the socket goes with this object.
            writer.removeAll()
            framing.close(code, mask: .random(in: 0 ... .max), into: &writer)
            try? socket.write(writer)
            end = .closed(code)
            guard code != .takenOver else {
                closing = CommandFailure(
                    description: "another connection has taken the session over")
                return
            }
            let why = String(decoding: reason, as: UTF8.self)
            let number = code.map { " with \($0.rawValue)" } ?? ""
            closing = CommandFailure(
                description: "the server closed the connection\(number)"
                    + (why.isEmpty ? "" : ": \(why)"))
        }
    }
}
